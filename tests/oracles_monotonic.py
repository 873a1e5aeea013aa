"""Monotonic attention by its definition (attention/monotonic.py's text), and average lagging, of one sentence."""

import torch


def expected_stops(probabilities, last):
    """Where a reader stops who starts at k with probability ``last[k]``: every start and every way from there."""
    result = []
    for j, stop in enumerate(probabilities):
        reached = 0
        for k in range(j + 1):
            way = last[k]
            for passed in range(k, j):
                way = way * (1 - probabilities[passed])
            reached = reached + way
        result.append(stop * reached)
    return torch.stack(result)


def hard_stop(scores, start, lossy):
    """The word at which the reader stops who starts at ``start``, or None."""
    if start is None:
        return None
    for j in range(start, len(scores)):
        if scores[j] > 0 or (j == len(scores) - 1 and not lossy):
            return j
    return None


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
        place = hard_stop(scores, int(last.argmax()) if last.any() else None, lossy)
        stops = torch.zeros_like(scores)
        if place is not None:
            stops[place] = 1.0
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
