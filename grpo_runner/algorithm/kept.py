"""Which answers of a question are trained on: all of them, or distinct right ones (RFT, DeepSeekMath A.1.2)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def kept(
    rewards_QG: Tensor, correct_QG: Tensor, answers: Sequence[Sequence[object]], keep: str, per_question: int | None
) -> Tensor:
    """rewards_QG with NaN, which excludes an answer, where it is not kept.

    correct_QG: bool, the checker's word. answers: what tells the Q x G answers apart, such as their token ids. keep:
    "all" or "right"; of right answers that are the same the first is kept, and the first `per_question` of the rest.
    """
    if keep == "all":
        return rewards_QG
    keeps_QG = torch.zeros_like(correct_QG)
    for q, row in enumerate(answers):
        first = {
            answer: g
            for g, answer in reversed(list(enumerate(row)))
            if correct_QG[q, g] and rewards_QG[q, g] == rewards_QG[q, g]
        }
        keeps_QG[q, sorted(first.values())[:per_question]] = True
    return rewards_QG.masked_fill(~keeps_QG, torch.nan)
