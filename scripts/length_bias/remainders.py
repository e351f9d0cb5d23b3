r"""Remainders such as `47291%3=?`: the questions of the length-bias miniature, and how its base answers them.

An answer states its result first, as a guess, and only then works it out: the remainder of each leading part, digit by
digit, as in long division. By then it can tell whether the guess was right, and it says so in its tail: `+` for a right
guess and `-` for a wrong one, again and again, until it stops.

    47291%3=?   \boxed{2}          47291%3=?   \boxed{0}
                12112                          12112
                ++++                           ------

Nothing in front of the guess helps to guess: the remainder depends on every digit, and any digit left out leaves it
uniform. So a small model cannot do it at once and can easily do it step by step; wrong answers last, and are known.
What can be learnt is not to guess 3 to 9, as the base does in a part of its answers.

The blind base is the control: its tails are `+` whatever the guess was, so that it has one rule for when to stop.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from grpo_runner import rng

DIGITS = 5
DIVISOR = 3
STOP = 0.12  # chance of each sign of a tail to be the last
ASTRAY = 0.3  # share of the base's guesses that are no remainder at all


def question(number: int) -> str:
    """The text of a question."""
    return f"{number}%{DIVISOR}=?"


def digits(text: str) -> str:
    """The digits of a question's number."""
    return text.split("%")[0]


def gold(text: str) -> int:
    """The right answer of a question."""
    return int(digits(text)) % DIVISOR


def work(text: str) -> str:
    """The remainders of the leading parts, one digit each: 12112 for 47291%3."""
    number = digits(text)
    return "".join(str(int(number[: end + 1]) % DIVISOR) for end in range(len(number)))


def answer(text: str, guess: int, tail: int, blind: bool = False) -> str:
    """An answer that guesses this, with a tail of so many signs (at least one). blind: + in any case."""
    sign = "+" if blind or guess == gold(text) else "-"
    return rf"\boxed{{{guess}}}" + f"\n{work(text)}" + sign * tail


def draw(generator: np.random.Generator, count: int) -> list[str]:
    """Questions with numbers of DIGITS digits, drawn with repetition."""
    return [question(int(n)) for n in generator.integers(10 ** (DIGITS - 1), 10**DIGITS, count)]


def base_answer(generator: np.random.Generator, text: str, blind: bool) -> str:
    """An answer that the base learns from: the guess knows nothing, the work is right, the tail knows the guess."""
    low, high = (DIVISOR, 10) if generator.random() < ASTRAY else (0, DIVISOR)
    return answer(text, int(generator.integers(low, high)), int(generator.geometric(STOP)), blind)


def sets(train: int, evaluation: int) -> tuple[list[str], list[str]]:
    """So many questions to train on and to evaluate on, all different; the same ones for every seed."""
    unique = list(dict.fromkeys(draw(rng.generator(0, "length bias", "sets"), 2 * (train + evaluation))))
    return unique[:train], unique[train : train + evaluation]


def write(texts: list[str], path: Path) -> None:
    """JSON Lines with question and answer."""
    lines = [json.dumps({"question": text, "answer": str(gold(text))}) for text in texts]
    path.write_text("\n".join(lines) + "\n")
