"""How a run went, step by step: accuracy, reward, lengths, and how far the policy has moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION, dress, say_nothing_to_show, whole_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HELD_OUT = {"greedy/accuracy": ("held-out, greedy", GREEN, "s"), "sampled/accuracy": ("held-out, sampled", BLUE, "o")}
_PANELS: dict[str, dict[str, tuple[str, str]]] = {  # title -> key of metrics.jsonl -> label, colour
    "Accuracy": {"accuracy": ("training answers", VERMILLION)},
    "Reward": {"reward/mean": ("mean of the step", VERMILLION)},
    "Length of an answer (tokens)": {"length/correct": ("right", BLUE), "length/wrong": ("wrong", ORANGE)},
    "Of a token (nats)": {"entropy": ("entropy", PURPLE), "kl": ("KL to the reference", GREEN)},
}


def progress(metrics: Sequence[Mapping[str, Any]], evals: Sequence[Mapping[str, Any]]) -> Figure:
    """Four panels over the step: accuracy of training and held-out answers, reward, lengths, entropy and KL.

    metrics, evals: rows of metrics.jsonl (at least one) and evals.jsonl. A thin line is the step's figure, a thick one
    the mean over a tenth of the run around it; a figure that a step does not have leaves a gap in the thin one, and is
    left out of the thick one. A run of under 20 steps has one line with a dot a step.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7), dpi=120, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)  # type: ignore[union-attr, call-arg]
    panels = figure.subplots(2, 2).ravel()
    steps = np.array([row["step"] for row in metrics], dtype=float)
    width = len(metrics) // 10 | 1 if len(metrics) >= 20 else 1
    for axes, (title, lines) in zip(panels, _PANELS.items(), strict=True):
        drawn = [_line(axes, steps, metrics, key, width, *how) for key, how in lines.items()]
        if title == "Accuracy":
            drawn += [_points(axes, evals, key, *how) for key, how in _HELD_OUT.items()]
            top = _scale(axes)
            axes.set_ylim(-0.03 * top, 1.03 * top)
        axes.set_title(title)
        if not any(drawn):
            say_nothing_to_show(axes, "no figure in this run")
            continue
        axes.set_xlabel("step")
        whole_numbers(axes.xaxis)
        dress(axes)
        axes.legend(frameon=False, fontsize=9)
    what = f"thin, each step; thick, the mean over the {width} steps around it" if width > 1 else "step by step"
    figure.suptitle(f"How the run went: {what}")
    return figure


def smoothed(values: np.ndarray, width: int) -> np.ndarray:
    """Mean of the `width` (odd) values around each, fewer at the ends, NaN left out; NaN of none. (R,) -> (R,)."""
    half = width // 2
    windows = [values[max(0, at - half) : at + half + 1] for at in range(len(values))]
    there = [window[~np.isnan(window)] for window in windows]
    return np.array([window.mean() if len(window) else np.nan for window in there])


def _scale(axes: Axes) -> float:
    """1, so that runs can be compared at a glance; less where all is so low that it would lie on the axis."""
    drawn = [np.asarray(line.get_ydata(), dtype=float) for line in axes.lines]
    highest = max((float(np.nanmax(values)) for values in drawn if len(values)), default=1.0)
    return next((top for top in (0.1, 0.25) if highest <= top), 1.0)


def _line(
    axes: Axes, steps: np.ndarray, rows: Sequence[Mapping[str, Any]], key: str, width: int, label: str, colour: str
) -> bool:
    """One figure of metrics.jsonl; False where no step has it."""
    values = np.array([float(row[key]) if _has(row, key) else np.nan for row in rows])
    if np.isnan(values).all():
        return False
    if width == 1:
        axes.plot(steps, values, color=colour, lw=1.6, marker="o", ms=4, label=label)
        return True
    axes.plot(steps, values, color=colour, lw=0.7, alpha=0.45)
    axes.plot(steps, smoothed(values, width), color=colour, lw=2, label=label)
    return True


def _points(axes: Axes, rows: Sequence[Mapping[str, Any]], key: str, label: str, colour: str, marker: str) -> bool:
    """Held-out figures, each with the step that it was measured before."""
    found = [(row["step"], row[key]) for row in rows if _has(row, key)]
    if found:
        axes.plot(*zip(*found, strict=True), ls=":", color=colour, marker=marker, ms=5, mec=GREY, mew=0.5, label=label)
    return bool(found)


def _has(row: Mapping[str, Any], key: str) -> bool:
    """Whether the row has a number there; a file may have been changed from outside."""
    return type(row.get(key)) in (int, float)
