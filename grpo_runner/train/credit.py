"""From the rewards of a rollout to what each token is credited with: `advantage.credit`, one small function each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..algorithm import (
    advantages,
    answer_log_ratios,
    gae,
    partners,
    preference_coefficients,
    preference_margins,
    process_advantages,
    token_rewards,
)
from ..objectives import budget_of
from ..policy.batch import Batch
from ..policy.critic import Expected
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
    metrics: what is told of the credit itself, for metrics.jsonl. expected: what a critic is fitted to; None without.
    """

    advantages_NT: Tensor
    rewards_QG: Tensor
    penalty_N: Tensor | None
    metrics: dict[str, float | None]
    expected: Expected | None = None


def outcome(run: Parts, given: Given) -> Credited:
    """Every token has its answer's advantage (DeepSeekMath 4.1.2)."""
    advantage = run.config.advantage
    rewards_QG, penalty_N = _after_kl(given, run.config.beta.value)
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


def by_critic(run: Parts, given: Given) -> Credited:
    """Every token has the rewards that follow it less what the critic expected, by GAE (DeepSeekMath eq. 15 to 18)."""
    critic, beta = run.critic, run.config.beta.value
    assert critic is not None and critic.config.gamma is not None and critic.config.lam is not None
    earned_NT = token_rewards(given.rewards_QG.flatten(), given.penalty_NT, given.mask_NT, beta)
    values_NT = critic.values(given.batch, given.mask_NT.any(dim=1).nonzero().squeeze(1))
    made_NT, returns_NT = gae(earned_NT, values_NT, given.mask_NT, critic.config.gamma, critic.config.lam)
    return Credited(made_NT, *_after_kl(given, beta), {}, Expected(values_NT, returns_NT))


def pairs(run: Parts, given: Given) -> Credited:
    """Each answer of a pair has ±β σ(β(Δ- - Δ+)), right against wrong (DPO: Rafailov et al. 2023, DeepSeekMath A.1.4).

    The log-ratios are of the policy as it stands, so that the coefficient is the gradient's at one optimizer step. The
    rewards stay what was earned: they decide nothing but which answers have none. The log-ratios are told apart,
    and not as a KL: the answers of pairs are no sample of the policy. Both can fall while the margin grows.
    """
    config, log_ratios_NT = run.config, given.penalty_NT
    assert log_ratios_NT is not None  # checks.py: beta.placement=preference, k1 and a beta above 0
    right_QG = given.rollout.right_QG(config)
    right_N, partner_N = right_QG.flatten(), partners(right_QG, ~given.rewards_QG.isnan())
    log_ratios_N = answer_log_ratios(log_ratios_NT, given.mask_NT, config.loss_norm.kind, budget_of(config))
    of = (log_ratios_N, partner_N, right_N, config.beta.value)
    margins_P = preference_margins(*of)

    def mean(values_P: Tensor) -> float | None:
        return float(values_P.double().mean()) if len(values_P) else None

    metrics = {
        "dpo/margin": mean(margins_P),
        "dpo/accuracy": mean(margins_P > 0),
        "dpo/right": mean(config.beta.value * log_ratios_N[right_N & (partner_N >= 0)]),
        "dpo/wrong": mean(config.beta.value * log_ratios_N[~right_N & (partner_N >= 0)]),
        "dpo/loss": mean(-torch.nn.functional.logsigmoid(margins_P)),
    }
    return Credited(preference_coefficients(*of)[:, None], given.rewards_QG, None, metrics)


CREDITS: dict[str, Callable[[Parts, Given], Credited]] = {
    "outcome": outcome,
    "process": process,
    "gae": by_critic,
    "pairs": pairs,
}


def _after_kl(given: Given, beta: float) -> tuple[Tensor, Tensor | None]:
    """(rewards_QG with β times the KL of each answer taken off, penalty_N); without a KL in the reward, as they are."""
    if given.penalty_NT is None:
        return given.rewards_QG, None
    penalty_N = given.penalty_NT.sum(dim=1)
    return given.rewards_QG - beta * penalty_N.view_as(given.rewards_QG), penalty_N


def fit_critic(run: Parts, given: Given, credited: Credited, minibatches: Sequence[Tensor]) -> dict[str, float | None]:
    """Fit the critic to the rollout, in the policy's minibatches; gives its metrics, nothing without a critic."""
    if run.critic is None or credited.expected is None:
        return {}
    began = time.perf_counter()
    made = run.critic.update(given.batch, given.mask_NT, minibatches, credited.expected, given.step)
    return made | {"time/critic_s": time.perf_counter() - began}
