"""Advantages: rewards minus a baseline, over a scale. Two switches, each a dict from name to a small function.

Conventions that differ between codebases: the papers write "std" without saying which; their worked examples are the
population one (ddof 0), TRL, verl and oat use ddof 1, a factor sqrt((G-1)/G). They also add an eps of 1e-4, 1e-6 and
1e-8 to the std, under which rounding residue of equal rewards can become a real advantage; here a group whose rewards
are all equal is found by comparing them, so that it weighs exactly 0 whatever eps is.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def zero_variance(rewards_QG: Tensor) -> Tensor:
    """Which groups have equal rewards throughout, as a bool tensor (Q,)."""
    return (rewards_QG == rewards_QG[:, :1]).all(dim=1)


def group_mean(rewards_QG: Tensor) -> Tensor:
    """(Q, 1) mean of the group, the answer itself included (DeepSeekMath §4.1.2)."""
    return rewards_QG.mean(dim=1, keepdim=True)


def leave_one_out(rewards_QG: Tensor) -> Tensor:
    """(Q, G) mean of the other answers (RLOO, Kool et al. 2019): unbiased, G/(G-1) times the centred reward."""
    return (rewards_QG.sum(dim=1, keepdim=True) - rewards_QG) / (rewards_QG.shape[1] - 1)


def batch_mean(rewards_QG: Tensor) -> Tensor:
    """(1, 1) mean over all answers of the step: a baseline that knows no questions (Sutton & Barto 13.4)."""
    return rewards_QG.mean().view(1, 1)


def no_baseline(rewards_QG: Tensor) -> Tensor:
    """(Q, 1) zeros: plain REINFORCE (Sutton & Barto 13.3)."""
    return rewards_QG.new_zeros(rewards_QG.shape[0], 1)


def no_scale(rewards_QG: Tensor, ddof: int, eps: float) -> Tensor:
    """(Q, 1) ones: Dr. GRPO (arXiv 2503.20783 §3.2)."""
    return rewards_QG.new_ones(rewards_QG.shape[0], 1)


def group_std(rewards_QG: Tensor, ddof: int, eps: float) -> Tensor:
    """(Q, 1) standard deviation of the group plus eps; infinite where there is no variance, so that it weighs 0."""
    deviation_Q1 = rewards_QG.std(dim=1, correction=ddof, keepdim=True) + eps
    return deviation_Q1.masked_fill(zero_variance(rewards_QG)[:, None], torch.inf)


def batch_std(rewards_QG: Tensor, ddof: int, eps: float) -> Tensor:
    """(1, 1) standard deviation over all answers of the step plus eps, one scalar for all groups (TRL's "batch")."""
    if (rewards_QG == rewards_QG[0, 0]).all():
        return rewards_QG.new_full((1, 1), torch.inf)
    return (rewards_QG.std(correction=ddof) + eps).view(1, 1)


BASELINES: dict[str, Callable[[Tensor], Tensor]] = {
    "group_mean": group_mean,
    "leave_one_out": leave_one_out,
    "batch_mean": batch_mean,
    "none": no_baseline,
}
SCALES: dict[str, Callable[[Tensor, int, float], Tensor]] = {
    "none": no_scale,
    "group_std": group_std,
    "batch_std": batch_std,
}
# baselines made from the group alone: under them a group without variance has no advantage
OF_THE_GROUP = ("group_mean", "leave_one_out")


def advantages(rewards_QG: Tensor, baseline: str, scale: str, ddof: int = 0, eps: float = 0.0) -> Tensor:
    """(Q, G) advantages in float64: (reward - baseline) / scale.

    Under a baseline made from the group, a group without variance gives exactly 0, never NaN and never the rounding
    residue of its own mean.
    """
    rewards_QG = rewards_QG.double()
    centred_QG = rewards_QG - BASELINES[baseline](rewards_QG)
    if baseline in OF_THE_GROUP:
        centred_QG = centred_QG.masked_fill(zero_variance(rewards_QG)[:, None], 0.0)
    elif baseline == "batch_mean" and (rewards_QG == rewards_QG[0, 0]).all():
        centred_QG = torch.zeros_like(centred_QG)
    return centred_QG / SCALES[scale](rewards_QG, ddof, eps)
