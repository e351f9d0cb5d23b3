"""The figures, as tensors in float64: each a call of the functions that train, on a case small enough to read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..algorithm import ESTIMATORS, advantages, clipped_surrogate, token_ratio, token_weights
from ..algorithm import weigh as weigh_rollout
from ..objectives import Objective


def group_advantages(rewards: Sequence[float], baseline: str, scale: str, ddof: int = 0, eps: float = 0.0) -> Tensor:
    """(G,) advantages of one group."""
    return advantages(torch.tensor([list(rewards)], dtype=torch.float64), baseline, scale, ddof, eps)[0]


def mask_of(lengths_N: Tensor) -> Tensor:
    """(N, T) True on the tokens of answers of these lengths."""
    return torch.arange(int(lengths_N.max()))[None, :] < lengths_N[:, None]


def weigh(
    rewards_QG: Tensor, lengths_N: Tensor, objective: Objective, minibatches: Sequence[Tensor]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(advantages_N, per_token_N, total_N, norm_N): an answer's advantage, the weight of each of its tokens, their sum.

    All tokens of an answer weigh the same before clipping and KL. total_N has its sign; norm_N is the loss norm alone.
    A reward of NaN marks an excluded answer: it weighs 0 and counts nowhere.
    """
    mask_NT = mask_of(lengths_N) & ~rewards_QG.isnan().reshape(-1, 1)
    found = weigh_rollout(rewards_QG, mask_NT, minibatches, objective)
    weights_NT, norm_NT = found.weights_NT, found.norm_NT
    return found.advantages_QG.flatten(), weights_NT[:, 0], weights_NT.sum(dim=1), norm_NT[:, 0]


def coefficients(
    weights_N: Tensor,
    norm_N: Tensor,
    ratio_N: Tensor,
    ref_ratio_N: Tensor,
    beta: float,
    low: float = 0.2,
    high: float = 0.2,
    dual: float | None = None,
) -> tuple[Tensor, Tensor]:
    """(surrogate_N, coefficient_N): the clipped surrogate of a token, and what multiplies its ∇log π.

    The coefficient is autograd's derivative, with respect to the token's log-probability, of surrogate - beta · norm ·
    k3, at π/π_old = ratio and π_ref/π = ref_ratio.
    """
    logprobs_N = torch.zeros_like(weights_N, requires_grad=True)
    ratios_N = token_ratio(logprobs_N, -ratio_N.log())
    surrogate_N = clipped_surrogate(ratios_N, weights_N, low, high, dual)
    penalty_N = beta * norm_N * ESTIMATORS["k3"](logprobs_N, ref_ratio_N.log())
    (coefficient_N,) = torch.autograd.grad((surrogate_N - penalty_N).sum(), logprobs_N)
    return surrogate_N.detach(), coefficient_N


def kl_table(beta: float, advantage: float, ref_ratios: Sequence[float]) -> list[tuple[float, float, float, float]]:
    """(π_ref/π, k3, the KL term's part of the coefficient, all of it) of one token at π = π_old."""
    ref_N = torch.tensor(ref_ratios, dtype=torch.float64)
    ones_N = torch.ones_like(ref_N)
    _, part_N = coefficients(0 * ones_N, ones_N, ones_N, ref_N, beta)
    _, whole_N = coefficients(advantage * ones_N, ones_N, ones_N, ref_N, beta)
    penalty_N = ESTIMATORS["k3"](0 * ones_N, ref_N.log())
    return list(zip(ref_N.tolist(), penalty_N.tolist(), part_N.tolist(), whole_N.tolist(), strict=True))


def clip_table(
    cases: Sequence[tuple[float, float]], low: float, high: float, dual: float | None = None
) -> list[tuple[float, float]]:
    """(surrogate, coefficient of ∇log π) for each (advantage, π/π_old)."""
    weights_N, ratio_N = torch.tensor(cases, dtype=torch.float64).T
    ones_N = torch.ones_like(weights_N)
    surrogate_N, coefficient_N = coefficients(weights_N, ones_N, ratio_N, ones_N, 0.0, low, high, dual)
    return list(zip(surrogate_N.tolist(), coefficient_N.tolist(), strict=True))


def length_table(signed_lengths: Sequence[tuple[float, int]], norm: str, budget: float) -> list[tuple[float, float]]:
    """(weight per token, weight of the answer) for each (advantage, length), each its own optimizer batch."""
    advantages_N = torch.tensor([advantage for advantage, _ in signed_lengths], dtype=torch.float64)
    lengths_N = torch.tensor([length for _, length in signed_lengths])
    rows_N = torch.arange(len(signed_lengths))
    weights_NT, _ = token_weights(advantages_N, mask_of(lengths_N), rows_N, list(rows_N.split(1)), norm, budget)
    return list(zip(weights_NT[:, 0].tolist(), weights_NT.sum(dim=1).tolist(), strict=True))


def question_factor(right: int, size: int) -> tuple[float, float, float]:
    """(mean |A| with the group's std, mean |A| without, their quotient) of a group with `right` of `size` right."""
    rewards = [1.0] * right + [0.0] * (size - right)
    scaled = float(group_advantages(rewards, "group_mean", "group_std").abs().mean())
    plain = float(group_advantages(rewards, "group_mean", "none").abs().mean())
    return scaled, plain, scaled / plain


def expected_over_true(chance: float, size: int, baseline: str, scale: str) -> float:
    """An estimator's expected gradient over the true one, on a bandit whose answer is right with this chance.

    Summed over all 2^size groups, not sampled. The policy is σ(θ); the expected reward is its chance, with the true
    gradient chance · (1 - chance); an answer's ∇log π is (right - chance).
    """
    rewards_QG = torch.tensor(list(itertools.product((0.0, 1.0), repeat=size)), dtype=torch.float64)
    right_Q = rewards_QG.sum(dim=1)
    probability_Q = chance**right_Q * (1 - chance) ** (size - right_Q)
    estimate_Q = (advantages(rewards_QG, baseline, scale) * (rewards_QG - chance)).mean(dim=1)
    return float((probability_Q * estimate_Q).sum()) / (chance * (1 - chance))


def shares(total_N: Tensor) -> list[float | None]:
    """Each answer's part of Σ |weight|; None where nothing weighs anything."""
    size_N = total_N.abs()
    whole = float(size_N.sum())
    return [value / whole if whole > 0 and math.isfinite(whole) else None for value in size_N.tolist()]
