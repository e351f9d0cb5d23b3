"""The forest plot: the differences of all measures on one axis, each with its interval."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from ...effects import shown
from ...stats import flat
from ...table import difference
from ...types import Analysis, Effect
from ...verdict import p_value
from . import theme
from .theme import Spec

TITLE = ["difference, in SDs", "of the baseline's runs"]
ROW, ARM = 34, 24  # points of height: of a measure with one arm, of each arm beside others
NARROW = 320  # points of a plot under which figures beside the bars would be cut: a phone held upright
FAR = 5.0  # standard deviations from which on the axis is logarithmic


def forest(analysis: Analysis) -> Spec | None:
    """Each difference in standard deviations of the baseline's runs, one unit for all; None where there is none.

    A difference that is shown is filled, and a triangle; others are hollow, and circles. Measures that the tests were
    stated for are bold. Left out: measures in which the baseline's runs do not differ, or that have no interval.
    """
    rows = [row for effect in analysis.effects if (row := _row(analysis, effect)) is not None]
    return _spec(analysis, rows) if rows else None


def _row(analysis: Analysis, effect: Effect) -> dict[str, Any] | None:
    spread = baseline_spread(analysis, effect)
    if spread is None or effect.low is None or effect.high is None:
        return None
    ends = {"x": effect.mean, "lo": effect.low, "hi": effect.high}
    unit = f" {effect.measure.unit}" if effect.measure.unit else ""
    return {
        "measure": effect.measure.title,
        "arm": effect.arm.label,
        **{name: theme.short(value / spread) for name, value in ends.items()},
        "text": f"{difference(effect)}{unit}",
        "p": "-" if effect.p_holm is None else p_value(effect.p_holm),
        "is": "shown" if shown(effect) else "not shown",
        "pairs": len(effect.seeds),
    }


def baseline_spread(analysis: Analysis, effect: Effect) -> float | None:
    """Standard deviation over the baseline's seeds, in shown units; None where there is none."""
    values = analysis.values[effect.baseline.name][effect.measure.key].values()
    known_S = np.array([value for value in values if value is not None and np.isfinite(value)]) * effect.measure.scale
    if known_S.size < 2 or bool(flat(known_S)):
        return None
    return float(known_S.std(ddof=1))


def _spec(analysis: Analysis, rows: list[dict[str, Any]]) -> Spec:
    names = theme.labels(analysis)
    arms = [name for name in names if any(row["arm"] == name for row in rows)]
    titles = list(dict.fromkeys(row["measure"] for row in rows))
    y = {"field": "measure", "type": "nominal", "sort": titles, "title": None, "axis": _labels(analysis)}
    offset = {"yOffset": {"field": "arm", "type": "nominal", "sort": arms}} if len(arms) > 1 else {}
    x = theme.x_axis("x", TITLE, zero=True, **_axis(rows))
    by = {"y": y, "color": theme.colour(names, arms, lines=False), "opacity": theme.if_picked(1.0, 0.1), **offset}
    zero = {"data": {"values": [{"x": 0}]}, "mark": {"type": "rule", "color": theme.GREY, "strokeWidth": 1.2}}
    bars = {"x": x | {"field": "lo"}, "x2": {"field": "hi"}}
    of_shown = {"domain": ["shown", "not shown"], "range": ["triangle-up", "circle"]}
    legend: Spec = {"orient": "top", "title": "difference", "symbolFillColor": "transparent"}
    legend |= {"symbolStrokeColor": theme.GREY, "symbolStrokeWidth": 1.8}
    shape = {"field": "is", "type": "nominal", "scale": of_shown, "legend": legend}
    filled = {"condition": {"test": "datum.is === 'shown'", "value": 1}, "value": 0}
    told = theme.tell(
        ("measure", "measure", None), ("arm", "arm", None), ("text", "difference", None), ("is", "it is", None),
        ("p", "p (Holm)", None), ("pairs", "pairs", "d"),
    )  # fmt: skip
    fill = theme.colour(names, arms, lines=False)
    dots = {"x": x, "shape": shape, "fill": fill, "fillOpacity": filled, "tooltip": told}
    text: Spec = {
        "type": "text",
        "dy": -11,
        "fontSize": 11,
        "opacity": {"expr": f"width < {NARROW} ? 0 : 1"},
        "align": {"expr": "datum.x < 0 ? 'right' : 'left'"},
    }
    layers: list[Spec] = [
        zero | {"encoding": {"x": x}},
        {"mark": {"type": "rule", "strokeWidth": 2.4}, "encoding": by | bars},
        {
            "mark": {"type": "point", "size": 80, "strokeWidth": 1.8},
            "params": theme.picking(),
            "encoding": by | dots,
        },
    ]
    if len(arms) == 1:  # of several arms the table has the figures
        place = {"x": {"datum": 0}, "y": y, "text": {"field": "text"}}
        layers.append({"mark": text | {"dx": {"expr": "datum.x < 0 ? -6 : 6"}}, "encoding": place})
    # in points: Vega-Lite warns of steps beside a width that is the container's
    return theme.spec(layers, len(titles) * max(ROW, ARM * len(arms) if len(arms) > 1 else 0), data={"values": rows})


def _labels(analysis: Analysis) -> Spec:
    """Bold: stated beforehand."""
    primary = list(dict.fromkeys(effect.measure.title for effect in analysis.effects if effect.primary))
    bold = {"test": f"indexof({json.dumps(primary)}, datum.value) >= 0", "value": "bold"}
    weight = {"condition": bold, "value": "normal"}
    return {"labelFontWeight": weight, "labelLimit": 190, "grid": True, "ticks": False, "domain": False}


def _axis(rows: list[dict[str, Any]]) -> Spec:
    """Logarithmic away from 0 where one measure would press all others together."""
    far = max(max(abs(row[name]) for name in ("x", "lo", "hi")) for row in rows)
    return {"type": "symlog", "constant": 1} if far > FAR else {}
