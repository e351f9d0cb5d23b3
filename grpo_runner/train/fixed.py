"""Answers that do not change while the policy does: worked solutions, or what the base sampled once (`samples`)."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from ..data import order
from ..errors import InputError, MachineError
from ..files import write_atomic
from ..types import Completion, Finish, Group, Reward
from .ahead import Ahead
from .collect import Rollout, sample
from .parts import Parts

FILE = "base_answers.parquet"  # in the run's folder: what the base answered, so that a resumed run trains on the same
QUESTIONS = 32  # sampled at a time


class Fixed:
    """Gives each step the answers to its questions; stands where `Ahead` stands.

    Questions of which nothing is kept are never taken; the others come up once an epoch, in an order of the seed's.
    """

    sampler: Mapping[str, Tensor] = {}

    def __init__(self, run: Parts, made: Rollout) -> None:
        config = run.config
        self.run, self.made, self.rewards_QG = run, made, made.rewards_QG(config)
        self.usable = (~self.rewards_QG.isnan()).any(dim=1).nonzero().squeeze(1).tolist()
        if not self.usable:
            raise InputError(
                f"samples.source={config.samples.source}: no answer to {len(made.groups)} questions is kept.\n"
                "Allowed: more answers (group_size), other questions, or samples.keep=all."
            )
        order.check_size(len(self.usable), config.questions_per_step, config.data.small_set)

    @property
    def told(self) -> str:
        """What there is to train on, in words, and how much of it the checker takes for right."""
        right, answers = int(self.made.correct_QG.sum()), self.rewards_QG.numel()
        kept = int((~self.rewards_QG.isnan()).sum())
        whose = {"base": "answers of the base", "solutions": "worked solutions"}[self.run.config.samples.source]
        return (
            f"{answers:,} {whose} to {len(self.made.groups):,} questions, of which the checker takes {right:,} for "
            f"right; trained on: {kept:,}, to {len(self.usable):,} questions"
        )

    def begin(self, step: int) -> None:
        """Nothing to do ahead."""

    def join(self) -> None:
        """Nothing to wait for."""

    def take(self, step: int) -> tuple[Rollout, Tensor]:
        """See `collect`."""
        config = self.run.config
        places = order.batch(len(self.usable), step, config.questions_per_step, config.seed, config.data.short_batch)
        chosen, made = [self.usable[place] for place in places], self.made
        taken = Rollout(
            [made.groups[i] for i in chosen],
            [made.verdicts[i] for i in chosen],
            [made.rewards[i] for i in chosen],
            sampled=self._sampled() if step == 0 else 0,
        )
        if step == 0:  # what the first step had to wait for
            taken.seconds = made.seconds
        return taken, self.rewards_QG[chosen]

    def _sampled(self) -> int:
        """Tokens of all answers that were sampled for this run, kept or not."""
        if self.run.config.samples.source != "base":
            return 0
        return sum(len(answer.token_ids) for group in self.made.groups for answer in group.completions)


def answers_of(run: Parts, start: int) -> Ahead | Fixed:
    """Where the steps' answers come from. start: the step to make next; what the base said must be there by then."""
    if run.config.samples.source == "policy":
        return Ahead(run)
    fixed = Fixed(run, _solutions(run) if run.config.samples.source == "solutions" else _of_the_base(run, start))
    run.say(fixed.told)
    return fixed


def _of_the_base(run: Parts, start: int) -> Rollout:
    """What the base answers, sampled now or read from the run's folder."""
    file = Path(run.config.run_dir) / FILE
    groups = run.ranks.by_first(lambda: _read(file, run) if file.exists() else None, "base answers")
    if groups is not None:
        return _graded(run, groups)
    if start:
        raise InputError(f"{file} is missing: what the base answered cannot be sampled again after step {start}.")
    made = Rollout()
    for first in range(0, len(run.questions), QUESTIONS):
        sample(run, made, range(first, min(first + QUESTIONS, len(run.questions))), first, "base")
    run.ranks.by_first(lambda: _write(file, made.groups), "base answers written")
    return made


def _solutions(run: Parts) -> Rollout:
    """One answer a question, with the reward 1: its coefficient in DeepSeekMath eq. 7."""
    groups = []
    for question, prompt in zip(run.questions, run.prompts, strict=True):
        assert question.solution is not None
        answer = Completion(run.encode(question.solution), question.solution, (), Finish.EOS)
        groups.append(Group(question, prompt, (answer,)))
    budget, lengths = run.config.max_new_tokens, [len(group.completions[0].token_ids) for group in groups]
    if long := [place for place, length in enumerate(lengths) if length > budget]:
        first = long[0]
        raise InputError(
            f"max_new_tokens={budget}: the solution of {groups[first].question.id} has {lengths[first]} tokens, and "
            f"{len(long)} of {len(groups)} have too many.\nAllowed: max_new_tokens={max(lengths)}, or other questions."
        )
    made = _graded(run, groups)
    made.rewards = [[Reward(1.0, reward.parts) for reward in row] for row in made.rewards]
    return made


def _graded(run: Parts, groups: Sequence[Group]) -> Rollout:
    made = Rollout(groups=list(groups))
    own = run.ranks.share(len(groups))
    mine = list(groups[own.start : own.stop])
    verdicts = run.grade(mine) if mine else []
    rewards = run.reward_of(mine, verdicts) if mine else []
    for judged, earned in run.ranks.gather(list(zip(verdicts, rewards, strict=True)), "grading"):
        made.verdicts.append(judged)
        made.rewards.append(earned)
    return made


def _write(file: Path, groups: Sequence[Group]) -> None:
    import pyarrow as pa  # late: most runs write none
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = [
        {
            "question_id": group.question.id,
            "token_ids": list(answer.token_ids),
            "text": answer.text,
            "logprobs": list(answer.logprobs),
            "finish": answer.finish.value,
            "entropy": answer.entropy,
        }
        for group in groups
        for answer in group.completions
    ]
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), buffer)
    write_atomic(file, buffer.getvalue())


def _read(file: Path, run: Parts) -> list[Group]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    size = run.config.group_size.value
    try:
        rows = pq.read_table(file).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise MachineError(
            f"{file} cannot be read ({type(error).__name__}): the run cannot go on from here."
        ) from error
    if [row["question_id"] for row in rows] != [question.id for question in run.questions for _ in range(size)]:
        raise InputError(f"{file} has answers to other questions than this run's. Give another run_name.")
    made = [
        Completion(tuple(row["token_ids"]), row["text"], tuple(row["logprobs"]), Finish(row["finish"]), row["entropy"])
        for row in rows
    ]
    return [
        Group(question, prompt, tuple(made[at * size : (at + 1) * size]))
        for at, (question, prompt) in enumerate(zip(run.questions, run.prompts, strict=True))
    ]
