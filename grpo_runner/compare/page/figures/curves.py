"""Figures over the steps: learning curves of each arm, and paired differences from the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from ...measures import MEASURES, source_of
from ...types import Analysis, Measure
from . import points, theme
from .theme import Spec

FLATTEN = [{"flatten": ["x", "y", "lo", "hi", "n"]}]
ZERO: Spec = {}  # in place of a figure that would be a line at 0
LIMITS = {"points": (0.0, 100.0), "tokens": (0.0, inf)}  # of a measure's values, by its unit
MARKED = 40  # points of a line up to which each is marked


def curve(analysis: Analysis, key: str) -> Spec | None:
    """A measure over the steps by arm; None where no run logged it, ZERO where it was 0 throughout."""
    measure, series = measure_of(analysis, key), series_key(analysis, key)
    if series is None:
        return None
    width, level = points.width_of(analysis.comparison), theme.level(analysis)
    means, seeds = [], []
    for arm in analysis.comparison.arms:
        by_seed = points.lines(arm, series, width, measure.scale)
        if by_seed:
            means.append(points.mean_row(arm.label, by_seed, level, LIMITS.get(measure.unit)))
            seeds += points.seed_rows(arm.label, by_seed)
    if not means:
        return None
    return ZERO if _all_zero(seeds) else drawn(analysis, means, seeds, theme.titled(measure), measure)


def difference(analysis: Analysis, key: str) -> Spec | None:
    """Arm minus baseline of the same seed over the steps; None where there is no pair, ZERO where all are equal."""
    measure, series = measure_of(analysis, key), series_key(analysis, key)
    if series is None or len(analysis.comparison.arms) < 2:
        return None
    width, level = points.width_of(analysis.comparison), theme.level(analysis)
    base = analysis.comparison.baseline
    other = points.lines(base, series, width, measure.scale)
    means, seeds = [], []
    for arm in analysis.comparison.arms[1:]:
        by_seed = points.differences(points.lines(arm, series, width, measure.scale), other)
        if by_seed:
            means.append(points.mean_row(arm.label, by_seed, level))
            seeds += points.seed_rows(arm.label, by_seed)
    if not means:
        return None
    if _all_zero(seeds):
        return ZERO
    title = f"difference ({measure.unit})" if measure.unit else "difference"  # of what: the figure's own title
    return drawn(analysis, means, seeds, title, measure, zero=True)


def lengths(analysis: Analysis) -> Spec | None:
    """Lengths of right and of wrong answers in one figure; None where either is nowhere."""
    keys = {kind: series_key(analysis, f"length/{kind}") for kind in ("right", "wrong")}
    width, level = points.width_of(analysis.comparison), theme.level(analysis)
    means = [
        points.mean_row(arm.label, by_seed, level, LIMITS["tokens"], kind=f"{kind} answers")
        for arm in analysis.comparison.arms
        for kind, series in keys.items()
        if series is not None and (by_seed := points.lines(arm, series, width))
    ]
    if len({row["kind"] for row in means}) < 2:
        return None
    kinds = {"right answers": "circle", "wrong answers": "triangle-up"}
    measure = MEASURES["length/right"]
    return drawn(analysis, means, [], "mean length (tokens)", measure, kinds=kinds)


def measure_of(analysis: Analysis, key: str) -> Measure:
    """As the analysis calls it, else as the catalogue does."""
    return next((one for one in analysis.measures if one.key == key), MEASURES.get(key) or Measure(key, key, key, ""))


def series_key(analysis: Analysis, key: str) -> str | None:
    """The series that the measure's values are taken from; None where there is none."""
    runs = [run for arm in analysis.comparison.arms for run in arm.runs.values()]
    source = source_of(key, runs)
    there = [one for one in source.keys if any(one in run.series for run in runs)]
    return there[0] if there else None


def _all_zero(seeds: Sequence[Mapping[str, Any]]) -> bool:
    return not any(value for row in seeds for value in row["y"])


# --- the spec


def drawn(
    analysis: Analysis,
    means: Sequence[Mapping[str, Any]],
    seeds: Sequence[Mapping[str, Any]],
    title: str,
    measure: Measure,
    zero: bool = False,
    kinds: Mapping[str, str] | None = None,
) -> Spec:
    """Bands, thin lines of the seeds (where an arm has several), the means, and what a pointer finds.

    kinds: of the rows' field `kind` the shape of its marks. zero: a line at 0.
    """
    names = theme.labels(analysis)
    shown = [name for name in names if any(row["arm"] == name for row in means)]
    by = {"color": theme.colour(names, shown), "strokeDash": theme.dash(names, shown)}
    x, y = theme.x_axis("x", "step"), theme.y_axis("y", title)
    y["scale"] |= _room(means, seeds)
    detail = [{"field": "kind", "type": "nominal"}] if kinds else []
    layers: list[Spec] = []
    if analysis.bounds is not None:
        layers.append(_window(analysis.bounds))
    if zero:
        rule = {"type": "rule", "color": theme.GREY, "strokeWidth": 1.2}
        layers.append({"data": {"values": [{"y": 0}]}, "mark": rule, "encoding": {"y": y}})
    if max((sum(row["arm"] == name for row in seeds) for name in shown), default=0) > 1:
        layers.append(_seeds(seeds, x, y, by))
    if banded := any(low is not None for row in means for low in row["lo"]):
        ends: Spec = {"x": x, "y": y | {"field": "lo"}, "y2": {"field": "hi"}}
        band: Spec = {"mark": {"type": "area"}, "transform": [{"filter": "isValid(datum.lo)"}]}
        band |= {
            "encoding": {
                **ends,
                "color": by["color"],
                "opacity": theme.if_picked(0.18 if len(shown) < 3 else 0.1, 0.03),
                "detail": detail,
            }
        }
        layers.append(band)
    if single := _alone(means):
        mark = {"type": "rule", "strokeWidth": 1.6}
        by_y = {"y": y | {"field": "lo"}, "y2": {"field": "hi"}}
        bar = {"x": x, "color": by["color"], **by_y, "opacity": theme.if_picked(0.7, 0.03)}
        layers.append({"data": {"values": single}, "mark": mark, "encoding": bar})
    opacity = theme.if_picked(1.0, 0.12)
    line = {"mark": {"type": "line", "strokeWidth": 2.4}, "params": theme.picking()}
    layers.append(line | {"encoding": {"x": x, "y": y, **by, "opacity": opacity, "detail": detail}})
    layers += _marks(means, x, y, by["color"], _told(title, measure, banded, bool(kinds)), kinds)
    return theme.spec(layers, data={"values": [*means]}, transform=FLATTEN)


def _alone(means: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The intervals that have none beside them, so that no band would show them: bars."""
    found = []
    for row in means:
        there = [low is not None for low in (None, *row["lo"], None)]
        for place, (x, low, high) in enumerate(zip(row["x"], row["lo"], row["hi"], strict=True), 1):
            if low is not None and not there[place - 1] and not there[place + 1]:
                found.append({"arm": row["arm"], "x": x, "lo": low, "hi": high})
    return found


def _room(means: Sequence[Mapping[str, Any]], seeds: Sequence[Mapping[str, Any]]) -> Spec:
    """Of values that are all the same, ends of the axis around them: with one value Vega rounds its only label."""
    values = {
        value
        for row in (*means, *seeds)
        for key in ("y", "lo", "hi")
        for value in row.get(key, ())
        if value is not None
    }
    if len(values) != 1 or not (value := values.pop()):
        return {}
    return {"domain": sorted((theme.short(0.9 * value), theme.short(1.1 * value)))}


def _window(bounds: tuple[int, int]) -> Spec:
    """The final window, shaded."""
    values = [{"x": bounds[0], "x2": bounds[1] - 1}]
    shade = {"type": "rect", "color": theme.GREY, "opacity": 0.1}
    return {
        "data": {"values": values},
        "mark": shade,
        "encoding": {"x": theme.x_axis("x", "step"), "x2": {"field": "x2"}},
    }


def _seeds(seeds: Sequence[Mapping[str, Any]], x: Spec, y: Spec, by: Mapping[str, Spec]) -> Spec:
    return {
        "data": {"values": [*seeds]},
        "transform": [{"flatten": ["x", "y"]}],
        "mark": {"type": "line", "strokeWidth": 1},
        "encoding": {
            "x": x,
            "y": y,
            "color": by["color"],
            "detail": {"field": "seed", "type": "nominal"},
            "opacity": theme.if_picked(0.5),
            "tooltip": theme.tell(("arm", "arm", None), ("seed", "seed", None)),
        },
    }


def _told(title: str, measure: Measure, banded: bool, kinds: bool) -> list[Spec]:
    form = theme.digits(measure)
    fields: list[tuple[str, str, str | None]] = [("arm", "arm", None)]
    fields += [("kind", "of", None)] if kinds else []
    fields += [("x", "step", ",.6~g"), ("y", title, form)]
    fields += [("lo", "interval from", form), ("hi", "interval to", form), ("n", "seeds", "d")] if banded else []
    return theme.tell(*fields)


def _marks(
    means: Sequence[Mapping[str, Any]],
    x: Spec,
    y: Spec,
    colour: Spec,
    told: Sequence[Spec],
    kinds: Mapping[str, str] | None,
) -> list[Spec]:
    """Points of the means: seen where they are few, always found by a pointer. With kinds, about ten have a shape."""
    most = max(len(row["x"]) for row in means)
    found: Spec = {"x": x, "y": y, "color": colour, "tooltip": [*told]}
    if kinds:
        every = max(1, -(-most // 10))
        shape = {"domain": [*kinds], "range": [*kinds.values()]}
        legend = {
            "orient": "top",
            "title": None,
            "columns": 2,
            "symbolFillColor": theme.GREY,
            "symbolStrokeColor": theme.GREY,
            "symbolSize": 110,
        }
        encoding = found | {"shape": {"field": "kind", "type": "nominal", "scale": shape, "legend": legend}}
        row_number = [{"window": [{"op": "row_number", "as": "place"}], "groupby": ["arm", "kind"]}]
        thinned = {"transform": [*row_number, {"filter": f"datum.place % {every} == 1 % {every}"}]}
        seen = {"mark": {"type": "point", "filled": True, "size": 80}}
        return [_felt(found), thinned | seen | {"encoding": encoding | {"opacity": theme.if_picked(1.0, 0.12)}}]
    if most <= MARKED:
        mark = {"type": "point", "filled": True, "size": 45}
        return [{"mark": mark, "encoding": found | {"opacity": theme.if_picked(1.0, 0.12)}}]
    return [_felt(found)]


def _felt(encoding: Spec) -> Spec:
    """Marks that are not seen, for the pointer."""
    return {"mark": {"type": "point", "filled": True, "size": 140, "opacity": 0}, "encoding": encoding}
