"""Advantages: rewards minus a baseline, over a scale. Two switches, each a dict from name to a small function.

Conventions that differ between codebases: the papers write "std" without saying which; their worked examples are the
population one (ddof 0), TRL, verl and oat use ddof 1, a factor sqrt((G-1)/G). They also add an eps of 1e-4, 1e-6 and
1e-8 to the std, under which rounding residue of equal rewards can become a real advantage; here rewards that differ by
no more than RESIDUE of the largest are equal (0.1 + 0.2 and 0.3), and their group weighs exactly 0 whatever eps is.

A response that is excluded (no reward, masked for its length, a group that dynamic sampling turned down) has the reward
NaN and leaves baseline, scale and loss, as if it had never been sampled. TRL does so for rewards of None, and keeps the
rewards of masked responses in the baseline.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

RESIDUE = 1e-12  # far above what the order of a float64 sum leaves, far below any difference that is meant


def zero_variance(rewards_QG: Tensor) -> Tensor:
    """Which groups have equal rewards throughout, excluded responses aside, as a bool tensor (Q,)."""
    least_Q = rewards_QG.nan_to_num(nan=torch.inf).amin(dim=1)
    most_Q = rewards_QG.nan_to_num(nan=-torch.inf).amax(dim=1)
    return most_Q - least_Q <= RESIDUE * torch.maximum(most_Q.abs(), least_Q.abs())


def group_mean(rewards_QG: Tensor) -> Tensor:
    """(Q, 1) mean of the group, the answer itself included (DeepSeekMath §4.1.2)."""
    return rewards_QG.nanmean(dim=1, keepdim=True)


def leave_one_out(rewards_QG: Tensor) -> Tensor:
    """(Q, G) mean of the other answers (RLOO, Kool et al. 2019): unbiased, G/(G-1) times the centred reward."""
    others_Q1 = (~rewards_QG.isnan()).sum(dim=1, keepdim=True) - 1
    mean_QG = (rewards_QG.nansum(dim=1, keepdim=True) - rewards_QG) / others_Q1
    return torch.where(others_Q1 > 0, mean_QG, rewards_QG)  # alone, it has nothing to be compared with


def batch_mean(rewards_QG: Tensor) -> Tensor:
    """(1, 1) mean over all answers of the step: a baseline that knows no questions (Sutton & Barto 13.4)."""
    return rewards_QG.nanmean().view(1, 1)


def no_baseline(rewards_QG: Tensor) -> Tensor:
    """(Q, 1) zeros: plain REINFORCE (Sutton & Barto 13.3)."""
    return rewards_QG.new_zeros(rewards_QG.shape[0], 1)


def no_scale(rewards_QG: Tensor, ddof: int, eps: float) -> Tensor:
    """(Q, 1) ones: Dr. GRPO (arXiv 2503.20783 §3.2)."""
    return rewards_QG.new_ones(rewards_QG.shape[0], 1)


def group_std(rewards_QG: Tensor, ddof: int, eps: float) -> Tensor:
    """(Q, 1) standard deviation of the group plus eps; infinite where there is no variance, so that it weighs 0."""
    deviation_Q1 = std(rewards_QG, ddof) + eps
    return deviation_Q1.masked_fill(zero_variance(rewards_QG)[:, None], torch.inf)


def batch_std(rewards_QG: Tensor, ddof: int, eps: float) -> Tensor:
    """(1, 1) standard deviation over all answers of the step plus eps, one scalar for all groups (TRL's "batch")."""
    return group_std(rewards_QG.reshape(1, -1), ddof, eps)


def mean_scale(rewards_QG: Tensor, ddof: int, eps: float) -> Tensor:
    """(Q, 1) mean of the group plus eps (MaxRL, 2026: with rewards of 0 and 1 a right answer's advantage is (1-p)/p).

    Infinite where there is no variance or the mean is not above 0, so that the group weighs 0: where rewards may be
    negative too, a mean that is 0 but for rounding would weigh any size.
    """
    mean_Q1 = rewards_QG.nanmean(dim=1, keepdim=True) + eps
    residue_Q1 = 1e-12 * rewards_QG.abs().nanmean(dim=1, keepdim=True)
    return mean_Q1.masked_fill(zero_variance(rewards_QG)[:, None] | ~(mean_Q1 > residue_Q1), torch.inf)


def std(rewards_QG: Tensor, ddof: int) -> Tensor:
    """(Q, 1) standard deviation, NaN left out, in two passes: E[x²] - E[x]² would leave rounding residue."""
    deviations_QG = rewards_QG - rewards_QG.nanmean(dim=1, keepdim=True)
    largest_Q1 = deviations_QG.abs().nan_to_num(nan=0.0).amax(dim=1, keepdim=True)
    # squares of what is very small would be 0
    squares_QG = (deviations_QG / largest_Q1.where(largest_Q1 > 0, 1.0)) ** 2
    count_Q1 = (~rewards_QG.isnan()).sum(dim=1, keepdim=True)
    return largest_Q1 * (squares_QG.nansum(dim=1, keepdim=True) / (count_Q1 - ddof)).sqrt()


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
    "group_mean": mean_scale,
}


def advantages(rewards_QG: Tensor, baseline: str, scale: str, ddof: int = 0, eps: float = 0.0) -> Tensor:
    """(Q, G) advantages in float64: (reward - baseline) / scale.

    A reward of NaN marks an excluded response: its advantage is 0, and baseline and scale are made of the others alone.
    What a baseline leaves of its own rounding counts as 0: a group without variance under a mean of its own gives
    exactly 0, never NaN and never a residue; so does a group with one response left.
    """
    rewards_QG = rewards_QG.double()
    centred_QG = rewards_QG - BASELINES[baseline](rewards_QG)
    largest_Q1 = rewards_QG.abs().nan_to_num(nan=0.0).amax(dim=1, keepdim=True)
    centred_QG = centred_QG.masked_fill(centred_QG.abs() <= RESIDUE * largest_Q1, 0.0)
    return (centred_QG / SCALES[scale](rewards_QG, ddof, eps)).masked_fill(rewards_QG.isnan(), 0.0)
