"""Which rows of a training set are kept: by their level, and by the length of their question. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import InputError, nearest
from .table import Row

_MOST_NAMED = 12


def by_level(rows: Sequence[Row], column: str, levels: Sequence[str | int], notes: list[str]) -> list[Row]:
    """The rows of these levels, in order; says how many they are. "Level 3", "3", 3 and 3.0 are the same level.

    Raises InputError for a level that no row has, naming those that there are.
    """
    wanted = {_level(level) for level in levels}
    found = [_level(row.cells[column]) for row in rows]
    there = sorted(set(found), key=lambda level: (len(level), level))
    for level in levels:
        if _level(level) not in found:
            named = ", ".join(there[:_MOST_NAMED]) + (", …" if len(there) > _MOST_NAMED else "")
            raise InputError(
                f'data.levels: no row of data.train has the level "{level}".{nearest(_level(level), there)}\n'
                f'Its levels (column "{column}", data.level_column) are {named}.'
            )
    kept = [row for row, level in zip(rows, found, strict=True) if level in wanted]
    named = ", ".join(map(str, levels))
    notes.append(f"Kept {len(kept):,} of {len(rows):,} rows of data.train, those of the levels {named} (data.levels).")
    return kept


def by_length(rows: Sequence[Row], column: str, most: int, notes: list[str]) -> list[Row]:
    """The rows whose question has at most so many characters, in order; says how many are left out, if any.

    A cell that is no text is kept, for the reader of questions to refuse. Raises InputError when nothing is left.
    """
    kept = [row for row in rows if not isinstance(row.cells[column], str) or len(row.cells[column]) <= most]
    out = len(rows) - len(kept)
    if not kept:
        raise InputError(
            f"data.max_question_characters={most}: all {len(rows):,} questions of data.train are longer. Give more."
        )
    if out:
        notes.append(
            f"Left out {out:,} of {len(rows):,} questions of data.train, longer than "
            f"data.max_question_characters={most}."
        )
    return kept


def _level(cell: Any) -> str:
    """A level as text: 3 for "Level 3", "3", 3 and 3.0; "none" for an empty cell."""
    if cell is None or isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, int | float):
        return f"{cell:g}"
    text = str(cell).strip()
    return text[5:].strip() if text[:5].lower() == "level" and text[5:].strip() else text
