"""A run's answers, graded again: which verdicts would be others now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import validate
from ..errors import InputError, no_run
from ..reward import Grader, policy_of
from ..tracking.texts import kept_steps, not_kept, read_texts
from ..types import Verdict
from .policies import changed
from .progress import bar
from .words import Run

if TYPE_CHECKING:
    from rich.console import Console

BATCH = 128


@dataclass(frozen=True)
class Answer:
    """A recorded answer, as far as it is graded."""

    step: int
    slot: int
    sample: int
    question: str
    golds: tuple[str, ...]
    text: str
    status: str


@dataclass(frozen=True)
class Change:
    """An answer whose verdict is another one now."""

    answer: Answer
    verdict: Verdict


def regrade(wanted: Run, console: Console) -> int:
    """Grade again and print what changed; 0 when nothing did, else 1. Raises InputError for what cannot be read."""
    from .regrade_view import show

    file = wanted.folder / "config.yaml"
    if not file.is_file():
        raise InputError(f"{wanted.folder}: {no_run(wanted.folder)}")
    config = validate.load(file)
    policy = changed(policy_of(config.reward), wanted.overrides)
    steps = chosen(wanted.folder, wanted.step, config.tracking.completions_every)
    workers, deadline_s = wanted.workers or config.reward.workers, wanted.deadline_s or config.reward.deadline_s
    found: list[Change] = []
    total = 0
    with bar(len(steps)) as shown, Grader(workers, deadline_s, policy) as grader:
        for place, step in enumerate(steps):
            answers = read_texts(wanted.folder, step, partial(_answer, step))
            for batch in _batches(answers):
                found += changes(batch, grader.grade([(one.text, one.golds) for one in batch]))
                total += len(batch)
                shown.at(place, total)
            shown.at(place + 1, total)
    show(console, found, total, steps, wanted)
    return 1 if found else 0


def changes(answers: Sequence[Answer], verdicts: Sequence[Verdict]) -> list[Change]:
    """Those whose status is not the recorded one."""
    pairs = zip(answers, verdicts, strict=True)
    return [Change(answer, verdict) for answer, verdict in pairs if verdict.status.value != answer.status]


def chosen(folder: Path, step: int | None, every: int) -> list[int]:
    """The steps to grade. Raises InputError for one whose texts were not kept."""
    steps = kept_steps(folder, every)
    if step is not None and step not in steps:
        raise not_kept(folder, step, every)
    return steps if step is None else [step]


def _answer(step: int, row: Mapping[str, Any]) -> Answer:
    """Raises ValueError, LookupError or TypeError where a row is not an answer."""
    gold = row["gold"]
    golds = (gold,) if isinstance(gold, str) else tuple(gold)
    texts = (row["question_id"], row["completion"], row["status"], *golds)
    if not all(isinstance(text, str) for text in texts) or not golds:
        raise ValueError
    if not all(type(row[key]) is int for key in ("slot", "sample")):
        raise ValueError
    return Answer(step, row["slot"], row["sample"], row["question_id"], golds, row["completion"], row["status"])


def _batches(answers: Sequence[Answer]) -> Iterator[Sequence[Answer]]:
    return (answers[start : start + BATCH] for start in range(0, len(answers), BATCH))
