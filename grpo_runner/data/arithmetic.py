r"""Made-up arithmetic questions such as `29+22+6-20=?`, and the two kinds of right answer to them.

A question has two to four operands of 2..29 joined by + and -, and every value on the way from left to right lies in
0..99. `SHARES` says how often each number of operands comes: chains are in the majority, since it is there that working
step by step pays, and single operations are kept, since some of those can be done in the head. The BLAKE2b hash of its
text alone puts a question into the train or the eval split (7 to 1), so the two are disjoint whatever the seeds. Only
1,045 two-operand texts are in train and 145 in eval; a call that asks for more than those gives longer chains instead.
"""

from __future__ import annotations

import hashlib
import re
from itertools import accumulate
from typing import Literal

from .. import rng
from ..errors import InputError, nearest
from ..types import Question

Split = Literal["train", "eval"]
SHARES = {2: 0.25, 3: 0.4, 4: 0.35}  # number of operands: share of the questions
LOWEST, HIGHEST, TOP = 2, 29, 99
MOST = {"train": 100_000, "eval": 10_000}  # distinct questions in one call; more would be nearly all long chains

_OPERANDS = range(LOWEST, HIGHEST + 1)
# what may be added to each value
_STEPS = [[d for n in _OPERANDS for d in (n, -n) if 0 <= value + d <= TOP] for value in range(TOP + 1)]
_LIMITS = list(zip(SHARES, accumulate(SHARES.values()), strict=True))
_TERM = re.compile(r"([+-]?)(\d+)")
_TEXT = re.compile(r"\d+([+-]\d+)+=\?")


def split_of(text: str) -> Split:
    """The split that a text belongs to: one in eight is eval. A function of the text alone."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return "eval" if int.from_bytes(digest, "little") % 8 == 0 else "train"


def _steps(text: str) -> list[str]:
    """The operations of a question from left to right, each as a line such as `51+6=57`."""
    if not _TEXT.fullmatch(text):
        raise InputError(f"Not an arithmetic question: {text!r}. One looks like 29+22+6-20=?")
    (_, first), *rest = _TERM.findall(text)
    value, lines = int(first), []
    for sign, digits in rest:
        new = value + int(digits) if sign == "+" else value - int(digits)
        lines.append(f"{value}{sign}{digits}={new}")
        value = new
    return lines


def direct_solution(text: str) -> str:
    r"""The answer at once: `\boxed{37}`."""
    return rf"\boxed{{{_steps(text)[-1].split('=')[1]}}}"


def worked_solution(text: str) -> str:
    r"""One line per operation, then the box: `29+22=51`, `51+6=57`, `57-20=37`, `\boxed{37}`."""
    return "\n".join([*_steps(text), direct_solution(text)])


def questions(split: Split, seed: int, count: int) -> tuple[Question, ...]:
    """`count` distinct questions of a split; a smaller count with the same seed gives the first of the same ones."""
    if split not in MOST:
        raise InputError(f"No arithmetic split {split!r}; there are train and eval.{nearest(str(split), MOST)}")
    if not 0 <= count <= MOST[split]:
        raise InputError(f"Cannot make {count} distinct arithmetic questions: {split} has 0 to {MOST[split]}.")
    draws = rng.generator(seed, "arithmetic", split)
    found: dict[str, Question] = {}
    while len(found) < count:
        for kind, first, *rest in draws.random((256, 2 + max(SHARES) - 1)).tolist():
            n = next((n for n, limit in _LIMITS if kind < limit), max(SHARES))
            value = LOWEST + int(first * (HIGHEST - LOWEST + 1))
            text = str(value)
            for share in rest[: n - 1]:
                step = _STEPS[value][int(share * len(_STEPS[value]))]
                value += step
                text += f"{step:+d}"
            text += "=?"
            if len(found) < count and text not in found and split_of(text) == split:
                found[text] = Question(
                    id=f"arithmetic/{text.removesuffix('=?')}",
                    text=text,
                    gold=str(value),
                    solution=worked_solution(text),
                )
    return tuple(found.values())
