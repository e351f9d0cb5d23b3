"""Figures of a window of steps, for the rules. The last row is the newest step; a figure that is not there is None."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

Rows = Sequence[Mapping[str, Any]]
Figure = Callable[[Mapping[str, Any]], float | None]
# Steps. Of the 64 answers of a default step, a share of .2 has a standard error of .05 in one step and .016 in ten.
WINDOW = 10
LONG = 2 * WINDOW  # where a trend is asked for, or what is averaged comes in few sizes


def of(key: str) -> Figure:
    """The figure under this key of a row; None where there is no number."""

    def figure(row: Mapping[str, Any]) -> float | None:
        value = row.get(key)
        return float(value) if isinstance(value, int | float) else None

    return figure


def known(rows: Rows, figure: Figure, length: int, back: int = 0) -> list[float]:
    """The figures of `length` steps of which the last was made `back` steps before the newest.

    Nothing where there are fewer steps, or where fewer than half of them have the figure.
    """
    end = len(rows) - back
    if end < length:
        return []
    found = [value for row in rows[end - length : end] if (value := figure(row)) is not None]
    return found if 2 * len(found) >= length else []


def mean(rows: Rows, figure: Figure, length: int = WINDOW, back: int = 0) -> float | None:
    """Mean over a window: for shares, of which one step can add no more than its part."""
    found = known(rows, figure, length, back)
    return fmean(found) if found else None


def middle(rows: Rows, figure: Figure, length: int = WINDOW, back: int = 0) -> float | None:
    """Median over a window: for what has no upper end, where one step could make a mean anything."""
    found = known(rows, figure, length, back)
    return median(found) if found else None


def stays_over(rows: Rows, figure: Figure, limit: float) -> float | None:
    """The mean of a window that is over the limit and not on its way down: not a fifth below the window before."""
    now, before = mean(rows, figure), mean(rows, figure, back=WINDOW)
    if now is None or before is None or now <= limit or now <= 0.8 * before:
        return None
    return now


def share(value: float) -> str:
    """34 %; 1.2 % of what is small."""
    return f"{100 * value:.0f} %" if value >= 0.1 else f"{100 * value:.2g} %"
