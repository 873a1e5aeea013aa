"""The slow, obvious formulas that the fast routines are compared with. One sentence, one query at a time, no
masks, no batching."""

import itertools
import math

import torch

from fairseq_attn_plugin.testing.subject import words_of


def score(name, module, query, encoding):
    """alpha(s, h), a number; ``module`` holds the score's parameters."""
    if name == "dot":
        return query @ encoding
    if name == "scaled_dot":
        return query @ encoding / len(query) ** 0.5
    if name == "general":
        return (1 if module.gain is None else module.gain) * query @ (module.projection.weight @ encoding)
    if name == "additive":
        hidden = module.query_projection.weight @ query + module.memory_projection.weight @ encoding
        if module.memory_projection.bias is not None:
            hidden = hidden + module.memory_projection.bias
        return module.vector @ torch.tanh(hidden)
    raise ValueError(name)


def sparsemax(x):
    """Martins and Astudillo 2016, algorithm 1: tries every size of the support."""
    ordered = x.sort(descending=True).values
    for k in range(len(x), 0, -1):
        threshold = (ordered[:k].sum() - 1) / k
        if ordered[k - 1] > threshold:
            return (x - threshold).clamp(min=0)
    raise AssertionError("a support of one element always qualifies")


def entmax15(x, steps=100):
    """p_j = max(x_j / 2 - tau, 0)^2 (Peters et al. 2019, section 3): tau by bisection, then once more in closed form.

    On the support found by bisection tau solves sum_j (x_j / 2 - tau)^2 = 1, which makes the result differentiable.
    """
    half = x / 2
    low, high = half.detach().max() - 1, half.detach().max()
    for _ in range(steps):
        tau = (low + high) / 2
        if (half.detach() - tau).clamp(min=0).pow(2).sum() > 1:
            low = tau
        else:
            high = tau
    support = half[half.detach() > low]
    mean = support.mean()
    tau = mean - torch.sqrt((1 - (support - mean).pow(2).sum()) / len(support))
    return (half - tau).clamp(min=0).pow(2)


def fusedmax(x, strength):
    """Niculae and Blondel 2017."""
    return sparsemax(total_variation_prox(x, strength))


def normalizer(config):
    """The normaliser that a mechanism's options choose."""
    if config.normalizer == "fusedmax":
        return lambda x: fusedmax(x, config.of_parts.get("fusedmax_strength", 0.1))

    def softmax(x):
        return x.exp() / x.exp().sum()

    return {"softmax": softmax, "sparsemax": sparsemax, "entmax15": entmax15}[config.normalizer]


def density_matrix(kind, module, score_name, query, encodings):
    """Psi of one sentence and one query, N x N, element by element (eq. 6, 10, 11 and 12 of the paper).

    Over keys, x_j = W h_j takes the place of h_j in eq. 10, or x_j = W (h_j - mean_i h_i) where they are centred. Over
    encodings eq. 10 is as written, and W or P makes the pair and the query of one width.
    """
    over_keys = module.config.pairs != "encodings"
    if kind == "mqt" or over_keys:
        matrix = (module.score.projection if module.projection is None else module.projection).weight
    mean = encodings.mean(0) if module.config.pairs == "centred-keys" else 0
    paired = [matrix @ (h - mean) for h in encodings] if over_keys else encodings
    size = len(paired)
    psi = torch.zeros(size, size, dtype=query.dtype)
    for j in range(size):
        for k in range(size):
            pair = torch.tanh(paired[j] + paired[k])
            if j == k:
                psi[j, k] = score(score_name, module.score, query, encodings[j])
            elif kind == "mqt":
                psi[j, k] = module.pair_weight * ((pair if over_keys else matrix @ pair) @ query)
            else:
                wide = query if over_keys else module.query_projection.weight @ query
                psi[j, k] = module.pair_vector @ torch.tanh(pair + wide)
    return psi


def chain_marginals(potentials, transitions):
    """p(z_j = 1) ``[N]`` by enumeration of all labelings (the module text of ops/chain_crf.py)."""
    total, ones = 0, [0] * len(potentials)
    for labels in itertools.product((0, 1), repeat=len(potentials)):
        energy = transitions[:, labels[0]].mean() + transitions[labels[-1], :].mean()
        for j, label in enumerate(labels):
            energy = energy + (potentials[j] if label else 0)
            if j:
                energy = energy + transitions[labels[j - 1], label]
        total = total + torch.exp(energy)
        ones = [one + label * torch.exp(energy) for one, label in zip(ones, labels)]
    return torch.stack([one / total for one in ones])


def sequence(name, module, queries, encodings):
    """Weights of one sentence and all its queries ``[T, Ds]``, step by step, by the mechanism's definition: ``[T, N]``.

    ``module`` supplies parameters and options only.
    """
    history = []
    for step, query in enumerate(queries):
        history.append(attention(name, module, query, encodings, step, history))
    return torch.stack(history)


def attention(name, module, query, encodings, step=0, history=()):
    """Weights of one query; ``history`` are those of the steps before."""
    weights = own_weights(name, module, query, encodings, step, history)
    if module.config.max_normalize:
        weights = weights / max(weights)
    if name == "election":
        weights = weights + further_votes(module, query, encodings, step)
    return weights


def own_weights(name, module, query, encodings, step, history):
    """Weights before anything that is common to all mechanisms is done to them."""
    if name in ("gaussian", "election"):
        return gaussian(module, len(encodings), step)
    normalize = normalizer(module.config)
    score_name = module.config.score or module.default_score
    if name in ("mqt", "aqt"):
        scores = density_matrix(name, module, score_name, query, encodings).mean(dim=0)
    else:
        scores = torch.stack([score(score_name, module.score, query, h) for h in encodings])
    scores = scores + sum(
        bias(kind, module.biases, j, step, history, len(encodings)) * torch.eye(len(encodings), dtype=query.dtype)[j]
        for kind in module.config.bias.split(",")
        if kind
        for j in range(len(encodings))
    )
    if name in ("soft", "mqt", "aqt"):
        return normalize(scores)
    if name == "sigmoid":
        return 1 / (1 + torch.exp(-scores))
    if name == "structured":
        marginals = chain_marginals(scores, module.transitions)
        return module.config.scale * marginals / marginals.sum()
    if name in ("monotonic", "mocha"):
        words = None
        if name == "mocha":
            words = torch.stack([score(score_name, module.chunk_score, query, h) for h in encodings])
        return weights(module, scores, words, history)
    if name == "constrained-sparsemax":
        return constrained(module, scores, encodings, history)
    if name in ("local-m", "local-p"):
        return local(name, module, scores, normalize, query, step)
    raise NotImplementedError(f"a mechanism needs an oracle here: {name}")


def constrained(module, scores, encodings, history):
    """The module text of attention/constrained.py, word by word; words are made of vectors."""
    bounds, drawn = [], []
    for j, h in enumerate(encodings):
        fertility = scores.new_tensor(module.config.fertility)
        if module.predicted is not None:
            fertility = fertility * torch.sigmoid(module.predicted.weight[0] @ h + module.predicted.bias[0])
        if module.table.numel():
            fertility = module.table[words_of(h)]
        left = (fertility - sum(weights[j] for weights in history)).clamp(min=0)
        last = j == len(encodings) - 1
        bounds.append(scores.new_ones(()) if last else left)
        drawn.append(scores[j] if last else scores[j] + module.config.exhaustion * left)
    return constrained_sparsemax(torch.stack(drawn), torch.stack(bounds))


def centre(module, size, step):
    """Where the Gaussian of a step stands in a sentence of ``size`` positions, and the middle of its window."""
    ratio = torch.exp(module.log_ratio.double())
    where = step / ratio if step / ratio < size - 1 else torch.tensor(size - 1.0, dtype=torch.float64)
    return where, math.floor(float(where) + 0.501)


def gaussian(module, size, step):
    """The module text of attention/positional/gaussian_weights.py, position by position; log2 or a number as rule."""
    where, middle = centre(module, size, step)
    rule, p = module.config.rule or "log2", size - 1
    k = (int(math.log2(p)) if p else 0) if rule == "log2" else min(p, 1) * int(rule)
    sigma = torch.exp(module.log_sigma)
    weights = []
    for j in range(size):
        height = torch.exp(-((j - where - module.mean) ** 2) / (2 * sigma**2))
        weights.append(height if abs(j - middle) <= k else 0 * height)
    return torch.stack(weights) / sum(weights)


def further_votes(module, query, encodings, step):
    """The share d for every source word that the table has for the query's word; words are made of vectors."""
    _, middle = centre(module, len(encodings), step)
    named = module.table[words_of(query)].tolist() if module.table.numel() else []
    votes = [j != middle and int(words_of(h)) in named for j, h in enumerate(encodings)]
    return module.config.share * torch.tensor(votes, dtype=query.dtype)


def lexicon_bias(lexicon, weights, tokens, epsilon, vocabulary):
    """log(P_lex + epsilon) of every target word (see modules/lexicon_bias.py), from one step's weights of the
    source words ``tokens``; ``lexicon`` is {(source, target): probability}."""
    rows = [[lexicon.get((source, target), 0.0) for target in range(vocabulary)] for source in tokens.tolist()]
    return torch.log(weights / weights.sum() @ torch.tensor(rows, dtype=weights.dtype) + epsilon)


def bias(kind, biases, j, step, history, size):
    """What one bias adds to the score of position j (the module text of attention/biases.py)."""
    own = getattr(biases, kind)

    def neighbours(weights):
        around = range(j - own.config.window, j + own.config.window + 1)
        return [weights[i] if 0 <= i < size else torch.zeros((), dtype=weights.dtype) for i in around]

    like = own.projection.weight
    if kind == "position":
        features = torch.tensor([1 + step, 1 + j, 1 + size], dtype=like.dtype).log()
        return own.vector @ torch.tanh(like @ features + own.projection.bias)
    nothing = torch.zeros(size, dtype=like.dtype)
    if kind == "markov":
        return torch.stack(neighbours(history[-1] if history else nothing)) @ like[0]
    if kind == "fertility":
        window = torch.stack(neighbours(sum(history, nothing)))
        return own.vector @ torch.tanh(like @ window + own.projection.bias)
    raise NotImplementedError(f"a bias needs an oracle here: {kind}")


def fertility_penalty(biases, encodings, weights):
    """- sum_j log N(sum_t a_tj; m_j, v_j) of one sentence, by torch's normal distribution."""
    predicted, total = biases.fertility.predicted, 0
    for j, encoding in enumerate(encodings):
        mean, variance = torch.log1p(torch.exp(predicted.weight @ encoding + predicted.bias))
        normal = torch.distributions.Normal(mean, (variance + 0.05).sqrt())
        total = total - normal.log_prob(weights[:, j].sum())
    return total


def pair_statistics(sentences):
    """Slope of tanh over pairs of neighbours, offset and size of the vectors, of sentences without padding."""
    slopes = [1 - torch.tanh(a + b) ** 2 for words in sentences for a, b in zip(words, words[1:])]
    words = torch.cat(sentences)
    return [
        x.item() for x in (torch.stack(slopes).mean(), (words.mean(0) ** 2).mean() ** 0.5, (words**2).mean() ** 0.5)
    ]


def local(name, module, scores, normalize, query, step):
    """Luong et al. 2015, section 3.2: the window around t or around the predicted position."""
    size, width = len(scores), module.config.window
    if name == "local-m":
        centre = torch.tensor(float(min(step, size - 1)))
    else:
        centre = size * torch.sigmoid(module.centre_vector @ torch.tanh(module.centre_projection.weight @ query))
    inside = [j for j in range(size) if abs(j - centre) <= width]
    weights = list(torch.zeros(size, dtype=scores.dtype))
    for j, weight in zip(inside, normalize(scores[inside])):
        weights[j] = weight
        if name == "local-p":
            weights[j] = weight * torch.exp(-((j - centre) ** 2) / (2 * (width / 2) ** 2))
    return torch.stack(weights)


def pair_sums(keys, function):
    """sum_{j != k} function(tanh(k_j + k_k)) for each k of one sentence ``[N, D]``."""
    rows = []
    for k in range(len(keys)):
        others = [function(torch.tanh(keys[j] + keys[k])) for j in range(len(keys)) if j != k]
        rows.append(sum(others, torch.zeros_like(function(keys[k]))))
    return torch.stack(rows)


def word_log_probs(alignments, row, step, position):
    """log p(. | z = position) ``[V]`` of one step (ops/likelihoods/mixture_nll.py's text)."""
    hidden = alignments.query[row, step]
    if alignments.memory is not None:
        hidden = hidden + alignments.memory[row, position]
    features = hidden if alignments.split else torch.tanh(hidden)
    if alignments.keep is not None:
        features = alignments.keep[row, step] * features
    logits = alignments.weight @ features
    if alignments.bias is not None:
        logits = logits + alignments.bias
    return logits - logits.logsumexp(0)


def alignment_nll(alignments, weights, mixture, smoothing=0.0):
    """``mixture_nll`` (``weights`` are logarithms) or ``expected_nll``, word by word and alignment by alignment."""
    total = torch.zeros((), dtype=weights.dtype)
    for row in range(alignments.target.size(0)):
        for step in range(alignments.target.size(1)):
            if alignments.target_mask[row, step]:
                continue
            scores = []
            for k in range(weights.size(-1)):
                position = k if alignments.chosen is None else int(alignments.chosen[row, step, k])
                log_probs = word_log_probs(alignments, row, step, position)
                uniform = smoothing / (len(log_probs) - 1)
                gold = log_probs[alignments.target[row, step]]
                scores.append((1 - smoothing - uniform) * gold + uniform * log_probs.sum())
            scores, own = torch.stack(scores), weights[row, step]
            if alignments.pad_mask is not None:
                scores, own = (x[~alignments.pad_mask[row]] for x in (scores, own))
            if mixture:
                total = total - (own + scores).logsumexp(0)
            else:
                total = total - (own * scores).sum()
    return total


def alignment_quality(predicted, gold, lengths):
    """AER, precision, recall and F1 by a loop over all cells (i, j) of all sentences of lengths [(source, target)]."""
    answered = sure = both_sure = both_possible = 0
    for links, reference, (source, target) in zip(predicted, gold, lengths):
        for i in range(source):
            for j in range(target):
                a, s, p = ((i, j) in kind for kind in (links, reference.sure, reference.possible))
                answered, sure = answered + a, sure + s
                both_sure, both_possible = both_sure + (a and s), both_possible + (a and (s or p))
    precision, recall = both_possible / answered, both_sure / sure
    aer = (answered - both_possible + sure - both_sure) / (answered + sure)
    return aer, precision, recall, 2 / (1 / precision + 1 / recall)


def encode(encoder, values):
    """One vector and the weights for one sequence ``[N, D]``: a network in both directions, then a weighted sum."""
    if encoder.rnn is not None:
        back = encoder.rnn.back(values.flip(0)[None])[0][0].flip(0)
        values = torch.cat([encoder.rnn.ahead(values[None])[0][0], back], dim=1)
    if hasattr(encoder.pooling, "query"):
        module = encoder.pooling.attention
        weights = attention(module.name, module, encoder.pooling.query, values)
    else:
        weights = values.new_full((len(values),), 1 / len(values))
    return weights @ values, weights


def document(model, sentences):
    """Vector of one document (a list of lists of word numbers), weights of each sentence's words, of the sentences."""
    sentences = [sentence for sentence in sentences if sentence]
    if model.sentences is None:
        sentences = [sum(sentences, [])] if sentences else []
    if not sentences:
        return model.embed_words.weight.new_zeros(model.output_dim), [], []
    vectors, word_weights = zip(
        *(encode(model.words, torch.stack([model.embed_words.weight[word] for word in s])) for s in sentences)
    )
    if model.sentences is None:
        return vectors[0], list(word_weights), None
    vector, sentence_weights = encode(model.sentences, torch.stack(vectors))
    return vector, list(word_weights), sentence_weights


# --- Slow, obvious forms of normalisers that are projections: by enumeration of what their solutions can look like


def total_variation_prox(x, strength):
    """The y with the least |y - x|^2 / 2 + strength sum_j |y_{j+1} - y_j|: it rises, falls or stays at every step, and
    for each of the 3^(N-1) patterns of steps the mean of each group of equal neighbours, pulled by the steps at its
    ends, is a candidate."""
    best, least = None, None
    for steps in itertools.product((-1, 0, 1), repeat=len(x) - 1):
        ends = [j for j, step in enumerate(steps) if step] + [len(x) - 1]
        y, first = [], 0
        for end in ends:
            pull = (steps[end] if end < len(steps) else 0) - (steps[first - 1] if first else 0)
            y.append((x[first : end + 1].mean() + strength * pull / (end + 1 - first)).expand(end + 1 - first))
            first = end + 1
        y = torch.cat(y)
        value = float((((y - x) ** 2).sum() / 2 + strength * (y[1:] - y[:-1]).abs().sum()).detach())
        if least is None or value < least:
            best, least = y, value
    return best


def constrained_sparsemax(z, bounds):
    """The p of the simplex below ``bounds`` that is nearest to z: each p_j is zero, at its bound or z_j minus a common
    threshold, and of all 3^N such points the nearest one that is allowed is the solution."""
    if bounds.sum() <= 1:
        return bounds
    best, least = None, None
    for kinds in itertools.product((0, 1, 2), repeat=len(z)):
        kind = torch.tensor(kinds)
        inside, full = kind == 1, kind == 2
        if not inside.any():
            continue
        threshold = (z[inside].sum() + bounds[full].sum() - 1) / inside.sum()
        p = torch.where(inside, z - threshold, torch.where(full, bounds, torch.zeros_like(z)))
        distance = float(((p - z) ** 2).sum().detach())
        allowed = bool((p >= -1e-12).all() and (p <= bounds + 1e-12).all())
        if allowed and (least is None or distance < least - 1e-12):
            best, least = p, distance
    return best


# --- Monotonic attention by its definition (attention/monotonic.py's text), and average lagging, of one sentence


def expected_stops(probabilities, last):
    """Where a reader stops who starts at k with probability ``last[k]``: every start and every way from there."""
    result = []
    for j, stop in enumerate(probabilities):
        ways = (math.prod((1 - passed for passed in probabilities[k:j]), start=last[k]) for k in range(j + 1))
        result.append(stop * sum(ways))
    return torch.stack(result)


def chunk(stops, energies, size):
    """Soft attention to the ``size`` words up to each stop."""
    result = list(torch.zeros_like(stops))
    for k, stop in enumerate(stops):
        first = max(0, k - size + 1)
        shares = torch.exp(energies[first : k + 1]) / torch.exp(energies[first : k + 1]).sum()
        for j, share in enumerate(shares, first):
            result[j] = result[j] + stop * share
    return torch.stack(result)


def weights(module, scores, energies, history):
    """Weights of one step, with where it stopped as their attribute ``stops``, which the next step reads."""
    size, lossy = len(scores), module.config.lossy
    scores = scores + module.offset
    if history:
        last = history[-1].stops
    else:
        last = torch.eye(size, dtype=scores.dtype)[0]
    if module.training:
        probabilities = list(1 / (1 + torch.exp(-scores)))
        if not lossy:
            probabilities[-1] = torch.ones_like(scores[0])
        stops = expected_stops(probabilities, last)
    else:
        stops, start = torch.zeros_like(scores), int(last.argmax()) if last.any() else size
        for j in range(start, size):
            if scores[j] > 0 or (j == size - 1 and not lossy):
                stops[j] = 1.0
                break
    result = stops if energies is None else chunk(stops, energies, module.config.chunk)
    result = result.clone()
    result.stops = stops
    return result


def average_lagging(reads, source_length):
    """Ma et al. 2019, eq. 8: over the words up to the first one that is written with the whole source read, how far
    each is behind a writer who keeps pace. ``reads`` are the source words read before each target word."""
    pace = len(reads) / source_length
    total, counted = 0.0, 0
    for t, read in enumerate(reads):
        total, counted = total + read - t / pace, counted + 1
        if read >= source_length:
            break
    return total / counted


# --- Posterior attention (modules/latent/posterior_decoder.py's text) of one sentence, step by step and word by word


def posterior_attention(model, tokens, previous, topk=None):
    """log p(y_t | y_<t) ``[T, V]`` of all words, priors and posteriors ``[T, N]`` and ``[T - 1, N]``.

    Args:
        model: a posterior model with one decoder layer, without dropout
        tokens: ``[N]``, the source
        previous: ``[T]``, the decoder's inputs
    """
    decoder, encoded = model.decoder, model.encoder(tokens[None])
    encodings = encoded["encodings"][0]
    attention = decoder.attention
    memory = attention.precompute(encodings[None], None)
    biases = attention.initial_state(memory)
    weight, bias = decoder.vocabulary
    hidden = cell = encodings.new_zeros(1, 1, decoder.hidden_size)
    fed = torch.zeros_like(encodings[0])
    words, priors, posteriors, words_of, prior = [], [], [], [], None
    for t, word in enumerate(previous):
        if t:
            known = torch.stack([prior[j] * words_of[j][word].exp() for j in range(len(tokens))])
            if topk is not None:
                kept = prior.topk(min(topk, len(tokens))).indices.tolist()
                known = torch.stack([k if j in kept else 0 * k for j, k in enumerate(known)])
            posterior = known / known.sum()
            posteriors.append(posterior)
            fed = posterior @ encodings
            if attention.biases is not None:
                biases = attention.biases.advance(biases, posterior[None, None])
        inputs = torch.cat([decoder.embed_tokens.weight[word], fed])[None, None]
        _, (hidden, cell) = decoder.lstm(inputs, (hidden, cell))
        out = attention.step(hidden, memory, biases, torch.tensor([[t]]))
        prior = out.weights[0, 0]
        priors.append(prior)
        words_of = []
        for encoding in encodings:
            features = torch.cat([encoding, hidden[0, 0]])
            if decoder.output_projection is not None:
                features = torch.tanh(decoder.output_projection(features))
            logits = weight @ features + (0 if bias is None else bias)
            words_of.append(logits - torch.log(torch.exp(logits).sum()))
        words.append(torch.log(sum(p * log_probs.exp() for p, log_probs in zip(prior, words_of))))
    return torch.stack(words), torch.stack(priors), posteriors


# --- The formulas of Rikters and Fishel (2017) in plain loops


def coverage(weights):
    source = len(weights[0])
    return -sum(math.log(1 + (1 - sum(row[j] for row in weights)) ** 2) for j in range(source)) / source


def entropy(row):
    total = sum(row)
    return -sum(w / total * math.log(w / total) for w in row if w > 0) if total else 0.0


def certainty(rows):
    """Minus the mean entropy of the rows."""
    return -sum(map(entropy, rows)) / len(rows)
