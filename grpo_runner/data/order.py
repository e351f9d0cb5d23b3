"""Which questions a step trains on: a pure function of (seed, step), so a resumed run needs no stored position.

Every epoch is a fresh permutation of the set. Epochs follow each other as one endless stream, which under
`short_batch="wrap"` is simply cut every `questions_per_step`: the last batch of an epoch is filled with the first
questions of the next, and every question comes up once an epoch. Under `"drop"` what is left at an epoch's end is left
out (other questions each time). A set smaller than a step can only repeat within it: see `check_size`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from .. import rng
from ..errors import InputError


def batch(count: int, step: int, questions_per_step: int, seed: int, short_batch: str) -> list[int]:
    """Indices into the `count` training questions of step `step` (from 0), `questions_per_step` of them."""
    size = questions_per_step
    if _drops(count, size, short_batch):
        epoch, place = divmod(step, count // size)
        return list(_epoch(count, epoch, seed)[place * size : (place + 1) * size])
    stream = (divmod(position, count) for position in range(step * size, (step + 1) * size))
    return [_epoch(count, epoch, seed)[place] for epoch, place in stream]


def others(count: int, step: int, seed: int, chosen: Sequence[int]) -> list[int]:
    """All further questions that step `step` may sample in place of groups that it turned down, in their order."""
    taken = set(chosen)
    return [index for index in rng.generator(seed, "refill", step).permutation(count).tolist() if index not in taken]


def steps_per_epoch(count: int, questions_per_step: int, short_batch: str) -> float:
    """Steps until every question has come up once; a fraction where the last short batch is filled ("wrap")."""
    if _drops(count, questions_per_step, short_batch):
        return count // questions_per_step
    return count / questions_per_step


def plan(count: int, questions_per_step: int, short_batch: str) -> str:
    """One sentence for the plan of a run: questions, steps an epoch, and what becomes of a short batch."""
    steps = steps_per_epoch(count, questions_per_step, short_batch)
    text = f"{count} questions, {questions_per_step} a step: {steps:.4g} steps an epoch"
    left = count % questions_per_step
    if not left:
        return text
    if _drops(count, questions_per_step, short_batch):
        return f"{text}, {left} left out each epoch (data.short_batch=drop)"
    return f"{text}, a short batch is filled from the next epoch"


def check_size(count: int, questions_per_step: int, small_set: str) -> str | None:
    """None when the set fills a step; otherwise a note ("wrap": questions repeat within a step) or InputError."""
    if count >= questions_per_step:
        return None
    have = f"{count} training question{'s' if count > 1 else ''}, {questions_per_step} a step"
    if count < 1 or small_set == "error":
        raise InputError(
            f"questions_per_step={questions_per_step} is more than the {count} training questions there are.\n"
            f"Use questions_per_step={max(count, 1)} or less, more data, or data.small_set=wrap to repeat questions."
        )
    return f"{have}: questions repeat within a step, each with a group of its own (data.small_set=wrap)."


def _drops(count: int, size: int, short_batch: str) -> bool:
    """Whether short batches are left out. Not for a set smaller than a step, of which nothing would remain."""
    return short_batch == "drop" and count >= size


@lru_cache(maxsize=4)
def _epoch(count: int, epoch: int, seed: int) -> tuple[int, ...]:
    """The permutation of one epoch."""
    return tuple(rng.generator(seed, "order", epoch).permutation(count).tolist())
