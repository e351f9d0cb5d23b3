"""Cumulative weight of easy, medium and hard questions: where an objective puts its gradient over a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from ...objectives import NAMED
from .drawing import (
    BLUE,
    GREEN,
    GREY,
    VERMILLION,
    asked,
    column,
    count,
    dress,
    new_figure,
    say_nothing_to_show,
    whole_numbers,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

CLASSES = {"hard": ("p ≤ 1/3", VERMILLION), "medium": ("between", GREEN), "easy": ("p ≥ 2/3", BLUE)}
_Style = Literal["-", "--", ":"]
_MARGIN = 0.02  # of a panel, so that lines and dots at its edge are whole
REFERENCES: dict[str, tuple[str, _Style]] = {"weight_grpo": ("grpo", "--"), "weight_dr_grpo": ("dr_grpo", ":")}


def classes(successes: np.ndarray, group_size: np.ndarray) -> np.ndarray:
    """The class of each group by its success rate p at that step, as names: hard, medium or easy."""
    return np.select([3 * successes <= group_size, 3 * successes >= 2 * group_size], ["hard", "easy"], "medium")


def cumulative_by_class(table: pa.Table, name: str) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """(steps, class -> sum of the column, which has no null, over all rows up to each step)."""
    steps, at = np.unique(column(table, "step"), return_inverse=True)
    which = classes(column(table, "successes"), column(table, "group_size"))
    weight = column(table, name)
    return steps, {
        kind: np.bincount(at, np.where(which == kind, weight, 0.0), minlength=len(steps)).cumsum() for kind in CLASSES
    }


def cumulative_weight(table: pa.Table) -> Figure:
    """Two panels over steps: the cumulative weight of each class, and its share; there also GRPO's and Dr. GRPO's.

    table: rows of questions.parquet (at least one). The shares of GRPO and Dr. GRPO are of what they would have given
    the same answers; no run of theirs is in them. Where a row does not record theirs (it is of an older run that was
    gone on from), that share cannot be compared with the run's own, and the legend says so in its place.
    """
    figure, left, right = new_figure(5.4)
    steps, weights = cumulative_by_class(table, "weight")
    which = classes(column(table, "successes"), column(table, "group_size"))
    mark = "o" if len(steps) == 1 else None
    for kind, (_, colour) in CLASSES.items():
        left.plot(steps, weights[kind], color=colour, lw=2, marker=mark)
    own = _shares(weights)
    lines: list[tuple[str, np.ndarray, _Style, float]] = []
    same, unknown = [], []
    for name, (objective, style) in REFERENCES.items():
        label = NAMED[objective].label
        if table[name].null_count:
            unknown.append(label)
            continue
        shares = _shares(cumulative_by_class(table, name)[1])
        if np.allclose(shares, own, equal_nan=True):
            same.append(label)
        else:
            lines.append((f"share that {label} would have given the same answers", shares, style, 1.5))
    also = f" (what {' and '.join(same)} would have given is the same)" if same else ""
    lines = [(f"share under the objective in use{also}", own, "-", 2.0), *lines]
    lines = [line for line in lines if np.isfinite(line[1]).any()]
    for _, shares, style, width in lines:
        for (_, colour), share in zip(CLASSES.values(), shares, strict=True):
            right.plot(steps, share, style, color=colour, lw=width, marker=mark)
    left.set_title("Cumulative weight")
    left.set_ylabel("Σ weight of the class's groups so far")
    top = left.get_ylim()[1]
    left.set_ylim(-_MARGIN * top, top)
    right.set_title("Share of the cumulative weight")
    for axes in (left, right):
        axes.set_xlabel("step")
        whole_numbers(axes.xaxis)
        dress(axes)
    if lines:
        right.set_ylim(-_MARGIN, 1 + _MARGIN)
        right.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    else:
        say_nothing_to_show(right, "no question had weight")
    handles = [
        _line(colour, "-", 2.0, f"{kind}: {rule} ({count((which == kind).sum(), 'group')})")
        for kind, (rule, colour) in CLASSES.items()
    ] + [_line(GREY, style, width, label) for label, _, style, width in lines]
    if unknown:
        why = "some rows, of an older run, do not record it"
        handles.append(_line("none", "-", 0.0, f"without what {' and '.join(unknown)} would have given: {why}"))
    # columns are filled from above: the classes in one, the objectives in the other
    if len(handles) > len(CLASSES):
        handles += [_line("none", "-", 0.0, "")] * (2 * len(CLASSES) - len(handles))
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    rule = "class of a group: by its success rate p at that step"
    figure.suptitle(f"Which questions got the weight: {asked(table)}\n{rule}", fontsize=12)
    return figure


def _shares(weights: dict[str, np.ndarray]) -> np.ndarray:
    """(classes, steps): the share of each class; NaN before the first weight."""
    stacked = np.stack(list(weights.values()))
    total = stacked.sum(axis=0)
    return np.divide(stacked, total, out=np.full_like(stacked, np.nan), where=total > 0)


def _line(colour: str, style: _Style, width: float, label: str) -> Line2D:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, linestyle=style, lw=width, label=label)
