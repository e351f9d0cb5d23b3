r"""The value of one written expression, by a small grammar: numbers, radicals, powers, functions, letters. Pure.

Letters have fixed values that a point chooses, so that two expressions are compared by what they are there.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

from mpmath import mp, mpc, mpf

mp.dps = 40
_TOKEN = re.compile(r"\\[a-zA-Z]+|[0-9]+(?:\.[0-9]*)?|\.[0-9]+|[a-zA-Z]|[-+*/^(){}\[\]|!]")
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "\\sin": mp.sin,
    "\\cos": mp.cos,
    "\\tan": mp.tan,
    "\\cot": mp.cot,
    "\\sec": mp.sec,
    "\\csc": mp.csc,
    "\\log": mp.log,
    "\\ln": mp.log,
}
_STARTS = {"(", "{", "|", "\\frac", "\\sqrt", "\\pi", "\\theta", "\\alpha", *_FUNCTIONS}


class Unreadable(Exception):
    """This grammar does not cover the text."""


def evaluate(text: str, point: int = 0) -> Any:
    """The value of one expression, its letters at fixed values that `point` chooses. Raises Unreadable."""
    if re.search(r"\\text|\\mbox|[:_'=]", text) or not text:
        raise Unreadable(text)
    return Reader(text, point).all()


class Reader:
    """Recursive descent over one expression: sum > product > power > atom."""

    def __init__(self, text: str, point: int = 0) -> None:
        self.tokens, self.point, self.at = _TOKEN.findall(text), point, 0
        if "".join(self.tokens) != re.sub(r"\s+", "", text):
            raise Unreadable(text)

    def all(self) -> Any:
        try:
            result = self.sum()
        except (ZeroDivisionError, IndexError, OverflowError, ValueError, TypeError) as error:
            raise Unreadable(" ".join(self.tokens)) from error
        if self.at != len(self.tokens):
            raise Unreadable(" ".join(self.tokens))
        return result

    def next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, *allowed: str) -> str:
        if allowed and self.next() not in allowed:
            raise Unreadable(self.next())
        self.at += 1
        return str(self.tokens[self.at - 1])

    def sum(self) -> Any:
        sign = self.take() if self.next() in ("+", "-") else "+"
        total = self.product() * (-1 if sign == "-" else 1)
        while self.next() in ("+", "-"):
            total = total + self.product() if self.take() == "+" else total - self.product()
        return total

    def product(self) -> Any:
        total = self.power()
        while token := self.next():
            if token in ("*", "\\cdot", "\\times"):
                self.take()
                total *= self.power()
            elif token in ("/", "\\div"):
                self.take()
                total /= self.power()
            elif token in _STARTS or token[0].isalnum() or token[0] == ".":
                if token[0].isdigit() and self.tokens[self.at - 1][-1].isdigit():
                    raise Unreadable("two numbers in a row")
                mixed = token == "\\frac" and self.tokens[self.at - 1].isdigit() and self.tokens[self.at + 2].isdigit()
                total = total + self.power() if mixed else total * self.power()
            else:
                break
        return total

    def power(self) -> Any:
        if self.next() == "-":
            self.take()
            return -self.power()
        base = self.atom()
        while self.next() in ("^", "!", "\\degree"):
            mark = self.take()
            if mark == "^":
                base = self.raised(base, self.argument())
            else:
                base = mp.factorial(base) if mark == "!" else base * mp.pi / 180
        return base

    def argument(self) -> Any:
        if self.next() == "{":
            return self.group("{", "}")
        return -self.atom() if self.next() == "-" and self.take() else self.atom()

    def group(self, opening: str, closing: str) -> Any:
        self.take(opening)
        value = self.sum()
        self.take(closing)
        return value

    def atom(self) -> Any:
        token = self.next()
        if token in ("(", "{"):
            return self.group(token, ")" if token == "(" else "}")
        if token == "|":
            return abs(self.group("|", "|"))
        self.take()
        if token[0].isdigit() or token[0] == ".":
            return self.number(token)
        if token == "\\frac":
            above = self.argument()
            return above / self.argument()
        if token == "\\sqrt":
            root = self.group("[", "]") if self.next() == "[" else mpf(2)
            return mp.power(self.argument(), 1 / root)
        if token in _FUNCTIONS:
            raised = self.argument() if self.next() == "^" and self.take() else 1
            return mp.power(_FUNCTIONS[token](self.power()), raised)
        if token == "\\pi":
            return +mp.pi
        if token == "i":
            return mpc(0, 1)
        if token.isalpha() or token in ("\\theta", "\\alpha"):
            return self.letter(token)
        raise Unreadable(token)

    def number(self, token: str) -> Any:
        return mpf(token)

    def letter(self, token: str) -> Any:
        return mpf(random.Random(f"{token} {self.point}").randrange(10**8, 9 * 10**8)) / 10**8

    def raised(self, base: Any, exponent: Any) -> Any:
        return mp.power(base, exponent)
