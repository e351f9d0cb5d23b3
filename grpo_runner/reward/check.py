r"""The checker as one pure function: a response and a gold in, a Verdict out; and what makes a gold unreadable.

`check` runs in the calling process and has no deadline of its own (guards keep its inputs small): training and
evaluation use workers.Grader, which asks the same functions in processes that can be killed.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ..types import Status, Verdict
from . import guards
from .equivalence import Algebra, NeedsAlgebra, same
from .extract import MODES, offer
from .normalize import balanced, tidy
from .notation import number

MAX_GOLD = 1500
_PLACEHOLDER = re.compile(
    r"(?:none|null|nan|n/?a|tbd|todo|unknown|missing|omitted|proof|\?+|-+|\.+"
    r"|see\b.*|refer\b.*|as (?:shown|above|below)\b.*)",
    re.IGNORECASE | re.DOTALL,
)
_POINTS_ELSEWHERE = re.compile(r"https?://|!\[|<img|\b(?:figure|diagram|picture|image|attachment)\b", re.IGNORECASE)
_MAX_WORDS = 12


def check(response: str, gold: str, extract: str = "box_or_marker") -> Verdict:
    """Grade one response. extract: one of extract.MODES. Never raises for any response; gold = gold always holds.

    Status is correct, wrong, no_answer, or error when computer algebra broke down (an unreadable gold is an error too).
    """
    if extract not in MODES:
        raise ValueError(f"extract must be one of {', '.join(MODES)}, not {extract!r}")
    answers = offer(response, extract).answers
    if not answers:
        return Verdict(Status.NO_ANSWER, gold_value=gold, rule="no answer")
    verdict = decide(answers, gold)
    return verdict if verdict is not None else decide_with_algebra(answers, gold)


def shown(answers: tuple[str, ...]) -> str:
    """The extracted answer as one text: alternatives are joined as the list that they are."""
    return answers[0] if len(answers) == 1 else ", ".join(answers)


def decide(answers: tuple[str, ...], gold: str, algebra: Algebra | None = None) -> Verdict | None:
    """Compare without computer algebra unless one is given; None when the pair needs it.

    Answers offered as alternatives are one list: right if the gold is that list, or if each of them is the gold.
    """
    if (why := _unreadable(gold)) is not None:
        return Verdict(Status.ERROR, shown(answers), gold, f"unreadable gold: {why}")
    gold = _unboxed(gold)
    try:
        correct, rule = same(shown(answers), gold, algebra)
        if len(answers) > 1 and not correct:
            correct, rule = all(same(answer, gold, algebra)[0] for answer in answers), "alternatives"
    except NeedsAlgebra:
        return None
    except Exception as error:  # no text that a model can write may end a training run
        return Verdict(Status.ERROR, shown(answers), gold, f"error: {type(error).__name__}")
    return Verdict(Status.CORRECT if correct else Status.WRONG, shown(answers), gold, rule)


def decide_with_algebra(answers: tuple[str, ...], gold: str) -> Verdict:
    """The same with sympy, in this process, without a deadline. What breaks down is an error, never a right answer."""
    from .symbolic import Symbolic

    verdict = decide(answers, gold, Symbolic())
    if verdict is None:
        return Verdict(Status.ERROR, shown(answers), gold, "error: undecided")
    return Verdict(verdict.status, verdict.extracted, verdict.gold_value, verdict.rule + " with algebra")


def unreadable(gold: str) -> str | None:
    """Why a gold cannot be used, or None. Data loading refuses such rows by name; grading calls them errors."""
    return _unreadable(gold)


@lru_cache(maxsize=65_536)
def _unreadable(gold: str) -> str | None:
    if not isinstance(gold, str):
        return f"it is {type(gold).__name__}, not text"
    gold = _unboxed(gold).strip()
    if gold.isdigit():
        return None if len(gold) <= guards.MAX_DIGITS else f"a number of more than {guards.MAX_DIGITS} digits"
    if not gold:
        return "it is empty"
    if len(gold) > MAX_GOLD:
        return f"longer than {MAX_GOLD} characters"
    if not gold.isprintable() and re.search(r"[^\S\n\t\r ]|[\x00-\x08\x0b-\x1f]", gold):
        return "it holds control characters"
    if not balanced(gold):
        return "its braces do not close"
    words = " ".join(re.sub(r"\\text\w*|\\mbox|[{}$]", " ", gold).split())
    if not words or _PLACEHOLDER.fullmatch(words):
        return "it is a placeholder, not an answer"
    if _POINTS_ELSEWHERE.search(gold):
        return "it points to something that is not in the text"
    if len(re.findall(r"(?<!\\)\b[a-zA-Z]{2,}\b", re.sub(r"\\[a-zA-Z]+", " ", gold))) > _MAX_WORDS:
        return f"more than {_MAX_WORDS} words"
    tidied = tidy(gold)
    if not tidied.strip("{} "):
        return "it is empty"
    try:
        number(tidied)
    except ZeroDivisionError:
        return "it divides by zero"
    return None


def _unboxed(gold: str) -> str:
    if "boxed" not in gold:
        return gold
    boxes = offer(gold, "box").answers
    return boxes[0] if len(boxes) == 1 else gold
