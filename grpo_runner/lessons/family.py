"""`explain family`: what every method of the unified template gives the tokens of the same answers.

DeepSeekMath A.1 (eq. 5) writes each as coefficient · ∇log π, summed over an answer's tokens and divided by something.
Here each is a small function of one group, made of the functions that train; `MEMBERS` names them as `methods.py` does.
All coefficients stand at π = π_old, before a clip could act.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..algorithm import (
    advantages,
    answer_log_ratios,
    gae,
    kept,
    kl_slope,
    partners,
    preference_coefficients,
    process_advantages,
    token_rewards,
    token_weights,
)

BETA, RLOO_BETA, DPO_BETA = 0.04, 0.03, 0.1  # as in conf/beta: deepseek_math, in_reward, dpo


@dataclass(frozen=True)
class Case:
    """One group of N answers, as the whole optimizer batch.

    texts: of each token of each answer. steps: (index of its last token, reward) of each step of each answer; None
    where nobody graded them. values: the critic's, of the state before each token; None: what the group earned on
    average. log_ratios: log π/π_ref of each token; None: the policy is its reference. solution: the answer that is the
    data's own; None: none is.
    """

    question: str
    gold: str
    texts: tuple[tuple[str, ...], ...]
    right: tuple[bool, ...]
    rewards: tuple[float, ...]
    steps: tuple[tuple[tuple[int, float], ...], ...] | None = None
    values: tuple[tuple[float, ...], ...] | None = None
    log_ratios: tuple[tuple[float, ...], ...] | None = None
    solution: int | None = None

    @property
    def mask_NT(self) -> Tensor:
        """(N, T) True on tokens."""
        lengths_N = torch.tensor([len(texts) for texts in self.texts])
        return torch.arange(int(lengths_N.max()))[None, :] < lengths_N[:, None]

    @property
    def rewards_QG(self) -> Tensor:
        """(1, N)."""
        return torch.tensor([self.rewards], dtype=torch.float64)

    @property
    def right_QG(self) -> Tensor:
        """(1, N) the checker's word."""
        return torch.tensor([self.right])

    def padded(self, values: tuple[tuple[float, ...], ...] | None) -> Tensor:
        """(N, T) of values of each token, 0 outside the mask and for None."""
        found_NT = torch.zeros(self.mask_NT.shape, dtype=torch.float64)
        for row, some in enumerate(values or ()):
            found_NT[row, : len(some)] = torch.tensor(some, dtype=torch.float64)
        return found_NT


class Given(NamedTuple):
    """What a method gives: its coefficient of each token, (N, T) or (N, 1), which answers count, and its loss norm."""

    coefficient_NT: Tensor
    counted_N: Tensor
    norm: str


class Weighed(NamedTuple):
    """coefficient_NT: as the template writes it, 0 where an answer does not count. weights_NT: with the normaliser."""

    coefficient_NT: Tensor
    weights_NT: Tensor
    counted_N: Tensor
    norm: str

    @property
    def shares_N(self) -> Tensor:
        """(N,) part of Σ |weight| that each answer has; NaN where nothing weighs anything."""
        total_N = self.weights_NT.abs().sum(dim=1)
        return total_N / total_N.sum()


def sft(case: Case) -> Given | None:
    """1 on the data's own solution."""
    if case.solution is None:
        return None
    counted_N = torch.arange(len(case.texts)) == case.solution
    return Given(counted_N.double()[:, None], counted_N, "sequence_mean")


def rft(case: Case) -> Given:
    """1 on right answers, of equal ones on the first; the others are not in the batch."""
    rewards_QG = kept(torch.ones_like(case.rewards_QG), case.right_QG, [case.texts], "right", None)
    counted_N = ~rewards_QG.isnan().flatten()
    return Given(counted_N.double()[:, None], counted_N, "sequence_mean")


def online_rft(case: Case) -> Given:
    """1 on right answers, 0 on wrong ones, which count in the normaliser."""
    return Given(case.right_QG.double().view(-1, 1), _all(case), "sequence_mean")


def dpo(case: Case) -> Given | None:
    """±β σ on the two answers of each pair, by their whole log-ratios."""
    partner_N, mask_NT = partners(case.right_QG, torch.ones_like(case.right_QG)), case.mask_NT
    if not (partner_N >= 0).any():
        return None
    log_ratios_N = answer_log_ratios(case.padded(case.log_ratios), mask_NT, "sequence_sum", 1.0)
    made_N = preference_coefficients(log_ratios_N, partner_N, case.right_QG.flatten(), DPO_BETA)
    return Given(made_N[:, None], partner_N >= 0, "sequence_sum")


def ppo(case: Case) -> Given:
    """GAE with λ = γ = 1 against the critic's values, the KL of each token taken off its reward."""
    penalty_NT, mask_NT = case.padded(case.log_ratios), case.mask_NT
    values_NT = case.padded(case.values) if case.values else case.rewards_QG.mean() * mask_NT
    earned_NT = token_rewards(case.rewards_QG.flatten(), penalty_NT, mask_NT, RLOO_BETA)
    return Given(gae(earned_NT, values_NT, mask_NT, 1.0, 1.0)[0], _all(case), "sequence_mean")


def grpo(case: Case) -> Given:
    """The reward against the group, over its std, and β(π_ref/π - 1)."""
    return Given(_against_group(case, "group_mean", "group_std") + _kl(case), _all(case), "sequence_mean")


def grpo_process(case: Case) -> Given | None:
    """The rewards of the steps that end at the token or later, each against all of the group's."""
    if case.steps is None:
        return None
    made_NT = process_advantages([case.steps], case.mask_NT.shape[1])
    return Given(made_NT + _kl(case), _all(case), "sequence_mean")


def dr_grpo(case: Case) -> Given:
    """The reward against the group, over nothing."""
    return Given(_against_group(case, "group_mean", "none"), _all(case), "constant")


def rloo(case: Case) -> Given:
    """The reward, less the KL of the answer, against the others of the group."""
    penalty_N = case.padded(case.log_ratios).sum(dim=1)
    rewards_QG = case.rewards_QG - RLOO_BETA * penalty_N[None, :]
    return Given(advantages(rewards_QG, "leave_one_out", "none").view(-1, 1), _all(case), "sequence_sum")


def reinforce(case: Case) -> Given:
    """The reward."""
    return Given(_against_group(case, "none", "none"), _all(case), "sequence_sum")


def maxrl(case: Case) -> Given:
    """The reward against the group, over the group's mean."""
    return Given(_against_group(case, "group_mean", "group_mean"), _all(case), "token_mean")


def token_mean_of_grpo(case: Case) -> Given:
    """GRPO's advantage without a KL term, over the tokens of the group: DAPO, and CISPO at ratio 1."""
    return Given(_against_group(case, "group_mean", "group_std"), _all(case), "group_token_mean")


def gspo(case: Case) -> Given:
    """GRPO's advantage without a KL term; at ratio 1 the answer's ratio is 1 too."""
    return Given(_against_group(case, "group_mean", "group_std"), _all(case), "sequence_mean")


MEMBERS: dict[str, Callable[[Case], Given | None]] = {
    "SFT": sft,
    "RFT": rft,
    "Online RFT": online_rft,
    "DPO": dpo,
    "PPO": ppo,
    "GRPO, outcome": grpo,
    "GRPO, process": grpo_process,
    "Dr. GRPO": dr_grpo,
    "RLOO": rloo,
    "REINFORCE": reinforce,
    "MaxRL": maxrl,
    "DAPO": token_mean_of_grpo,
    "GSPO": gspo,
    "CISPO": token_mean_of_grpo,
}


def weigh(case: Case) -> dict[str, Weighed | None]:
    """What each method gives; None where the group lacks what it needs."""
    return {name: _weighed(case, made) if (made := member(case)) else None for name, member in MEMBERS.items()}


def _weighed(case: Case, given: Given) -> Weighed:
    mask_NT = case.mask_NT & given.counted_N[:, None]
    rows, groups_N = given.counted_N.nonzero().squeeze(1), torch.zeros(len(mask_NT), dtype=torch.long)
    budget = float(case.mask_NT.shape[1])  # L of the constant: the longest answer
    weights_NT, _ = token_weights(given.coefficient_NT, mask_NT, groups_N, [rows], given.norm, budget)
    return Weighed(given.coefficient_NT * mask_NT, weights_NT, given.counted_N, given.norm)


def _all(case: Case) -> Tensor:
    return torch.ones(len(case.texts), dtype=torch.bool)


def _against_group(case: Case, baseline: str, scale: str) -> Tensor:
    return advantages(case.rewards_QG, baseline, scale).view(-1, 1)


def _kl(case: Case) -> Tensor:
    """(N, T) the KL term's part of the coefficient: -β times the slope of k3, β(π_ref/π - 1)."""
    log_ratios_NT = case.padded(case.log_ratios)
    return -BETA * kl_slope(log_ratios_NT, torch.zeros_like(log_ratios_NT), "k3")


def _answer(*lines: str) -> tuple[str, ...]:
    """Tokens of lines, each with the blank before it, and the EOS as the token without a text."""
    words = [[word if place == 0 else f" {word}" for place, word in enumerate(line.split())] for line in lines]
    joined = [
        token for number, line in enumerate(words) for token in ([*line, "\n"] if number + 1 < len(words) else line)
    ]
    return (*joined, "")


def _constant(*parts: tuple[float, int]) -> tuple[float, ...]:
    return tuple(value for value, count in parts for _ in range(count))


MADE = Case(
    question="12 + 7 × 2 = ?",
    gold="26",
    texts=(
        _answer("7 × 2 = 14", "12 + 14 = 26"),
        _answer("7 × 2 = 14", "12 + 14 = 25"),
        _answer("28"),
        _answer("12 + 7 = 19", "19 × 2 = 38"),
    ),
    right=(True, False, False, False),
    rewards=(1.0, 0.0, 0.0, 0.0),
    # a line is right where its sum is: the last answer's first line is, though it leads nowhere; the last step of an
    # answer earns what the answer does
    steps=(((5, 1.0), (11, 1.0)), ((5, 1.0), (11, 0.0)), ((1, 0.0),), ((5, 1.0), (11, 0.0))),
    values=(
        _constant((0.5, 6), (0.8, 4), (0.9, 2)),
        _constant((0.5, 6), (0.8, 4), (0.3, 2)),
        _constant((0.5, 1), (0.2, 1)),
        _constant((0.5, 4), (0.4, 2), (0.1, 6)),
    ),
    log_ratios=tuple(_constant((ratio, count)) for ratio, count in ((0.1, 12), (0.0, 12), (0.2, 2), (-0.1, 12))),
    solution=0,
)
