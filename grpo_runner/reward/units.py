r"""Units at the end of an answer: "5\text{ cm}^2", "18.90 dollars", "\$5", "45^\circ". Pure.

A unit may be dropped or added; two units that contradict each other make an answer wrong, and two of one kind ("500 cm"
and "5 m") are converted. Unknown words ("apples") are units of their own, compared as words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Unit:
    """A kind ("length", "money", or the word itself), its size in the kind's base unit, and its power."""

    kind: str
    size: Fraction = Fraction(1)
    power: int = 1


def _table() -> dict[str, Unit]:
    rows = {
        "length": "mm millimeter 1; cm centimeter 10; dm decimeter 100; m meter metre 1000; km kilometer 1000000; "
        "in inch 25.4; ft foot feet 304.8; yd yard 914.4; mi mile 1609344",
        "mass": "mg milligram 1; g gm gram 1000; kg kilogram 1000000; oz ounce 28349.523125; "
        "lb pound 453592.37; ton 907184740",
        "time": "s sec second 1; min minute 60; h hr hour 3600; day 86400; week 604800",
        "money": "cent 1; dollar usd buck 100",
        "volume": "ml milliliter 1; l liter litre 1000; gal gallon 3785.411784",
        "angle": "degree deg 1",
        "speed": "mph 1",
        "year": "year yr 1",
        "month": "month 1",
        "euro": "euro eur 1",
        "area": "acre 1",
    }
    table: dict[str, Unit] = {}
    for kind, row in rows.items():
        for entry in row.split(";"):
            *names, size = entry.split()
            for name in names:
                table[name] = Unit(kind, Fraction(size))
    return table


_TABLE = _table()
_NOT_UNITS = re.compile(
    r"\b(?:or|and|maybe|not|if|because|since|either|perhaps|possibly|is|are|then|when|where|for|with|but|to|no|yes|true|false"
    r"|million|billion|thousand|hundred|dozen|trillion)\b|[\d=<>?]",
    re.IGNORECASE,
)
_TEXT_UNIT = re.compile(
    r"(?:\\cdot\s*)?\\text\s*\{([^{}]*)\}\s*(?:\^\s*\{?(\d)\}?)?\s*(?:/\s*\\text\s*\{([^{}]*)\}\s*(?:\^\s*\{?(\d)\}?)?)?\s*$"
)
_FRACTION_UNIT = re.compile(
    r"(?<=[\d}) ])\\frac\s*\{\s*\\text\s*\{([^{}]*)\}\s*\}\s*\{\s*\\text\s*\{([^{}]*)\}\s*\}\s*$"
)
_WORD_UNIT = re.compile(r"(?<=[\d})])\s*((?:[a-zA-Z]{2,}[.]?)(?:[ /][a-zA-Z]+){0,3})(?:\^\s*\{?(\d)\}?)?\s*$")
_DEGREE_UNIT = re.compile(r"\^\\circ\s*([CF]|\\text\s*\{\s*([CF])\s*\})?\s*$")
_SIGNS = {"\\$": "dollar", "$": "dollar", "€": "euro", "£": "pound sterling", "¥": "yen"}
_FUNCTION = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)")


def split_unit(text: str) -> tuple[str, Unit | None]:
    """(the text without its unit, the unit) for tidied text; (text, None) where there is none."""
    for sign, name in _SIGNS.items():
        if text.startswith(sign):
            value, further = split_unit(text[len(sign) :].strip())
            return value, further if further is not None and further.kind == "money" else unit_of(name)
        if text.startswith("-" + sign):
            return "-" + text[len(sign) + 1 :].strip(), unit_of(name)
        if text.endswith(sign) and text[: -len(sign)].strip():
            return text[: -len(sign)].strip(), unit_of(name)
    degrees = _DEGREE_UNIT.search(text)
    if degrees and not _FUNCTION.search(text):
        scale = degrees[2] or degrees[1]
        return text[: degrees.start()].strip(), unit_of(f"degree {scale}" if scale else "degree")
    text = _FRACTION_UNIT.sub(r"\\text{\1}/\\text{\2}", text) if "\\frac" in text else text
    found = _TEXT_UNIT.search(text)
    if found and text[: found.start()].strip() and _is_unit(found[1] + (found[3] or "")):
        name = found[1] + ("/" + found[3] + (found[4] or "") if found[3] else "")
        return text[: found.start()].strip(), unit_of(name, int(found[2] or 1))
    found = _WORD_UNIT.search(text)
    if found and _is_unit(found[1]) and not text[: found.start()].rstrip().endswith("\\"):
        # A run of letters after a number may be a product of variables (2ab): only known units and words count.
        first = re.split(r"[ /]", found[1])[0].rstrip(".").lower()
        spaced = text[found.start() : found.start(1)] != ""
        if _known(first) or (spaced and len(first) > 2):
            return text[: found.start()].strip(), unit_of(found[1], int(found[2] or 1))
    return text, None


def _is_unit(text: str) -> bool:
    words = text.split()
    return len(words) <= 4 and bool(re.search("[a-zA-Z]", text)) and not _NOT_UNITS.search(text)


def _known(word: str) -> bool:
    return word in _TABLE or _singular(word) in _TABLE or word in ("sq", "square", "cubic", "percent")


def _singular(word: str) -> str:
    if word == "inches":
        return "inch"
    return word[:-1] if len(word) > 2 and word.endswith("s") and not word.endswith("ss") else word


def unit_of(name: str, power: int = 1) -> Unit:
    """The unit that a name means: from the table, with "square"/"cubic" as powers, else the word itself."""
    words = [word.strip(".,") for word in name.lower().replace("(", " ").replace(")", " ").split()]
    words = [word for word in words if word and word not in ("of", "the", "a", "each", "per", "about", "total")]
    for prefix, raised in (("square", 2), ("sq", 2), ("cubic", 3), ("cu", 3)):
        if words and words[0] == prefix and len(words) > 1:
            words, power = words[1:], raised
    if words and words[-1] in ("squared", "cubed") and len(words) > 1:
        power = 2 if words[-1] == "squared" else 3
        words = words[:-1]
    joined = " ".join(_singular(word) for word in words)
    known = _TABLE.get(joined) or _TABLE.get(" ".join(words))
    return Unit(known.kind, known.size, power) if known else Unit(joined.replace(".", ""), power=power)


def conversion(answer: Unit | None, gold: Unit | None, units: str = "optional") -> Fraction | None:
    """The factor from the answer's unit to the gold's; 1 where one has no unit; None where the two contradict.

    units: Policy.units; under "ignored" nothing contradicts, under "required" the gold's unit may not be left out.
    """
    if units == "required" and answer is None and gold is not None:
        return None
    if units == "ignored" or answer is None or gold is None or answer == gold:
        return Fraction(1)
    if "unit" in (answer.kind, gold.kind) and answer.power == gold.power:
        return Fraction(1)
    if (answer.kind, answer.power) != (gold.kind, gold.power):
        return None
    return (answer.size / gold.size) ** gold.power
