r"""Units at the end of an answer: "5\text{ cm}^2", "18.90 dollars", "\$5", "45^\circ". Pure.

A unit may be dropped or added; two units that contradict each other make an answer wrong, and two of one kind ("500 cm"
and "5 m") are converted. Unknown words ("apples") are units of their own, compared as words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction

from .numbers import WORDS


@dataclass(frozen=True)
class Unit:
    """What is measured, as factors (kind, power) in order, and the size in the kinds' base units.

    A kind is "length", "money", …, or an unknown word itself: km/h is (("length", 1), ("time", -1)).
    name: as it was written, for messages only.
    """

    factors: tuple[tuple[str, int], ...]
    size: Fraction = Fraction(1)
    name: str = field(default="", compare=False)


def _table() -> dict[str, tuple[str, Fraction]]:
    rows = {
        "length": "mm millimeter 1; cm centimeter 10; dm decimeter 100; m meter metre 1000; km kilometer 1000000; "
        "in inch 25.4; ft foot feet 304.8; yd yard 914.4; mi mile 1609344",
        "mass": "mg milligram 1; g gm gram 1000; kg kilogram 1000000; oz ounce 28349.523125; "
        "lb pound 453592.37; ton 907184740",
        "time": "s sec second 1; min minute 60; h hr hour 3600; day 86400; week 604800",
        "money": "cent 1; dollar usd buck 100",
        "volume": "ml milliliter 1; l liter litre 1000; gal gallon 3785.411784",
        "angle": "degree deg 1",
        "year": "year yr 1",
        "month": "month 1",
        "euro": "euro eur 1",
        "area": "acre 1",
    }
    table: dict[str, tuple[str, Fraction]] = {}
    for kind, row in rows.items():
        for entry in row.split(";"):
            *names, size = entry.split()
            for name in names:
                table[name] = (kind, Fraction(size))
    return table


_TABLE = _table()
_SPELLED = {"mph": "mile/hour", "kph": "km/hour", "kmh": "km/hour", "mps": "m/s", "cc": "cm^3", "sqft": "ft^2"}
# Words that change the value are no unit: 5 thirds, 5 squared, 5 below zero
_CHANGES = (
    r"squareds?|cubed|factorials?|half|halves|plus|minus|over|root|twice|double|negative|below|pi|dozens?|tens|hundreds?"
    r"|thousands?|(?:m|b|tr)illions?|thirds?|(?:four|fif|six|seven|eigh|nin|ten|eleven|twelf|hundred|thousand)ths?"
    r"|times(?!\s*$|\s+(?:as|more|larger|less|per|a)\b)"
)
_NUMBER_WORDS = "|".join([*WORDS, "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety", "lakh", "crore"])
_NO_UNITS = (
    "never|none|nothing|cannot|impossible|undefined|wrong|incorrect|nope|except|excluding|excluded|error|guess|unless|mod"
    "|modulo|choose|divided|raised|inverse|reciprocal|base|at least|at most|upwards|mille|ppm|point|exclusive|below"
)
_NOT_UNITS = re.compile(
    rf"^\s*(?:{_CHANGES})\b|\b(?:or|and|maybe|not|if|because|since|either|perhaps|possibly|is|are|then|when|where|for|with|but"
    rf"|{_NUMBER_WORDS}|{_NO_UNITS}|to|no|yes|true|false|than|(?:m|b|tr)illion|thousand|hundred|dozen)\b"
    r"|(?<!\^)(?<!\^-)(?<!\^\{)(?<!\^\{-)\d|[=<>?]",
    re.IGNORECASE,
)
_ONE_LETTER = re.compile(r"\s*[mgshlLNJWVACF](?:\s*\^\s*-?\d)?\s*")  # a lone letter in text that is a unit
_TEXT_UNIT = re.compile(
    r"(?:\\cdot\s*)?\\text\s*\{([^{}]*)\}\s*(?:\^\s*\{?(-?\d)\}?)?\s*(?:/\s*\\text\s*\{([^{}]*)\}\s*(?:\^\s*\{?(\d)\}?)?)?\s*$"
)
_FRACTION_UNIT = re.compile(
    r"(?<=[\d}) ])\\frac\s*\{\s*\\text\s*\{([^{}]*)\}\s*\}\s*\{\s*\\text\s*\{([^{}]*)\}\s*\}\s*$"
)
_BRACKETED_UNIT = re.compile(
    r"(?<=[\d}])\s*\(\s*(\\text\s*\{\s*)?([a-zA-Z][a-zA-Z /]*)(?(1)\s*\})\s*(\^\s*\{?\d\}?)?\s*\)$"
)
_PER = re.compile(r"\s*(?:\bper\b|/)\s*")
_POWER = re.compile(r"([a-z]+)(?:\^(-?\d))?")
_WORD_UNIT = re.compile(r"(?<=[\d})])\s*((?:[a-zA-Z]{2,}[.]?)(?:[ /][a-zA-Z]+){0,3})(?:\^\s*\{?(\d)\}?)?\s*$")
_DEGREE_UNIT = re.compile(r"\^\\circ\s*([CF]|\\text\s*\{\s*([CF])\s*\})?\s*$")
_SIGNS = {"\\$": "dollar", "$": "dollar", "€": "euro", "£": "pound sterling", "¥": "yen"}
_FUNCTION = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)")


def split_unit(text: str) -> tuple[str, Unit | None]:
    """(the text without its unit, the unit) for tidied text; (text, None) where there is none."""
    for sign, name in _SIGNS.items():
        if text.startswith(sign):
            rest = text[len(sign) :].strip()
            value, further = (rest, None) if rest.startswith(tuple(_SIGNS)) else split_unit(rest)
            return value, further if further is not None and further.factors == (("money", 1),) else unit_of(name)
        if text.startswith("-" + sign):
            return "-" + text[len(sign) + 1 :].strip(), unit_of(name)
        if text.endswith(sign) and text[: -len(sign)].strip():
            return text[: -len(sign)].strip(), unit_of(name)
    degrees = _DEGREE_UNIT.search(text)
    if degrees and not _FUNCTION.search(text):
        scale = degrees[2] or degrees[1]
        return text[: degrees.start()].strip(), unit_of(f"degree {scale}" if scale else "degree")
    if (
        text.endswith(")")
        and (found := _BRACKETED_UNIT.search(text))
        and _known(re.split(r"[ /^]", found[2].lower())[0])
    ):
        text = text[: found.start()] + f"\\text{{{found[2]}}}" + (found[3] or "")
    text = _FRACTION_UNIT.sub(r"\\text{\1}/\\text{\2}", text) if "\\frac" in text else text
    found = _TEXT_UNIT.search(text)
    if found and text[: found.start()].strip() and _is_unit(found[1] + (found[3] or "")):
        name = found[1] + ("/" + found[3] + (found[4] or "") if found[3] else "")
        return text[: found.start()].strip(), unit_of(name, int(found[2] or 1))
    found = _WORD_UNIT.search(text)
    if found and _is_unit(found[1]) and not text[: found.start()].rstrip().endswith("\\"):
        # A run of letters after a number may be a product of variables (2ab): only known units and words count.
        first = (
            next(iter(re.sub(r"^(?:of|an?|the)(?: (?:an?|the))? ", "", found[1]).split()), "")
            .split("/")[0]
            .rstrip(".")
            .lower()
        )
        spaced = text[found.start() : found.start(1)] != ""
        if _known(first) or (spaced and len(first) > 2):
            return text[: found.start()].strip(), unit_of(found[1], int(found[2] or 1))
    return text, None


def _is_unit(text: str) -> bool:
    words = text.split()
    if len(re.sub("[^a-zA-Z]", "", text)) == 1 and not _ONE_LETTER.fullmatch(text):
        return False
    return len(words) <= 4 and bool(re.search("[a-zA-Z]", text)) and "\\" not in text and not _NOT_UNITS.search(text)


def _known(word: str) -> bool:
    return word in _TABLE or _singular(word) in _TABLE or word in ("sq", "square", "cubic", "percent")


def _singular(word: str) -> str:
    if word == "inches":
        return "inch"
    return word[:-1] if len(word) > 2 and word.endswith("s") and not word.endswith("ss") else word


def unit_of(name: str, power: int = 1) -> Unit:
    """The unit that a name means: words of the table, with "per", "/", "square" and powers, else the words themselves.

    power: that of the last factor, where it is written behind the whole.
    """
    over = _PER.sub("/", name.lower().replace("{", "").replace("}", ""))
    over = _SPELLED.get(over.strip(), over)
    above, *below = over.split("/")
    factors: dict[str, int] = {}
    size = Fraction(1)
    for place, part in enumerate((above, *below)):
        sign = -1 if place else 1
        for kind, factor, raised in _part(part, power if place == len(below) else 1):
            factors[kind] = factors.get(kind, 0) + sign * raised
            size *= factor ** (sign * raised)
    return Unit(
        tuple(sorted((kind, raised) for kind, raised in factors.items() if raised)), size, " ".join(name.split())
    )


def _part(text: str, power: int) -> list[tuple[str, Fraction, int]]:
    """(kind, size, power) of each factor of what stands on one side of a "/"."""
    words = [word.strip(".,") for word in text.replace("(", " ").replace(")", " ").split()]
    words = [word for word in words if word and word not in ("of", "the", "a", "an", "each", "about", "total")]
    for prefix, raised in (("square", 2), ("sq", 2), ("cubic", 3), ("cu", 3)):
        if words and words[0] == prefix and len(words) > 1:
            words, power = words[1:], raised
    if words and words[-1] in ("squared", "cubed") and len(words) > 1:
        power = 2 if words[-1] == "squared" else 3
        words = words[:-1]
    split = [_POWER.fullmatch(word) for word in words]
    names = [(found[1], int(found[2] or 1)) for found in split if found]
    if len(names) == len(words) and all(_entry(name) for name, _ in names):
        last = len(names) - 1
        return [(*_entry(name), raised * (power if at == last else 1)) for at, (name, raised) in enumerate(names)]  # type: ignore[misc]
    joined = " ".join(_singular(word) for word in words).replace(".", "")
    return [(*(_entry(joined) or (joined, Fraction(1))), power)] if joined else []


def _entry(word: str) -> tuple[str, Fraction] | None:
    return _TABLE.get(word) or _TABLE.get(_singular(word))


def conversions(answer: Unit | None, gold: Unit | None, units: str = "optional") -> tuple[Fraction, ...]:
    """The factors by which an answer may be multiplied to stand beside the gold; none where the two contradict.

    units: Policy.units; under "ignored" nothing contradicts, under "required" the gold's unit may not be left out.
    """
    if answer is None or gold is None:
        return () if units == "required" and answer is None and gold is not None else (Fraction(1),)
    if answer.factors == gold.factors:
        factor = answer.size / gold.size
        return (factor, Fraction(1)) if units == "ignored" and factor != 1 else (factor,)
    return (Fraction(1),) if units == "ignored" or _generic(answer, gold) or _generic(gold, answer) else ()


def _generic(one: Unit, other: Unit) -> bool:
    """ "units" stands for any unit, and "square units" for the square of any."""
    return len(one.factors) == 1 == len(other.factors) and one.factors == (("unit", other.factors[0][1]),)
