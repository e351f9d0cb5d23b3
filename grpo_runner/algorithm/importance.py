"""Truncated importance sampling: the sampler's probabilities of its own tokens beside the trainer's.

Where an engine computes otherwise than the trainer (another kernel or precision, stale weights), answers are drawn from
a policy μ that is not π_old. The ratio π_old/μ, cut from above and without gradient, multiplies a token's weight (Yao
et al. 2025, "Your efficient RL framework secretly brings you off-policy RL training"; oat by default since August 2025,
with a cap of 2).

Both probabilities are over the full vocabulary, so that the ratio is 1 where engine and trainer agree.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def none(old_NT: Tensor, sampled_NT: Tensor, mask_NT: Tensor) -> Tensor:
    """(N, T) ones: the mismatch is left as it is (the papers)."""
    return torch.ones_like(old_NT)


def token(old_NT: Tensor, sampled_NT: Tensor, mask_NT: Tensor) -> Tensor:
    """(N, T) each token's own ratio π_old/μ."""
    return torch.exp(old_NT - sampled_NT)


def sequence(old_NT: Tensor, sampled_NT: Tensor, mask_NT: Tensor) -> Tensor:
    """(N, T) the ratio of the whole response, before each of its tokens: the product, which is the exact one.

    Its spread grows with the length, so that a cap takes more from long responses than from short ones.
    """
    total_N1 = ((old_NT - sampled_NT) * mask_NT).sum(dim=1, keepdim=True)
    return torch.exp(total_N1).expand_as(old_NT)


IMPORTANCE: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {"none": none, "token": token, "sequence": sequence}


def importance_weights(old_NT: Tensor, sampled_NT: Tensor, mask_NT: Tensor, kind: str, cap: float | None) -> Tensor:
    """(N, T) min(ratio, cap), without gradient.

    old_NT: log-probabilities of the sampled tokens under the policy as the trainer computes it; sampled_NT: under the
    engine that drew them; both at the sampling temperature.
    """
    ratio_NT = IMPORTANCE[kind](old_NT.detach(), sampled_NT, mask_NT)
    return ratio_NT if cap is None else ratio_NT.clamp(max=cap)
