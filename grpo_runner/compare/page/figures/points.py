"""Series -> what is drawn of them: bins over the steps, and the mean over seeds with its interval. Pure numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...stats import flat, student_t
from ...types import Arm, Comparison, Series
from ...window import made, planned
from .theme import short

BINS = 80  # points of a line at most: more make it restless, and the page heavy
Line = dict[float, float]  # {step: value}, rising


def width_of(comparison: Comparison) -> int:
    """Steps of a bin: the same edges for all runs, so that seeds can be averaged and arms subtracted."""
    runs = [run for arm in comparison.arms for run in arm.runs.values()]
    most = max((max(planned(run), made(run)) for run in runs), default=1)
    return max(1, -(-most // BINS))


def binned(series: Series, width: int) -> Line:
    """{middle of a bin: mean of its values}; bins without a value are left out.

    A series of so few points that they need no bins (an evaluation's) keeps its own steps.
    """
    known = np.isfinite(series.values_N)
    steps_N, values_N = series.steps_N[known], series.values_N[known]
    if width == 1 or (steps_N.size <= BINS and _sparse(steps_N, width)):
        return {float(step): float(value) for step, value in zip(steps_N, values_N, strict=True)}
    which_N = steps_N // width
    bins, at, counts = np.unique(which_N, return_inverse=True, return_counts=True)
    means = np.bincount(at.ravel(), values_N) / counts
    return {float(one) * width + (width - 1) / 2: float(mean) for one, mean in zip(bins, means, strict=True)}


def _sparse(steps_N: np.ndarray, width: int) -> bool:
    """Whether no two of the steps are of one bin's width."""
    return steps_N.size < 2 or int(np.diff(steps_N).min()) >= width


def lines(arm: Arm, key: str, width: int, scale: float = 1.0) -> dict[int, Line]:
    """By seed, of the runs that have the series."""
    found = {}
    for seed, run in arm.runs.items():
        if (series := run.series.get(key)) is not None and (line := binned(series, width)):
            found[seed] = {step: value * scale for step, value in line.items()}
    return found


def differences(mine: Mapping[int, Line], other: Mapping[int, Line]) -> dict[int, Line]:
    """Arm minus baseline by seed, at the steps that both have."""
    found = {seed: {step: mine[seed][step] - other[seed][step] for step in mine[seed] if step in other[seed]}
             for seed in mine if seed in other}  # fmt: skip
    return {seed: line for seed, line in found.items() if line}


def seed_rows(label: str, by_seed: Mapping[int, Line], **more: Any) -> list[dict[str, Any]]:
    """A row a seed, with lists of x and y: Vega flattens them, and the page stays small."""
    return [
        {"arm": label, "seed": seed, **more, "x": _numbers(line), "y": _numbers(line.values())}
        for seed, line in by_seed.items()
    ]


def mean_row(
    label: str, by_seed: Mapping[int, Line], level: float, most: tuple[float, float] | None = None, **more: Any
) -> dict[str, Any]:
    """One row: the mean over the seeds that have a step, its interval (None of one seed, or of equal ones) and how
    many there are. most: where the interval is cut, of a share 0 and 100: Student's knows no such limits.
    """
    steps = sorted({step for line in by_seed.values() for step in line})
    found: dict[str, Any] = {"arm": label, **more, "x": _numbers(steps), "y": [], "lo": [], "hi": [], "n": []}
    for step in steps:
        values_S = np.array([line[step] for line in by_seed.values() if step in line])
        found["y"].append(short(float(values_S.mean())))
        found["n"].append(values_S.size)
        spread = values_S.size > 1 and not bool(flat(values_S))
        low, high = _interval(values_S, level, most) if spread else (None, None)
        found["lo"].append(low)
        found["hi"].append(high)
    return found


def _interval(values_S: np.ndarray, level: float, most: tuple[float, float] | None) -> tuple[float, float]:
    low, high = (float(end) for end in student_t(values_S, level))
    if most is not None:
        low, high = max(low, most[0]), min(high, most[1])
    return short(low), short(high)


def _numbers(values: Any) -> list[float | int]:
    found: Sequence[float] = [short(value) for value in values]
    return [int(value) if value == int(value) else value for value in found]
