r"""What the checker takes a text for, in plain words: "the fraction 1/2", "a list of 3", "5 centimetres". Pure.

It asks the functions that grade, so what it says is what is compared. Nothing here needs computer algebra.
"""

from __future__ import annotations

import re

from ..reward import guards
from ..reward.normalize import tidy
from ..reward.notation import by_spelling, number
from ..reward.numbers import Exact
from ..reward.reading import shape
from ..reward.shapes import Chained, Items, Matrix, Named, Relation, Rounded, Shape, Union, Value, Words
from ..reward.units import Unit, unit_of

MOST_SHOWN = 60
_MOST_ITEMS = 6
_MOST_BITS = 200  # of a number that is written out
# the plural of each unit that the checker converts; any other is its own word
_UNITS = {
    unit_of(name, power): prefix + plural
    for power, prefix in ((1, ""), (2, "square "), (3, "cubic "))
    for name, plural in {
        "millimeter": "millimetres", "centimeter": "centimetres", "decimeter": "decimetres", "meter": "metres",
        "kilometer": "kilometres", "inch": "inches", "foot": "feet", "yard": "yards", "mile": "miles",
        "milligram": "milligrams", "gram": "grams", "kilogram": "kilograms", "ounce": "ounces", "pound": "pounds",
        "ton": "tons", "second": "seconds", "minute": "minutes", "hour": "hours", "day": "days", "week": "weeks",
        "month": "months", "year": "years", "cent": "cents", "dollar": "dollars", "euro": "euros",
        "milliliter": "millilitres", "liter": "litres", "gallon": "gallons", "degree": "degrees",
        "mph": "miles an hour", "acre": "acres", "degree c": "degrees Celsius", "degree f": "degrees Fahrenheit",
    }.items()
}  # fmt: skip
_BRACKETS = {
    "()": ("an ordered pair or an open interval", "an ordered tuple of {}"),
    "[]": ("a closed interval", "an ordered list of {} in square brackets"),
    "[)": ("an interval without its upper end", "an interval"),
    "(]": ("an interval without its lower end", "an interval"),
}


def describe(text: str) -> str:
    """What a text is read as. Never raises."""
    if len(text) > 20 * guards.MAX_LENGTH:
        return f"nothing: a text of more than {guards.MAX_LENGTH} characters is not read"
    tidied = tidy(text)
    if not tidied.strip("{} $"):
        return "nothing: it is empty"
    if why := guards.refusal(tidied):
        return f"nothing: {why}"
    try:
        if (found := number(tidied)) is not None:
            return _number(found)
        spelled = by_spelling(tidied, tidied)
        if spelled is not None and spelled[1] == "choice":
            return f"the letter {re.sub('[^A-J]', '', tidied)[-1:]}"
        if spelled is not None and spelled[1] == "notation":
            return f"a time, a ratio or a numeral of a base: {short(tidied)}"
        return _words(shape(tidied))
    except ZeroDivisionError:
        return "nothing: it divides by zero"


def short(text: str, most: int = MOST_SHOWN) -> str:
    """A text on one line, cut."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 2] + " …"


def _words(one: Shape) -> str:
    match one:
        case Value(text, None):
            found = number(text)
            return _expression(text) if found is None else _number(found)
        case Words(text):
            return f'the words "{short(text)}"'
        case Items(brackets, items):
            return _items(brackets, items)
        case Union(parts):
            return f"a union of {len(parts)} sets"
        case Matrix(rows, kind):
            size = f"{len(rows)} × {max(map(len, rows), default=0)}"
            return f"a {size} determinant" if kind else f"a {size} matrix"
        case Relation(_, ops):
            return _relation(ops)
        case Chained(parts):
            return f"{_words(parts[-1])}, at the end of a chain of {len(parts)} equal sides"
        case Rounded(inner, _):
            return f"{_words(inner)}, with its rounding"
        case Named(label, inner):
            return f"{_words(inner)}, as the value of {short(label)}"
        case _:
            return _brief(one)


def _brief(one: Shape) -> str:
    """A part of something larger: its value, else its text or what it is."""
    match one:
        case Value(text, unit):
            found = number(text)
            as_text = found is None or not found.plain or _is_long(found)
            written = short(text) if found is None or as_text else _written(found)
            return written if unit is None else f"{written} {_unit(unit)}".strip()
        case Named(label, inner):
            return f"{short(label)} = {_brief(inner)}"
        case Relation(sides, ops):
            return short(" ".join(word for pair in zip(sides, (*ops, ""), strict=True) for word in pair).strip())
        case Words(text):
            return short(text)
        case _:
            return _words(one)


def _number(found: Exact) -> str:
    if _is_long(found):
        size = found.value.numerator.bit_length()
        kind = "an integer" if found.value.denominator == 1 else "a fraction with a numerator"
        return f"{kind} of about {size * 30103 // 100_000 + 1} digits"
    if not found.plain:
        return f"arithmetic that is left to do, worth {found.value}"
    if found.percent:
        return f"{found.value * 100} percent, which is {found.value}"
    if found.places is not None:
        return f"the decimal {_written(found)}, which is {found.value}"
    return f"the {'integer' if found.value.denominator == 1 else 'fraction'} {found.value}"


def _is_long(found: Exact) -> bool:
    return max(found.value.numerator.bit_length(), found.value.denominator.bit_length()) > _MOST_BITS


def _written(found: Exact) -> str:
    """A number as its kind is written: 18.90, 1/2, 50%."""
    if found.percent:
        return f"{found.value * 100}%"
    if found.places is None:
        return short(str(found.value))
    digits = str(abs(int(found.value * 10**found.places))).rjust(found.places + 1, "0")
    return short(f"{'-' * (found.value < 0)}{digits[: -found.places]}.{digits[-found.places :]}")


def _expression(text: str) -> str:
    named = {"\\mathbb{R}": "all real numbers", "\\infty": "infinity", "-\\infty": "minus infinity"}
    plain = text.replace(" ", "")
    if re.fullmatch(r"[a-zA-Z]", plain):
        return f"the letter {plain}"
    return named.get(plain) or f"the expression {short(text)}"


def _unit(unit: Unit) -> str:
    return _UNITS.get(unit) or f'with the unit "{short(unit.name)}"'


def _items(brackets: str, items: tuple[Shape, ...]) -> str:
    if not items:
        return "the empty set"
    shown = short(", ".join(map(_brief, items[:_MOST_ITEMS])) + (", …" if len(items) > _MOST_ITEMS else ""))
    if brackets in ("", "{}"):
        return f"a {'set' if brackets else 'list'} of {len(items)}: {shown}"
    pair, longer = _BRACKETS[brackets]
    return f"{pair if len(items) == 2 else longer.format(len(items))}: {shown}"


def _relation(ops: tuple[str, ...]) -> str:
    if all(op == "=" for op in ops):
        return "an equation" if len(ops) == 1 else "a chain of equations"
    if "in" in ops:
        return "a statement of membership"
    return "an inequality" if len(ops) == 1 else "a chain of inequalities"
