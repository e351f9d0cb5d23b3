"""The answers of one step: sampled, graded, and with dynamic sampling sampled again until enough groups differ."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..algorithm import kept, zero_variance
from ..data import order
from ..errors import InputError
from ..rollout import Sampling, check_finite
from ..schema import RunConfig
from ..types import Group, Reward, Verdict
from .parts import Parts


@dataclass
class Rollout:
    """Q groups with their verdicts and rewards, in the order they were sampled.

    seconds: of sampling and of grading. refills: rounds of further questions that dynamic sampling asked for. sampled:
    tokens that were sampled for this step, None: all of its answers were.
    """

    groups: list[Group] = field(default_factory=list)
    verdicts: list[Sequence[Verdict]] = field(default_factory=list)
    rewards: list[Sequence[Reward]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: {"time/rollout_s": 0.0, "time/reward_s": 0.0})
    refills: int = 0
    sampled: int | None = None

    def rewards_QG(self, config: RunConfig) -> Tensor:
        """(Q, G) float64; NaN for a response that is excluded by itself: without a reward, masked as
        truncated, or not among what `samples` keeps.
        """
        masked = config.reward.truncated == "mask"
        samples = config.samples
        if samples.keep == "all":
            return self._earned(masked)
        answers = [[answer.token_ids for answer in group.completions] for group in self.groups]
        return kept(self._earned(masked), self.right_QG(config), answers, samples.keep, samples.per_question)

    @property
    def correct_QG(self) -> Tensor:
        """(Q, G) bool, the checker's word."""
        return torch.tensor([[verdict.correct for verdict in row] for row in self.verdicts])

    def right_QG(self, config: RunConfig) -> Tensor:
        """(Q, G) bool, what `samples.keep` goes by: the checker's word, but for one that was cut off and earns 0."""
        cut_QG = torch.tensor([[answer.truncated for answer in group.completions] for group in self.groups])
        return self.correct_QG & ~cut_QG if config.reward.truncated == "zero" else self.correct_QG

    def _earned(self, masked: bool) -> Tensor:
        return torch.tensor(
            [
                [
                    torch.nan if reward.total is None or (masked and answer.truncated) else reward.total
                    for reward, answer in zip(row, group.completions, strict=True)
                ]
                for row, group in zip(self.rewards, self.groups, strict=True)
            ],
            dtype=torch.float64,
        )


def collect(run: Parts, step: int) -> tuple[Rollout, Tensor]:
    """(rollout, rewards_QG) of a step; a reward is NaN where the response is excluded.

    With `rollout.dynamic_sampling` (DAPO, arXiv 2503.14476 eq. 11), groups whose answers all earned the same are
    excluded, and as many further questions are sampled as there are groups missing, for so many rounds at most; where
    `samples.keep` leaves some answers alone, so are groups of which it leaves none. What was turned down stays in the
    record. Raises InputError where groups are still missing and `rollout.when_short` says
    so. Where no group at all differs, all are excluded and the step makes no update.
    """
    config = run.config
    chosen = order.batch(len(run.questions), step, config.questions_per_step, config.seed, config.data.short_batch)
    made = Rollout()
    sample(run, made, chosen, step)
    rewards_QG = made.rewards_QG(config)
    if not config.rollout.dynamic_sampling:
        return made, rewards_QG
    others = order.others(len(run.questions), step, config.seed, chosen)
    while True:
        differ_Q = _trains(rewards_QG, config.samples.keep)
        missing = config.questions_per_step - int(differ_Q.sum())
        if missing == 0 or not others or made.refills == config.rollout.dynamic_sampling:
            break
        made.refills += 1
        sample(run, made, others[:missing], step)
        others = others[missing:]
        rewards_QG = made.rewards_QG(config)
    if missing and config.rollout.when_short == "error":
        raise InputError(
            f"step {step}: after {made.refills} further rounds, only {config.questions_per_step - missing} of "
            f"{config.questions_per_step} groups {_TRAINS[config.samples.keep]}.\n"
            f"Allowed: rollout.when_short=smaller, a larger rollout.dynamic_sampling "
            f"(here {config.rollout.dynamic_sampling}), a larger group_size, or other questions."
        )
    return made, rewards_QG.masked_fill(~differ_Q[:, None], torch.nan)


def sample(run: Parts, made: Rollout, chosen: Sequence[int], step: int, purpose: str = "rollout") -> None:
    """Add the groups of these questions, each process its share of them. Each round has draws of its own."""
    start = time.perf_counter()
    own = run.ranks.share(len(chosen))
    questions, prompts = [run.questions[chosen[i]] for i in own], [run.prompts[chosen[i]] for i in own]
    size, sampling = run.config.group_size.value, _sampling(run.config, step, made.refills, own.start, purpose)
    groups = run.engine.sample(questions, prompts, size, sampling)
    made_of = [(group.question, group.prompt_ids, len(group.completions)) for group in groups]
    if made_of != [(question, prompt, size) for question, prompt in zip(questions, prompts, strict=True)]:
        raise ValueError(f"step {step}: the engine's groups are not {size} answers to each question's prompt, in order")
    check_finite(groups, f"step {step}")
    between = time.perf_counter()
    verdicts = run.grade(groups) if own else []
    rewards = run.reward_of(groups, verdicts) if own else []
    for group, judged, earned in run.ranks.gather(list(zip(groups, verdicts, rewards, strict=True)), "rollout"):
        made.groups.append(group)
        made.verdicts.append(judged)
        made.rewards.append(earned)
    made.seconds["time/rollout_s"] += between - start
    made.seconds["time/reward_s"] += time.perf_counter() - between


def _trains(rewards_QG: Tensor, keep: str) -> Tensor:
    """(Q,) bool: the groups that dynamic sampling has no other sampled for."""
    return ~zero_variance(rewards_QG) if keep == "all" else (~rewards_QG.isnan()).any(dim=1)


_TRAINS = {
    "all": "have answers that earned differently",
    "right": "have a right answer",
    "pairs": "have a right answer and a wrong one",
}


def _sampling(config: RunConfig, step: int, refill: int, first_slot: int, purpose: str) -> Sampling:
    """How training samples at a step."""
    return Sampling(
        temperature=config.temperature,
        top_p=config.rollout.top_p,
        top_k=config.rollout.top_k,
        max_new_tokens=config.max_new_tokens,
        stop=config.prompt.stop,
        seed=config.seed,
        purpose=purpose if refill == 0 else f"{purpose}, refill {refill}",
        step=step,
        first_slot=first_slot,
    )
