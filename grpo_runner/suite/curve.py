"""Accuracy over the steps of a run, with its intervals, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..tracking.charts.drawing import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, dress, png, whole_numbers
from .results import Evaluated
from .summary import AVERAGE, accuracy_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION)


def has_curve(found: Sequence[Evaluated]) -> bool:
    """Whether one run was evaluated at several steps."""
    runs = [one.answered.target.run for one in found if one.answered.target.step is not None]
    return len(runs) > len(set(runs))


def curve(found: Sequence[Evaluated]) -> bytes:
    """PNG: a panel for greedy and one for sampled answers. Of one run a line a set, of several the average of each."""
    return png(figure(found))


def figure(found: Sequence[Evaluated]) -> Figure:
    """The picture itself."""
    from matplotlib.figure import Figure

    modes = list(found[0].summary)
    made = Figure(figsize=(5.5 * len(modes), 4.8), dpi=120, layout="constrained")
    runs = list(dict.fromkeys(one.answered.target.run for one in found))
    for axes, mode in zip(made.subplots(1, len(modes), squeeze=False)[0], modes, strict=True):
        sets = list(found[0].summary[mode])
        overall = AVERAGE if AVERAGE in sets else sets[0]
        lines = [(run, name) for run in runs for name in (sets if len(runs) == 1 else [overall])]
        for number, (run, name) in enumerate(lines):
            of_run = [one for one in found if one.answered.target.run == run and name in one.summary[mode]]
            _line(axes, of_run, mode, name, name if len(runs) == 1 else run.name, COLOURS[number % len(COLOURS)])
        samples = found[0].summary[mode][sets[0]].samples
        axes.set_title("greedy accuracy" if mode == "greedy" else accuracy_name(mode, samples))
        axes.set_xlabel("step")
        axes.set_ylim(-0.03, 1.03)
        whole_numbers(axes.xaxis)
        dress(axes)
        if len(lines) > 1:
            axes.legend(frameon=False, fontsize=9)
    of = f"{runs[0].name}: held-out" if len(runs) == 1 else "Held-out"
    made.suptitle(f"{of} questions, with 95 % intervals over questions")
    return made


def _line(axes: Axes, found: Sequence[Evaluated], mode: str, name: str, label: str, colour: str) -> None:
    points = []
    for one in sorted(found, key=lambda one: one.answered.target.step or 0):
        figures = one.summary[mode][name]
        points.append((one.answered.target.step or 0, figures.estimates[accuracy_name(mode, figures.samples)]))
    steps, values = [step for step, _ in points], [found.value for _, found in points]
    below = [max(0.0, found.value - found.low) for _, found in points]
    above = [max(0.0, found.high - found.value) for _, found in points]
    width = 2.4 if name == AVERAGE else 1.4
    axes.errorbar(steps, values, yerr=[below, above], color=colour, lw=width, marker="o", ms=4, capsize=3, label=label)
