"""The texts of a run's steps as `completions/` keeps them, and the questions of its evaluations in `evaluations/`: a
compressed JSONL file a step.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ..errors import InputError
from ..files import disk_errors, write_atomic
from . import jsonl
from .base import Row

COMPLETIONS, EVALUATIONS = "completions", "evaluations"
_NAME = re.compile(r"step_(\d+)\.jsonl\.zst")
_MOST_SHOWN = 12
Answer = TypeVar("Answer")


def file_of(folder: Path, step: int, kind: str = COMPLETIONS) -> Path:
    """Where a step's texts, or the questions of its evaluation, are kept."""
    return folder / kind / f"step_{step:06d}.jsonl.zst"


def write(path: Path, rows: Sequence[Row]) -> None:
    """The rows, compressed; equal rows give equal bytes. Raises MachineError where the disk refuses."""
    import zstandard

    data = zstandard.ZstdCompressor(level=6).compress(jsonl.encode(rows))
    with disk_errors(path):
        path.parent.mkdir(exist_ok=True)
    write_atomic(path, data)


def files(folder: Path, kind: str = COMPLETIONS) -> dict[int, Path]:
    """The file of each step that has one, by step."""
    found = [(_NAME.fullmatch(path.name), path) for path in (folder / kind).glob("step_*.jsonl.zst")]
    return {int(match[1]): path for match, path in sorted(found, key=lambda one: one[1]) if match}


def kept_steps(folder: Path, every: int) -> list[int]:
    """The steps whose texts a run folder holds; every: its tracking.completions_every. Raises InputError for none."""
    steps = sorted(files(folder))
    if not steps:
        raise InputError(f"{folder} holds no texts of any step (tracking.completions_every={every}).")
    return steps


def not_kept(folder: Path, step: int | None, every: int) -> InputError:
    """What to say where a step is asked for that has no texts, or none is named."""
    steps = kept_steps(folder, every)
    shown = ", ".join(map(str, steps if len(steps) <= _MOST_SHOWN else steps[: _MOST_SHOWN - 1]))
    more = f", … to {steps[-1]} ({len(steps)} in all)" if len(steps) > _MOST_SHOWN else ""
    said = f"The texts of step {step} were not kept" if step is not None else "--step is missing"
    return InputError(f"{said} (tracking.completions_every={every}). Steps of {folder} with texts: {shown}{more}.")


def read_texts(folder: Path, step: int, read: Callable[[dict[str, Any]], Answer]) -> list[Answer]:
    """The answers of a step in the order of (slot, sample), each as `read` makes it of its row.

    Raises InputError for a damaged file, or where `read` finds that a row is no answer (by any of the errors below).
    """
    found = _read(file_of(folder, step), lambda row: (row["slot"], row["sample"], read(row)), "answers of a step")
    return [answer for *_, answer in sorted(found, key=lambda one: one[:2])]


def read_evaluation(folder: Path, step: int) -> list[dict[str, Any]]:
    """The rows of one evaluation, a question each (`evaluation.question_row`), in the order in which they were asked.

    Raises InputError for a damaged file.
    """
    return _read(file_of(folder, step, EVALUATIONS), _question, "questions of an evaluation")


def _question(row: dict[str, Any]) -> dict[str, Any]:
    """The row, held against what its readers need; raises KeyError or TypeError."""
    if not all(isinstance(row[key], str) for key in ("question_id", "question", "gold", "text")):
        raise TypeError("text")
    return row


def _read(path: Path, read: Callable[[dict[str, Any]], Answer], what: str) -> list[Answer]:
    import zstandard

    try:
        text = zstandard.ZstdDecompressor().decompress(path.read_bytes()).decode("utf-8")
        # JSON may hold U+2028 and its like as they are: only a line feed ends a row
        return [read(json.loads(line)) for line in text.split("\n") if line]
    except (
        OSError, zstandard.ZstdError, MemoryError, RecursionError, ValueError, LookupError, TypeError, AttributeError,
    ):  # fmt: skip
        raise InputError(f"{path}: not readable as the {what}; the file was damaged or changed.") from None
