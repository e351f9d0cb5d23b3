"""From the rewards of a rollout to what each token is credited with: `advantage.credit`, one small function each."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from ..algorithm import advantages, process_advantages
from ..policy.batch import Batch
from .collect import Rollout
from .parts import Parts
from .stepping import token_steps


class Given(NamedTuple):
    """A rollout as it was sampled and graded.

    rewards_QG, mask_NT: NaN and False throughout for a response that is excluded. penalty_NT: the KL estimate of each
    token where it is not in the loss, NaN for an excluded response; None where it is in the loss, or there is none.
    """

    step: int
    rollout: Rollout
    batch: Batch
    rewards_QG: Tensor
    mask_NT: Tensor
    penalty_NT: Tensor | None


class Credited(NamedTuple):
    """What trains.

    advantages_NT: (N, T) float64, or (N, 1) where all tokens of an answer have the same. rewards_QG: what the answers
    earned in all, a KL penalty taken off. penalty_N: the KL estimate summed over each response, None without one.
    metrics: what is told of the credit itself, for metrics.jsonl.
    """

    advantages_NT: Tensor
    rewards_QG: Tensor
    penalty_N: Tensor | None
    metrics: dict[str, float | None]


def outcome(run: Parts, given: Given) -> Credited:
    """Every token has its answer's advantage (DeepSeekMath 4.1.2)."""
    advantage, rewards_QG, penalty_N = run.config.advantage, given.rewards_QG, None
    if given.penalty_NT is not None:
        penalty_N = given.penalty_NT.sum(dim=1)
        rewards_QG = rewards_QG - run.config.beta.value * penalty_N.view_as(rewards_QG)
    made_QG = advantages(rewards_QG, advantage.baseline, advantage.scale, advantage.ddof, advantage.eps)
    return Credited(made_QG.view(-1, 1), rewards_QG, penalty_N, {})


def process(run: Parts, given: Given) -> Credited:
    """Each token has the normalised rewards of its answer's steps that end at it or later (DeepSeekMath 4.1.3)."""
    advantage = run.config.advantage
    steps, metrics = token_steps(given.rollout, given.rewards_QG, run.pieces)
    made_NT = process_advantages(
        steps, given.mask_NT.shape[1], advantage.baseline, advantage.scale, advantage.ddof, advantage.eps
    )
    return Credited(made_NT, given.rewards_QG, None, metrics)


CREDITS: dict[str, Callable[[Parts, Given], Credited]] = {"outcome": outcome, "process": process}
