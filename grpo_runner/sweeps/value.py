"""A run's value of the metric that its sweep stated beforehand: what a search maximises, and what the tables show."""

from __future__ import annotations

import math
from pathlib import Path

from ..errors import InputError, nearest
from ..metric import EVAL, is_known
from ..schema import RunConfig
from ..tracking import jsonl

WINDOW = 0.2  # the share of a run's steps, at its end, over which a figure of metrics.jsonl is averaged


def value_of(config: RunConfig) -> float | None:
    """The mean of `metric` over the last fifth of the steps; of a figure of the evaluations, the last one in it.

    None where the window holds no value. Never the best. Raises InputError for a name that metric.py does not know and
    that the run has no figure of.
    """
    folder, key = Path(config.run_dir), config.metric
    of_evals = key.startswith(EVAL)
    rows = jsonl.rows(folder / ("evals.jsonl" if of_evals else "metrics.jsonl"))
    key = key.removeprefix(EVAL)
    if rows and not is_known(config) and not any(key in row for row in rows):
        known = sorted({name for row in rows for name in row})
        raise InputError(f"metric={config.metric}: the run has no such figure.{nearest(key, known)}")
    first = config.steps - max(1, math.ceil(WINDOW * config.steps))
    values = [float(row[key]) for row in rows if row["step"] >= first and row.get(key) is not None]
    if not values:
        return None
    return values[-1] if of_evals else math.fsum(values) / len(values)
