"""The slow, obvious formulas that the fast routines are compared with. One sentence, one query at a time, no
masks, no batching."""

import torch


def score(name, module, query, encoding):
    """alpha(s, h), a number; ``module`` holds the score's parameters."""
    if name == "dot":
        return query @ encoding
    if name == "scaled_dot":
        return query @ encoding / len(query) ** 0.5
    if name == "general":
        return query @ (module.projection.weight @ encoding)
    if name == "additive":
        hidden = module.query_projection.weight @ query + module.memory_projection.weight @ encoding
        return module.vector @ torch.tanh(hidden + module.memory_projection.bias)
    raise ValueError(name)


def softmax(x):
    e = torch.exp(x - x.max())
    return e / e.sum()


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


def density_matrix(kind, module, score_name, query, encodings):
    """Psi of one sentence and one query, N x N, element by element (eq. 6, 10, 11 and 12 of the paper)."""
    projection = module.score.projection if module.projection is None else module.projection
    keys = [projection.weight @ h for h in encodings]
    size = len(keys)
    matrix = torch.zeros(size, size, dtype=query.dtype)
    for j in range(size):
        for k in range(size):
            pair = torch.tanh(keys[j] + keys[k])
            if j == k:
                matrix[j, k] = score(score_name, module.score, query, encodings[j])
            elif kind == "mqt":
                matrix[j, k] = module.pair_weight * (pair @ query)
            else:
                matrix[j, k] = module.pair_vector @ torch.tanh(pair + query)
    return matrix


def attention(name, module, query, encodings):
    """Weights of one sentence and one query, by the mechanism's definition.

    ``module`` supplies parameters and options only.
    """
    normalize = {"softmax": softmax, "sparsemax": sparsemax, "entmax15": entmax15}[module.config.normalizer]
    score_name = module.config.score or module.default_score
    if name == "soft":
        return normalize(torch.stack([score(score_name, module.score, query, h) for h in encodings]))
    if name in ("mqt", "aqt"):
        return normalize(density_matrix(name, module, score_name, query, encodings).mean(dim=0))
    raise NotImplementedError(f"a mechanism needs an oracle here: {name}")


def pair_sums(keys, function):
    """sum_{j != k} function(tanh(k_j + k_k)) for each k of one sentence ``[N, D]``."""
    rows = []
    for k in range(len(keys)):
        others = [function(torch.tanh(keys[j] + keys[k])) for j in range(len(keys)) if j != k]
        rows.append(sum(others, torch.zeros_like(function(keys[k]))))
    return torch.stack(rows)


def word_log_probs(alignments, row, step, position):
    """log p(. | z = position) ``[V]`` of one step (ops/mixture_nll.py's text)."""
    hidden = alignments.query[row, step]
    if alignments.memory is not None:
        hidden = hidden + alignments.memory[row, position]
    features = torch.tanh(hidden)
    if alignments.keep is not None:
        features = alignments.keep[row, step] * features
    logits = alignments.weight @ features
    if alignments.bias is not None:
        logits = logits + alignments.bias
    return logits - torch.log(torch.exp(logits).sum())


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
                total = total - torch.log((torch.exp(own) * torch.exp(scores)).sum())
            else:
                total = total - (own * scores).sum()
    return total
