"""Posterior attention (modules/latent/posterior_decoder.py's text) of one sentence, step by step and word by word."""

import torch


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
