r"""Made-up arithmetic questions such as `29+22+6-20=?`, and the two kinds of right answer to them.

A question has two to four operands of 2..29 joined by + and -, and every value on the way from left to right lies in
0..99. `SHARES` says how many have how many operands: chains are in the majority, since it is there that working step
by step pays. The BLAKE2b hash of its text alone puts a question into the train or the eval split (7 to 1), so the two
are disjoint whatever the seeds. A kind that runs out (there are about 1,000 two-operand texts in train and 150 in eval)
is made up by longer chains.
"""

from __future__ import annotations

import hashlib
import re
from typing import Literal, get_args

from grpo_runner import rng
from grpo_runner.errors import InputError, nearest
from grpo_runner.types import Question

Split = Literal["train", "eval"]
SHARES = {2: 0.25, 3: 0.4, 4: 0.35}  # number of operands: share of the questions
LOWEST, HIGHEST, TOP = 2, 29, 99
MOST = {"train": 100_000, "eval": 10_000}  # distinct texts in one call; there are more, but the mix would be lost

_TERM = re.compile(r"([+-]?)(\d+)")
_TEXT = re.compile(r"\d+([+-]\d+){1,}=\?")


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
    if split not in get_args(Split):
        raise InputError(f"No arithmetic split {split!r}; there are train and eval.{nearest(str(split), MOST)}")
    if not 0 <= count <= MOST[split]:
        raise InputError(f"Cannot make {count} distinct arithmetic questions: {split} has 0 to {MOST[split]}.")
    draws = rng.generator(seed, "arithmetic", split)
    kinds, shares = list(SHARES), list(SHARES.values())
    found: dict[str, Question] = {}
    while len(found) < count:
        n = int(draws.choice(kinds, p=shares))
        value = int(draws.integers(LOWEST, HIGHEST + 1))
        text = str(value)
        for _ in range(n - 1):
            steps = [d for d in (*range(-HIGHEST, 1 - LOWEST), *range(LOWEST, HIGHEST + 1)) if 0 <= value + d <= TOP]
            step = steps[int(draws.integers(len(steps)))]
            value += step
            text += f"{step:+d}"
        text += "=?"
        if text not in found and split_of(text) == split:
            found[text] = Question(id=f"arithmetic/{text.removesuffix('=?')}", text=text, gold=str(value))
    return tuple(found.values())
