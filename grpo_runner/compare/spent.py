"""What a run had spent: seconds and sampled tokens, up to a step, to an accuracy, or in all.

Answers that are made before the first step (`samples.source` base or solutions) count. Their tokens are in the first
row's `tokens/sampled`; their seconds are in its `time/rollout_s` and `time/reward_s`, but in no step's `time/step_s`.
"""

from __future__ import annotations

from .types import Run
from .window import made

TIME, TOKENS = "time/step_s", "tokens/sampled"
_BEFORE = ("time/rollout_s", "time/reward_s")
EVALUATED = ("eval/sampled/accuracy", "eval/greedy/accuracy")


def to_target(key: str, target: float, run: Run) -> float | None:
    """Seconds (TIME) or tokens (TOKENS) until the first evaluation whose sampled (else greedy) accuracy reached the
    target; None where none did, or where a row before it is missing.
    """
    accuracy = next((run.series[one] for one in EVALUATED if one in run.series), None)
    if accuracy is None:
        return None
    reached = accuracy.steps_N[accuracy.values_N >= target]
    if not reached.size or (run.source == "folder" and made(run) < reached[0]):
        return None
    return until(key, run, int(reached[0]))


def in_all(key: str, run: Run) -> float | None:
    """Of all steps that were to be made; None where one is missing."""
    return until(key, run, made(run)) if made(run) >= (run.steps or 1) else None


def until(key: str, run: Run, step: int) -> float | None:
    """Before `step`; 0 before step 0, whose evaluation waits for nothing. None where the run did not log it."""
    spent = run.series.get(key)
    if spent is None:
        return None
    steps = float(spent.values_N[spent.steps_N < step].sum())
    return steps + (before(run) if key == TIME and step > 0 else 0.0)


def before(run: Run) -> float:
    """Seconds in which answers were made before the first step; 0 where each step makes its own."""
    if run.settings.get("samples.source", "policy") == "policy":
        return 0.0
    first = (run.series[key] for key in _BEFORE if key in run.series)
    return sum(float(series.values_N[series.steps_N == 0].sum()) for series in first)
