r"""Other spellings of real golds, by rules that keep the meaning under the checker's policy. Pure.

`rewrites(gold)` yields (rule, answer). A rule is a pattern with its replacement, applied to the whole gold, or a small
function; it yields nothing where it does not apply. Only rules whose result is right for every gold that they take are
here: an order is changed only in lists and sums, a unit is added only to a bare number, a base is never changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from gold_dress import DRESS
from gold_forms import FORMS
from gold_helpers import ANY, BARE, FRACTION, MATHS, ONE_VALUE, Rewrite, around, outside_text, sub, whole
from gold_sets import SETS

_UNIT = r"\s*(?:\\[,; ])*\\(?:text|mbox|textnormal)\s*\{(?!\s*[ap]\.m)([^{}0-9]*[a-zA-Z.][^{}0-9]*)\}\.?"
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def _decimal(value: Fraction) -> str | None:
    denominator = value.denominator
    places = next((n for n in range(8) if 10**n % denominator == 0), None)
    return (
        None
        if places is None
        else f"{'-' if value < 0 else ''}{abs(value.numerator) * 10**places // denominator / 10**places:.{places}f}"
    )


def _as_fraction(found: re.Match[str]) -> Fraction:
    return Fraction(int(found[2]), int(found[3])) * (-1 if found[1] else 1)


def _mixed(found: re.Match[str], style: str) -> str | None:
    value = abs(_as_fraction(found))
    whole, rest = divmod(value.numerator, value.denominator)
    sign = "-" if _as_fraction(found) < 0 else ""
    return f"{sign}{whole}" + style % (rest, value.denominator) if whole and rest else None


def _scientific(found: re.Match[str]) -> str | None:
    digits = found[0].rstrip("0")
    if len(found[0]) < 4 or len(digits) > len(found[0]) - 2 or not digits:
        return None
    head = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{head} \\times 10^{{{len(found[0]) - 1}}}"


def _grouped(separator: str) -> Rewrite:
    def rewrite(gold: str) -> str | None:
        plain = re.sub(r"\s*,\s*\\!\s*|\{,\}|,(?=[0-9]{3})", "", gold.strip())
        if not re.fullmatch(r"-?[1-9][0-9]{3,}", plain):
            return None
        new = f"{int(plain):,}".replace(",", separator)
        return new if new != gold else None

    return rewrite


def _written(value: Fraction) -> str:
    return f"\\frac{{{value.numerator}}}{{{value.denominator}}}"


def _equal_fraction(found: re.Match[str]) -> str:
    return f"{found[1]}\\frac{{{2 * int(found[2])}}}{{{2 * int(found[3])}}}"


_SPACES = outside_text(lambda part: re.sub(r"(?<![a-zA-Z]) +(?![0-9]{3}(?![0-9]))| +(?![a-zA-Z0-9])", "", part))

RULES: dict[str, Rewrite] = (
    {
        # layout
        "spaces outside": around("  ", " ", ANY),
        "spaces removed": _SPACES,
        "spaces at operators": outside_text(
            lambda part: re.sub(r"(?<=[0-9a-z)}])([-+=])(?=[0-9a-z\\(])", r" \1 ", part)
        ),
        "spaces behind commas": sub(
            r",(?=[-0-9a-z\\(](?!!))(?![0-9]{3}(?![0-9]))", r",\; ", r"^(?!.*(?:\{,\}|\\!|\\text|\\[,;]))"
        ),
        "dollar signs": around("$", "$", r"^(?!.*(?<!\\)\$)" + ANY[1:]),
        "round delimiters": around(r"\(", r"\)", ANY),
        "square delimiters": around(r"\[ ", r" \]", ANY),
        "displaystyle": around(r"\displaystyle ", "", MATHS),
        "braces": around("{", "}", ANY),
        "full stop": around("", ".", r"^(?!.*\.\s*$)" + ANY[1:]),
        "quad": around(r"\quad ", r"\,", ANY),
        "negative space": around(r"\!", "", MATHS),
        "tie": around("~", "~", ANY),
        "line break": around("\n", "\n", ANY),
        "nested box": around(r"\boxed{", "}", ANY),
        "bold": around(r"\boldsymbol{", "}", r"^-?[0-9]+$"),
        "mathbf": around(r"\mathbf{", "}", r"^-?[0-9]+$"),
        "number as text": around(r"\text{", "}", r"^-?[0-9]+$"),
        "number as bold text": around(r"\textbf{", "}", r"^-?[0-9]+$"),
        "left and right": sub(
            r"(?<!\\left)(?<!\\left )(?<![a-z\\])([(\[])((?:[^()\[\]])*)(?<!\\right)(?<!\\right )(?<![\\])([)\]])",
            r"\\left\1\2\\right\3",
        ),
        "no left and right": sub(r"\\(?:left|right)\s*(?=[()\[\]])", ""),
        "big brackets": sub(
            r"\\(left|right)\s*(?=[()\[\]])", lambda found: "\\bigl" if found[1] == "left" else "\\bigr"
        ),
        # fractions
        "dfrac": sub(r"\\[tc]?frac", r"\\dfrac"),
        "tfrac": sub(r"\\[dc]?frac", r"\\tfrac"),
        "frac": sub(r"\\[dtc]frac", r"\\frac"),
        "short frac": sub(r"(\\[dt]?frac)\{([0-9])\}\{([0-9])\}", r"\1\2\3"),
        "spaced frac": sub(r"(\\[dt]?frac)\{([0-9])\}\{([0-9]+)\}", r"\1 {\2} {\3}"),
        "long frac": sub(r"(\\[dt]?frac)\s*([0-9])\s*([0-9])", r"\1{\2}{\3}"),
        "slash": whole(FRACTION, r"\1\2/\3"),
        "spaced slash": whole(FRACTION, r"\1\2 / \3"),
        "slash in brackets": sub(FRACTION, r"\1\2/\3", r"^[^a-zA-Z]*\((?!.*(?:pi|sqrt|cup|infty))"),
        "over": whole(FRACTION, r"\1{\2 \\over \3}"),
        "frac from slash": whole(r"(-?)([0-9]+)/([0-9]+)", r"\1\\frac{\2}{\3}"),
        "sign in numerator": whole(r"-\\([dt]?)frac\{([0-9]+)\}\{([0-9]+)\}", r"\\\1frac{-\2}{\3}"),
        "sign in denominator": whole(r"-\\([dt]?)frac\{([0-9]+)\}\{([0-9]+)\}", r"\\\1frac{\2}{-\3}"),
        "equal fraction": whole(FRACTION, _equal_fraction),
        "decimal of a fraction": whole(FRACTION, lambda found: _decimal(_as_fraction(found))),
        "mixed number": whole(FRACTION, lambda found: _mixed(found, r"\frac{%d}{%d}")),
        "mixed number in plain text": whole(FRACTION, lambda found: _mixed(found, " %d/%d")),
        "improper fraction": whole(
            r"([0-9]+)\s*\\[dt]?frac\{?([0-9]+)\}\{([0-9]+)\}",
            lambda found: f"\\frac{{{int(found[1]) * int(found[3]) + int(found[2])}}}{{{found[3]}}}",
        ),
        "fraction of a decimal": whole(r"-?[0-9]*\.[0-9]+", lambda found: _written(Fraction(found[0]))),
        "fraction of an integer": whole(r"-?[0-9]+", lambda found: f"\\frac{{{3 * int(found[0])}}}{{3}}"),
        "integer over one": whole(r"-?[0-9]+", r"\\frac{\g<0>}{1}"),
        "half sign": sub(r"^\\[dt]?frac\s*\{?1\}?\s*\{?2\}?$", "½"),
        # numbers
        "one trailing zero": whole(r"-?[0-9]+", r"\g<0>.0"),
        "two trailing zeros": whole(r"-?[0-9]+", r"\g<0>.00"),
        "zero behind a decimal": whole(r"-?[0-9]*\.[0-9]+", r"\g<0>0"),
        "plus sign": whole(r"(?!0$)[0-9]+(\.[0-9]+)?", r"+\g<0>"),
        "leading zero": whole(r"(-?)(\.[0-9]+)", r"\g<1>0\2"),
        "no leading zero": whole(r"(-?)0(\.[0-9]+)", r"\1\2"),
        "leading zeros": whole(r"[1-9][0-9]?", r"0\g<0>"),
        "thousands 1,234": _grouped(","),
        "thousands 1{,}234": _grouped("{,}"),
        r"thousands 1,\!234": _grouped(",\\!"),
        r"thousands 1\,234": _grouped("\\,"),
        r"thousands 1\;234": _grouped("\\;"),
        "thousands 1 234": _grouped(" "),
        "thousands 1~234": _grouped("~"),
        "thousands with a thin space": _grouped("\u2009"),
        "thousands dropped": _grouped(""),
        "scientific": whole(r"[1-9][0-9]+", _scientific),
        "equals sign": around("= ", "", ONE_VALUE + ANY[1:]),
        "Answer:": around(r"\text{Answer: }", "", ANY),
        "answer is": around(r"\text{The answer is }", "", MATHS),
        # units
        "cm added": around("", r"\text{ cm}", BARE),
        "plain cm added": around("", " cm", BARE),
        "mathrm added": around("", r"\,\mathrm{m}", BARE),
        "apples added": around("", r"\text{ apples}", BARE),
        "plain words added": around("", " square units", r"^[0-9]+$"),
        "square cm added": around("", r"\text{ cm}^2", r"^[0-9]+$"),
        "kilometres an hour added": around("", r"\text{ km/h}", r"^[0-9]+$"),
        "dollar added": around(r"\$", "", r"^[0-9.]+$"),
        "dollars added": around("", " dollars", r"^[0-9.]+$"),
        "degrees added": around("", r"^\circ", r"^[0-9]+$"),
        "unit dropped": whole(rf"([^,]*?[0-9}})i]){_UNIT}\s*(?:\^\s*\{{?[23]\}}?)?", r"\1"),
        "unit in mathrm": whole(
            r"([^,]*?[0-9}])\s*\\(?:text|mbox)\s*\{\s*([a-z]+)\s*\}((?:\^[23])?)", r"\1\\,\\mathrm{\2}\3"
        ),
        "unit as plain text": whole(rf"(-?[0-9.]+){_UNIT}", lambda found: f"{found[1]} {found[2].strip()}"),
        "unit as mbox": sub(r"\\text\s*\{(?= ?[a-z])", r"\\mbox{", r"^[0-9]"),
        "unit behind a tie": sub(r"(?<=[0-9}])\s*\\(?:text|mbox)\s*\{\s*", r"~\\text{", r"^[^,]*$"),
        "unit behind thin space": sub(r"(?<=[0-9}])\s*\\(?:text|mbox)\s*\{\s*", r"\\,\\text{", r"^[^,]*$"),
        "dollar dropped": whole(r"(-?)\\\$\s*([0-9.]+)", r"\1\2"),
        "dollar without backslash": whole(r"\\\$\s*([0-9.]+)", r"$\1"),
        "dollars in words": whole(r"\\\$\s*([0-9.]+)", r"\1\\text{ dollars}"),
        "dollars as plain word": whole(r"\\\$\s*([0-9.]+)", r"\1 dollars"),
        "dollars and no cents": whole(r"\\\$\s*([0-9]+)", r"\\$\1.00"),
        "dollar behind": whole(r"\\\$\s*([0-9.]+)", r"\1\\$"),
        "percent sign bare": sub(r"\\%", "%"),
        "percent dropped": whole(r"([0-9.]+)\s*\\%", r"\1"),
        "percent as decimal": whole(r"([0-9.]+)\s*\\%", lambda found: _decimal(Fraction(found[1]) / 100)),
        "percent as fraction": whole(r"([0-9.]+)\s*\\%", lambda found: _written(Fraction(found[1]) / 100)),
        "percent in words": whole(r"([0-9.]+)\s*\\%", r"\1\\text{ percent}"),
        "percent as plain word": whole(r"([0-9.]+)\s*\\%", r"\1 percent"),
        "percent of a decimal": whole(r"0?\.[0-9]+", lambda found: (_decimal(Fraction(found[0]) * 100) or "") + "\\%"),
        "degree dropped": whole(r"([0-9.]+)\^\{?\\circ\}?", r"\1"),
        "degree sign": sub(r"\^\s*\{?\s*\\circ\s*\}?", "°"),
        "degree in braces": sub(r"\^\\circ", r"^{\\circ}"),
        "degree command": sub(r"\^\{?\\circ\}?", r"\\degree "),
        "degrees in words": whole(r"([0-9.]+)\^\{?\\circ\}?", r"\1\\text{ degrees}"),
        "degrees as plain word": whole(r"([0-9.]+)\^\{?\\circ\}?", r"\1 degrees"),
        "degrees as sign": whole(r"([0-9.]+)\s*\\text\s*\{ *degrees *\}", r"\1^\\circ"),
        # Unicode and plain text
        "minus sign": outside_text(lambda part: part.replace("-", "−")),
        "pi sign": sub(r"\\pi(?![a-z])", "π"),
        "root sign": sub(r"\\sqrt\s*\{([0-9]+|[a-z])\}", r"√\1", r"^(?!.*\\sqrt\s*\{[0-9a-z]+\}\s*[0-9a-z(])"),
        "root sign with brackets": sub(r"\\sqrt\s*\{([^{}]+)\}", r"√(\1)"),
        "infinity sign": sub(r"\\infty", "∞"),
        "union sign": sub(r"\\cup", "∪"),
        "superscripts": sub(
            r"(?<=[a-z)])\^([0-9])(?![0-9])|(?<=[a-z)])\^\{([0-9]+)\}",
            lambda found: (found[1] or found[2]).translate(_SUPERSCRIPTS),
            r"^(?!.*\^[^0-9{]|.*\^\{[^0-9]|.*(?:sin|cos|tan)\^)",
        ),
        "less sign": sub(r"\\leq?(?![a-z])", "≤"),
        "plain sqrt": sub(r"\\sqrt\s*\{([^{}]+)\}", r"sqrt(\1)", r"^(?!.*frac|.*[a-z]\s*\\sqrt)"),
        "plain pi": sub(r"(?<=[0-9])\s*\\pi(?![a-z])", "pi", r"^(?!.*frac)"),
        "short sqrt": sub(r"\\sqrt\{([0-9])\}", r"\\sqrt\1"),
        "long sqrt": sub(r"\\sqrt\s*([0-9])", r"\\sqrt{\1}"),
        "exponent in braces": sub(r"\^([0-9])", r"^{\1}"),
        "exponent without braces": sub(r"\^\{([0-9])\}", r"^\1"),
    }
    | DRESS
    | FORMS
    | SETS
)

# what sets type only: it may be put on top of any other spelling, and on a wrong answer
LAYOUT = (
    "spaces outside",
    "spaces at operators",
    "dollar signs",
    "round delimiters",
    "displaystyle",
    "braces",
    "full stop",
    "tie",
    "negative space",
    "nested box",
    "left and right",
    "no left and right",
    "dfrac",
    "tfrac",
    "short frac",
    "long frac",
    "short sqrt",
    "long sqrt",
    "degree in braces",
    "exponent in braces",
    "minus sign",
    "pi sign",
    "infinity sign",
    "leq",
    "bmatrix",
    "Answer:",
    "spaces behind commas",
    "superscripts",
)


def rewrites(gold: str) -> Iterator[tuple[str, str]]:
    """(rule, other spelling) for every rule that applies to this gold and changes it."""
    for rule, rewrite in RULES.items():
        answer = rewrite(gold)
        if answer is not None and answer != gold and answer.strip():
            yield rule, answer
