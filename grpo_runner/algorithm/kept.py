"""Which answers of a question are trained on: all of them, distinct right ones (RFT, DeepSeekMath A.1.2), or pairs of a
right and a wrong one (DPO, A.1.4)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .pairs import partners


def kept(
    rewards_QG: Tensor, correct_QG: Tensor, answers: Sequence[Sequence[object]], keep: str, per_question: int | None
) -> Tensor:
    """rewards_QG with NaN, which excludes an answer, where it is not kept.

    correct_QG: bool, which are right. answers: what tells the Q x G answers apart, such as token ids. keep: "all";
    "right", of which the first `per_question` are kept; or "pairs", as many pairs (`partners`). Of answers that are
    the same the first alone is looked at, and none without a reward.
    """
    if keep == "all":
        return rewards_QG
    usable_QG = _first_of_equals(answers, ~rewards_QG.isnan())
    if keep == "pairs":
        keeps_QG = partners(correct_QG, usable_QG, per_question).view_as(correct_QG) >= 0
    else:
        keeps_QG = correct_QG & usable_QG
        if per_question is not None:
            keeps_QG = keeps_QG & (keeps_QG.cumsum(dim=1) <= per_question)
    return rewards_QG.masked_fill(~keeps_QG, torch.nan)


def _first_of_equals(answers: Sequence[Sequence[object]], there_QG: Tensor) -> Tensor:
    """(Q, G) bool: those that are there and that no earlier one of the question equals."""
    firsts_QG = torch.zeros_like(there_QG)
    for q, row in enumerate(answers):
        first = {answer: g for g, answer in reversed(list(enumerate(row))) if there_QG[q, g]}
        firsts_QG[q, list(first.values())] = True
    return firsts_QG
