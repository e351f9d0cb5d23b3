"""What all figures share: one colour, dash and shape an arm, axes, and the dress for light and for dark pages.

Colours of marks are the same on white and on black (Okabe and Ito 2008); arms are told apart by dash and shape too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from ...types import Analysis, Arm, Measure

Spec = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
HEIGHT = 260
TITLE = 36  # characters that stand beside an axis of this height
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ([1, 0], [7, 3], [2, 2], [8, 3, 2, 3], [12, 4])  # of another length than PALETTE: 30 arms differ
SHAPES = ("circle", "triangle-up", "square", "diamond", "cross", "triangle-down", "triangle-right")
TICKS = {"signal": "max(2, min(8, floor(width / 70)))"}  # along x: fewer on a phone
GREY = "#888888"  # seen on both grounds
PICKED = "arms"  # the parameter of the legend: a click on an arm dims the others, another click brings them back
_FONT = "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', Arial, sans-serif"
_WIDE_LEGEND = 60  # characters of labels, from which on each has a line


def _dress(ink: str, faint: str) -> dict[str, Any]:
    axis = {"labelColor": ink, "titleColor": ink, "domainColor": GREY, "tickColor": GREY, "gridColor": faint}
    legend = {"labelColor": ink, "titleColor": ink, "labelFontSize": 12, "titleFontSize": 12, "labelLimit": 420}
    stacked = {"layout": {"top": {"direction": "vertical", "anchor": "start"}}}  # two in a row are cut on a phone
    return {
        "background": "transparent",
        "font": _FONT,
        "view": {"stroke": None},
        "axis": axis | {"labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal", "titlePadding": 8},
        "legend": legend | stacked | {"symbolStrokeWidth": 2.5, "symbolSize": 90, "titleFontWeight": "normal"},
        "text": {"color": ink, "font": _FONT},
        "title": {"color": ink, "font": _FONT},
    }


LIGHT = _dress("#1f2328", "#e4e7eb")
DARK = _dress("#e6e6e6", "#3a3f46")


def labels(analysis: Analysis) -> list[str]:
    return [arm.label for arm in analysis.comparison.arms]


def level(analysis: Analysis) -> float:
    """Of all intervals: that of the effects."""
    return analysis.effects[0].level if analysis.effects else 0.95


def several_seeds(arms: Sequence[Arm]) -> bool:
    return any(len(arm.runs) > 1 for arm in arms)


def spec(layers: Sequence[Spec], height: int = HEIGHT, **more: Any) -> Spec:
    """Layers over one another, as wide as the place that they get, axes included."""
    size = {"width": "container", "height": height, "autosize": {"type": "fit-x", "contains": "padding"}}
    return {"$schema": SCHEMA, **size, **more, "layer": [*layers]}


def x_axis(field: str, title: str | list[str], **scale: Any) -> Spec:
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": {"nice": False, "zero": False} | scale,
        "axis": {"grid": False, "tickCount": TICKS},
    }


def y_axis(field: str, title: str, zero: bool = False, **more: Any) -> Spec:
    """A title that is longer than the axis stands in several lines: Vega would cut it."""
    lines = wrap(title, TITLE) if len(title) > TITLE else title
    found = {"field": field, "type": "quantitative", "title": lines, "scale": {"zero": zero, "nice": True}}
    return found | {"axis": {"tickCount": 6, "titleLimit": HEIGHT}} | more


def titled(measure: Measure) -> str:
    """With its unit: "length of wrong answers (tokens)"."""
    return f"{measure.title} ({measure.unit})" if measure.unit else measure.title


def digits(measure: Measure) -> str:
    """The format of its numbers: those of a mean are told to one digit more than in a table."""
    return f",.{measure.digits + 1}f"


# --- arms


def _scale(names: Sequence[str], shown: Sequence[str] | None, range_: Sequence[Any]) -> Spec:
    """An arm keeps what it has, whichever arms a figure shows."""
    of = {name: range_[place % len(range_)] for place, name in enumerate(names)}
    chosen = [*(names if shown is None else shown)]
    return {"domain": chosen, "range": [of[name] for name in chosen]}


def _legend(names: Sequence[str], stroke: bool) -> Spec | None:
    """Above the figure; none of a single arm, which the page names already."""
    if len(names) < 2:
        return None
    wide = sum(map(len, names)) > _WIDE_LEGEND
    lines = {"symbolType": "stroke", "symbolOpacity": 1, "symbolSize": 220} if stroke else {}
    return {"orient": "top", "title": None, **lines} | ({"direction": "vertical", "columns": 1} if wide else {})


def colour(names: Sequence[str], shown: Sequence[str] | None = None, lines: bool = True) -> Spec:
    """Encoding of the field `arm`. names: of all arms, in order; shown: those of this figure. lines: in the legend."""
    return _by_arm(names, shown, PALETTE, lines)


def dash(names: Sequence[str], shown: Sequence[str] | None = None) -> Spec:
    return _by_arm(names, shown, DASHES)


def shape(names: Sequence[str], shown: Sequence[str] | None = None) -> Spec:
    return _by_arm(names, shown, SHAPES, False)


def _by_arm(names: Sequence[str], shown: Sequence[str] | None, range_: Sequence[Any], lines: bool = True) -> Spec:
    scale = _scale(names, shown, range_)
    return {"field": "arm", "type": "nominal", "scale": scale, "legend": _legend(scale["domain"], lines)}


def picking() -> list[Spec]:
    """Of one layer of a figure: a click on an arm in the legend."""
    select = {"type": "point", "fields": ["arm"], "toggle": "true"}
    return [{"name": PICKED, "select": select, "bind": "legend"}]


def if_picked(value: float, otherwise: float = 0.05) -> Spec:
    """Opacity of marks."""
    return {"condition": {"param": PICKED, "value": value}, "value": otherwise}


def tell(*fields: tuple[str, str, str | None]) -> list[Spec]:
    """A tooltip: (field, title, format of its numbers)."""
    return [
        {"field": field, "title": title} | ({"format": form, "type": "quantitative"} if form else {"type": "nominal"})
        for field, title, form in fields
    ]


def short(value: float) -> float:
    """Five digits: more are not seen."""
    return float(f"{value:.5g}")


Rows = Sequence[Mapping[str, Any]]
