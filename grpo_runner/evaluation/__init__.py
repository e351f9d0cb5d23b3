"""Accuracy on held-out questions: greedy and sampled, named separately; estimators with intervals over questions."""

from .estimators import Estimate, difference, estimate, majority_at_k, mean, mean_by_name, pass_at_k, votes
from .evaluate import Grade, Suite, answer, evaluate, modes

__all__ = [
    "Estimate",
    "Grade",
    "Suite",
    "answer",
    "difference",
    "estimate",
    "evaluate",
    "majority_at_k",
    "mean",
    "mean_by_name",
    "modes",
    "pass_at_k",
    "votes",
]
