"""The reward of a run: named parts, weighted and summed, each kept apart. Correctness is a Verdict, never a reward.

    reward_of = build(config.reward)
    rewards = reward_of(groups, verdicts)      # one Reward for each completion, in the groups' order

A user's own part is a Python function named by `reward.function: "package.module:name"` and weighted as
`reward.parts.function`. It is called once a step, with keyword arguments:

    def name(questions: list[str], golds: list[str], completions: list[str]) -> list[float | None]

The three lists have one entry a completion (a question with G completions stands G times), and so has the answer.
A question of which the data has several golds has a tuple of texts in place of its gold.
None in place of a number says that this completion cannot be scored: it then has no reward and is left out of the
update, and of the baseline of its group. NaN stops the run: it is a fault, not an answer.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..errors import InputError, NonFiniteError, in_a_line, nearest
from ..plugin import imported
from ..schema import RewardConfig
from ..types import Completion, Group, Reward, Verdict
from .countdown import is_task
from .extract import offer
from .steps import StepsOf, steps_of

LARGEST = 1e15  # of a reward: squares of what it makes of a gradient must stay finite in float32

RewardOf = Callable[[Sequence[Group], Sequence[Sequence[Verdict]]], list[list[Reward]]]


@dataclass(frozen=True)
class Row:
    """One completion as the parts see it."""

    group: Group
    completion: Completion
    verdict: Verdict


Scores = Callable[[Sequence[tuple[str, str]]], Sequence[float]]  # of (question, answer) pairs
Part = Callable[[Sequence[Row], RewardConfig], Sequence[float | None]]


def correct(rows: Sequence[Row], config: RewardConfig) -> list[float]:
    """1 for a right answer, else 0. With `reward.truncated: zero` a truncated completion has 0 even if it is right.

    Zero is what Oat-Zero does (understand_r1_zero/train_zero_math.py, step()); accuracy is not touched by it. Under
    `mask` it has its reward, and is then excluded from the update.
    """
    lost = config.truncated == "zero"
    return [float(row.verdict.correct and not (lost and row.completion.truncated)) for row in rows]


def of_countdown(rows: Sequence[Row], config: RewardConfig) -> list[float]:
    """The same as `correct`, for questions that are Countdown tasks (countdown.py). Raises InputError for another."""
    for row in rows:
        for gold in row.group.question.golds:
            if not is_task(gold):
                raise InputError(
                    f'reward.parts.countdown: question "{row.group.question.id}" is no Countdown task; its gold is '
                    f"{gold[:60]!r}, not such as '65 from 19 36 55 7'.\nTake data=countdown, or reward=math_answer."
                )
    return correct(rows, config)


def form(rows: Sequence[Row], config: RewardConfig) -> list[float]:
    """1 where the answer, right or wrong, stands in the required form: a complete box, or the answer tags; else 0."""
    return [float(offer(row.completion.text, config.extract, config.boxes).in_form) for row in rows]


def function(rows: Sequence[Row], config: RewardConfig) -> list[float | None]:
    """The user's own part; see the module's docstring. Raises InputError or NonFiniteError for a bad answer."""
    name = str(config.function)
    call = imported(name, "reward.function")
    try:
        returned = call(
            questions=[row.group.question.text for row in rows],
            golds=[row.group.question.gold for row in rows],
            completions=[row.completion.text for row in rows],
        )
        try:  # a text or a mapping can be gone through too, and is no list of numbers
            entries = None if isinstance(returned, (str, bytes, Mapping)) else iter(returned)
        except TypeError:
            entries = None
        values = None if entries is None else list(entries)  # a generator runs, and may fail, only here
    except (Exception, SystemExit) as error:  # the user's own code: say where in it, not where in ours
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise InputError(
            f"reward.function {name} raised {in_a_line(error)}\n({place.filename}, line {place.lineno})"
        ) from error
    if values is None:
        raise InputError(
            f"reward.function {name} must return one number a completion in a list, not {type(returned).__name__}."
        )
    if len(values) != len(rows):
        raise InputError(f"reward.function {name} returned {len(values)} values for {len(rows)} completions.")
    return [None if value is None else _number(value, name, row) for value, row in zip(values, rows, strict=True)]


def of_model(scores: Scores | None, rows: Sequence[Row], config: RewardConfig) -> list[float]:
    """What the learned reward model of `reward.model` says of question and answer; the gold is not shown to it."""
    if scores is None:
        raise InputError("reward.parts.model: no reward model was loaded.")
    return list(scores([(row.group.question.text, row.completion.text) for row in rows]))


def overlong(length: int, budget: int, buffer: int) -> float:
    """DAPO's soft punishment (arXiv 2503.14476 eq. 13): 0 up to budget - buffer tokens, then linearly down to -1."""
    return min(0.0, (budget - buffer - length) / buffer)


def overlong_buffer(config: RewardConfig, budget: int) -> int:
    """Tokens over which the punishment grows: as set, else a fifth of the budget (DAPO: 4096 of 20480)."""
    return config.overlong_buffer or max(1, budget // 5)


PARTS: Mapping[str, Part] = {
    "correct": correct,
    "format": form,
    "countdown": of_countdown,
    "function": function,
    "model": partial(of_model, None),
}


def build(config: RewardConfig, budget: int, scores: Scores | None = None) -> RewardOf:
    """The reward function of a run; budget: the tokens that an answer may have; scores: of `reward.model`.

    Raises InputError for an unknown part, or a function that cannot be imported.

    That `reward.function` and its weight go together is held by checks.py, with the other rules between keys.
    """
    for name in config.parts:
        if name not in PARTS:
            raise InputError(
                f'reward.parts: there is no part "{name}".{nearest(name, PARTS)} Allowed: {", ".join(PARTS)}.'
            )
    if config.function is not None:
        imported(config.function, "reward.function")
    parts_of: dict[str, Part] = {**PARTS, "model": partial(of_model, scores)}
    with_steps = None if config.steps == "none" else steps_of(config.steps)

    def reward_of(groups: Sequence[Group], verdicts: Sequence[Sequence[Verdict]]) -> list[list[Reward]]:
        rows = [
            Row(group, completion, verdict)
            for group, graded in zip(groups, verdicts, strict=True)
            for completion, verdict in zip(group.completions, graded, strict=True)
        ]
        parts = {name: parts_of[name](rows, config) for name in config.parts}
        weights = dict(config.parts)
        if config.truncated == "soft":
            buffer = overlong_buffer(config, budget)
            parts["overlong"] = [overlong(len(row.completion.token_ids), budget, buffer) for row in rows]
            weights["overlong"] = 1.0
        made = [
            Reward(
                total=_total([(weights[name], values[index]) for name, values in parts.items()], row),
                parts={name: values[index] for name, values in parts.items()},
            )
            for index, row in enumerate(rows)
        ]
        rewards = iter(made if with_steps is None else _stepped(with_steps, rows, made))
        return [[next(rewards) for _ in group.completions] for group in groups]

    return reward_of


def _stepped(with_steps: StepsOf, rows: Sequence[Row], made: Sequence[Reward]) -> list[Reward]:
    """The rewards with their steps; one that has no reward has none, and one without steps cannot be scored."""
    scored = [(row, reward.total) for row, reward in zip(rows, made, strict=True) if reward.total is not None]
    texts = [(row.group.question.text, row.completion.text) for row, _ in scored]
    found = iter(with_steps([q for q, _ in texts], [a for _, a in texts], [total for _, total in scored]))
    stepped = []
    for reward in made:
        steps = None if reward.total is None else next(found)
        stepped.append(replace(reward, total=None) if steps is None else replace(reward, steps=steps))
    return stepped


def _total(weighed: Sequence[tuple[float, float | None]], row: Row) -> float | None:
    values = [weight * value for weight, value in weighed if value is not None]
    if len(values) < len(weighed):
        return None
    try:
        total = math.fsum(values)
    except (OverflowError, ValueError):  # of finite terms, and of inf - inf
        total = math.inf
    if not abs(total) <= LARGEST:
        raise NonFiniteError(
            f'The weighted sum of reward.parts for question "{row.group.question.id}" is {total}; '
            f"a reward is at most {LARGEST:g} in size."
        )
    return total


def _number(value: Any, name: str, row: Row) -> float:
    where = f'question "{row.group.question.id}"'
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"reward.function {name} returned {value!r} for {where}; it must return a number.") from None
    except OverflowError:
        number = math.inf  # an int too large for a float
    if not abs(number) <= LARGEST:
        raise NonFiniteError(
            f"reward.function {name} returned {number} for {where}; a reward is at most {LARGEST:g} in size, and None "
            "where a completion cannot be scored."
        )
    return number
