"""The steps of an answer, where each ends, and what each earns (`reward.steps`), for GRPO with process rewards.

`lines`: an answer's lines are its steps. One that states something that can be checked (statements.py) earns 1 where it
is so, else 0; one that does not belongs to the next step. The last step, at the end of the answer, earns what the whole
answer earned. Whether a line has to do with the question is not looked at.

A user's own, `reward.steps: "package.module:name"`, is called once a step with keyword arguments:

    def name(questions: list[str], completions: list[str], outcomes: list[float]) -> list[list | None]

The three lists have one entry a completion, and so has the answer: the steps in order, each as (characters of the
completion up to its end, its reward). The outcome counts where the function gives it to a step, and only there. None in
place of a list says that this completion cannot be scored: it is left out of the update.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import InputError, NonFiniteError, in_a_line
from ..plugin import imported
from .statements import holds

LARGEST = 1e15  # as of a reward

Steps = tuple[tuple[int, float], ...]
StepsOf = Callable[[Sequence[str], Sequence[str], Sequence[float]], Sequence[Steps | None]]


def lines(questions: Sequence[str], completions: Sequence[str], outcomes: Sequence[float]) -> list[Steps]:
    """For each completion its steps by line; see the module's docstring."""
    return [_of_lines(text, outcome) for text, outcome in zip(completions, outcomes, strict=True)]


def _of_lines(text: str, outcome: float) -> Steps:
    made: list[tuple[int, float]] = []
    whole, end = len(text.rstrip()), 0
    for line in text.splitlines(keepends=True):
        end += len(line)
        if end >= whole:  # the last line that says something
            break
        checked = holds(line)
        if checked is not None:
            made.append((end, float(checked)))
    return (*made, (len(text), outcome))


BUILT_IN: Mapping[str, StepsOf] = {"lines": lines}


def steps_of(name: str) -> StepsOf:
    """The function that `reward.steps` names. Raises InputError for one that cannot be imported."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    imported(name, "reward.steps")
    return lambda *lists: _own(name, *lists)


def _own(
    name: str, questions: Sequence[str], completions: Sequence[str], outcomes: Sequence[float]
) -> list[Steps | None]:
    """The user's own function. Raises InputError or NonFiniteError for a bad answer."""
    call = imported(name, "reward.steps")
    try:
        returned = call(questions=list(questions), completions=list(completions), outcomes=list(outcomes))
        values = None if isinstance(returned, (str, bytes, Mapping)) else [_listed(steps) for steps in returned]
    except (Exception, SystemExit) as error:  # the user's own code: say where in it, not where in ours
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise InputError(
            f"reward.steps {name} raised {in_a_line(error)}\n({place.filename}, line {place.lineno})"
        ) from error
    if values is None or len(values) != len(completions):
        found = type(returned).__name__ if values is None else f"{len(values)}"
        raise InputError(
            f"reward.steps {name} must return a list with one entry a completion ({len(completions)}), not {found}."
        )
    return [
        None if steps is None else _looked_at(steps, text, name)
        for steps, text in zip(values, completions, strict=True)
    ]


def _listed(steps: Any) -> list[Any] | None:
    return None if steps is None else list(steps)


def _looked_at(steps: list[Any], text: str, name: str) -> Steps:
    """(characters, reward) pairs in order, at least one."""
    made: list[tuple[int, float]] = []
    for step in steps:
        try:
            end, reward = step
            end, reward = int(end), float(reward)
        except (TypeError, ValueError, OverflowError):
            raise InputError(
                f"reward.steps {name} returned {step!r:.60} as a step; it must be (characters up to its end, reward)."
            ) from None
        least = made[-1][0] if made else 0
        if not least <= end <= len(text):
            raise InputError(
                f"reward.steps {name} returned a step that ends at character {end} of an answer of {len(text)}, after "
                f"one that ends at {least}.\nEnds do not go back, and the last is at most the answer's length."
            )
        if not abs(reward) <= LARGEST or math.isnan(reward):
            raise NonFiniteError(f"reward.steps {name} returned the reward {reward} for a step.")
        made.append((end, reward))
    if not made:
        raise InputError(
            f"reward.steps {name} returned no step for an answer. Return at least one, or None where an answer cannot "
            "be scored."
        )
    return tuple(made)


def step_tokens(ends: Sequence[int], text: str, pieces: Sequence[str]) -> list[int]:
    """The index of the token with which each step ends.

    ends: characters of `text` up to the end of each step. pieces: what each token adds to the answer, special tokens
    written out, which `text` is without. A step that ends within a token ends with that token, and one that ends with
    the text ends with the answer: what follows (the EOS) belongs to it. Where `pieces` and `text` differ, for some
    tokenizers drop spaces, the next piece that is found close by is gone on from.
    """
    upto, at = [], 0
    for piece in pieces:
        if piece and at < len(text):
            found = text.find(piece, at, at + len(piece) + 8)
            if found >= 0:
                at = found + len(piece)
            elif piece.startswith(text[at:]):  # cut behind a stop string
                at = len(text)
            elif (bare := piece.strip()) and text.startswith(bare, at):
                at += len(bare)
        upto.append(at)
    last = len(pieces) - 1
    return [last if end >= len(text) else next((t for t, at in enumerate(upto) if at >= end), last) for end in ends]
