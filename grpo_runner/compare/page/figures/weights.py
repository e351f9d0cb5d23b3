"""Figures of what questions weigh: against their success rate, with the theory, and over the run by difficulty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....later import LATER
from ....objectives import NAMED
from ....schema import AdvantageConfig
from ....tracking.charts.weights import advantage_weight_theory
from ...types import Analysis, Arm, Measure
from . import curves, groups, points, theme
from .groups import CLASSES, Groups
from .points import Line
from .theme import Spec

GRID = 101  # points of a curve
THEORIES = {"grpo": ("group_std", "2G·√(p(1−p))", [6, 3]), "dr_grpo": ("none", "2G·p(1−p)", [2, 2])}
MIDDLE = (0.1, 0.9)  # quantiles between which a bar goes


def by_success(analysis: Analysis) -> Spec | None:
    """Σ|A| against the success rate, over the group size, with the closed forms; None where no run recorded it."""
    found = groups.by_arm(analysis)
    if not found:
        return None
    sizes = {float(size) for own in found.values() for size in np.unique(own.size_R)}
    size = sizes.pop() if len(sizes) == 1 else None
    rows = [
        row for label, own in found.items() for row in _places(label, own, own.before_R / (1 if size else own.size_R))
    ]
    title = "advantage weight Σ|A|" if size else "advantage weight Σ|A| / G"
    curve_rows = _closed_forms(int(size or 1)) if all(own.binary for own in found.values()) else []
    return _against(analysis, rows, title, curve_rows)


def after_norm(analysis: Analysis) -> Spec | None:
    """Σ|token weights| against the success rate, over the arm's mean, each with its theory at the arm's lengths."""
    found = groups.by_arm(analysis)
    found = {label: own for label, own in found.items() if own.after_R.sum() > 0}
    if not found:
        return None
    rows, curve_rows = [], []
    for arm in analysis.comparison.arms:
        if (own := found.get(arm.label)) is not None:
            rows += _places(arm.label, own, own.after_R / own.after_R.mean())
            curve_rows += _expected(arm, own)
    return _against(analysis, rows, "weight, over the arm's mean", curve_rows, by_arm=True)


def cumulative(analysis: Analysis) -> Spec | None:
    """The share of hard, medium and easy questions in all weight so far, over the steps."""
    width, level = points.width_of(analysis.comparison), theme.level(analysis)
    means = []
    for arm in analysis.comparison.arms:
        shares = {seed: _shares(own, width) for seed, own in groups.by_seed(arm).items()}
        for kind, rule in CLASSES.items():
            lines = {seed: share[kind] for seed, share in shares.items() if share[kind]}
            if lines:
                means.append(points.mean_row(arm.label, lines, level, (0.0, 100.0), kind=f"{kind} ({rule})"))
    if not means:
        return None
    shapes = ("triangle-up", "square", "circle")
    kinds = {f"{kind} ({rule})": shape for (kind, rule), shape in zip(CLASSES.items(), shapes, strict=True)}
    measure = Measure("weight", "weight", "weight", "points", digits=0)
    return curves.drawn(analysis, means, [], "share of the weight so far (%)", measure, kinds=kinds)


# --- against the success rate


def _places(label: str, own: Groups, weight_R: np.ndarray) -> list[dict[str, Any]]:
    """A row a success rate: mean weight, the quantiles of MIDDLE, and how many groups there were."""
    rate_R = np.round(own.right_R / own.size_R, 6)
    rows = []
    for rate in np.unique(rate_R):
        there = weight_R[rate_R == rate]
        low, high = np.quantile(there, MIDDLE)
        ends = {"y": theme.short(there.mean()), "lo": theme.short(low), "hi": theme.short(high)}
        rows.append({"arm": label, "p": theme.short(rate), **ends, "n": int(there.size)})
    return rows


def _closed_forms(size: int) -> list[dict[str, Any]]:
    """Points of GRPO's and Dr. GRPO's advantage weight for 0/1 rewards."""
    p = np.linspace(0, 1, GRID)
    rows = []
    for name, (scale, formula, _) in THEORIES.items():
        advantage = AdvantageConfig(credit="outcome", baseline="group_mean", scale=scale, ddof=0, eps=0.0)
        curve = advantage_weight_theory(p, advantage, size)
        assert curve is not None
        rows.append(_curve_row(f"{NAMED[name].label}: {formula}", p, curve))
    return rows


def _expected(arm: Arm, own: Groups) -> list[dict[str, Any]]:
    """The arm's own advantage theory times its median of weight / advantage weight: exact under 1/|o|."""
    advantage = advantage_of(arm)
    weighed = own.before_R > 0
    if advantage is None or not own.binary or np.unique(own.size_R).size > 1 or not weighed.any():
        return []
    p = np.linspace(0, 1, GRID)
    curve = advantage_weight_theory(p, advantage, int(own.size_R[0]))
    if curve is None:
        return []
    ratio = float(np.median(own.after_R[weighed] / own.before_R[weighed]))
    return [_curve_row(arm.label, p, curve * ratio / own.after_R.mean())]


def advantage_of(arm: Arm) -> AdvantageConfig | None:
    """From the settings of a run of ours; None of others', and where an answer's weight is not of its reward alone."""
    settings = next(iter(arm.runs.values())).settings
    keys = ("baseline", "scale", "ddof", "eps")
    credit = settings.get("advantage.credit", LATER["advantage.credit"])
    if credit != "outcome" or any(f"advantage.{key}" not in settings for key in keys):
        return None
    if settings.get("samples.keep", "all") != "all" or settings.get("samples.source") == "solutions":
        return None
    return AdvantageConfig(credit, **{key: settings[f"advantage.{key}"] for key in keys})  # type: ignore[arg-type]


def _curve_row(label: str, p: np.ndarray, curve: np.ndarray) -> dict[str, Any]:
    return {"arm": label, "p": [theme.short(x) for x in p], "y": [theme.short(y) for y in curve]}


def _against(
    analysis: Analysis,
    rows: Sequence[Mapping[str, Any]],
    title: str,
    curve_rows: Sequence[Mapping[str, Any]],
    by_arm: bool = False,
) -> Spec:
    """by_arm: each arm has its own curve, in its colour; else the curves are grey, told apart by their dashes."""
    names = theme.labels(analysis)
    shown = [name for name in names if any(row["arm"] == name for row in rows)]
    x = theme.x_axis("p", "success rate p of a question at a step", domain=[-0.03, 1.03])
    y = theme.y_axis("y", title, zero=True)
    colour = theme.colour(names, shown, lines=False)
    layers: list[Spec] = []
    if curve_rows:
        layers.append(_curves(curve_rows, x, y, theme.colour(names, shown, lines=False) if by_arm else None))
    size = {"field": "n", "type": "quantitative", "scale": {"type": "sqrt", "range": [25, 260]}, "legend": None}
    told = theme.tell(
        ("arm", "arm", None), ("p", "success rate", ".3~f"), ("y", f"mean {title}", ",.4~g"),
        ("lo", f"{100 * MIDDLE[0]:g} % below", ",.4~g"), ("hi", f"{100 * (1 - MIDDLE[1]):g} % above", ",.4~g"),
        ("n", "groups", ",d"),
    )  # fmt: skip
    by = {"x": x, "color": colour, "opacity": theme.if_picked(0.9, 0.08)}
    bar = {"y": y | {"field": "lo"}, "y2": {"field": "hi"}}
    layers.append({"mark": {"type": "rule", "strokeWidth": 1.5}, "encoding": by | bar})
    # hollow: arms that weigh the same lie on one another
    dots = {"mark": {"type": "point", "filled": False, "strokeWidth": 2}, "params": theme.picking()}
    found = {"y": y, "size": size, "shape": theme.shape(names, shown), "tooltip": told}
    layers.append(dots | {"encoding": by | found})
    return theme.spec(layers, data={"values": [*rows]}, resolve={"scale": {"strokeDash": "independent"}})


def _curves(rows: Sequence[Mapping[str, Any]], x: Spec, y: Spec, colour: Spec | None) -> Spec:
    line: Spec = {"data": {"values": [*rows]}, "transform": [{"flatten": ["p", "y"]}]}
    if colour is not None:
        line |= {"mark": {"type": "line", "strokeWidth": 1.6}}
        return line | {"encoding": {"x": x, "y": y, "color": colour, "opacity": theme.if_picked(0.7)}}
    dashes = {"domain": [row["arm"] for row in rows], "range": [dash for *_, dash in THEORIES.values()]}
    legend = {
        "orient": "top",
        "title": None,
        "columns": 1,
        "symbolType": "stroke",
        "symbolStrokeColor": theme.GREY,
        "symbolSize": 220,
    }
    shape = {"field": "arm", "type": "nominal", "scale": dashes, "legend": legend}
    mark = {"type": "line", "strokeWidth": 1.6, "color": theme.GREY}
    return line | {"mark": mark, "encoding": {"x": x, "y": y, "strokeDash": shape}}


# --- over the run


def _shares(own: Groups, width: int) -> dict[str, Line]:
    """class -> {last step of a bin: % of the weight up to it}; without the bins before the first weight."""
    bin_R = (own.step_R // width).astype(int)
    which_R, count = own.class_R(), int(bin_R.max()) + 1
    sums = {kind: np.bincount(bin_R, own.after_R * (which_R == kind), minlength=count).cumsum() for kind in CLASSES}
    total = np.sum(list(sums.values()), axis=0)
    ends = np.minimum((np.arange(count) + 1) * width - 1, own.step_R.max())
    return {
        kind: {
            float(end): 100 * part / whole for end, part, whole in zip(ends, own_sum, total, strict=True) if whole > 0
        }
        for kind, own_sum in sums.items()
    }
