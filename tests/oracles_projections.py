"""Slow, obvious forms of normalisers that are projections: by enumeration of what their solutions can look like. One
row of scores at a time."""

import itertools

import torch


def penalised(y, x, strength):
    """|y - x|^2 / 2 + strength sum_j |y_{j+1} - y_j|."""
    return ((y - x) ** 2).sum() / 2 + strength * (y[1:] - y[:-1]).abs().sum()


def total_variation_prox(x, strength):
    """The y with the least :func:`penalised`: it rises, falls or stays at every step, and for each of the 3^(N-1)
    patterns of steps the mean of each group of equal neighbours, pulled by the steps at its ends, is a candidate."""
    best, least = None, None
    for steps in itertools.product((-1, 0, 1), repeat=len(x) - 1):
        ends = [j for j, step in enumerate(steps) if step] + [len(x) - 1]
        y, first = [], 0
        for end in ends:
            pull = (steps[end] if end < len(steps) else 0) - (steps[first - 1] if first else 0)
            y.append((x[first : end + 1].mean() + strength * pull / (end + 1 - first)).expand(end + 1 - first))
            first = end + 1
        y = torch.cat(y)
        value = float(penalised(y, x, strength).detach())
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
