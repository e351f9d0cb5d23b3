"""Estimators of KL(policy || reference) from log-probabilities of sampled tokens (Schulman 2020, "Approximating KL").

As a *loss*, each has its own gradient with respect to the policy's log-probability: k2 gives log(π/π_ref), on-policy
and in expectation over the token the gradient of the reverse KL. k3 gives 1 - π_ref/π, which is the coefficient of
DeepSeekMath eq. 20; its expectation is the gradient of the *forward* KL(π_ref || π), not of the reverse KL that its
value estimates. Both hold for the states that were visited: that an action changes which states come next is in
neither (docs/objective.md). k1 is not offered: as a loss its gradient does not contain the reference at all.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def k2(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Half the squared log-ratio, elementwise: ½ (log π - log π_ref)²."""
    return 0.5 * (logprobs - reference) ** 2


def k3(logprobs: Tensor, reference: Tensor) -> Tensor:
    """ρ - log ρ - 1 with ρ = π_ref/π, elementwise; ≥ 0 (DeepSeekMath eq. 4)."""
    log_rho = reference - logprobs
    return torch.expm1(log_rho) - log_rho


ESTIMATORS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"k2": k2, "k3": k3}
