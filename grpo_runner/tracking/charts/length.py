"""Weight per token against length: what the loss norm does to short and long answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from .drawing import GREY, asked, column, count, dress, new_figure, say_nothing_to_show

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import Locator

# The weight per token of an answer with |A| = 1: formula and function of (|o|, N, L). N responses share the optimizer
# batch. A loss norm in which other answers' lengths enter has no curve in |o|, and is not here.
_NORMS: dict[str, tuple[str, Callable[[np.ndarray, float, float], np.ndarray]]] = {
    "sequence_mean": ("|A| / (N·|o|)", lambda length, batch, budget: 1 / (batch * length)),
    "constant": ("|A| / (N·L)", lambda length, batch, budget: np.full_like(length, 1 / (batch * budget))),
    "sequence_sum": ("|A| / N", lambda length, batch, budget: np.full_like(length, 1 / batch)),
}
_LEVELS = 7  # curves in a panel
_CANCELLED = 1e-9  # of the largest |A|: a mean below it is that of unlike advantages that cancel out


def weight_per_token_theory(lengths: np.ndarray, kind: str, batch: float, budget: float) -> np.ndarray | None:
    """|token weight| of an answer with |A| = 1, by its length: the shape of `lengths`; None where others' enter.

    batch: N, the responses of the optimizer batch; budget: L of `constant`.
    """
    return _NORMS[kind][1](np.asarray(lengths, dtype=float), batch, budget) if kind in _NORMS else None


def weight_by_length(table: pa.Table, kind: str, budget: float) -> Figure:
    """Two panels, right and wrong answers: a dot a group, its weight per token against the mean length of the answers.

    table: rows of questions.parquet (at least one); kind: the loss norm; budget: L. Both axes are logarithmic, so that
    1/|o| is a straight line that falls and a constant a flat one. Colours of dots and curves are |A|, of unlike ones
    |their mean|. Only answers with weight are shown, and not those whose advantages cancel out: what is left of them
    is rounding, and would stretch the colours over all its orders of magnitude.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm

    # 1/N is what 1/|o| leaves of Σ|A|, whatever the objective in use
    leaves = column(table, "length_factor")
    batches = 1 / leaves[leaves > 0]
    batch = float(np.median(batches)) if batches.size else None
    sides = {side: _points(table, side) for side in ("right", "wrong")}
    least = _CANCELLED * max((points[2].max() for points in sides.values() if points.size), default=0.0)
    cancelled = {side: bool((points[2] < least).any()) for side, points in sides.items()}
    sides = {side: points[:, points[2] >= least] for side, points in sides.items()}
    shown = np.concatenate(list(sides.values()), axis=1)
    figure, *panels = new_figure(5.5)
    formula = _NORMS[kind][0] if kind in _NORMS and batch is not None else None
    if shown.shape[1]:
        low, high = float(shown[2].min()), float(shown[2].max())
        scale = LogNorm(low / 1.05, high * 1.05)
        colours = ScalarMappable(scale, "viridis_r")
        limits = [(values.min() / 1.25, values.max() * 1.25) for values in shown[:2]]
    for axes, (side, (length, weight, size)) in zip(panels, sides.items(), strict=True):
        axes.set_title(f"{side.capitalize()} answers: {count(length.size, 'group')}")
        axes.set_xlabel("length |o|: mean over the group's answers of this kind (tokens)")
        axes.set_ylabel("weight per token, |A| × loss norm")
        if not length.size:
            nothing = (
                f"the advantages of {side} answers cancel out" if cancelled[side] else f"no {side} answer had weight"
            )
            say_nothing_to_show(axes, nothing)
            continue
        if formula is not None:
            assert batch is not None
            grid = np.geomspace(*limits[0], 100)
            for level in _levels(size):
                curve = weight_per_token_theory(grid, kind, batch, budget)
                assert curve is not None
                axes.plot(grid, level * curve, color=colours.to_rgba(level), lw=1.3, zorder=1)
        axes.scatter(length, weight, s=22, c=size, norm=scale, cmap=colours.cmap, alpha=0.6, zorder=2,
                     edgecolors="#333333", linewidths=0.3)  # fmt: skip
        _log_axes(axes, *limits)
        dress(axes)
    single = f"{low:.4g}" if shown.shape[1] and high <= low * (1 + 1e-6) else None
    if shown.shape[1] and single is None:
        bar = figure.colorbar(colours, ax=panels, label="|A| of an answer", pad=0.015)
        bar.ax.yaxis.set_major_locator(_locator(low / 1.05, high * 1.05))
        bar.ax.yaxis.set_major_formatter("{x:g}")
        bar.ax.minorticks_off()
    about = (
        " (the median; dots are with their own N)" if batches.size and np.ptp(batches) > 1e-6 * batches.max() else ""
    )
    values = f"N = {count(batch, 'answer')} in the optimizer batch{about}" if batch is not None else ""
    if shown.shape[1]:  # of empty panels there is nothing to explain
        figure.supxlabel(_explained(formula, kind, values, budget, single), fontsize=9, color=GREY)
    figure.suptitle(f"What a token weighs by the length of its answer: {asked(table)}\nloss norm: {kind}", fontsize=12)
    return figure


def _points(table: pa.Table, side: str) -> np.ndarray:
    """(3, rows): length, weight per token and |A| of the groups whose answers of this kind have weight."""
    names = (f"length_{side}", f"weight_per_token_{side}", f"advantage_{side}")
    values = np.abs(np.stack([column(table, name) for name in names]))
    return values[:, (values > 0).all(axis=0)]  # NaN is not


def _levels(sizes: np.ndarray) -> np.ndarray:
    """The values of |A| that get a curve: all of them where they are few, else some from the least to the largest."""
    distinct = np.unique(np.round(sizes, 6))
    if len(distinct) <= _LEVELS + 1:
        return distinct
    return np.quantile(sizes, [0, 0.25, 0.5, 0.75, 1])


def _explained(formula: str | None, kind: str, values: str, budget: float, single: str | None) -> str:
    if formula is None:
        why = "the other answers' lengths enter" if kind not in _NORMS else "the record does not say N"
        whole = f"; |A| = {single} throughout" if single else ""
        return f"a dot: a group in a step; no theory curve: {why}{whole}"
    values += f", L = {budget:g}" if kind == "constant" else ""
    lies = "; a dot with unlike lengths lies off its line" if kind == "sequence_mean" else ""
    which = (
        f"line: {formula} with |A| = {single} throughout" if single else f"lines: {formula} for the |A| of their colour"
    )
    return f"a dot: a group in a step; {which}, {values}{lies}"


def _log_axes(axes: Axes, x: tuple[float, float], y: tuple[float, float]) -> None:
    for axis, limits, scale in ((axes.xaxis, x, axes.set_xscale), (axes.yaxis, y, axes.set_yscale)):
        scale("log")
        axis.set_major_locator(_locator(*limits))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")
        (axes.set_xlim if axis is axes.xaxis else axes.set_ylim)(*limits)


def _locator(low: float, high: float) -> Locator:
    """Ticks of a logarithmic axis at 1, 2 and 5; at more places where fewer than three of those are in its limits."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    for subs in ((1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)):
        locator = LogLocator(subs=subs)
        ticks = np.asarray(locator.tick_values(low, high))
        if ((low <= ticks) & (ticks <= high)).sum() >= 3:
            return locator
    return MaxNLocator(4)
