r"""Rows to time graders on, made from integers, GSM8K solutions and MATH golds. Pure.

A row is (response, gold, expected). Every third row that comes from a data set is wrong, by one in a number.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

Row = tuple[str, str, bool]
WRONG_EVERY = 3


def integers(count: int, seed: int = 0) -> list[Row]:
    """Different whole numbers in a box after one sentence; every other answer is one too large."""
    draw = random.Random(seed)
    numbers = draw.sample(range(1, 10**7), count)
    return [
        (f"Adding the parts gives $\\boxed{{{number + index % 2}}}$.", str(number), index % 2 == 0)
        for index, number in enumerate(numbers)
    ]


def gsm8k(rows: Sequence[dict[str, str]]) -> list[Row]:
    """The solutions as prose, without calculator marks, closed by "#### 18" or "The answer is 18."."""
    made = []
    for index, row in enumerate(rows):
        prose = re.sub(r"<<.*?>>", "", row["solution"]).partition("####")[0].strip()
        expected = index % WRONG_EVERY != 0
        answer = row["answer"] if expected else str(int(row["answer"].replace(",", "")) + 1)
        close = f"#### {answer}" if index % 2 else f"The answer is {answer}."
        made.append((f"{prose}\n{close}", row["answer"], expected))
    return made


def math(rows: Sequence[dict[str, str]]) -> list[Row]:
    """The gold in a box after prose: as it is, or (every other right one) in another spelling."""
    made = []
    for index, row in enumerate(rows):
        gold = row["answer"]
        changed = near_miss(gold) if index % WRONG_EVERY == 0 else None
        answer = changed or (respelled(gold) if index % 2 else gold)
        made.append((_in_prose(row["question"], answer), gold, changed is None))
    return made


def expressions(rows: Sequence[dict[str, str]]) -> list[Row]:
    """Golds that are sums with letters, roots or pi, their terms in the opposite order: text alone cannot decide."""
    sums = [(row, terms) for row in rows if len(terms := _terms(row["answer"])) > 1]
    made = []
    for index, (row, terms) in enumerate(sums):
        turned = "".join(term if term[0] in "+-" else f"+{term}" for term in reversed(terms)).removeprefix("+")
        changed = near_miss(turned) if index % WRONG_EVERY == 0 else None
        made.append((_in_prose(row["question"], changed or turned), row["answer"], changed is None))
    return made


def _in_prose(question: str, answer: str) -> str:
    return f"{question}\n\nWorking this out step by step, we get\n\\[\\boxed{{{answer}}}\\]"


def _terms(gold: str) -> list[str]:
    """The signed terms of a sum; none where the gold is no sum, or more than one."""
    if not re.search(r"\\sqrt|\\pi|(?<![\\a-zA-Z])[a-zA-Z](?![a-zA-Z])", gold) or re.search(
        r"[,=<>&:]|\\(?!frac|sqrt|pi)", gold
    ):
        return []
    terms, depth = [""], 0
    for character in gold.replace(" ", "").rstrip("."):
        depth += (character in "{([") - (character in "})]")
        if character in "+-" and depth == 0 and terms[-1]:
            terms.append("")
        terms[-1] += character
    return terms if all(term.strip("+-") for term in terms) else []


def respelled(gold: str) -> str:
    """The same value in another spelling: an integer with a comma or .0, LaTeX with other commands and spaces."""
    if re.fullmatch(r"-?\d+", gold):
        return f"{int(gold):,}" if abs(int(gold)) >= 1000 else f"{gold}.0"
    text = re.sub(r"\\[dt]frac", r"\\frac", gold)
    text = text.replace("\\frac", "\\dfrac")
    text = re.sub(r"(?<!\\left)\((?=[^()]*\))", r"\\left(", text) if "\\right" not in text else text
    text = re.sub(r"(\\left\([^()]*)\)", r"\1\\right)", text) if "\\right" not in text else text
    text = re.sub(r"\^(\w)", r"^{\1}", text)
    text = re.sub(r"(?<=[\w})])\s*([+-])\s*(?=[\w\\(])", r" \1 ", text)
    return text if text != gold else f"\\; {gold}"


def near_miss(gold: str) -> str | None:
    """The gold with its last number one larger; None where it has no number."""
    numbers = list(re.finditer(r"\d+", gold))
    if not numbers:
        return None
    last = numbers[-1]
    return gold[: last.start()] + str(int(last[0]) + 1) + gold[last.end() :]
