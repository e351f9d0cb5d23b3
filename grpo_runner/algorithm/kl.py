"""Estimators of KL(policy || reference) from log-probabilities of sampled tokens (Schulman 2020, "Approximating KL").

As a *loss*, each has its own gradient with respect to the policy's log-probability: k2 gives log(π/π_ref), on-policy
and in expectation over the token the gradient of the reverse KL. k3 gives 1 - π_ref/π, which is the coefficient of
DeepSeekMath eq. 20; its expectation is the gradient of the *forward* KL(π_ref || π), not of the reverse KL that its
value estimates. Both hold for the states that were visited: that an action changes which states come next is in
neither (docs/objective.md). As a loss k1 has the gradient 1 whatever the reference is, so that it is refused there.

In the *reward* (PPO, DeepSeekMath eq. 2; RLOO, arXiv 2402.14740) an estimate is a number without gradient, summed over
the response: r - β Σ k. With k1 the policy gradient of that is the whole gradient of the reverse KL of responses, the
part through later states included.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def k1(logprobs: Tensor, reference: Tensor) -> Tensor:
    """log π - log π_ref, elementwise: unbiased, and of either sign."""
    return logprobs - reference


def k2(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Half the squared log-ratio, elementwise: ½ (log π - log π_ref)²."""
    return 0.5 * (logprobs - reference) ** 2


def k3(logprobs: Tensor, reference: Tensor) -> Tensor:
    """ρ - log ρ - 1 with ρ = π_ref/π, elementwise; ≥ 0 (DeepSeekMath eq. 4)."""
    log_rho = reference - logprobs
    return torch.expm1(log_rho) - log_rho


ESTIMATORS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"k1": k1, "k2": k2, "k3": k3}


def reward_penalty(logprobs_NT: Tensor, reference_NT: Tensor, mask_NT: Tensor, estimator: str) -> Tensor:
    """(N, T) the estimate of each token, 0 outside the mask; β times its sum comes off the response's reward."""
    return ESTIMATORS[estimator](logprobs_NT, reference_NT) * mask_NT


def kl_slope(logprobs: Tensor, reference: Tensor, estimator: str) -> Tensor:
    """Derivative of the estimate by the policy's log-probability, elementwise: 1, log(π/π_ref), or 1 - π_ref/π."""
    with torch.enable_grad():
        leaf = logprobs.detach().requires_grad_()
        (slope,) = torch.autograd.grad(ESTIMATORS[estimator](leaf, reference).sum(), leaf)
    return slope
