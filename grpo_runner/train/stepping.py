"""The steps of a rollout's answers in tokens, and what is told of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from ..reward.steps import step_tokens
from .collect import Rollout

Pieces = Callable[[Sequence[int]], list[str]]


def token_steps(
    rollout: Rollout, rewards_QG: Tensor, pieces: Pieces
) -> tuple[list[list[list[tuple[int, float]]]], dict[str, float | None]]:
    """(steps, metrics): (index of the last token, reward) of each step of each answer; none of an excluded one.

    rewards_QG: NaN where an answer is excluded. Metrics are over all answers that have steps: `steps/mean`, how many an
    answer has; `steps/right`, the mean reward of those before the last, which for `lines` is the share of checked lines
    that are so; None where no answer has such a step.
    """
    made: list[list[list[tuple[int, float]]]] = []
    counts, before_last = [], []
    for group, scored, row in zip(rollout.groups, rollout.rewards, (~rewards_QG.isnan()).tolist(), strict=True):
        made.append([])
        for answer, reward, included in zip(group.completions, scored, row, strict=True):
            if reward.steps:
                counts.append(len(reward.steps))
                before_last += [value for _, value in reward.steps[:-1]]
            found: list[tuple[int, float]] = []
            if included and reward.steps:
                at = step_tokens([end for end, _ in reward.steps], answer.text, pieces(answer.token_ids))
                found = [(token, value) for token, (_, value) in zip(at, reward.steps, strict=True)]
            made[-1].append(found)
    return made, {"steps/mean": _mean(counts), "steps/right": _mean(before_last)}


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
