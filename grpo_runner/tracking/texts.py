"""The texts of a run's steps, as `completions/` keeps them: a compressed JSONL file a step."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ..errors import InputError

COMPLETIONS = "completions"
_NAME = re.compile(r"step_(\d+)\.jsonl\.zst")
_MOST_SHOWN = 12
Answer = TypeVar("Answer")


def file_of(folder: Path, step: int) -> Path:
    """Where a step's texts are kept."""
    return folder / COMPLETIONS / f"step_{step:06d}.jsonl.zst"


def files(folder: Path) -> dict[int, Path]:
    """The file of each step that has one, by step."""
    found = [(_NAME.fullmatch(path.name), path) for path in (folder / COMPLETIONS).glob("step_*.jsonl.zst")]
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
    import zstandard

    path = file_of(folder, step)
    try:
        text = zstandard.ZstdDecompressor().decompress(path.read_bytes()).decode("utf-8")
        # JSON may hold U+2028 and its like as they are: only a line feed ends a row
        rows = [json.loads(line) for line in text.split("\n") if line]
        answers = [(row["slot"], row["sample"], read(row)) for row in rows]
    except (
        OSError, zstandard.ZstdError, MemoryError, RecursionError, ValueError, LookupError, TypeError, AttributeError,
    ):  # fmt: skip
        raise InputError(f"{path}: not readable as the answers of a step; the file was damaged or changed.") from None
    return [answer for *_, answer in sorted(answers, key=lambda one: one[:2])]
