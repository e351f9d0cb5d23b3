"""PPO's clipped surrogate, per token (Schulman et al. 2017 eq. 7; DeepSeekMath eq. 3)."""

from __future__ import annotations

import torch
from torch import Tensor


def token_ratio(logprobs_NT: Tensor, old_NT: Tensor) -> Tensor:
    """(N, T) probability ratio π/π_old of each token by itself, not the product over the response.

    No clamp of the log-ratio: verl and OpenRLHF hold it in ±20, which the paper does not.
    """
    return torch.exp(logprobs_NT - old_NT)


def clipped_surrogate(ratio_NT: Tensor, weights_NT: Tensor, low: float, high: float) -> Tensor:
    """(N, T) min(r·w, clip(r, 1-low, 1+high)·w), to be maximised.

    `weights_NT` is advantage × loss norm; a loss norm is never negative, so that the minimum picks the same branch as
    with the advantage alone. At r = 1 the gradient is w · ∇log π: the policy gradient. verl's dual clip is not in it.
    """
    clipped_NT = ratio_NT.clamp(1 - low, 1 + high)
    return torch.minimum(ratio_NT * weights_NT, clipped_NT * weights_NT)
