"""What can be counted on prompts: the text that each token adds, and how long the prompts of a set are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..types import Question
from .prompter import Prompter

_PART = "\N{REPLACEMENT CHARACTER}"  # what the beginning of a character is decoded to


@dataclass(frozen=True)
class Lengths:
    """Tokens of the prompts of a set, with what the tokenizer puts in front.

    count: prompts. minimum, median, p95, maximum: in tokens, each the length of a prompt that there is (the median and
    the 95 % quantile by nearest rank). over: prompts above the limit. unknown: prompts with a character that the
    tokenizer does not know.
    """

    count: int
    minimum: int
    median: int
    p95: int
    maximum: int
    over: int
    unknown: int


def lengths(
    questions: Sequence[Question], prompter: Prompter, limit: int, at: Callable[[int], None] = lambda done: None
) -> Lengths:
    """Of at least one question; at: called with the number of prompts done."""
    found: list[int] = []
    unknown = 0
    for question in questions:
        ids = prompter.encode(question)
        found.append(len(ids))
        unknown += prompter.unknown_id in ids
        at(len(found))
    found.sort()
    # nearest rank: the least length that a share of the prompts does not exceed
    median, p95 = (found[-(-share * len(found) // 100) - 1] for share in (50, 95))
    over = sum(length > limit for length in found)
    return Lengths(len(found), found[0], median, p95, found[-1], over, unknown)


def token_texts(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """The text that each token adds to those before it; together they are the text, special tokens included.

    The last few tokens before are decoded with it: some tokenizers drop the space that a lone token begins with. Of a
    character that takes several tokens the last one adds it, the others add nothing.
    """
    texts = []
    for place in range(len(ids)):
        near = ids[max(0, place - 4) : place]
        before, after = tokenizer.decode(near).removesuffix(_PART), tokenizer.decode([*near, ids[place]])
        if place + 1 < len(ids):
            after = after.removesuffix(_PART)
        same = next((at for at, pair in enumerate(zip(before, after, strict=False)) if len(set(pair)) > 1), len(before))
        texts.append(after[same:])
    return texts
