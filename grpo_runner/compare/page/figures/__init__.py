"""The figures of the page: an analysis in, a Vega-Lite spec out; None where the runs have nothing for it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from ...types import Analysis
from ..stated import primary
from . import curves, theme, weights
from .forest import forest
from .theme import Spec


@dataclass(frozen=True)
class Figure:
    """function(analysis) is the spec, {} of what is 0 throughout. title and caption stand around it.

    measure: of a learning curve its key.
    """

    title: str
    caption: str
    function: Callable[[Analysis], Spec | None]
    measure: str = ""


def _curve(key: str, title: str) -> Figure:
    return Figure(title, CURVE, partial(curves.curve, key=key), key)


def _difference(key: str, title: str) -> Figure:
    return Figure(f"{title}: paired difference", DIFFERENCE, partial(curves.difference, key=key))


CURVE = (
    "Mean over seeds with its interval at each step, and each seed as a thin line. Held-out questions where the runs "
    "were evaluated on them, else the answers of training, averaged over bins of steps. Intervals of shares are cut at "
    "0 and 100 %."
)
OF_CURVE = CURVE.partition(". ")[2].partition(" Intervals")[0]
ONE_RUN = f"The run's own figure, of one seed and so without an interval. {OF_CURVE}"
ONE_EACH = f"Each arm is one run, and so has no interval. {OF_CURVE}"
DIFFERENCE = (
    "Arm minus baseline of the same seed: mean and interval over the pairs at each step, and each pair as a thin line. "
    "The intervals are of single steps; the verdict is of the final window alone."
)
FIGURES: dict[str, Figure] = {
    "accuracy": _curve("accuracy", "Accuracy, sampled"),
    "accuracy_difference": _difference("accuracy", "Accuracy"),
    "lengths": Figure(
        "Lengths of right and of wrong answers",
        "Mean tokens with the interval over seeds, of right answers (circles) and of wrong ones (triangles).",
        curves.lengths,
    ),
    "length_wrong": _curve("length/wrong", "Length of wrong answers"),
    "length_wrong_difference": _difference("length/wrong", "Length of wrong answers"),
    "length_right": _curve("length/right", "Length of right answers"),
    "length_right_difference": _difference("length/right", "Length of right answers"),
    "forest": Figure(
        "All measures",
        "Arm minus baseline with its interval, in standard deviations of the baseline's runs. A filled triangle is a "
        "difference that is shown, a hollow circle one that is not. In bold: what was stated beforehand. Of several "
        "arms the bars stand in the order of the legend.",
        forest,
    ),
    "weight_by_success": Figure(
        "Weight against success rate",
        "What a question weighs before the loss norm, Σ|A| over its G answers: mean at each success rate, with the "
        "closed forms for rewards of 0 and 1. Bars hold the middle 80 %; the size of a mark goes with its groups.",
        weights.by_success,
    ),
    "weight_after_norm": Figure(
        "Weight after the loss norm",
        "Σ|token weights| of a question over the mean of its arm: 1 is what a question weighs on average. Curves: the "
        "arm's closed form at its median length. Bars hold the middle 80 %; the size of a mark goes with its groups.",
        weights.after_norm,
    ),
    "cumulative_weight": Figure(
        "Cumulative weight by difficulty",
        "The share of hard, medium and easy questions in all weight so far, by their success rate p at each step: "
        "mean and interval over seeds, cut at 0 and 100 %.",
        weights.cumulative,
    ),
    "reward": _curve("reward", "Reward in training"),
    "entropy": _curve("entropy", "Entropy"),
    "truncated": _curve("truncated", "Truncated answers"),
    "no_answer": _curve("no_answer", "Without an answer"),
    "kl": _curve("kl", "KL to the reference"),
    "grad_norm": _curve("grad_norm", "Gradient norm"),
    "weight_gini": _curve("weight/gini", "Concentration of weights (Gini)"),
}


def figures_of(analysis: Analysis) -> dict[str, Figure]:
    """All by name, first the curves of measures that were stated and are none of FIGURES."""
    own = {figure.measure for figure in FIGURES.values()}
    added: dict[str, Figure] = {}
    for measure in primary(analysis):
        if measure.key not in own:
            name = "metric_" + re.sub(r"\W+", "_", measure.key)
            while name in added:  # keys that differ in their marks alone
                name += "_"
            title = measure.title if measure.title in measure.key else measure.title[:1].upper() + measure.title[1:]
            added[name] = _curve(measure.key, title)
            added[f"{name}_difference"] = _difference(measure.key, title)
    found = added | FIGURES
    if theme.several_seeds(analysis.comparison.arms):
        return found
    of_curve = ONE_RUN if len(analysis.comparison.arms) == 1 else ONE_EACH
    return {name: replace(figure, caption=_of_one_seed(figure.caption, of_curve)) for name, figure in found.items()}


def _of_one_seed(caption: str, of_curve: str) -> str:
    """What a caption says of intervals and seeds, where every arm is one run."""
    if caption == CURVE:
        return of_curve
    if caption == DIFFERENCE:
        return "Arm minus baseline of the same seed at each step. One pair has no interval."
    return caption.replace("Mean tokens with the interval over seeds,", "Mean tokens").replace(
        "at each step: mean and interval over seeds, cut at 0 and 100 %.", "at each step."
    )


__all__ = ["FIGURES", "Figure", "figures_of"]
