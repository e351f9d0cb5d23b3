"""A comparison in the terminal: the verdict, the arms, the differences, and what there is to be said against it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from rich.console import Console
from rich.text import Text

from ..lessons.show import fits, one_line, put, table
from .types import Analysis, Arm, Effect, Measure
from .verdict import digits_of, number, p_value

MOST_SEEDS = 8


def show(console: Console, analysis: Analysis) -> None:
    """Print it. Readable at 80 columns."""
    comparison = analysis.comparison
    console.print(Text.assemble((one_line(comparison.title), "bold"), f"  {_counted(analysis)}"), soft_wrap=True)
    for sentence in analysis.family.said if analysis.family else analysis.verdict:
        console.print(Text(one_line(sentence)))
    for warning in comparison.warnings:
        console.print(Text.assemble(("warning: ", "bold yellow"), one_line(warning)))
    console.print()
    if analysis.family is not None:
        from .family_table import show as show_family

        show_family(console, analysis, analysis.family)
        return
    _arms(console, analysis)
    for arm in comparison.arms[1:]:
        own = [effect for effect in analysis.effects if effect.arm.name == arm.name]
        if own:
            console.print()
            _differences(console, analysis, own)
    _foot(console, analysis)


def _counted(analysis: Analysis) -> str:
    arms = analysis.comparison.arms
    runs = sum(len(arm.runs) for arm in arms)
    of = f"{runs} run{'s' * (runs > 1)}" + (f", {len(arms)} arms" if len(arms) > 1 else "")
    return f"{of}; {analysis.window}"


def _arms(console: Console, analysis: Analysis) -> None:
    """The arms below each other with their primary measures; a single arm with all of them."""
    arms = analysis.comparison.arms
    if len(arms) == 1:
        made = table("measure", *_one_arm(arms[0]))
        for measure in analysis.measures:
            values = analysis.values[arms[0].name][measure.key]
            if any(value is not None for value in values.values()):
                made.add_row(measure.title, *_cells(measure, list(values.values())))
        put(console, made)
        return
    keys = dict.fromkeys(effect.measure.key for effect in analysis.effects if effect.primary)
    chosen = [measure for measure in analysis.measures if measure.key in keys] or list(analysis.measures[:2])
    made = table("arm", "seeds", *(measure.title for measure in chosen))
    for place, arm in enumerate(arms):
        name = Text(one_line(arm.label)) + Text("  baseline" if not place else "", style="dim")
        own = counted(analysis, arm, chosen)
        found = analysis.values[arm.name]
        cells = [mean_and_spread(measure, found[measure.key].values(), len(own)) for measure in chosen]
        made.add_row(name, seeds(own), *cells)
    put(console, made)
    for arm in arms:
        if arm.label != arm.name:
            console.print(Text(f"{arm.label}: {one_line(arm.name)}", style="dim"))


def _one_arm(arm: Arm) -> list[str]:
    return ["value"] if len(arm.runs) == 1 else ["mean", "SD over seeds"]


def _cells(measure: Measure, values: Sequence[float | None]) -> list[str]:
    known = np.array([value for value in values if value is not None]) * measure.scale
    mean = f"{number(float(known.mean()), measure.digits)}{_unit(measure)}"
    if len(values) == 1:
        return [mean]
    mean += fewer(known.size, len(values))
    return [mean, number(float(known.std(ddof=1)), measure.digits) if known.size > 1 else "-"]


def _differences(console: Console, analysis: Analysis, effects: Sequence[Effect]) -> None:
    first = effects[0]
    pairs = max(len(effect.seeds) for effect in effects)
    head = f"{first.arm.label} minus {first.baseline.label}, {pairs} pair{'s' * (pairs > 1)}"
    console.print(Text(one_line(head), style="bold"))
    names = ["measure", "baseline", "arm", f"difference [{100 * first.level:g} %]", "p", "p Holm", "seen from"]
    rows = [_row(analysis, effect, pairs) for effect in effects]
    for left_out in (None, "p"):  # where there is no room for both, the corrected one stays
        kept = [place for place, name in enumerate(names) if name != left_out]
        made = table(*(names[place] for place in kept))
        for row in rows:
            made.add_row(*(row[place] for place in kept))
        if fits(console, made):
            break
    put(console, made)


def _row(analysis: Analysis, effect: Effect, pairs: int) -> list[Text | str]:
    """The cells of one measure, in the order of the names above; it is named as --metric takes it."""
    measure, digits = effect.measure, digits_of(effect)
    means = [number(_mean_of(analysis, arm, measure, effect.seeds), digits) for arm in (effect.baseline, effect.arm)]
    fewer = "" if len(effect.seeds) == pairs else f" ({len(effect.seeds)} pairs)"
    style = "bold" if effect.primary else ""
    seen = "-" if effect.detectable is None else number(effect.detectable, digits)
    return [Text(f"{measure.key}{fewer}{_unit(measure)}", style), *means, difference(effect), *tests(effect), seen]


def _mean_of(analysis: Analysis, arm: Arm, measure: Measure, own: Sequence[int]) -> float:
    values = analysis.values[arm.name][measure.key]
    return float(np.mean([values[seed] for seed in own])) * measure.scale


def _foot(console: Console, analysis: Analysis) -> None:
    if analysis.effects:
        console.print()
        console.print(Text(method(analysis, bold=False), style="dim"))


def method(analysis: Analysis, bold: bool = True) -> str:
    """What the columns of the differences are, in words; for analyses with effects. bold: whether print can be."""
    some = analysis.effects[0]
    stated = list(dict.fromkeys(effect.measure.key for effect in analysis.effects if effect.primary))
    first = "Bold: stated beforehand" if bold else f"Stated beforehand: {', '.join(stated)}"
    return (
        f"{first if stated else 'Nothing was stated beforehand'}. "
        f"Interval: {METHODS.get(some.method, some.method)} over seeds. "
        "p: exact sign-flip test, two-sided, after Holm's correction over the measures stated, and apart from them "
        "over the others. Seen from: the smallest true difference that these seeds would show with a chance of "
        f"{100 * some.power:.0f} %."
    )


METHODS = {"student_t": "Student's t", "bootstrap_t": "bootstrap-t"}


# --- figures as text, also for export.py


def difference(effect: Effect) -> str:
    """`+3.1 [+0.4, +5.8]`; the mean alone where there is no interval."""
    digits = digits_of(effect)
    ends = [] if effect.low is None or effect.high is None else [effect.low, effect.high]
    mean, *shown = (_signed(value, digits) for value in (effect.mean, *ends))
    return f"{mean} [{', '.join(shown)}]" if shown else mean


def _signed(value: float, digits: int) -> str:
    text = number(value, digits)
    return f"+{text}" if value > 0 and any(digit in text for digit in "123456789") else text


def tests(effect: Effect) -> tuple[str, str]:
    """p and p after Holm's correction."""
    one, two = ("-" if p is None else p_value(p) for p in (effect.p, effect.p_holm))
    return one, two


def mean_and_spread(measure: Measure, values: Iterable[float | None], of: int = 0) -> str:
    """61.2 ± 1.4 points: the mean and the standard deviation over seeds; with their number where it is under `of`."""
    known = np.array([value for value in values if value is not None], dtype=float) * measure.scale
    if not known.size:
        return "-"
    spread = f" ± {number(float(known.std(ddof=1)), measure.digits)}" if known.size > 1 else ""
    return f"{number(float(known.mean()), measure.digits)}{spread}{_unit(measure)}{fewer(known.size, of)}"


def fewer(count: int, of: int) -> str:
    """` (n 5)` of a mean over fewer seeds than the row names."""
    return f" (n {count})" if 0 < count < of else ""


def counted(analysis: Analysis, arm: Arm, measures: Sequence[Measure]) -> list[int]:
    """The seeds that have a value of any of the measures; all where none has."""
    values = [analysis.values[arm.name][measure.key] for measure in measures]
    return [seed for seed in arm.runs if any(by.get(seed) is not None for by in values)] or [*arm.runs]


def seeds(of: Iterable[int]) -> str:
    """`0 to 5`, or those that there are."""
    own = sorted(of)
    if len(own) > 2 and own == list(range(own[0], own[-1] + 1)):
        return f"{own[0]} to {own[-1]}"
    return ", ".join(map(str, own)) if len(own) <= MOST_SEEDS else f"{len(own)}, {own[0]} to {own[-1]}"


def _unit(measure: Measure) -> str:
    return f" {measure.unit}" if measure.unit else ""
