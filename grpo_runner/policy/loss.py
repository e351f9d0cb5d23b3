"""The loss of one micro-batch: from log-probabilities to the number that is differentiated."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..algorithm import ESTIMATORS, SURROGATES, Range, importance_weights
from ..schema import RunConfig


class Given(NamedTuple):
    """Log-probabilities of the sampled tokens and what they are weighed with; all (B, T), 0 outside the mask.

    logprobs: of the policy, with gradient. old: of the policy before the rollout's first optimizer step, as the trainer
    computes it. sampled: of that policy, as the engine computed it. reference: None without a KL term in the loss.
    entropy: of the policy at each position, in nats, with gradient; None without an entropy bonus.
    """

    logprobs: Tensor
    old: Tensor
    sampled: Tensor
    weights: Tensor
    norm: Tensor
    mask: Tensor
    reference: Tensor | None
    entropy: Tensor | None


class Loss(NamedTuple):
    """value: the scalar to minimise. The rest is what it is made of, (B, T), without gradient."""

    value: Tensor
    ratio: Tensor
    clipped: Tensor
    kl: Tensor
    importance: Tensor
    capped: Tensor


def loss_of(given: Given, config: RunConfig) -> Loss:
    """-Σ surrogate(weights) + β Σ norm · KL - c Σ norm · entropy (DeepSeekMath eq. 3, entropy as in PPO eq. 9).

    The weights carry the norm of the whole optimizer batch, and so do KL and entropy: sums over micro-batches add up,
    and all three terms are averaged by one rule.
    """
    clip, beta, rollout = config.clip, config.beta, config.rollout
    # what the cap took is seen beside the uncut ratio: a ratio that merely equals the cap was not cut
    of = (given.old, given.sampled, given.mask, rollout.importance)
    importance, uncut = importance_weights(*of, rollout.importance_cap), importance_weights(*of, None)
    weights, limits = given.weights * importance, Range(clip.low, clip.high, clip.dual)
    found = SURROGATES[clip.kind](given.logprobs, given.old, weights, given.mask, limits)
    value, kl = -found.value_NT.sum(), torch.zeros_like(given.logprobs)
    if given.reference is not None:
        kl = ESTIMATORS[beta.estimator](given.logprobs, given.reference)
        value = value + beta.value * (given.norm * kl).sum()
    if given.entropy is not None:
        value = value - config.entropy_bonus * (given.norm * given.entropy).sum()
    return Loss(value, found.ratio_NT.detach(), found.clipped_NT, kl.detach(), importance, uncut > importance)
