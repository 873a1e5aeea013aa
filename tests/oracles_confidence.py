"""The formulas of Rikters and Fishel (2017) in plain loops."""

import math


def coverage(weights):
    source = len(weights[0])
    return -sum(math.log(1 + (1 - sum(row[j] for row in weights)) ** 2) for j in range(source)) / source


def certainty(rows):
    """Minus the mean entropy of the rows."""
    total = 0.0
    for row in rows:
        for weight in row:
            share = weight / sum(row) if sum(row) else 0.0
            total += share * math.log(share) if share else 0.0
    return total / len(rows)


def confidence(weights):
    return coverage(weights) + certainty(weights) + certainty([list(column) for column in zip(*weights)])
