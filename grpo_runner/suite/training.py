"""What was trained on and is asked now: the check of a run's start, for the runs that are evaluated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from .. import data
from ..data import overlap
from ..errors import InputError
from ..reward import unreadable
from ..types import Question
from ..validate import load
from .targets import Target


def trained_on(targets: Sequence[Target], sets: Mapping[str, Sequence[Question]]) -> tuple[str, ...]:
    """A sentence for each set with questions that a run was trained on, or close to one; one where that cannot be told.

    The training questions are those of the run's own config.yaml. A generator's own two sets are disjoint.
    """
    said: dict[str, None] = {}
    for run in dict.fromkeys(one.run for one in targets if one.weights != "initial"):
        for text in _of_run(run, sets):
            said[text] = None
    return tuple(said)


def _of_run(run: Path, sets: Mapping[str, Sequence[Question]]) -> tuple[str, ...]:
    config = load(run / "config.yaml")
    named = {name or "data.eval": found for name, found in sets.items() if name or config.data.kind == "table"}
    if not named:
        return ()
    try:
        train = data.load(config.data, config.seed, unreadable, evaluated=False).train
    except InputError as error:  # the figures do not need them
        return (f"Not checked whether {run.name} was trained on these questions: {str(error).splitlines()[0]}",)
    return overlap.warnings(overlap.overlaps(train, named))
