"""Logged rows -> series by key, and nested settings -> dotted keys."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .types import Series


def series_of(rows: Sequence[Mapping[str, Any]], prefix: str = "") -> dict[str, Series]:
    """Each key with a number in any row, by step; of two rows of a step the later one counts."""
    points: dict[str, dict[int, float]] = {}
    for row in rows:
        for key, value in row.items():
            if type(value) in (int, float) and key != "step":
                points.setdefault(prefix + key, {})[row["step"]] = value
    return {key: series(at) for key, at in points.items()}


def numbers(row: Mapping[Any, Any]) -> tuple[dict[str, float], list[str]]:
    """The finite numbers of a row of others, and the keys of text, NaN and infinities; what is empty is neither."""
    kept, odd = {}, []
    for key, value in row.items():
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            kept[str(key)] = value
        elif isinstance(value, float) or (isinstance(value, str) and value.strip()):
            odd.append(str(key))
    return kept, odd


def steps_by_key(odd: Iterable[tuple[int, Sequence[str]]]) -> dict[str, list[int]]:
    """(step, keys) of each row -> the steps of each key."""
    found: dict[str, list[int]] = {}
    for step, keys in odd:
        for key in keys:
            found.setdefault(key, []).append(step)
    return found


def series(points: Mapping[int, float]) -> Series:
    """{step: value} in the order of steps."""
    steps = sorted(points)
    return Series(np.array(steps, dtype=np.int64), np.array([points[step] for step in steps], dtype=float))


def leaves(values: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    """A nested mapping as {dotted key: value}; lists become tuples, which can be told apart and hashed."""
    found: dict[str, object] = {}
    for key, value in values.items():
        if isinstance(value, dict) and value:
            found |= leaves(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = _fixed(value)
    return found


def _fixed(value: object) -> object:
    if isinstance(value, list | tuple):
        return tuple(_fixed(item) for item in value)
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
