"""Accuracy on held-out questions: greedy and sampled, named separately."""

from .evaluate import Grade, Suite, evaluate, pass_at_k

__all__ = ["Grade", "Suite", "evaluate", "pass_at_k"]
