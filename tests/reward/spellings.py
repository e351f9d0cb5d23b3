r"""Spellings of answers: from a value (a Fraction, or a tuple of them) to texts in LaTeX and plain writing that mean it.

Nothing here asks the checker, so what a text is worth is known without it. `gold=True` leaves out what the policy treats
otherwise on the gold's side: a decimal gold has a tolerance, and 1;2 is not how a gold is written.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy, composite

Text = SearchStrategy[str]


def pick(*options: Any) -> SearchStrategy[Any]:
    return st.sampled_from(options)


# ------------------------------------------------------------------------------------------------- numbers


@composite
def integer(draw: DrawFn, value: int) -> str:
    digits = str(abs(value))
    if len(digits) > 3:
        digits = f"{abs(value):,}".replace(",", draw(pick("", ",", "{,}", r"\,", " ", ",\\!")))
    return (draw(pick("-", "-", "−", "- ", "{-}")) if value < 0 else "") + digits


def decimal_places(value: Fraction) -> int | None:
    """The fewest decimals that write the value; None where none do."""
    return next((n for n in range(9) if (value * 10**n).denominator == 1), None)


def as_decimal(value: Fraction, places: int) -> str:
    digits = str(abs(int(value * 10**places))).rjust(places + 1, "0")
    whole, decimals = digits[: len(digits) - places], digits[len(digits) - places :]
    return ("-" if value < 0 else "") + whole + ("." + decimals if places else "")


@composite
def fraction(draw: DrawFn, value: Fraction) -> str:
    r"""\frac, \dfrac, a/b, not always in lowest terms."""
    factor = draw(pick(1, 1, 2, 3, 10))
    above, below = str(abs(value.numerator) * factor), str(value.denominator * factor)
    sign = "-" if value < 0 else ""
    forms = [r"\frac{%s}{%s}", r"\dfrac{%s}{%s}", r"\tfrac{%s} {%s}", r"\frac{ %s }{%s}", "%s/%s", "{%s}/{%s}"]
    if len(above) == len(below) == 1:
        forms += [r"\frac%s%s", r"\frac %s%s", r"\dfrac %s %s"]
    if sign and draw(st.booleans()):
        return rf"\frac{{-{above}}}{{{below}}}"
    return sign + draw(st.sampled_from(forms)) % (above, below)


@composite
def rational(draw: DrawFn, value: Fraction, gold: bool = False) -> str:
    """One written number: an integer, a fraction, a mixed number, or a decimal where one is exact."""
    above, below = abs(value.numerator), value.denominator
    forms = ["fraction"] if below > 1 else ["integer", "integer", "integer", "fraction"]
    if above > below > 1:
        forms.append("mixed")
    places = decimal_places(value)
    if places is not None and not gold:
        forms.append("decimal")
    form = draw(st.sampled_from(forms))
    if form == "integer":
        return draw(integer(int(value)))
    if form == "decimal":
        return as_decimal(value, (places or 0) + draw(st.integers(0 if places else 1, 3)))
    if form == "mixed":
        parts = (*divmod(above, below), below)
        return ("-" if value < 0 else "") + draw(pick(r"%d\frac{%d}{%d}", "%d %d/%d", r"%d\,\dfrac{%d}{%d}")) % parts
    return draw(fraction(value))


@composite
def decimal(draw: DrawFn, value: Fraction, gold: bool = False) -> str:
    """A decimal, with further zeros, as a fraction, or in powers of ten. As a gold: the plain decimal."""
    places = decimal_places(value) or 0
    if gold:
        return as_decimal(value, places)
    form = draw(pick("plain", "plain", "bare point", "fraction", "scientific"))
    if form == "fraction":
        return draw(fraction(value))
    if form == "scientific" and value:
        power = math.floor(math.log10(abs(value)))
        mantissa = value / Fraction(10) ** power
        times = draw(pick(r"\times 10^{%d}", r"\cdot10^{%d}", r" \times 10^{ %d }", "e%d", "×10^{%d}"))
        return as_decimal(mantissa, decimal_places(mantissa) or 0) + times % power
    text = as_decimal(value, places + draw(st.integers(0, 2)))
    return text.replace("0.", ".", 1) if form == "bare point" and abs(value) < 1 and "." in text else text


@composite
def percent(draw: DrawFn, value: Fraction, gold: bool = False) -> str:
    number = as_decimal(value * 100, (decimal_places(value * 100) or 0) + draw(pick(0, 0, 1)) * (not gold))
    return number + draw(pick(r"\%", "%", r" \%", " percent", r"\text{ percent}", r"\,\%", "％"))


@composite
def radical(draw: DrawFn, value: tuple[int, int, int], gold: bool = False) -> str:
    """c + a√b with b square-free, not 1, and a not 0."""
    a, b, c = value
    size = abs(a)
    many = "" if size == 1 else size
    roots = [rf"{many}\sqrt{{{b}}}", f"{many}√{b}", f"{many}sqrt({b})", rf"\sqrt{{{size * size * b}}}"]
    roots += [rf"\frac{{{size * b}}}{{\sqrt{{{b}}}}}", rf"\frac{{{2 * size}\sqrt{{{b}}}}}{{2}}"]
    roots += [rf"{size}\cdot {b}^{{1/2}}", rf"{size} \times \sqrt {{{b}}}", rf"\dfrac{{{size}}}{{1}}\sqrt{{ {b}}}"]
    if b < 10:
        roots += [rf"{many}\sqrt{b}", rf"{many}\sqrt {b}"]
    root = draw(st.sampled_from(roots))
    if c and draw(st.booleans()):
        return f"{c}{'-' if a < 0 else '+'}{root}"
    return ("-" if a < 0 else "") + root + (f"{c:+d}" if c else "")


@composite
def pi_multiple(draw: DrawFn, value: Fraction, gold: bool = False) -> str:
    above, below = abs(value.numerator), value.denominator
    pi = draw(pick(r"\pi", "π", r"\pi "))
    times = f"{above if above > 1 else ''}{pi}"
    options = [times]
    if below > 1:
        options = [f"{times}/{below}", rf"\frac{{{times}}}{{{below}}}", rf"\frac{{{above}}}{{{below}}}{pi}"]
        options += [rf"\dfrac{{{above}}}{{{below}}}\cdot{pi}", rf"\tfrac{{{above}{pi}}}{{{below}}}"]
        if (places := decimal_places(value)) is not None and not gold:
            options.append(as_decimal(abs(value), places) + pi)
    return ("-" if value < 0 else "") + draw(st.sampled_from(options))


@composite
def complex_number(draw: DrawFn, value: tuple[int, int], gold: bool = False) -> str:
    """a + bi with b not 0."""
    real, imaginary = value
    i = draw(pick("i", "i", r"\mathrm{i}"))
    part = {1: "", -1: "-"}.get(imaginary, str(imaginary)) + i
    if real == 0:
        return part
    sign = "-" if imaginary < 0 else "+"
    return draw(pick(f"{real}{sign}{part.lstrip('-')}", f"{part}{real:+d}", f"{real} {sign} {part.lstrip('-')}"))


# ------------------------------------------------------------------------------------------------- expressions


def term(coefficient: int, variable: str, power: int = 1, braces: bool = False) -> str:
    """+3x^2 with its sign."""
    sign, size = "-" if coefficient < 0 else "+", abs(coefficient)
    if power == 0:
        return f"{sign}{size}"
    letters = variable if power == 1 else f"{variable}^{{{power}}}" if braces else f"{variable}^{power}"
    return f"{sign}{'' if size == 1 else size}{letters}"


@composite
def polynomial(draw: DrawFn, value: tuple[str, tuple[int, ...]], gold: bool = False) -> str:
    """Coefficients, the constant first: expanded in any order, nested, or with a common factor taken out."""
    variable, coefficients = value
    form = draw(pick("expanded", "expanded", "nested", "factor"))
    if form == "nested":
        text = str(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            text = f"({text}){variable}{coefficient:+d}" if coefficient else f"({text}){variable}"
        return text
    factor = math.gcd(*coefficients) if form == "factor" else 1
    powers = draw(st.permutations([power for power, c in enumerate(coefficients) if c]))
    braces = draw(st.booleans())
    text = "".join(term(coefficients[n] // factor, variable, n, braces) for n in powers).removeprefix("+")
    text = text.replace("+", draw(pick("+", " + ")))
    return draw(pick("%d(%s)", r"%d\left(%s\right)", r"%d \cdot (%s)")) % (factor, text) if factor > 1 else text


def _sloped(slope: int, at: int) -> str:
    return term(slope, "x").removeprefix("+") + (f"{at:+d}" if at else "")


@composite
def line(draw: DrawFn, value: tuple[int, int], gold: bool = False) -> str:
    """y = mx + b with m not 0."""
    slope, at = value
    right, k = _sloped(slope, at), draw(pick(2, 3, -1))
    forms = (f"y={right}", f"y = {right}", f"{right} = y", f"y-({right})=0", f"y{term(-slope, 'x')}={at}")
    halved = rf"\frac{{y}}{{2}}=\frac{{{right}}}{{2}}"
    return draw(pick(*forms, halved, f"{term(k, 'y').removeprefix('+')}={_sloped(k * slope, k * at)}"))


@composite
def half_plane(draw: DrawFn, value: tuple[str, int, int], gold: bool = False) -> str:
    op, slope, at = value
    le, ge = draw(pick((r"\le ", r"\ge "), (r"\leq ", r"\geq "), ("≤", "≥"), (r"\leqslant ", r"\geqslant ")))
    signs = {"<": "<", ">": ">", "<=": le, ">=": ge}
    same, turned = signs[op], signs[{"<": ">", ">": "<", "<=": ">=", ">=": "<="}[op]]
    right, twice = _sloped(slope, at), _sloped(2 * slope, 2 * at)
    return draw(pick(f"y{same}{right}", f"{right}{turned}y", f"-y{turned}-({right})", f"2y{same}{twice}"))


# ------------------------------------------------------------------------------------------------- letters and units


def choice(value: str, gold: bool = False) -> Text:
    forms = (
        "@",
        "(@)",
        r"\text{@}",
        r"\text{(@)}",
        r"\textbf{(@)}",
        r"\mathrm{@}",
        r"\textbf{(@) }",
        r"(\text{@})",
        "@.",
    )
    return pick(*forms).map(lambda form: form.replace("@", value))


METRES = {"mm": Fraction(1, 1000), "cm": Fraction(1, 100), "m": Fraction(1), "km": Fraction(1000)}


@composite
def length(draw: DrawFn, value: Fraction, gold: bool = False) -> str:
    """A length in metres, in any unit that writes it as a short decimal."""
    unit = draw(st.sampled_from([name for name, size in METRES.items() if decimal_places(value / size) is not None]))
    number = draw(rational(value / METRES[unit], gold))
    return number + draw(pick(r"\text{ %s}", r"\,\text{%s}", r"\ \mathrm{%s}", r"\mbox{ %s}", r"~\text{%s}")) % unit


@composite
def numeral(draw: DrawFn, value: tuple[str, int], gold: bool = False) -> str:
    digits, base = value
    word = ["two", "three", "four", "five", "six", "seven", "eight", "nine"][base - 2]
    return digits + draw(pick(f"_{base}", f"_{{{base}}}", rf"_{{\text{{{word}}}}}", f"_{{ {base} }}"))


@composite
def time_of_day(draw: DrawFn, value: tuple[int, int, str], gold: bool = False) -> str:
    hour, minute, half = value
    halves = pick(f"{half}m", f"{half.upper()}M", f"{half}.m.", f"{half.upper()}.M.")
    return f"{hour}:{minute:02d}" + draw(pick(r"\text{ %s}", " %s", r"\text{%s}", r"\ \text{%s}")) % draw(halves)
