r"""Other forms of sums, products, names, equations, letters and words; a further part of gold_rewrites.RULES. Pure.

Polynomials are expanded and factored by sympy, read with the small grammar of gold_values.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import gold_oracle as oracle
import sympy
from gold_helpers import ANY, BARE, ONE_VALUE, Rewrite, around, sub, whole
from gold_values import Reader, Unreadable

_VALUE_START = r"^(?!\s*\\(?:text|mbox)|\s*[A-Z]\b(?!\w)|.*[_:])"
_WORDS = r"\s*\\(?:text|mbox)\s*\{\s*([A-Za-z][a-zA-Z ]+?)\s*\}\s*"
_LETTER = r"\s*\(?\s*(?:\\text\s*\{)?\s*\(?([A-H])\)?\s*\}?\s*\)?,?\s*"


def _terms(gold: str) -> list[str] | None:
    """The signed terms of a sum that is the whole gold."""
    plain = gold.strip().rstrip(".")
    if re.search(r"[=<>,:$%_]|\\(?:text|mbox|begin|pm|cup|le|ge|in|circ|left|approx)|[\[\]]", plain):
        return None
    terms, depth, start = [], 0, 0
    for index, mark in enumerate(plain):
        depth += (mark in "({") - (mark in ")}")
        if mark in "+-" and depth == 0 and plain[start:index].strip() and plain[:index].rstrip()[-1] not in "^{(":
            terms.append(plain[start:index].strip())
            start = index
    terms.append(plain[start:].strip())
    return [term if term[0] in "+-" else "+" + term for term in terms] if len(terms) > 1 else None


def _sum(order: Callable[[list[str]], list[str]]) -> Rewrite:
    def rewrite(gold: str) -> str | None:
        terms = _terms(gold)
        return None if terms is None else "".join(order(terms)).removeprefix("+").strip()

    return rewrite


def _negated(terms: list[str]) -> str:
    return "-(" + "".join(("-" if term[0] == "+" else "+") + term[1:] for term in terms).removeprefix("+").strip() + ")"


def _equation(change: Callable[[str, str], str], named: bool = False) -> Rewrite:
    """Of an equation; `named`: of x = 4 too, which is a value with its name."""

    def rewrite(gold: str) -> str | None:
        sides = gold.split("=")
        bad = len(sides) != 2 or re.search(r"[<>,%]|\\(?:text|le|ge|approx)", gold) or not re.search("[a-zA-Z]", gold)
        name = re.fullmatch(r"\s*([a-zA-Z]{1,2}|f\(x\))\s*", sides[0])
        return None if bad or (name and not named) else change(sides[0].strip(), sides[1].strip())

    return rewrite


def oracle_word(digit: str) -> str:
    """The word for a base below ten."""
    return ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"][int(digit)]


class _Symbolic(Reader):
    """The same grammar with sympy's exact values."""

    def number(self, token: str) -> Any:
        return sympy.Rational(token)

    def letter(self, token: str) -> Any:
        return sympy.Symbol(token)

    def raised(self, base: Any, exponent: Any) -> Any:
        return base**exponent


@cache
def _polynomial(gold: str) -> Any:
    """The polynomial that is the whole gold, else None."""
    if not re.fullmatch(r"[-+0-9a-hj-z^{}() ]+", gold) or not re.search("[a-z]", gold) or "f(" in gold:
        return None
    try:
        found = _Symbolic(oracle.clean(gold)).all()
    except Unreadable:
        return None
    return found if isinstance(found, sympy.Expr) and found.is_polynomial() else None


def _expanded(gold: str) -> str | None:
    found = _polynomial(gold)
    return None if found is None or sympy.expand(found) == found else str(sympy.latex(sympy.expand(found)))


def _factored(gold: str) -> str | None:
    found = _polynomial(gold)
    if found is None or len(found.free_symbols) > 2:
        return None
    factored = sympy.factor(found)
    return str(sympy.latex(factored)) if factored != found else None


def _halved_twice(gold: str) -> str | None:
    """The sum of two halves of a polynomial's terms, over one fraction bar: (4x + 2) / 2 for 2x + 1."""
    found = _polynomial(gold)
    return None if found is None or not found.is_Add else rf"\frac{{{sympy.latex(sympy.expand(2 * found))}}}{{2}}"


def _horner(gold: str) -> str | None:
    found = _polynomial(gold)
    if found is None or not found.is_Add or len(found.free_symbols) != 1:
        return None
    return str(sympy.latex(sympy.horner(found)))


FORMS: dict[str, Rewrite] = {
    # sums and products
    "terms reversed": _sum(lambda terms: terms[::-1]),
    "terms turned": _sum(lambda terms: terms[1:] + terms[:1]),
    "minus of the negated": lambda gold: None if (terms := _terms(gold)) is None else _negated(terms),
    "brackets around": around(
        "(", ")", ONE_VALUE + r"(?!.*[0-9]\s*\\[dt]?frac\s*\{?[0-9]|.*\.\s*$|\s*$)" + _VALUE_START[1:]
    ),
    "cdot": sub(r"(?<=[0-9])\s*(?=\\sqrt|\\pi)", r" \\cdot "),
    "times": sub(r"(?<=[0-9])\s*(?=\\sqrt|\\pi)", r" \\times "),
    "asterisk": sub(r"(?<=[0-9])\s*(?=\\sqrt|\\pi)", "*"),
    "factors swapped": whole(r"([0-9]+)\s*(\\sqrt\s*\{[0-9]+\}|\\pi)", r"\2 \\cdot \1"),
    "pi out of the fraction": whole(r"(-?)\\([dt]?)frac\{([0-9]+)\s*\\pi\}\{([0-9]+)\}", r"\1\\\2frac{\3}{\4}\\pi"),
    "pi into the fraction": whole(r"(-?)\\([dt]?)frac\{([0-9]+)\}\{([0-9]+)\}\s*\\pi", r"\1\\\2frac{\3\\pi}{\4}"),
    "root out of the fraction": whole(
        r"(-?)\\([dt]?)frac\{([0-9]*)\s*\\sqrt\s*\{([0-9]+)\}\}\{([0-9]+)\}",
        lambda found: f"{found[1]}\\frac{{{found[3] or 1}}}{{{found[5]}}}\\sqrt{{{found[4]}}}",
    ),
    "root over slash": whole(r"(-?)\\[dt]?frac\{([0-9]*\s*\\sqrt\s*\{[0-9]+\})\}\{([0-9]+)\}", r"\1\2/\3"),
    "root with square": whole(
        r"([0-9]+)\s*\\sqrt\s*\{?([0-9]+)\}?", lambda found: f"\\sqrt{{{int(found[1]) ** 2 * int(found[2])}}}"
    ),
    "root as power": whole(
        r"([0-9]*)\s*\\sqrt\s*\{([0-9]+)\}",
        lambda found: (found[1] + " \\cdot " if found[1] else "") + found[2] + "^{1/2}",
    ),
    "rationalized away": whole(
        r"\\[dt]?frac\{\\sqrt\{([0-9]+)\}\}\{([0-9]+)\}",
        lambda found: f"\\frac{{{found[1]}}}{{{found[2]}\\sqrt{{{found[1]}}}}}",
    ),
    "i first": whole(r"([0-9]+)\s*\+\s*([0-9]+)i", r"\2i + \1"),
    "i with cdot": whole(r"(-?[0-9]+)\s*([-+])\s*([0-9]+)i", r"\1 \2 \3 \\cdot i"),
    # names
    "x =": around("x = ", "", ONE_VALUE + r"(?!.*x)" + _VALUE_START[1:] + ANY[1:]),
    "x= in the formula's name": around(r"\text{Area} = ", "", BARE),
    "f(x) =": around("f(x) = ", "", ONE_VALUE + r"(?=.*(?<![a-z\\])x)(?!.*f)"),
    "y =": around("y = ", "", ONE_VALUE + r"(?=.*(?<![a-z\\])x)(?!.*y)"),
    "point's name": around("(x,y) = ", "", r"^\s*(?:\\left)?\([^,()\[\]]*,[^,()\[\]]*(?:\\right)?\)\s*$"),
    "name dropped": whole(r"(?:[a-zA-Z]|[fg]\([a-z]\))\s*=\s*([^=,]+)", r"\1"),
    "name's spaces": whole(r"([a-zA-Z])\s*=\s*([^=]+)", r"\1=\2"),
    # equations, inequalities
    "sides swapped": _equation(lambda left, right: f"{right} = {left}", named=True),
    "all on one side": _equation(lambda left, right: f"{left} - ({right}) = 0"),
    "doubled": _equation(lambda left, right: f"2({left}) = 2({right})"),
    "leq": sub(r"\\le(?![a-z])", r"\\leq "),
    "le": sub(r"\\leq(?![a-z])", r"\\le "),
    "leqslant": sub(r"\\leq?(?![a-z])", r"\\leqslant "),
    # bases, ratios, letters, words
    "base in braces": whole(r"(-?[0-9A-F]+)_([0-9]+)", r"\1_{\2}"),
    "base without braces": whole(r"(-?[0-9A-F]+)_\{([0-9])\}", r"\1_\2"),
    "base behind brackets": whole(r"([0-9A-F]+)_\{?([0-9]+)\}?", r"(\1)_{\2}"),
    "base in words": whole(
        r"([0-9]+)_\{?([0-9])\}?", lambda found: f"{found[1]}_{{\\text{{{oracle_word(found[2])}}}}}"
    ),
    "base behind text": whole(r"([0-9]+)_\{?([0-9])\}?", r"\1_{\\text{\2}}"),
    "ratio's spaces": whole(r"([0-9]+)\s*:\s*([0-9]+)", r"\1 : \2"),
    "ratio's colon": whole(r"([0-9]+)\s*:\s*([0-9]+)", r"\1\\colon\2"),
    "letter alone": whole(_LETTER, r"\1"),
    "letter in brackets": whole(_LETTER, r"(\1)"),
    "letter as text": whole(_LETTER, r"\\text{\1}"),
    "letter as bold text": whole(_LETTER, r"\\textbf{(\1)}"),
    "letter with a point": whole(_LETTER, r"\1."),
    "letter in mathrm": whole(_LETTER, r"\\mathrm{(\1)}"),
    "words plain": whole(_WORDS, r"\1"),
    "words bold": whole(_WORDS, r"\\textbf{\1}"),
    "words in mathrm": whole(_WORDS, lambda found: f"\\mathrm{{{found[1]}}}" if " " not in found[1] else None),
    "words in lower case": whole(_WORDS, lambda found: f"\\text{{{found[1].lower()}}}"),
    "words spaced": whole(_WORDS, r"\\text{ \1 }"),
    "words with a stop": whole(_WORDS, r"\\text{\1.}"),
    # sums and products
    "expanded": _expanded,
    "factored": _factored,
    "doubled and halved": _halved_twice,
    "Horner's form": _horner,
    "cdot before letters": sub(r"(?<=[0-9])(?=[a-hj-z](?![a-z]))", r" \\cdot ", r"^(?!.*(?:\\|=|_))"),
    "asterisk before letters": sub(r"(?<=[0-9])(?=[a-hj-z](?![a-z]))", "*", r"^(?!.*(?:\\|=|_))"),
    "product of brackets": sub(r"\)\s*\(", r") \\cdot (", r"^(?!.*[,=])"),
    "power with asterisks": sub(r"(?<=[a-z)])\^([0-9])(?![0-9])", r"**\1", r"^(?!.*(?:\\|=))"),
    "invisible brackets": sub(r"\(([^()]*)\)", r"\\left(\1\\right)", r"^[^,]*$"),
    "times one": around(r"1 \cdot ", "", r"^(?=.*(?:sqrt|pi))" + ONE_VALUE[1:] + r"(?!.*[-+])"),
    "root as power of a half": sub(r"\\sqrt\s*\{([0-9]+)\}", r"(\1)^{\\frac{1}{2}}", r"^[0-9]*\s*\\sqrt\s*\{[0-9]+\}$"),
    "root with index two": sub(r"\\sqrt\s*\{", r"\\sqrt[2]{"),
}
