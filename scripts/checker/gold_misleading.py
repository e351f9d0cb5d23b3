r"""Answers that hold the right value and are wrong: hedges, ranges, operators left undone, look-alikes. Pure."""

from __future__ import annotations

import random
import re

HEDGES = (
    "\\text{not } %s",
    "\\ne %s",
    "> %s",
    "\\le %s",
    "x > %s",
    "\\text{at least } %s",
    "\\text{less than } %s",
    "%s \\text{ or more}",
    "\\pm %s",
    "[%s, 7919]",
    "[-7919, %s]",
    "(%s, 7919)",
    "\\{%s, 7919\\}",
    "x = %s \\text{ or } x = 7919",
    "x = %s, 7919",
    "%s \\text{ is wrong}",
    "\\text{What is } %s?",
    "%s; 7919",
    "%s \\; 7919",
    "%s\\ (\\text{or } 7919)",
    "x \\in \\{%s, 7919\\}",
    "7919, %s, 7907",
    "%s \\text{ and } 7919",
    "x \\le %s",
    "x \\ne %s",
    "f(%s)",
    "\\text{between } 0 \\text{ and } %s",
    "%s, \\ldots",
    "%s/7919",
    "7919 \\to %s",
    "%s \\text{ or something else}",
    "%s \\mod 7919",
    "%s \\approx 7919",
    "7919 \\ne %s",
    "\\text{if not } 7919 \\text{ then } %s",
)


def plain(gold: str) -> bool:
    return (
        re.fullmatch(
            r"-?[0-9]+(?:\.[0-9]+)?|-?\\[dt]?frac\{-?[0-9]+\}\{[0-9]+\}|[0-9]*\\sqrt\{[0-9]+\}|[0-9]*\\pi", gold
        )
        is not None
    )


def lookalike(gold: str, draw: random.Random) -> list[str]:
    """Letters that look like digits, Roman numerals, the digits of another script."""
    if not re.fullmatch(r"[0-9]+", gold):
        return []
    roman = {"1": "Ⅰ", "2": "Ⅱ", "5": "Ⅴ", "10": "Ⅹ"}.get(gold, gold)
    arabic = gold.translate(str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩"))
    return [
        gold.translate(str.maketrans("015", "OlS")),
        roman,
        arabic,
        gold[0] + "\\_" + gold[1:] if len(gold) > 1 else gold,
    ]


def around_it(gold: str, draw: random.Random) -> list[str]:
    if not re.fullmatch(r"[0-9]{1,12}", gold):
        return []
    number = int(gold)
    return [
        f"[{number - 1}, {number + 1}]",
        f"({number - 1}, {number + 1})",
        f"{number - 1}, {number}, {number + 1}",
        f"{number - 1} < x < {number + 1}",
        f"{number} \\pm 1",
        f"{number - 1}-{number + 1}",
        f"{number} \\text{{ or }} {number + 1}",
        f"{number - 1}\\text{{ to }}{number}",
        f"{number}.{number}",
        f"{number}0\\%",
    ]


def undone(gold: str, draw: random.Random) -> list[str]:
    """Operators that restate a question: equal in value, and refused by the policy in an answer."""
    if not re.fullmatch(r"[1-9][0-9]{0,2}", gold):
        return []
    return [
        f"\\sum_{{k=1}}^{{{gold}}} 1",
        f"\\int_0^{{{gold}}} 1\\,dx",
        f"\\binom{{{gold}}}{{1}}",
        f"\\prod_{{k=1}}^1 {gold}",
        f"\\lim_{{x\\to {gold}}} x",
        f"\\frac{{{gold}!}}{{{int(gold) - 1}!}}",
        f"\\max(0, {gold})",
        f"\\gcd({gold}, 0)",
    ]
