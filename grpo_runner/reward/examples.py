"""Reward functions to copy from, in the form that `reward.function` takes.

    python -m grpo_runner reward=custom reward.function=grpo_runner.reward.examples:brief

A function is called once a step with keyword arguments, each a list with one entry per completion, and gives one finite
number per completion. Weights of the parts are `reward.parts`.
"""

from __future__ import annotations

from collections.abc import Sequence


def brief(questions: Sequence[str], golds: Sequence[str], completions: Sequence[str]) -> list[float]:
    """1 for an empty answer, falling to 0 at 400 characters: a signal that every chat model can follow."""
    return [max(0.0, 1.0 - len(text) / 400) for text in completions]
