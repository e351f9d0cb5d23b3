"""The final window: which steps of a run count, and what a logged figure comes to in them."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

import numpy as np

from ..errors import InputError
from .types import Comparison, Run, Series

Window = float | int  # a share of the planned steps (0.2), or a number of steps (50)
DEFAULT = 0.2
EVAL = "eval/"


def bounds(run: Run, window: Window) -> tuple[int, int]:
    """The steps [first, end) of the window: of those that were to be made. At least one step, and no more than all."""
    end = planned(run)
    length = window if isinstance(window, int) else ceil(round(window * end, 9))
    return max(0, end - max(1, length)), end


def planned(run: Run) -> int:
    """Steps that were to be made; those that were, where it is not known."""
    if run.steps is not None:
        return run.steps
    return made(run)


def described(comparison: Comparison, window: Window) -> str:
    """`steps 240 to 299 (the last fifth)`."""
    share = "the last fifth" if window == 0.2 else f"the last {window:g} of all" if isinstance(window, float) else ""
    found = common(comparison, window)
    if found is None:
        return share or f"the last {window} steps of each run"
    first, end = found
    steps = f"step {first}" if end - first == 1 else f"steps {first} to {end - 1}"
    return f"{steps} ({share})" if share else steps


def common(comparison: Comparison, window: Window) -> tuple[int, int] | None:
    """The steps [first, end) of the window, where they are the same for all runs."""
    found = {bounds(run, window) for arm in comparison.arms for run in arm.runs.values()}
    return found.pop() if len(found) == 1 else None


def parse_window(text: str) -> Window:
    """0.2, or 50 steps. Raises InputError."""
    try:
        value: Window = int(text) if text.isdigit() else float(text)
    except ValueError:
        value = -1
    if not (value > 0 and (isinstance(value, int) or value <= 1)):
        raise InputError(f"--window {text}: allowed are a share of the steps up to 1 (0.2), or a number of steps (50).")
    return value


def last(run: Run, series: Series, window: Window) -> float | None:
    """Of the last evaluation in the window; that after the last step belongs to it."""
    first, end = bounds(run, window)
    inside = (series.steps_N >= first) & (series.steps_N <= end)
    return float(series.values_N[inside][-1]) if inside.any() else None


def over(run: Run, series: Series, window: Window, mean: Callable[[np.ndarray], np.floating] = np.mean) -> float | None:
    """Over the steps of the window that have a value; None where the run did not make its last step."""
    first, end = bounds(run, window)
    if made(run) < end:
        return None
    inside = (series.steps_N >= first) & (series.steps_N < end)
    return float(mean(series.values_N[inside])) if inside.any() else None


def made(run: Run) -> int:
    """Steps that a run has logged."""
    return max((int(one.steps_N[-1]) + 1 for key, one in run.series.items() if not key.startswith(EVAL)), default=0)
