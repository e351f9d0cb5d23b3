"""What a comparison's figures lack, as warnings that name the run: values, evaluations, steps."""

from __future__ import annotations

from collections.abc import Sequence

from .measures import Values, runs_of, source_of, sources
from .types import Comparison, Measure
from .window import EVAL, Window, bounds, planned

_MOST = 4  # runs that are named


def faults(
    comparison: Comparison, measures: Sequence[Measure], primary: Sequence[str], values: Values, window: Window
) -> list[str]:
    """Sentences on logs of unequal length, on values of the window that are no numbers, on measures that are taken from
    elsewhere since a run lacks their source, and on finished runs that have no value of a stated measure.
    """
    return [
        *_lengths(comparison),
        *_no_numbers(comparison, measures, window),
        *_switched(comparison, measures),
        *_without(comparison, measures, primary, values),
    ]


def _lengths(comparison: Comparison) -> list[str]:
    """Runs without a config that end at different steps: the window of each is that of its own steps."""
    runs = [run for run in runs_of(comparison) if "steps" not in run.settings and run.series]
    ends = {planned(run) for run in runs}
    if len(ends) < 2:
        return []
    short = [f"{run.name} (at {planned(run)})" for run in runs if planned(run) < max(ends)]
    return [f"The logs end at different steps, most at {max(ends)}: {named(short)}. Each has its own final window."]


def _no_numbers(comparison: Comparison, measures: Sequence[Measure], window: Window) -> list[str]:
    runs, said = runs_of(comparison), []
    for measure in measures:
        for key in source_of(measure.key, runs).keys:
            odd = []
            for run in runs:
                first, end = bounds(run, window)
                steps = [step for step in run.dropped.get(key, ()) if first <= step <= end - (not key.startswith(EVAL))]
                odd += [f"{run.name} ({len(steps)}, first at step {steps[0]})"] if steps else []
            if odd:
                said.append(
                    f"{measure.key}: values of the window that are no finite numbers are left out: {named(odd)}."
                )
    return said


def _switched(comparison: Comparison, measures: Sequence[Measure]) -> list[str]:
    runs = runs_of(comparison)
    found: dict[tuple[str, ...], list[str]] = {}
    for measure in measures:
        source = sources().get(measure.key)
        wanted = next((key for key in source.keys if any(key in run.series for run in runs)), None) if source else None
        if wanted is not None and source_of(measure.key, runs).keys[0] != wanted:
            lacking = tuple(run.name for run in runs if wanted not in run.series)
            found.setdefault(lacking, []).append(measure.key)
    return [
        f"Without evaluations of it: {named(lacking)}. So {', '.join(keys)} {'are' if len(keys) > 1 else 'is'} taken "
        "from elsewhere (their titles say) in all runs, to compare like with like."
        for lacking, keys in found.items()
    ]


def _without(comparison: Comparison, measures: Sequence[Measure], primary: Sequence[str], values: Values) -> list[str]:
    found: dict[tuple[str, ...], list[str]] = {}
    for measure in measures:
        lacking = tuple(
            run.name
            for arm in comparison.arms
            for seed, run in arm.runs.items()
            if run.finished and values[arm.name][measure.key].get(seed) is None
        )
        if measure.key in primary and lacking and len(lacking) < len(runs_of(comparison)):
            found.setdefault(lacking, []).append(measure.key)
    return [
        f"No figure in the window of {', '.join(keys)}, and so in no difference of it: {named(lacking)}."
        for lacking, keys in found.items()
    ]


def named(words: Sequence[str]) -> str:
    """The first few, and how many there are."""
    more = [f"… ({len(words)} in all)"] if len(words) > _MOST else []
    return ", ".join([*words[:_MOST], *more])
