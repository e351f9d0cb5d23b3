"""The weight of a question against its success rate: measured points with the theory behind them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from ...objectives import NAMED
from ...schema import AdvantageConfig, LossNormConfig, SamplesConfig
from .drawing import GREY, asked, column, count, dress, new_figure, whole_numbers

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure

THEORY = "#d1495b"

# Σ|A| of G answers with 0/1 rewards and success rate p before the scale, by baseline: formula and function of (p, G).
# A baseline that is not here gets no curve, which is better than another one's.
_CENTRED: dict[str, tuple[str, Callable[[np.ndarray, int], np.ndarray]]] = {
    "group_mean": ("2G·p(1-p)", lambda p, size: 2 * size * p * (1 - p)),
    "leave_one_out": ("2G²/(G-1)·p(1-p)", lambda p, size: 2 * size * p * (1 - p) * size / max(size - 1, 1)),
    "none": ("G·p", lambda p, size: size * p),
}
# drawn beside the run's own: the group mean with and without its std
_REFERENCES: tuple[tuple[str, Literal["group_std", "none"], str], ...] = (
    ("grpo", "group_std", "--"),
    ("dr_grpo", "none", ":"),
)


def advantage_weight_theory(p: np.ndarray, advantage: AdvantageConfig, group_size: int) -> np.ndarray | None:
    """Sum of |A| over a group of G answers with 0/1 rewards of which a share `p` is right; the shape of `p`.

    Group mean: 2G·p(1-p), times G/(G-1) when the baseline leaves the own answer out; without a baseline G·p. Group std:
    divided by std + eps, with std² = p(1-p)·G/(G-ddof), and 0 where the group has no variance. So 2G·sqrt(p(1-p)) for
    GRPO (ddof 0, eps 0) and 2G·p(1-p) for Dr. GRPO. Group mean (MaxRL): divided by p + eps, so 2G·(1-p), and 0 where
    the group has no variance. None for a baseline or a scale whose theory is not written here, and where tokens of an
    answer are credited differently, so that there is no A of an answer.
    """
    if advantage.baseline not in _CENTRED or advantage.scale not in ("none", "group_std", "group_mean"):
        return None
    if advantage.credit != "outcome":
        return None
    p = np.asarray(p, dtype=float)
    weight = _CENTRED[advantage.baseline][1](p, group_size)
    if advantage.scale == "group_std":
        std = np.sqrt(p * (1 - p) * group_size / max(group_size - advantage.ddof, 1))
        weight = np.divide(weight, std + advantage.eps, out=np.zeros_like(weight), where=std > 0)
    if advantage.scale == "group_mean":
        weight = np.divide(weight, p + advantage.eps, out=np.zeros_like(weight), where=(p > 0) & (p < 1))
    return weight


def weight_scatter(
    table: pa.Table, advantage: AdvantageConfig, loss_norm: LossNormConfig, samples: SamplesConfig | None = None
) -> Figure:
    """Two panels over the success rate: the advantage weight, and the weight after the loss norm, each with its theory.

    table: rows of questions.parquet (at least one). Rows at the same place are one dot whose area grows with their
    number. Left, the colour is the mean step, and the theory of GRPO and Dr. GRPO stands beside the run's own. Right,
    the colour is the mean length of the answers, and the curve is the left one times the median of weight /
    advantage_weight: exact under 1/|o| (one constant), the median length's curve otherwise. The theory is that of 0/1
    rewards and groups of which every answer is in the loss: where `samples` keeps only some, there is none.
    """
    rate, before, after = (column(table, name) for name in ("success_rate", "advantage_weight", "weight"))
    group_size = int(column(table, "group_size").max())
    grid = np.linspace(0, 1, 401)
    some = samples is not None and (samples.keep != "all" or samples.source == "solutions")
    curve = None if some else advantage_weight_theory(grid, advantage, group_size)
    # groups with excluded answers weigh by the others alone, and their success rate is that of all
    partial = column(table, "included") < column(table, "group_size")

    figure, left, right = new_figure()
    means = column(table, "reward_mean")[~partial]
    binary = np.allclose(means, rate[~partial])  # rewards of right and wrong answers are 1 and 0
    if curve is not None:
        label = f"{'theory' if binary else 'theory for 0/1 rewards'}: {_formula(advantage)}"
        left.plot(grid, curve, color=THEORY, lw=1.8, zorder=1, label=label)
    if binary and not some:
        _others(left, grid, advantage, group_size)
    bar = _dots(left, figure, rate, before, column(table, "step"), "mean step of the dot's questions", "viridis")
    whole_numbers(bar.ax.yaxis)
    left.set_title("Before the loss norm: Σ|A| of a question")
    left.set_ylabel("advantage weight, Σ|A| over its answers")

    if curve is not None and binary and (before > 0).any():
        ratio = float(np.median(after[before > 0] / before[before > 0]))
        exact = loss_norm.kind == "sequence_mean"
        label = "theory times the loss norm's constant" if exact else "theory at the run's median length"
        right.plot(grid, curve * ratio, color=THEORY, lw=1.8, zorder=1, label=label)
    _dots(right, figure, rate, after, column(table, "length_mean"), "mean length of the answers (tokens)", "cividis")
    right.set_title(f"After the loss norm ({loss_norm.kind}): Σ|token weights|")
    right.set_ylabel("weight, Σ|token weights| over its tokens")

    for axes in (left, right):
        axes.set_xlabel(f"success rate p (share of right answers, G = {group_size})")
        axes.set_xlim(-0.03, 1.03)
        top = axes.get_ylim()[1]
        lines = len(axes.get_legend_handles_labels()[1])
        axes.set_ylim(-0.03 * top, top * (1.04 + 0.06 * lines))  # whole dots at zero, the legend above the points
        dress(axes)
        axes.legend(loc="upper right", frameon=False, fontsize=9)
    note = (
        f"{count(partial.sum(), 'group')} with answers left out of the loss may lie off the theory"
        if partial.any()
        else ""
    )
    figure.suptitle(f"What each question weighs: {asked(table)}\n{note}", fontsize=12)
    return figure


def _others(axes: Axes, grid: np.ndarray, advantage: AdvantageConfig, group_size: int) -> None:
    """The theory of GRPO and of Dr. GRPO, dashed, where it is not the run's own."""
    ddof, eps = (advantage.ddof, advantage.eps) if advantage.scale not in ("none", "group_mean") else (0, 0.0)
    for name, scale, style in _REFERENCES:
        if ("group_mean", scale) != (advantage.baseline, advantage.scale):
            other = replace(advantage, credit="outcome", baseline="group_mean", scale=scale, ddof=ddof, eps=eps)
            curve = advantage_weight_theory(grid, other, group_size)
            assert curve is not None
            label = f"{NAMED[name].label}: {_formula(other)}"
            axes.plot(grid, curve, style, color=GREY, lw=1.2, zorder=1, label=label)


def _dots(
    axes: Axes, figure: Figure, x: np.ndarray, y: np.ndarray, colour: np.ndarray, label: str, cmap: str
) -> Colorbar:
    """One dot a distinct place (y to 6 digits of the axis), area by the number of rows there, colour by their mean."""
    scale = float(np.abs(y).max()) or 1.0
    places, which, rows = np.unique(
        np.round(np.column_stack([x, y / scale]), 6), axis=0, return_inverse=True, return_counts=True
    )
    shown = np.isfinite(colour)
    total = np.bincount(which.ravel(), np.where(shown, colour, 0.0), minlength=len(places))
    mean = total / np.maximum(np.bincount(which.ravel(), shown, minlength=len(places)), 1)
    size = 14 + 180 * np.sqrt(rows / max(rows.max(), 30))
    order = np.argsort(-rows, kind="stable")  # small dots on top
    dots = axes.scatter(
        places[order, 0], places[order, 1] * scale, s=size[order], c=mean[order], cmap=cmap, alpha=0.75, zorder=2,
        edgecolors="white", linewidths=0.3,
    )  # fmt: skip
    most = int(rows.max())
    what = f"size: 1 to {most:,} groups" if most > 1 else "a dot: one group"
    axes.scatter([], [], s=50, color=GREY, label=f"measured ({what})")
    return figure.colorbar(dots, ax=axes, label=label, pad=0.015)


def _formula(advantage: AdvantageConfig) -> str:
    """The curve's formula in a few characters."""
    top = _CENTRED[advantage.baseline][0]
    if advantage.scale == "none":
        return top
    if advantage.scale == "group_mean":
        plain = advantage.baseline == "group_mean" and advantage.eps == 0
        return "2G·(1-p)" if plain else f"{top} / p" if advantage.eps == 0 else f"{top} / (p + {advantage.eps:g})"
    if advantage.baseline == "group_mean" and advantage.eps == 0:
        return "2G·√(p(1-p))" if advantage.ddof == 0 else "2·√(G(G-1)·p(1-p))"
    std = "std" if advantage.eps == 0 else f"(std + {advantage.eps:g})"
    return f"{top} / {std}"
