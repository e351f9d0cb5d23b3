"""The tables of the page: arms, differences, runs, and what was set."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...validate import shown as typed
from ...validate import shown_key
from .. import stats
from ..arms import NAMES
from ..effects import needed, shown
from ..table import counted, difference, fewer, seeds, tests
from ..types import Analysis, Arm, Comparison, Effect, Measure, Run
from ..verdict import digits_of, number
from ..window import made
from .figures.forest import baseline_spread
from .markup import Cell, table
from .stated import primary, valued

LEVEL = 0.95  # of an arm's own interval where no effect says which


def level_of(analysis: Analysis) -> float:
    """Of all intervals on the page."""
    return analysis.effects[0].level if analysis.effects else LEVEL


def arms(analysis: Analysis) -> str:
    """A row an arm: its seeds, and the primary measures with intervals over seeds."""
    chosen = primary(analysis)
    rows = []
    for place, arm in enumerate(analysis.comparison.arms):
        label = f"{arm.label} (baseline)" if not place and len(analysis.comparison.arms) > 1 else arm.label
        own = counted(analysis, arm, chosen)
        cells = [interval(analysis, arm, measure, len(own)) for measure in chosen]
        rows.append([Cell(label, strong=True), Cell(f"{len(own)} ({seeds(own)})", len(own)), *cells])
    head = ["arm", "seeds", *(titled(one) for one in chosen)]
    return table("arms", f"Mean {_of_interval(analysis)}", head, rows)


def measures(analysis: Analysis) -> str:
    """A row a measure that some run has, a column an arm."""
    own = analysis.comparison.arms
    stated = {one.key for one in primary(analysis)} if analysis.effects else set()
    rows = [
        [Cell(titled(one), strong=one.key in stated), *(interval(analysis, arm, one) for arm in own)]
        for one in valued(analysis)
    ]
    single = len(own) == 1 and len(own[0].runs) == 1
    head = ["measure", *(["value"] if single else [arm.label for arm in own])]
    # not to be sorted: its columns hold points, nats and seconds
    return table(
        "measures", "In the window" if single else f"Mean {_of_interval(analysis)}", head, rows, sortable=False
    )


def effects(analysis: Analysis) -> str:
    """A row an arm and measure: difference, interval, p, corrected p, what could have been seen, pairs, result."""
    several = len(analysis.comparison.arms) > 2
    rows = []
    for effect in analysis.effects:
        name = Cell(titled(effect.measure), strong=effect.primary)
        p, p_holm = (Cell(text, value) for text, value in zip(tests(effect), (effect.p, effect.p_holm), strict=True))
        unseen = effect.detectable
        seen = Cell("-")
        if unseen is not None:
            seen = Cell(number(unseen, digits_of(effect)), _comparable(analysis, effect, unseen), figure=True)
        rows.append(
            [
                *([Cell(effect.arm.label)] if several else []),
                name,
                Cell(*_said(effect)),
                Cell(difference(effect), _comparable(analysis, effect, effect.mean), figure=True),
                p,
                p_holm,
                seen,
                Cell(str(len(effect.seeds)), len(effect.seeds)),
            ]
        )
    level = f"{100 * level_of(analysis):g} %"
    head = ["measure", "shown", f"difference [{level}]", "p", "p (Holm)", "seen from", "pairs"]
    baseline = analysis.comparison.baseline.label
    caption = f"arm minus {baseline}" if several else f"{analysis.comparison.arms[1].label} minus {baseline}"
    caption = f"{caption[0].upper()}{caption[1:]}. Differences are sorted in SDs of the baseline's runs"
    return table("effects", caption, ["arm", *head] if several else head, rows)


def _comparable(analysis: Analysis, effect: Effect, value: float) -> float | None:
    """A value in standard deviations of the baseline's runs, as points and seconds can be sorted; None without any."""
    spread = baseline_spread(analysis, effect)
    return None if spread is None else value / spread


def _said(effect: Effect) -> tuple[str, float]:
    """What follows from the effect, and its rank: shown ones first."""
    if len(effect.seeds) < needed(effect):
        return f"needs {needed(effect)} pairs", 2.0
    sign = shown(effect)
    return (effect.measure.words[0 if sign > 0 else 1], 0.0) if sign else ("not shown", 1.0)


def runs(analysis: Analysis) -> str:
    """A row a run: arm, seed, steps, its primary values, commit."""
    chosen = primary(analysis)
    rows = []
    for arm in analysis.comparison.arms:
        for seed, run in arm.runs.items():
            done = f"{made(run)}" if run.finished else f"{made(run)} of {run.steps or '?'}"
            rows.append(
                [
                    Cell(run.name),
                    Cell(arm.label),
                    Cell(str(seed), seed),
                    Cell(done, made(run)),
                    *(_value(one, analysis.values[arm.name][one.key].get(seed)) for one in chosen),
                    Cell((run.commit or "-")[:8] + ("+" if (run.commit or "").endswith("+") else "")),
                ]
            )
    head = ["run", "arm", "seed", "steps", *(titled(one) for one in chosen), "commit"]
    return table("runs", "Values in the window", head, rows)


def settings(comparison: Comparison) -> str:
    """The settings that are not the same in all arms, a column an arm."""
    rows = []
    own = [list(arm.runs.values()) for arm in comparison.arms]
    keys = dict.fromkeys(key for runs in own for run in runs for key in run.settings)
    for key in keys:
        if key.partition(".")[0] in NAMES or key in NAMES:
            continue
        values = [_setting(runs, key) for runs in own]
        if len({value for some in values for value in some}) > 1:
            rows.append([Cell(shown_key(key)), *(Cell(" or ".join(some)) for some in values)])
    if not rows:
        return ""
    return table("differ", "Settings that differ", ["setting", *(arm.label for arm in comparison.arms)], rows)


def shared(comparison: Comparison) -> str:
    """All settings that the runs have in common."""
    rows = [[Cell(shown_key(key)), Cell(_typed(value))] for key, value in comparison.shared.items()]
    return table("shared", "Settings that all runs share", ["setting", "value"], rows) if rows else ""


def _setting(runs: Iterable[Run], key: str) -> tuple[str, ...]:
    """The distinct values, as they are typed."""
    return tuple(dict.fromkeys(_typed(run.settings[key]) if key in run.settings else "not set" for run in runs))


def _typed(value: object) -> str:
    return typed(list(value)) if isinstance(value, tuple) else typed(value)


# --- one value


def interval(analysis: Analysis, arm: Arm, measure: Measure, of: int | None = None) -> Cell:
    """`61.2 [59.8, 62.6]`: the mean over seeds with Student's interval; the value alone of one seed.

    of: seeds that the row or column names, by default all of the arm's; a mean over fewer says so.
    """
    found = analysis.values[arm.name][measure.key].values()
    known_S = np.array([one for one in found if one is not None], dtype=float) * measure.scale
    known_S = known_S[np.isfinite(known_S)]
    if not known_S.size:
        return Cell("-")
    mean = float(known_S.mean())
    count = fewer(known_S.size, len(arm.runs) if of is None else of)
    if known_S.size < 2 or bool(stats.flat(known_S)):
        return Cell(number(mean, measure.digits) + count, mean)
    low, high = (number(float(end), measure.digits) for end in stats.student_t(known_S, level_of(analysis)))
    return Cell(f"{number(mean, measure.digits)} [{low}, {high}]{count}", mean)


def _value(measure: Measure, value: float | None) -> Cell:
    if value is None:
        return Cell("-")
    return Cell(number(value * measure.scale, measure.digits), value * measure.scale)


def titled(measure: Measure) -> str:
    """`length of wrong answers (tokens)`."""
    return f"{measure.title} ({measure.unit})" if measure.unit else measure.title


def _of_interval(analysis: Analysis) -> str:
    return f"[{100 * level_of(analysis):g} % interval over seeds]"
