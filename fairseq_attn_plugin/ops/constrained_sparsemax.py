"""The projection on the simplex under upper bounds, exactly and for a batch (Malaviya, Ferreira and Martins 2018).

    csparsemax(z, u) = argmin_p  |p - z|^2,    sum_j p_j = 1,   0 <= p_j <= u_j

The solution is p_j = min(max(z_j - tau, 0), u_j). As tau falls, sum_j p_j rises along straight lines that bend where a
word enters (at z_j) and where it reaches its bound (at z_j - u_j). Sorting these 2 N points gives the piece on which
the sum is one (Pardalos and Kovoor 1990), the words A inside their bounds and the words F at them, and

    tau = (sum_A z_j + sum_F u_j - 1) / |A|,

through which autograd passes: the exact gradients of z and of u.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def constrained_sparsemax(scores: Tensor, bounds: Tensor) -> Tensor:
    """The projection of the module's text; where the bounds sum to less than one, the bounds themselves.

    Args:
        scores: z ``[..., N]``, in float32 or better
        bounds: u ``[..., N]``, 0 or more

    Returns:
        p ``[..., N]``
    """
    with torch.no_grad():
        leaves = scores - bounds
        points, order = torch.cat([scores, leaves], -1).sort(-1, descending=True)
        words = torch.cat([torch.ones_like(scores), -torch.ones_like(scores)], -1).gather(-1, order).cumsum(-1)
        sums = F.pad((words[..., :-1] * (points[..., :-1] - points[..., 1:])).cumsum(-1), (1, 0))
        piece = (sums < 1).long().sum(-1, keepdim=True)  # the sum at the first point is zero
        possible = piece < points.size(-1)
        lower = points.gather(-1, piece.clamp(max=points.size(-1) - 1))
        upper = points.gather(-1, piece - 1)
        full = (leaves >= upper) | ~possible
        inside = (scores >= upper) & (leaves <= lower) & possible
    held = torch.where(full, bounds, torch.zeros_like(bounds))
    taken = torch.where(inside, scores, torch.zeros_like(scores)).sum(-1, keepdim=True)
    threshold = (taken + held.sum(-1, keepdim=True) - 1) / inside.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(inside, (scores - threshold).clamp(min=0), held)
