r"""Decorations, further ways to write a number, and further units behind one: rules as in gold_rewrites.py. Pure."""

from __future__ import annotations

import re
from fractions import Fraction

from gold_helpers import FRACTION, MATHS, NUMBER, ONE_VALUE, Rewrite, around, whole

_NUMBER_ONLY = rf"^\s*(?:{NUMBER})\s*$"


def _repeating(found: re.Match[str]) -> str | None:
    """0.\\overline{3} for a third, where the period is at most six digits."""
    value = abs(Fraction(int(found[2]), int(found[3])))
    sign = "-" if bool(found[1]) != found[2].startswith("-") else ""
    whole_part, rest = divmod(value.numerator, value.denominator)
    digits, seen = "", {}
    while rest and rest not in seen and len(digits) < 9:
        seen[rest] = len(digits)
        digits += str(rest * 10 // value.denominator)
        rest = rest * 10 % value.denominator
    if not rest or rest not in seen or len(digits) - seen[rest] > 6:
        return None
    return f"{sign}{whole_part}.{digits[: seen[rest]]}\\overline{{{digits[seen[rest] :]}}}"


DRESS: dict[str, Rewrite] = {
    # decorations
    "fbox inside": around(r"\fbox{", "}", _NUMBER_ONLY),
    "underlined": around(r"\underline{", "}", MATHS),
    "bold fraction": around(r"\mathbf{", "}", rf"^\s*{FRACTION}\s*$"),
    "bold symbol": around(r"\boldsymbol{", "}", MATHS + r"(?!.*(?:text|mbox|\\[!]))"),
    "bm": around(r"\bm{", "}", rf"^\s*(?:{NUMBER}|{FRACTION})\s*$"),
    "old bold": around(r"{\bf ", "}", _NUMBER_ONLY),
    "old roman": around(r"\rm ", "", _NUMBER_ONLY),
    "large": around(r"\large ", "", MATHS),
    "coloured": around(r"\color{red}{", "}", _NUMBER_ONLY),
    "coloured text": around(r"\textcolor{blue}{", "}", _NUMBER_ONLY),
    "maths in text": around(r"\text{$", "$}", MATHS + r"(?!.*(?:\\text|\\\$))"),
    "stop in text": around("", r"\text{.}", MATHS),
    "empty text": around(r"\text{}", "", MATHS),
    "space in text": around(r"\text{ }", "", MATHS),
    "comma behind": around("", ",", MATHS),
    "hspace": around(r"\hspace{1em}", "", MATHS),
    "bold marks": around("**", "**", _NUMBER_ONLY),
    "ensuremath": around(r"\ensuremath{", "}", _NUMBER_ONLY),
    "Therefore": around(r"\therefore ", "", ONE_VALUE),
    "Final answer:": around(r"\text{Final answer: }", "", MATHS),
    # numbers
    "repeating decimal": whole(FRACTION, _repeating),
    "fraction in brackets": whole(FRACTION, r"\1\\left(\\frac{\2}{\3}\\right)"),
    "quotient with div": whole(FRACTION, r"\1\2 \\div \3"),
    "both signs": whole(r"\\([dt]?)frac\{([0-9]+)\}\{([0-9]+)\}", r"\\\1frac{-\2}{-\3}"),
    "spaces in fraction": whole(FRACTION, r"\1\\frac{ \2 }{ \3 }"),
    "scientific with e": whole(r"([1-9])(0{4,})", lambda found: f"{found[1]}e{len(found[2])}"),
    "power of ten": whole(
        r"([1-9])(0{3,})", lambda found: f"{found[1]} \\cdot 10^{len(found[2])}" if len(found[2]) < 10 else None
    ),
    "Unicode power of ten": whole(r"([1-9])(0{3})", r"\1×10³"),
    "cents behind thousands": whole(r"([1-9][0-9]{0,2})([0-9]{3})", r"\1,\2.00"),
    "dollar and thousands": whole(r"([1-9][0-9]{0,2})([0-9]{3})", r"\\$\1,\2"),
    "thousands and unit": whole(r"([1-9][0-9]{0,2})([0-9]{3})", r"\1,\2 \\text{ people}"),
    "number word": whole(
        r"[2-9]|1[0-2]",
        lambda found: (
            "\\text{"
            + [
                "zero",
                "one",
                "two",
                "three",
                "four",
                "five",
                "six",
                "seven",
                "eight",
                "nine",
                "ten",
                "eleven",
                "twelve",
            ][int(found[0])]
            + "}"
        ),
    ),
    # units
    "mathrm cm": around("", r"~\mathrm{cm}", _NUMBER_ONLY),
    "mathrm in": around("", r"\ \mathrm{in}", _NUMBER_ONLY),
    "mathrm cm squared": around("", r"\ \mathrm{cm}^2", _NUMBER_ONLY),
    "mathrm quotient": around("", r"\,\mathrm{m/s}", _NUMBER_ONLY),
    "text quotient": around("", r" \text{ m/s}", _NUMBER_ONLY),
    "textrm": around("", r"\textrm{ cm}", _NUMBER_ONLY),
    "full stop of a unit": around("", r"\text{ in.}", _NUMBER_ONLY),
    "feet behind a space": around("", r"\ \text{ft}", _NUMBER_ONLY),
    "miles per hour": around("", r"\text{ miles per hour}", _NUMBER_ONLY),
    "plain hours": around("", " hours", _NUMBER_ONLY),
    "years old": around("", r"\text{ years old}", _NUMBER_ONLY),
    "square feet": around("", r"\text{ sq. ft.}", _NUMBER_ONLY),
    "cubic": around("", r"\text{ cubic inches}", _NUMBER_ONLY),
    "unit with dot": around("", r"\cdot \text{ cm}", _NUMBER_ONLY),
    "unit in brackets": around("", r"\ (\text{cm})", _NUMBER_ONLY),
    "USD": around("", r"\text{ USD}", _NUMBER_ONLY),
    "outcome of a count": around("", r"\text{ different ways}", _NUMBER_ONLY),
    "percent with space": whole(r"([0-9.]+)\s*\\%", r"\1 \\%"),
    "percent in text": whole(r"([0-9.]+)\s*\\%", r"\1\\text{\\%}"),
    "percent outside": whole(r"([0-9.]+)\s*\\%", r"$\1$%"),
    "degree and thin space": whole(r"([0-9.]+)\^\{?\\circ\}?", r"\1^{\\circ}\\,"),
}
