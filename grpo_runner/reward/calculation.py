"""The value of numbers, + - * / ^, % and brackets, in fractions: one side of a statement (statements.py)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

DIGITS, DEEPEST, BITS = 30, 20, 4096  # of a number, brackets, a power


class Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


class Unclear(Exception):
    """No statement that can be checked."""


class Parser:
    """One side of a chain, by recursive descent. operations: how many it had."""

    def __init__(self, tokens: Sequence[Token], percent: Fraction) -> None:
        self.tokens, self.percent = tokens, percent
        self.at, self.depth, self.operations, self.by_zero = 0, 0, 0, False

    def value(self) -> Fraction | None:
        """Its value; None where something is divided by 0. Raises Unclear where it is no expression."""
        found = self._sum()
        if self.at < len(self.tokens):
            raise Unclear
        return None if self.by_zero else found

    def _next(self) -> str:
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def _touches(self) -> bool:
        """Whether the sign at hand stands between its neighbours without a space."""
        before, sign = self.tokens[self.at - 1], self.tokens[self.at]
        behind = self.tokens[self.at + 1] if self.at + 1 < len(self.tokens) else sign
        return before.end == sign.start and sign.end == behind.start

    def _sum(self) -> Fraction:
        total = self._product()
        while (sign := self._next()) in ("+", "-"):
            self.at += 1
            self.operations += 1
            other = self._product()
            total = total + other if sign == "+" else total - other
        return total

    def _product(self) -> Fraction:
        total, divided, joined = self._signed(), False, False
        tight = set[bool]()
        while (sign := self._next()) in ("*", "/", "("):
            if sign == "/":
                tight.add(self._touches())
            self.at += sign != "("  # 2(3 + 4)
            self.operations += 1
            other = self._signed()
            divided, joined = divided or sign == "/", joined or sign == "("
            if sign != "/":
                total *= other
            elif other:
                total /= other
            else:
                self.by_zero = True
        if (divided and joined) or len(tight) > 1:  # 8/2(2+2), 25 / 1/3: readers differ
            raise Unclear
        return total

    def _signed(self) -> Fraction:
        sign = 1
        while self._next() in ("+", "-"):
            sign = -sign if self._next() == "-" else sign
            self.at += 1
        return sign * self._power()

    def _power(self) -> Fraction:
        base = self._single()
        if self._next() != "^":
            return base
        self.at += 1
        self.operations += 1
        text = self._next()
        self.at += 1
        size = max(base.numerator.bit_length(), base.denominator.bit_length())
        if not text.isdecimal() or len(text) > 3 or size * int(text) > BITS or self._next() == "^":
            raise Unclear
        return base ** int(text)

    def _single(self) -> Fraction:
        if self.at >= len(self.tokens):
            raise Unclear
        token = self.tokens[self.at]
        self.at += 1
        if token.kind == "number":
            if len(token.text) > DIGITS or re.match("0[0-9]", token.text):  # 0900 - 0130 = 0730 are hours
                raise Unclear
            found = Fraction(token.text.replace(",", "") if token.text[0] != "." else f"0{token.text}")
        elif token.text == "(":
            self.depth += 1
            if self.depth > DEEPEST:
                raise Unclear
            found = self._sum()
            if self._next() != ")":
                raise Unclear
            self.at += 1
            self.depth -= 1
        else:
            raise Unclear
        if self._next() == "%":
            self.at += 1
            found *= self.percent
        return found
