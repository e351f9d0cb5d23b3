r"""The checker as one pure function: a response and a gold in, a Verdict out; and what makes a gold unreadable.

`check` runs in the calling process and has no deadline of its own (guards keep its inputs small): training and
evaluation use workers.Grader, which asks the same functions in processes that can be killed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from ..types import Status, Verdict
from . import countdown, guards
from .braces import balanced
from .equivalence import hedges, same
from .extract import offer
from .judge import Algebra, NeedsAlgebra
from .normalize import tidy
from .notation import number
from .policy import DEFAULT, Gold, Policy, golds_of
from .rules import ALGEBRA

MAX_GOLD = 1500
_PLACEHOLDER = re.compile(
    r"(?:none|null|nan|n/?a|tbd|todo|unknown|missing|omitted|proof|not ?found|\?+|-+|\.+"
    r"|see\b.*|refer\b.*|as (?:shown|above|below)\b.*)",
    re.IGNORECASE | re.DOTALL,
)
_POINTS_ELSEWHERE = re.compile(r"https?://|!\[|<img|\b(?:figure|diagram|picture|image|attachment)\b", re.IGNORECASE)
_MAX_WORDS = 12
_THOUSANDS = re.compile(r"-?[1-9][0-9]{0,2}(?:,[0-9]{3})+")


def check(response: str, gold: Gold, policy: Policy = DEFAULT) -> Verdict:
    """Grade one response against a gold, or against several accepted ones. Never raises for any response.

    Status is correct, wrong, no_answer, ambiguous, or error when computer algebra broke down (an unreadable gold is an
    error too). gold = gold always holds, but for a Countdown task (countdown.py), which is no answer.
    Has no deadline: for answers that nobody has vetted, take workers.Grader.
    """
    answers, golds = offer(response, policy.extract, policy.boxes).answers, golds_of(gold)
    if not answers:
        return Verdict(Status.NO_ANSWER, gold_value=shown_golds(golds), rule="no answer")
    verdict = decide(answers, golds, policy)
    return verdict if verdict is not None else decide_with_algebra(answers, golds, policy)


def shown(answers: tuple[str, ...]) -> str:
    """The extracted answer as one text: alternatives are joined as the list that they are."""
    return answers[0] if len(answers) == 1 else ", ".join(answers)


def shown_golds(golds: tuple[str, ...]) -> str:
    """The golds as one text."""
    return golds[0] if len(golds) == 1 else " or ".join(golds)


Compare = Callable[[str, str], tuple[bool, str]]


def decide(
    answers: tuple[str, ...], golds: tuple[str, ...], policy: Policy = DEFAULT, algebra: Algebra | None = None
) -> Verdict | None:
    """Compare without computer algebra unless one is given; None when the pair needs it. Raises nothing.

    Answers offered as alternatives are one list: right if the gold is that list, or if each of them is the gold.
    """

    def compare(answer: str, gold: str) -> tuple[bool, str]:
        if countdown.is_task(gold):  # under every policy: such a gold has no value of its own
            return countdown.solves(answer, gold)
        if policy.equality == "value":
            return same(answer, gold, algebra, policy)
        return _as_texts(answer, gold, policy, algebra)

    try:
        for gold in golds:
            if (why := _unreadable(gold)) is not None:
                return Verdict(Status.ERROR, shown(answers), shown_golds(golds), f"unreadable gold: {why}")
        if not golds:
            return Verdict(Status.ERROR, shown(answers), None, "unreadable gold: there is none")
        status, rule = _judged(answers, tuple(map(unboxed, golds)), policy, compare)
    except NeedsAlgebra:
        return None
    except Exception as error:  # no text that a model can write may end a training run
        status, rule = Status.ERROR, f"error: {type(error).__name__}"
    return Verdict(status, shown(answers), shown_golds(golds), rule)


def _judged(answers: tuple[str, ...], golds: tuple[str, ...], policy: Policy, compare: Compare) -> tuple[Status, str]:
    if len(golds) > 1 and policy.several_golds == "all":
        correct, rule = compare(shown(answers), ", ".join(_without_commas(gold) for gold in golds))
        return (Status.CORRECT, rule) if correct else (Status.WRONG, "all golds")
    found, undecided = [], False
    for gold in golds:  # one that is equal settles it, whatever the others need
        try:
            found.append(_against(answers, gold, policy, compare))
        except NeedsAlgebra:
            undecided = True
            continue
        if found[-1][0] is Status.CORRECT:
            return found[-1]
    if undecided:
        raise NeedsAlgebra
    return next((one for one in found if one[0] is Status.AMBIGUOUS), found[-1])


def _against(answers: tuple[str, ...], gold: str, policy: Policy, compare: Compare) -> tuple[Status, str]:
    """One gold: correct, wrong, or ambiguous where it is among several values that are offered."""
    if len(answers) == 1 or policy.boxes != "only":
        correct, rule = compare(shown(answers), gold)
        if correct:
            return Status.CORRECT, rule
    if len(answers) > 1:
        equal = [compare(answer, gold)[0] for answer in answers]
        return (Status.CORRECT if all(equal) else Status.AMBIGUOUS if any(equal) else Status.WRONG), "alternatives"
    if policy.equality == "value" and not countdown.is_task(gold) and hedges(answers[0], gold, policy):
        return Status.AMBIGUOUS, "hedge"
    return Status.WRONG, rule


def _as_texts(answer: str, gold: str, policy: Policy, algebra: Algebra | None) -> tuple[bool, str]:
    """equality=string and equality=math_verify: rules of other graders, kept for comparison."""
    if policy.extract == "hash":  # verl strips these from the answer, and from the gold when it writes its data
        gold = gold.replace(",", "").replace("$", "")
    if answer.strip() == gold.strip():
        return True, "identical"
    if policy.equality == "string":
        return False, "string"
    if len(answer) > 20 * guards.MAX_LENGTH:
        return False, f"refused: longer than {20 * guards.MAX_LENGTH} characters"
    if algebra is None:
        raise NeedsAlgebra
    return algebra.plain(answer if policy.extract == "whole" else f"${answer}$", f"${gold}$"), "math-verify"


def _without_commas(gold: str) -> str:
    return gold.replace(",", "") if _THOUSANDS.fullmatch(gold) else gold


def decide_with_algebra(answers: tuple[str, ...], golds: tuple[str, ...], policy: Policy = DEFAULT) -> Verdict:
    """The same with sympy, in this process, without a deadline. What breaks down is an error, never a right answer."""
    from .symbolic import Symbolic

    verdict = decide(answers, golds, policy, Symbolic())
    if verdict is None:
        return Verdict(Status.ERROR, shown(answers), shown_golds(golds), "error: undecided")
    return Verdict(verdict.status, verdict.extracted, verdict.gold_value, verdict.rule + ALGEBRA)


def unreadable(gold: Gold) -> str | None:
    """Why a gold, or one of several, cannot be used; None when all can. Data loading refuses such rows by name."""
    try:
        golds = golds_of(gold)
    except TypeError as error:
        return str(error)
    return next((why for one in golds if (why := _unreadable(one)) is not None), None if golds else "there is none")


@lru_cache(maxsize=65_536)
def _unreadable(gold: str) -> str | None:
    gold = unboxed(gold).strip()
    if gold.isdigit():
        return None if len(gold) <= guards.MAX_DIGITS else f"a number of more than {guards.MAX_DIGITS} digits"
    if not gold:
        return "it is empty"
    if len(gold) > MAX_GOLD:
        return f"longer than {MAX_GOLD} characters"
    if not gold.isprintable() and re.search(r"[^\S\n\t\r ]|[\x00-\x08\x0b-\x1f]", gold):
        return "it holds control characters"
    if not balanced(gold) or re.search(r"(?<!\\)(?:\\\\)*\\$", gold):
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


def unboxed(gold: str) -> str:
    """A gold without the one box that it may stand in."""
    if "boxed" not in gold:
        return gold
    boxes = offer(gold, "box").answers
    return boxes[0] if len(boxes) == 1 else gold
