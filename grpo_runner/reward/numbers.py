r"""Exact values of written numbers: integers, decimals, percent, fractions, mixed numbers, powers. Fractions, no sympy.

`exact` reads rational arithmetic in tidied LaTeX (see normalize.tidy). It also says whether the text is one written
number or arithmetic left undone, since an answer that restates the question ("29+22") is not a result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

_MAX_BITS = 20_000  # about 6,000 digits
_MAX_DEPTH = 40

_INTEGER = re.compile(r"[+-]?[0-9]{1,400}")
_TOKEN = re.compile(
    r"\s*(?:"
    r"(?P<number>(?:[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+)"
    r"(?:\\(?:overline|bar|dot)\s*\{?(?P<repeat>[0-9]+)\}?)?(?:[eE](?P<power>[+-]?[0-9]{1,5})(?![a-zA-Z0-9]))?"
    r"|(?P<frac>\\frac(?![a-zA-Z]))|(?P<times>\\times(?![a-zA-Z])|\\cdot(?![a-zA-Z])|\*(?!\*))|(?P<over>/|\\div(?![a-zA-Z]))"
    r"|(?P<sign>[+-])|(?P<raise>\^|\*\*)|(?P<open>[({])|(?P<close>[)}])|(?P<percent>%))"
)
_SPACED_THOUSANDS = re.compile(r"[+-]?\s*[1-9][0-9]{0,2}(?: [0-9]{3})+(?:\.[0-9]+)?")
_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
)
WORDS = {word: value for value, word in enumerate(_WORDS.split())}


@dataclass(frozen=True)
class Exact:
    """An exact value. plain: one written number, no sum or product left undone. percent: it was written as percent.

    places: decimals behind the point when it was written as one plain decimal, else None.
    """

    value: Fraction
    plain: bool = True
    percent: bool = False
    places: int | None = None


class _NoNumber(Exception):
    """The text is not rational arithmetic."""


def exact(text: str) -> Exact | None:
    """The exact value of `text`, or None if it is not rational arithmetic within the limits.

    Raises ZeroDivisionError where the text divides by zero.
    """
    if _INTEGER.fullmatch(text):
        return Exact(Fraction(int(text)))
    if text in WORDS:
        return Exact(Fraction(WORDS[text]))
    if not text or len(text) > 4000 or not re.search(r"[0-9]", text):
        return None
    if _SPACED_THOUSANDS.fullmatch(text):
        text = text.replace(" ", "")
    try:
        return _Reader(text).read()
    except _NoNumber:
        return None


class _Reader:
    """Recursive descent over the tokens of one text: sum > product > signed > power > atom."""

    def __init__(self, text: str) -> None:
        self.tokens: list[re.Match[str]] = []
        position = 0
        text = text.rstrip()
        while position < len(text):
            token = _TOKEN.match(text, position)
            if token is None or len(self.tokens) > 400:
                raise _NoNumber
            self.tokens.append(token)
            position = token.end()
        self.at = 0
        self.depth = 0
        self.plain = True

    def read(self) -> Exact:
        value = self.sum()
        percent = self.kind() == "percent"
        if percent:
            self.at += 1
            value /= 100
        if self.at != len(self.tokens):
            raise _NoNumber
        return Exact(value, self.plain, percent, self._places())

    def _places(self) -> int | None:
        numbers = [token for token in self.tokens if token.lastgroup not in ("sign", "percent")]
        if len(numbers) != 1 or not numbers[0]["number"] or numbers[0]["repeat"] or numbers[0]["power"]:
            return None
        _, point, decimals = numbers[0]["number"].partition(".")
        return len(decimals) if point and decimals.strip("0") else None

    def kind(self, ahead: int = 0) -> str:
        if self.at + ahead >= len(self.tokens):
            return "end"
        token = self.tokens[self.at + ahead]
        return "number" if token["number"] else str(token.lastgroup)

    def take(self, kind: str) -> re.Match[str]:
        if self.kind() != kind:
            raise _NoNumber
        self.at += 1
        return self.tokens[self.at - 1]

    def sum(self) -> Fraction:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise _NoNumber
        value = self.product()
        while self.kind() == "sign":
            self.plain = False
            sign = self.take("sign")["sign"]
            value = _small(value + self.product() if sign == "+" else value - self.product())
        self.depth -= 1
        return value

    def product(self) -> Fraction:
        value = self.signed()
        divided = False
        while (kind := self.kind()) in ("times", "over", "frac", "number", "open"):
            if kind == "times":
                self.at += 1
                # 1.5 \times 10^3 is one number; any other product is arithmetic left undone
                if not (self.kind() == "number" and self.tokens[self.at]["number"] == "10" and self.kind(1) == "raise"):
                    self.plain = False
                value = _small(value * self.signed())
            elif kind == "over":
                if divided:
                    self.plain = False
                divided = True
                self.at += 1
                value = _small(value / self.signed())
            else:
                value = self._juxtaposed(value)
        return value

    def _juxtaposed(self, whole: Fraction) -> Fraction:
        """2\\frac{1}{2} and "2 1/2" are mixed numbers; (2)(3) is a product; two bare numbers in a row are nothing."""
        previous = self.tokens[self.at - 1]
        if self.kind() == "open":
            self.plain = False
            return _small(whole * self.signed())
        if not previous["number"] or whole.denominator != 1:
            raise _NoNumber
        if self.kind() == "number":
            if not (self.kind(1) == "over" and self.kind(2) == "number"):
                raise _NoNumber
            part = self.atom() / _denominator(self)
        else:
            part = self.atom()
        if not 0 <= part < 1:
            raise _NoNumber
        return _small(whole - part if whole < 0 else whole + part)

    def signed(self) -> Fraction:
        if self.kind() == "sign":
            sign = self.take("sign")["sign"]
            if self.kind() == "sign":
                raise _NoNumber
            value = self.power()
            return -value if sign == "-" else value
        return self.power()

    def power(self) -> Fraction:
        base = self.atom()
        if self.kind() != "raise":
            return base
        self.at += 1
        exponent = self.signed() if self.kind() != "number" else self.atom()
        if exponent.denominator != 1 or self.kind() == "raise":
            raise _NoNumber
        size = max(base.numerator.bit_length(), base.denominator.bit_length())
        if abs(exponent) * size > _MAX_BITS:
            raise _NoNumber
        return Fraction(base ** int(exponent))

    def atom(self) -> Fraction:
        kind = self.kind()
        if kind == "number":
            return _written(self.take("number"))
        if kind == "frac":
            self.at += 1
            above, below = self.group(), self.group()
            return _small(above / below)
        if kind == "open":
            return self.group()
        raise _NoNumber

    def group(self) -> Fraction:
        opening = self.take("open")["open"]
        value = self.sum()
        if self.take("close")["close"] != {"(": ")", "{": "}"}[opening]:
            raise _NoNumber
        return value


def _denominator(reader: _Reader) -> Fraction:
    reader.take("over")
    return reader.atom()


def _small(value: Fraction) -> Fraction:
    if value.numerator.bit_length() + value.denominator.bit_length() > 2 * _MAX_BITS:
        raise _NoNumber
    return value


def _written(token: re.Match[str]) -> Fraction:
    number, repeat, power = token["number"].replace(",", ""), token["repeat"], token["power"]
    whole, _, decimals = number.partition(".")
    if len(number) > 4000:
        raise _NoNumber
    value = Fraction(int((whole + decimals) or 0), 10 ** len(decimals))
    if repeat:
        if "." not in number:
            raise _NoNumber
        value += Fraction(int(repeat), (10 ** len(repeat) - 1) * 10 ** len(decimals))
    if power:
        if abs(int(power)) * 4 > _MAX_BITS:
            raise _NoNumber
        value *= Fraction(10) ** int(power)
    return _small(value)
