"""What is maximised, per token, by the kind of ratio: PPO's token ratio, GSPO's sequence ratio, CISPO's, or none.

`weights_NT` is advantage × loss norm throughout; a loss norm is never negative, so that a minimum picks the same
branch as with the advantage alone. At π = π_old each has the gradient Σ w · ∇log π of a response: the policy gradient
(token by token but for the sequence ratio, whose tokens share their mean weight). They differ only once several
optimizer steps use one rollout (`optim.updates_per_rollout`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Surrogate(NamedTuple):
    """value_NT: to be summed and maximised. ratio_NT: the ratio that was clipped. clipped_NT: where the clip acts."""

    value_NT: Tensor
    ratio_NT: Tensor
    clipped_NT: Tensor


class Range(NamedTuple):
    """The ratio is held in [1 - low, 1 + high]; dual: see clipped_surrogate."""

    low: float
    high: float
    dual: float | None = None


def token_ratio(logprobs_NT: Tensor, old_NT: Tensor) -> Tensor:
    """(N, T) probability ratio π/π_old of each token by itself, not the product over the response.

    No clamp of the log-ratio: verl and OpenRLHF hold it in ±20, which the paper does not.
    """
    return torch.exp(logprobs_NT - old_NT)


def sequence_ratio(logprobs_NT: Tensor, old_NT: Tensor, mask_NT: Tensor) -> Tensor:
    """(N, T) one ratio for all tokens of a response: exp of the *mean* log-ratio (GSPO, arXiv 2507.18071 eq. 7).

    The mean, not the sum: the product of the token ratios would grow with the response's length.
    """
    lengths_N1 = mask_NT.sum(dim=1, keepdim=True).clamp(min=1)
    mean_N1 = ((logprobs_NT - old_NT) * mask_NT).sum(dim=1, keepdim=True) / lengths_N1
    return torch.exp(mean_N1).expand_as(logprobs_NT)


def clipped_surrogate(
    ratio_NT: Tensor, weights_NT: Tensor, low: float, high: float, dual: float | None = None
) -> Tensor:
    """(N, T) min(r·w, clip(r, 1-low, 1+high)·w) (Schulman et al. 2017 eq. 7; DeepSeekMath eq. 3).

    dual: where w < 0, at least dual·w (Ye et al. 2020): a bound on what a very large ratio can take away. The GRPO
    paper has none; verl applies 3.0 by default.
    """
    value_NT = torch.minimum(ratio_NT * weights_NT, ratio_NT.clamp(1 - low, 1 + high) * weights_NT)
    if dual is None:
        return value_NT
    return torch.where(weights_NT < 0, torch.maximum(value_NT, dual * weights_NT), value_NT)


def token(logprobs_NT: Tensor, old_NT: Tensor, weights_NT: Tensor, mask_NT: Tensor, clip: Range) -> Surrogate:
    """PPO and GRPO: each token's own ratio, clipped."""
    return _clipped(token_ratio(logprobs_NT, old_NT), weights_NT, clip)


def sequence(logprobs_NT: Tensor, old_NT: Tensor, weights_NT: Tensor, mask_NT: Tensor, clip: Range) -> Surrogate:
    """GSPO: the response's ratio, clipped for all its tokens at once (arXiv 2507.18071 eq. 5)."""
    return _clipped(sequence_ratio(logprobs_NT, old_NT, mask_NT), weights_NT, clip)


def cispo(logprobs_NT: Tensor, old_NT: Tensor, weights_NT: Tensor, mask_NT: Tensor, clip: Range) -> Surrogate:
    """CISPO: sg(clip(r)) · w · log π (MiniMax-M1, arXiv 2506.13585): a clipped token keeps its gradient."""
    ratio_NT = token_ratio(logprobs_NT, old_NT)
    held_NT = ratio_NT.detach().clamp(1 - clip.low, 1 + clip.high)
    return Surrogate(held_NT * weights_NT * logprobs_NT, ratio_NT, (held_NT != ratio_NT.detach()) & (weights_NT != 0))


def none(logprobs_NT: Tensor, old_NT: Tensor, weights_NT: Tensor, mask_NT: Tensor, clip: Range) -> Surrogate:
    """w · log π: no ratio and no clip, as in SFT, RFT and REINFORCE (DeepSeekMath A.1, eq. 5).

    The ratio is told all the same: how far the policy has moved since the rollout.
    """
    nowhere_NT = torch.zeros_like(weights_NT, dtype=torch.bool)
    return Surrogate(weights_NT * logprobs_NT, token_ratio(logprobs_NT.detach(), old_NT), nowhere_NT)


SURROGATES: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor, Range], Surrogate]] = {
    "token": token,
    "sequence": sequence,
    "cispo": cispo,
    "none": none,
}


def _clipped(ratio_NT: Tensor, weights_NT: Tensor, clip: Range) -> Surrogate:
    ratio = ratio_NT.detach()
    clipped_NT = ((ratio > 1 + clip.high) & (weights_NT > 0)) | ((ratio < 1 - clip.low) & (weights_NT < 0))
    if clip.dual is not None:
        clipped_NT = clipped_NT | ((ratio > clip.dual) & (weights_NT < 0))
    return Surrogate(clipped_surrogate(ratio_NT, weights_NT, clip.low, clip.high, clip.dual), ratio_NT, clipped_NT)
