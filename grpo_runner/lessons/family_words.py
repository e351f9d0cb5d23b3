"""The words after `explain family`. No torch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError, nearest
from .flags import flags_of, html_place, step_number

FLAGS = ("--step", "--question", "--html")


@dataclass(frozen=True)
class Family:
    """A made group, or with a folder one question's of a run's step (None: the first). html: where a page goes."""

    folder: Path | None
    number: int | None
    question: str | None
    html: Path | None


def read(words: Sequence[str]) -> Family:
    """What is wanted. Raises InputError in one line."""
    folder = words[0] if words and not words[0].startswith("-") else None
    flags = flags_of(words[folder is not None :], FLAGS)
    if folder is None and (given := next((flag for flag in ("--step", "--question") if flag in flags), None)):
        raise InputError(f"{given} goes with a run's folder: explain family RUN_FOLDER --step N")
    if folder is not None and not os.path.isdir(folder):
        raise InputError(
            f'"{folder}" is no run folder.{nearest(folder, ["--html"])} Allowed: explain family, or a run.'
        )
    return Family(
        None if folder is None else Path(folder),
        step_number(flags.get("--step")),
        flags.get("--question"),
        html_place(flags.get("--html")),
    )
