r"""Countdown: is an answer an expression of the given numbers, each used exactly once, whose value is the target? Pure.

A gold such as `65 from 19 36 55 7` is the task, and no answer: the checker hands every answer to it to `solves`. The
expression is read by a grammar of our own and never executed; its value is an exact fraction.

    expression = ["-"] term { ("+" | "-") term }
    term       = factor { ("*" | "/") factor }
    factor     = number | "(" expression ")"

Numbers are written as the task writes them (07 is not 7). × and ÷, \times, \cdot and \div, the minus sign − and \left
and \right stand for their ASCII signs; $ and white space for nothing. One `= 65` may follow where 65 is the target.
TinyZero too wants exactly the given numbers, each once (verl/utils/reward_score/countdown.py at f36b1b8). It runs the
text with Python's eval, so that 7//2 and 2**3 pass there and not here, and a value within 1e-5 is enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

RULE = "countdown"
NO_EXPRESSION = "countdown: no expression of numbers, + - * / and brackets"
OTHER_NUMBERS = "countdown: not each given number exactly once"
OTHER_VALUE = "countdown: another value than the target"
ZERO = "division by zero"
MAX_LENGTH = 300  # characters of an answer
_MAX_TOKENS = 100  # six numbers with their signs and brackets need fewer; it bounds the depth of the brackets
_GOLD = re.compile(r"(\d{1,9}) from (\d{1,9}(?: \d{1,9}){1,5})", re.ASCII)
_SPELLINGS = (
    (re.compile(r"\\(?:left|right)(?![a-zA-Z])|\$"), ""),
    (re.compile(r"\\(?:times|cdot)(?![a-zA-Z])|[×·]"), "*"),
    (re.compile(r"\\div(?![a-zA-Z])|÷"), "/"),
    (re.compile("−"), "-"),
)
_TOKEN = re.compile(r"\s*([0-9]+|[-+*/()])")


class _Unreadable(Exception):
    """The answer is no expression of the grammar."""


def is_task(gold: str) -> bool:
    """Whether a gold is a Countdown task: a target and two to six numbers."""
    return _GOLD.fullmatch(gold.strip()) is not None


def solves(answer: str, gold: str) -> tuple[bool, str]:
    """(does the answer solve the task, the rule that decided). gold: `is_task`. Raises nothing for any answer."""
    found = _GOLD.fullmatch(gold.strip())
    assert found is not None
    target, numbers = int(found[1]), sorted(found[2].split())
    if len(answer) > MAX_LENGTH:
        return False, NO_EXPRESSION
    for spelling, sign in _SPELLINGS:
        answer = spelling.sub(sign, answer)
    expression, equals, result = answer.partition("=")
    if equals and result.strip() != found[1]:
        return False, OTHER_VALUE if re.fullmatch(r"\s*-?[0-9]+\s*", result) else NO_EXPRESSION
    try:
        tokens = _tokens(expression)
        used = sorted(token for token in tokens if token.isdigit())
        value = _Reader(tokens).value()
    except _Unreadable:
        return False, NO_EXPRESSION
    except ZeroDivisionError:
        return False, ZERO
    if used != numbers:
        return False, OTHER_NUMBERS
    return (True, RULE) if value == target else (False, OTHER_VALUE)


def _tokens(text: str) -> list[str]:
    """Numbers, signs and brackets. Raises _Unreadable for anything else, digits of other scripts among it."""
    tokens: list[str] = []
    at = 0
    text = text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or len(tokens) == _MAX_TOKENS:
            raise _Unreadable
        tokens.append(found[1])
        at = found.end()
    return tokens


class _Reader:
    """Reads tokens by the grammar of the module's docstring, from left to right and without going back."""

    def __init__(self, tokens: list[str]) -> None:
        self._rest: Iterator[str] = iter(tokens)
        self._next = next(self._rest, "")

    def value(self) -> Fraction:
        """The value of all the tokens. Raises _Unreadable, ZeroDivisionError."""
        value = self._expression()
        if self._next:
            raise _Unreadable
        return value

    def _take(self) -> str:
        token, self._next = self._next, next(self._rest, "")
        return token

    def _expression(self) -> Fraction:
        negative = self._next == "-" and bool(self._take())
        value = -self._term() if negative else self._term()
        while self._next in ("+", "-"):
            value = value + self._term() if self._take() == "+" else value - self._term()
        return value

    def _term(self) -> Fraction:
        value = self._factor()
        while self._next in ("*", "/"):
            value = value * self._factor() if self._take() == "*" else value / self._factor()
        return value

    def _factor(self) -> Fraction:
        token = self._take()
        if token.isdigit():
            return Fraction(token)
        if token != "(":
            raise _Unreadable
        value = self._expression()
        if self._take() != ")":
            raise _Unreadable
        return value
