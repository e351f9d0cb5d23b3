"""The figures of the page: an analysis in, a Vega-Lite spec out, or None where the runs have nothing for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ...types import Analysis
from . import curves
from .theme import Spec


@dataclass(frozen=True)
class Figure:
    """function(analysis) is the spec. title and caption stand around it, in the page or in a paper."""

    title: str
    caption: str
    function: Callable[[Analysis], Spec | None]


def _curve(key: str, title: str) -> Figure:
    return Figure(title, CURVE, partial(curves.curve, key=key))


def _difference(key: str, title: str) -> Figure:
    return Figure(f"{title}: paired difference", DIFFERENCE, partial(curves.difference, key=key))


CURVE = (
    "Mean over seeds with its interval at each step, and each seed as a thin line. Held-out questions where the runs "
    "were evaluated on them, else the answers of training, averaged over bins of steps."
)
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
    "reward": _curve("reward", "Reward in training"),
    "entropy": _curve("entropy", "Entropy"),
    "truncated": _curve("truncated", "Truncated answers"),
    "no_answer": _curve("no_answer", "Without an answer"),
    "kl": _curve("kl", "KL to the reference"),
    "grad_norm": _curve("grad_norm", "Gradient norm"),
    "weight_gini": _curve("weight/gini", "Concentration of weights (Gini)"),
}
__all__ = ["FIGURES", "Figure"]
