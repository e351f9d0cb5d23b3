"""Process rewards: what each token is credited with where the steps of an answer have rewards of their own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .advantages import advantages


def process_advantages(
    steps: Sequence[Sequence[Sequence[tuple[int, float]]]],
    length: int,
    baseline: str = "group_mean",
    scale: str = "group_std",
    ddof: int = 0,
    eps: float = 0.0,
) -> Tensor:
    """(N, T) float64: the sum of the normalised rewards of the steps that end at token t or later.

    DeepSeekMath 4.1.3: R is all step rewards of a group, r~ = (r - mean(R)) / std(R), A_t = Σ_{index(j) >= t} r~_j. So
    the mean and the std are over steps, of which answers have different numbers. A group whose step rewards are all
    equal gives exactly 0, and with one step at the end of each answer this is the outcome's advantage, bit by bit.

    steps: for each of Q groups and G answers, (index of its last token, reward) of each step; no step: the answer is
    excluded, and 0. length: T. Tokens after the last step's end are 0. baseline, scale: as for `advantages`, over
    steps. Raises ValueError for an index that is not in the answer.
    """
    made_NT = torch.zeros(sum(map(len, steps)), length, dtype=torch.float64)
    # an excluded answer has the place of one step, as in the outcome's (Q, G), so that sums are made in the same order
    flat = [[reward for answer in group for _, reward in answer or ((0, torch.nan),)] for group in steps]
    rewards_QM = torch.full((len(steps), max(map(len, flat))), torch.nan, dtype=torch.float64)
    for q, rewards in enumerate(flat):
        rewards_QM[q, : len(rewards)] = torch.tensor(rewards, dtype=torch.float64)
    normalised = advantages(rewards_QM, baseline, scale, ddof, eps)
    row = 0
    for q, group in enumerate(steps):
        place = 0
        for answer in group:
            for end, _ in answer:
                if not 0 <= end < length:
                    raise ValueError(f"a step ends at token {end} of {length}")
                made_NT[row, end] += normalised[q, place]
                place += 1
            place += not answer
            row += 1
    return made_NT.flip(1).cumsum(1).flip(1)
