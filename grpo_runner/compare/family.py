"""The family view: methods beside one another, a row each, and which of them only sharpen what the base could do.

A method that moves answers it gave already to where the majority is gets more right by vote (maj@k) and solves no
more questions in k tries (pass@k); DeepSeekMath's section 5.2.2 finds that of its GRPO. Each method is held against
its own runs before their first step: the same seeds, questions and number of answers, paired. Pure: runs in, figures
out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from ..errors import InputError
from ..method import OF_CHOICE
from . import spent
from .arms import NAMES, below
from .choices import METHOD, differing
from .effects import effects, interval, needed, shown
from .labels import choice
from .measures import OF_MOST, Values, choose, runs_of, source_of, values
from .types import Arm, Change, Comparison, Effect, Estimate, Family, Measure, Row, Run
from .verdict import in_words, number, signed
from .window import Window

LEAST = 3  # methods from which on they are shown as a family by themselves
GOAL = 0.8  # held-out accuracy, without --target
FIGURES = ("accuracy", "pass@k", "maj@k", "accuracy/greedy", "length/right", "length/wrong", "memory")
SECONDS = Measure("seconds", "seconds of training", "training", "s", 1, 1, -1, ("longer", "shorter"))
KINDS = {
    "sharpens": "only sharpens",
    "broadens": "solves more",
    "undecided": "not decided",
    "none": "no rise shown",
    "few": "no verdict",
    "unknown": "not known",
}


# --- whether it is one


def view_of(asked: str | None, by: Sequence[str], runs: Sequence[Run]) -> str:
    """The view: the one asked for; else the family where at least LEAST methods of conf/method are what is compared.

    Raises InputError for a family that is asked for of runs that are none.
    """
    methods = {run.method for run in runs}
    if asked == "family" and not by:
        if unnamed := [run.name for run in runs if run.method is None]:
            raise InputError(f"--view family: {unnamed[0]} does not say what its method is called. Name the key: --by.")
        if len(methods) < 2:
            raise InputError(f"--view family: the runs are of one method ({methods.pop()}). Name what differs: --by.")
    if asked:
        return asked
    if None in methods or len(methods & {*OF_CHOICE.values()}) < LEAST:
        return "pairs"
    if by:
        return "family" if METHOD in by else "pairs"
    own = ([run for run in runs if run.method == method] for method in methods)
    alike = all(below(key, NAMES) for some in own for key in differing(some))
    return "family" if alike else "pairs"


# --- rows


def family(comparison: Comparison, window: Window, target: float | None = None, level: float = 0.95) -> Family:
    """Of each arm a row and its change since before the first step. target: GOAL by default."""
    goal = GOAL if target is None else target
    titled = {one.key: one for one in choose(comparison, (), goal)[0]}
    chosen = [titled[key] for key in (*FIGURES, "tokens_to") if key in titled]
    found: Values = values(comparison, chosen, window, goal)
    for arm in comparison.arms:
        found[arm.name][SECONDS.key] = {seed: spent.in_all(spent.TIME, run) for seed, run in arm.runs.items()}
    # behind the memory, and before the way to the target
    place = sum(one.key != "tokens_to" for one in chosen)
    measures = (*chosen[:place], SECONDS, *chosen[place:])
    rows = tuple(_row(arm, name, measures, found, level) for name, arm in _named(comparison).items())
    changes = tuple(change(row, comparison, found, level) for row in rows)
    return Family(measures, rows, changes, goal, level, found, tuple(sharpening(changes)))


def _named(comparison: Comparison) -> dict[str, Arm]:
    """The arms by choice of conf/method, in the order of OF_CHOICE, where that tells them apart; else by label."""
    by_choice = {name: arm for arm in comparison.arms if (name := choice(arm)) is not None}
    by_label = {arm.label: arm for arm in comparison.arms if choice(arm) is None}
    if len(by_choice | by_label) < len(comparison.arms):
        return {arm.label: arm for arm in comparison.arms}
    return {name: by_choice[name] for name in OF_CHOICE if name in by_choice} | by_label


def _row(arm: Arm, name: str, measures: Sequence[Measure], found: Values, level: float) -> Row:
    own = found[arm.name]
    estimates = {one.key: made for one in measures if (made := estimate(one, own[one.key].values(), level)) is not None}
    with_any = tuple(seed for seed in arm.runs if any(by.get(seed) is not None for by in own.values()))
    evaluated = [run for run in arm.runs.values() if run.finished and any(key in run.series for key in spent.EVALUATED)]
    return Row(arm, name, with_any or tuple(arm.runs), estimates, len(evaluated))


def estimate(measure: Measure, of: Iterable[float | None], level: float) -> Estimate | None:
    """The mean over seeds with Student's interval; None of no value."""
    known_S = np.array([value for value in of if value is not None and np.isfinite(value)], dtype=float) * measure.scale
    if not known_S.size:
        return None
    low, high = interval(known_S, level) or (None, None)
    return Estimate(float(known_S.mean()), low, high, known_S.size)


# --- who only sharpens


def change(row: Row, comparison: Comparison, found: Values, level: float) -> Change:
    """The method's runs at the end against themselves before step 0, in maj@k and pass@k; corrected for both."""
    arm = row.arm
    before = replace(arm, name=f"{arm.name} before step 0", label="before step 0")
    runs = runs_of(comparison)
    keys = {key: source_of(key, runs).keys for key in OF_MOST}
    chosen = {one.key: one for one in choose(comparison)[0] if one.key in OF_MOST}
    k = {one[0].rpartition("@")[2] for one in keys.values() if one}
    if len(chosen) < len(OF_MOST) or len(k) > 1:  # of unequal k they cannot be held together
        return Change(row, "unknown")
    paired = {
        before.name: {key: {seed: _first(run, keys[key][0]) for seed, run in arm.runs.items()} for key in chosen},
        arm.name: {key: found[arm.name][key] for key in chosen},
    }
    two = Comparison(comparison.title, comparison.by, (before, arm), comparison.shared)
    made = {one.measure.key: one for one in effects(two, [*chosen.values()], paired, [*chosen], level)}
    if len(made) < len(OF_MOST):
        return Change(row, "unknown")
    return Change(row, kind(made["maj@k"], made["pass@k"]), made["maj@k"], made["pass@k"])


def kind(majority: Effect, passed: Effect) -> str:
    """What the two changes come to. That a method only sharpens wants both: a rise of maj@k that is shown, and none of
    pass@k, by the test and by an interval that does not lie above 0.
    """
    if any(len(one.seeds) < needed(one) for one in (majority, passed)):
        return "few"
    if shown(passed) > 0:
        return "broadens"
    if shown(majority) <= 0:
        return "none"
    above = passed.mean > 0 if passed.low is None else passed.low > 0
    return "undecided" if above else "sharpens"


def _first(run: Run, key: str) -> float | None:
    """Before step 0."""
    series = run.series.get(key)
    known = series is not None and series.steps_N.size and series.steps_N[0] == 0
    return float(series.values_N[0]) if series is not None and known else None


def sharpening(changes: Sequence[Change]) -> list[str]:
    """Who only sharpens, in words, each with both intervals; or that nobody was shown to."""
    by_kind = {name: [one for one in changes if one.kind == name] for name in KINDS}
    said = [_sharpens(one) for one in by_kind["sharpens"]]
    judged = len(changes) - len(by_kind["few"]) - len(by_kind["unknown"])
    if not said and judged:
        known = next(one for one in changes if one.majority is not None and one.passed is not None)
        assert known.majority is not None and known.passed is not None
        k, of = known.majority.measure.subject, known.passed.measure.subject
        said.append(
            f"Of no method is it shown that it only sharpens ({k} up and {of} not), of {judged} that were judged."
        )
    if few := by_kind["few"]:
        least = max(needed(effect) for one in few for effect in (one.majority, one.passed) if effect is not None)
        names = ", ".join(one.row.name for one in few)
        said.append(f"Who only sharpens: no verdict on {names} (it needs {least} seeds for two measures).")
    if unknown := by_kind["unknown"]:
        names = ", ".join(one.row.name for one in unknown)
        said.append(f"Who only sharpens: not known of {names}, without maj@k and pass@k before step 0 and at the end.")
    if judged > 1:
        percent = 100 * (1 - next(one.majority.level for one in changes if one.majority is not None))
        said.append(
            f"Each method is held against itself before step 0, with a chance of {percent:g} % of a false "
            f'"shown" of its own; over {judged} of them it can reach {min(100.0, judged * percent):g} %.'
        )
    return said


def _sharpens(one: Change) -> str:
    assert one.majority is not None and one.passed is not None
    up = f"{one.majority.measure.subject} {in_words(one.majority)}"
    no = f"{one.passed.measure.subject} {signed(one.passed)}, no rise shown"
    unseen = ""
    if one.passed.detectable is not None and shown(one.passed) == 0:
        unseen = f"; rises under {number(one.passed.detectable, 1)} points could not have been seen"
    seeds = len(one.passed.seeds)
    return f"{one.row.name} only sharpens, against itself before step 0 ({seeds} seeds): {up}; {no}{unseen}."
