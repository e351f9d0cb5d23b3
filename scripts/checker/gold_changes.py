r"""One thing changed in a gold: a digit, a sign, an entry, a bracket, a unit, a letter, an operator. Pure, seeded.

CHANGES maps the way of changing to a function of the gold and a random draw; what it returns may still be equal to the
gold (gold_pairs.wrong_pairs asks the oracle), and is often no answer that anybody would write.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from itertools import pairwise

import gold_oracle as oracle
from gold_misleading import HEDGES, around_it, lookalike, plain, undone
from gold_values import Unreadable
from mpmath import mp

_INTEGER = re.compile(r"(?<![0-9.\\])[0-9]+(?![0-9.]|\s*\\text\{)")


def _with_integer(change: Callable[[str], str]) -> Callable[[str, random.Random], list[str]]:
    """A change of one of the written integers, drawn at random."""

    def changed(gold: str, draw: random.Random) -> list[str]:
        places = list(_INTEGER.finditer(gold))
        if not places:
            return []
        found = draw.choice(places)
        return [gold[: found.start()] + change(found[0]) + gold[found.end() :]]

    return changed


def _swapped_digits(number: str) -> str:
    for index in range(len(number) - 1, 0, -1):
        if number[index] != number[index - 1]:
            return number[: index - 1] + number[index] + number[index - 1] + number[index + 1 :]
    return number


def _sub(pattern: str, new: str, count: int = 1) -> Callable[[str, random.Random], list[str]]:
    compiled = re.compile(pattern)
    return lambda gold, draw: [compiled.sub(new, gold, count=count)]


def _sign(gold: str, draw: random.Random) -> list[str]:
    places = [found.start() for found in re.finditer(r"[-+]", gold)]
    if not places or draw.random() < 0.3:
        return (
            [gold[1:].lstrip() if gold.startswith("-") else "-" + gold]
            if re.match(r"[-0-9\\a-z.]", gold) and "," not in gold
            else []
        )
    at = draw.choice(places)
    return [gold[:at] + {"-": "+", "+": "-"}[gold[at]] + gold[at + 1 :]]


def _entries(gold: str, draw: random.Random) -> list[str]:
    found = re.fullmatch(r"((?:\\left)?\s*[(\[])(.*)((?:\\right)?\s*[)\]])", gold.strip())
    parts = oracle.split(found[2], ",") if found else []
    if not found or len(parts) < 2:
        return []
    at = draw.randrange(len(parts) - 1)
    parts[at], parts[at + 1] = parts[at + 1], parts[at]
    return [found[1] + ", ".join(parts) + found[3]]


def _list(gold: str, draw: random.Random) -> list[str]:
    """A list with one element more, and one less; a single answer with a second one beside it."""
    if re.search(r"[\[(:=]|\\begin|\\text|\\\$|[0-9],\\!", gold):
        return []
    parts = oracle.split(gold, ",")
    shorter = [", ".join(parts[:-1])] if len(parts) > 1 else []
    return [f"{gold}, 7919", f"{gold} \\text{{ or }} 7919", *shorter]


def _brackets(gold: str, draw: random.Random) -> list[str]:
    plain = gold.replace("\\left", "").replace("\\right", "").strip()
    if not re.fullmatch(r"[\[(][^()\[\]]*,[^()\[\]]*[\])]", plain):
        return []
    return [first + plain[1:-1] + last for first in "([" for last in ")]"] + ["\\{" + plain[1:-1] + "\\}"]


def _rounded(gold: str, draw: random.Random) -> list[str]:
    """The value cut to a few decimals: 0.333 for a third, 3.14159 for pi."""
    try:
        kind, content = oracle.read(gold)[:2]
    except Unreadable:
        return []
    if kind != "value" or content[0][0] != content[0][1] or mp.im(content[0][0]) or re.search(r"[.]", gold):
        return []
    value = content[0][0]
    return [f"{float(value):.{digits}f}" for digits in (1, 2, 4, 8) if float(value) != round(float(value), digits)]


def _letters(gold: str, draw: random.Random) -> list[str]:
    """One letter for another: x -> y in an expression, the next choice, a word with its letters in another order."""
    if found := re.search(r"\\(?:text|mbox)\s*\{([a-zA-Z ]+)\}$", gold):
        word = found[1].strip()
        mixed = "".join(draw.sample(word, len(word))) if len(word) > 1 else chr(ord(word or "@") + 1)
        return [gold.replace(found[1], mixed), gold.replace(found[1], word[::-1])]
    names = sorted(set(re.findall(r"(?<![\\a-zA-Z{])[a-zA-Z](?![a-zA-Z])", re.sub(r"\\[a-zA-Z]+", "", gold))) - {"i"})
    if not names:
        return []
    name = draw.choice(names)
    new = chr(ord(name) + (1 if name.lower() != "z" else -1))
    return [re.sub(rf"(?<![\\a-zA-Z]){name}(?![a-zA-Z])", new, gold)]


def _point(gold: str, draw: random.Random) -> list[str]:
    plain = re.sub(r",\s*\\!\s*|\{,\}", ",", gold)
    if re.fullmatch(r"[0-9]{1,3},[0-9]{3}", plain):
        return [plain.replace(",", "."), plain.replace(",", "\\text{ and }"), plain.replace(",", ";")]
    if re.fullmatch(r"[0-9]{4,6}", plain):
        return [plain[:-3] + "." + plain[-3:], plain[:-3] + "; " + plain[-3:], plain[:-3] + "/" + plain[-3:]]
    if re.fullmatch(r"-?[0-9]*\.[0-9]+", plain):
        whole, _, decimals = plain.partition(".")
        return [
            whole + decimals[0] + "." + decimals[1:] + "0",
            f"{whole or '0'}.0{decimals}",
            f"{whole or '0'},{decimals}",
        ]
    return []


def _two_numbers(gold: str, draw: random.Random) -> list[str]:
    places = list(_INTEGER.finditer(gold))
    pairs = [(a, b) for a, b in pairwise(places) if a[0] != b[0]]
    if not pairs:
        return []
    a, b = draw.choice(pairs)
    return [gold[: a.start()] + b[0] + gold[a.end() : b.start()] + a[0] + gold[b.end() :]]


def _converted(gold: str, draw: random.Random) -> list[str]:
    found = re.fullmatch(r"([0-9]+)_\{?([0-9])\}?", gold)
    return [str(int(found[1], int(found[2])))] if found and all(digit < found[2] for digit in found[1]) else []


def _term(gold: str, draw: random.Random) -> list[str]:
    if re.search(r"[=,<>(\[{]|\\", gold) or len(terms := re.findall(r"[-+]?\s*[^-+]+", gold)) < 2:
        return []
    terms.pop(draw.randrange(len(terms)))
    return ["".join(terms).strip()]


CHANGES: dict[str, Callable[[str, random.Random], list[str]]] = {
    "one more": _with_integer(lambda number: str(int(number) + 1)),
    "one less": _with_integer(lambda number: str(int(number) - 1) if int(number) > 1 else number + "1"),
    "digits swapped": _with_integer(_swapped_digits),
    "digit doubled": _with_integer(lambda number: number + number[-1]),
    "digit dropped": _with_integer(lambda number: number[:-1] or "0"),
    "digits reversed": _with_integer(lambda number: number[::-1]),
    "ten times": _with_integer(lambda number: number + "0"),
    "sign": _sign,
    "entries swapped": _entries,
    "list": _list,
    "brackets": _brackets,
    "rounded": _rounded,
    "letters": _letters,
    "decimal point": _point,
    "fraction inverted": _sub(r"(\\[dt]?frac)\{(-?[0-9]+)\}\{([0-9]+)\}", r"\1{\3}{\2}"),
    "fraction as pair": _sub(r"^\\[dt]?frac\{([0-9]+)\}\{([0-9]+)\}$", r"(\1,\2)"),
    "fraction as product": _sub(r"\\[dt]?frac\{([0-9]+)\}\{([0-9]+)\}", r"\1 \\cdot \2"),
    "fraction as ratio": _sub(r"^\\[dt]?frac\{([0-9]+)\}\{([0-9]+)\}$", r"\2:\1"),
    "mixed as product": _sub(r"^([0-9]+)\s*\\[dt]?frac\s*\{?([0-9])\}?\{?([0-9])\}?$", r"\1 \\cdot \\frac{\2}{\3}"),
    "root dropped": _sub(r"\\sqrt\s*(?:\{([^{}]*)\}|([0-9]))", r"\1\2"),
    "root added": _sub(r"^([0-9]+)$", r"\\sqrt{\1}"),
    "root moved": _sub(r"([0-9]+)\s*\\sqrt\{([0-9]+)\}", r"\2\\sqrt{\1}"),
    "root of all": _sub(r"([0-9]+)\s*\\sqrt\{([0-9]+)\}", r"\\sqrt{\1 \\cdot \2}"),
    "cube root": _sub(r"\\sqrt\{", r"\\sqrt[3]{"),
    "pi dropped": _sub(r"\\pi(?![a-z])", "1"),
    "pi added": _sub(r"^([0-9]+)$", r"\1\\pi"),
    "i dropped": _sub(r"(?<=[0-9])\s*i(?![a-z])", ""),
    "i added": _sub(r"^([0-9]+)$", r"\1i"),
    "squared": _sub(r"([0-9a-z)])$", r"\1^2"),
    "exponent dropped": _sub(r"\^(?:[0-9]|\{[0-9]+\})", ""),
    "exponent raised": lambda gold, draw: [re.sub(r"\^([2-8])", lambda found: f"^{int(found[1]) + 1}", gold, count=1)],
    "power as digits": _sub(r"([0-9])\^\{?([0-9]+)\}?", r"\1\2"),
    "base": _sub(r"_\{?([0-9])\}?\.?$", r"_{1\1}"),
    "base for power": _sub(r"_\{?([0-9])\}?\.?$", r"^{\1}"),
    "base added": _sub(r"^([0-7]{2,})$", r"\1_8"),
    "weaker relation": _sub(r"(?:(?<![<>])([<>])(?!=))", r"\1="),
    "strict relation": lambda gold, draw: [re.sub(r"\\leq?(?![a-z])", "<", gold, count=1)],
    "equation as inequality": _sub(r"=", r"\\le "),
    "relation turned": _sub(r"<", ">"),
    "f'": _sub(r"(?<![a-z\\])([fgh])\(", r"\1'("),
    "unit": lambda gold, draw: [
        re.sub(rf"(?<=[{{ ]){old}\b", new, gold)
        for old, new in (
            ("cm", "m"),
            ("miles", "feet"),
            ("feet", "inches"),
            ("inches", "cm"),
            ("dollars", "cents"),
            ("cents", "dollars"),
            ("hours", "minutes"),
            ("minutes", "hours"),
            ("days", "weeks"),
            ("pounds", "grams"),
            ("square units", "cubic units"),
            ("degrees", "radians"),
            ("ft", "m"),
        )
    ],
    "unit's power": _sub(r"(\\(?:text|mbox)\{[^{}]*(?:cm|m|ft|inches)\})\s*\^\s*\{?2\}?", r"\1^3"),
    "cents for dollars": _sub(r"^\\\$\s*([0-9.]+)$", r"\1\\text{ cents}"),
    "percent for degrees": _sub(r"\^\{?\\circ\}?$", r"\\%"),
    "radians for degrees": _sub(r"\^\{?\\circ\}?$", r"\\text{ radians}"),
    "hundredth of a percent": _sub(r"^([0-9]+)\s*\\%$", r"0.\1\\%"),
    "percent of a whole": _sub(r"^([0-9]{1,2})$", r"\1/100"),
    "degrees under a function": _sub(r"(\\(?:cos|sin|tan)\s+[0-9]+)\^\{?\\circ\}?", r"\1"),
    "another function": _sub(r"\\(?:sin|sec|tan)(?![a-z])", r"\\cos"),
    "infinity's sign": _sub(r"(?<!-)\\infty", r"-\\infty"),
    "infinity for a number": _sub(r"^[0-9]+$", r"\\infty"),
    "intersection": _sub(r"\\cup", r"\\cap"),
    "one interval less": _sub(r"\s*\\cup.*$", ""),
    "one sign of two": _sub(r"\\pm", "+"),
    "rows swapped": _sub(r"(\\begin\{pmatrix\})(.*?)(\\\\)(.*?)((?:\\\\.*)?\\end)", r"\1\4\3\2\5"),
    "columns swapped": _sub(r"(\\begin\{pmatrix\})([^&\\]*)&([^&\\]*)(\\\\|&)", r"\1\3&\2\4"),
    "column as row": lambda gold, draw: (
        [gold.replace("\\\\", "&")] if gold.startswith("\\begin") and "&" not in gold else []
    ),
    "product for sum": _sub(r"(?<=[0-9a-z)}])\s*\+\s*(?=[0-9a-z\\(])", r" \\cdot "),
    "bracket dropped": lambda gold, draw: [
        re.sub(r"\(([a-z0-9]+)\s*([-+])\s*([a-z0-9]+)\)(?=[(^])", r"\1\2\3", gold, count=1)
    ],
    "two numbers swapped": _two_numbers,
    "other look": lookalike,
    "equal to another": lambda gold, draw: [f"{gold} = 7919", f"7919 = {gold}"] if plain(gold) else [],
    "hedged": lambda gold, draw: [text % gold for text in HEDGES] if plain(gold) else [],
    "around it": around_it,
    "undone": undone,
    "further sign": lambda gold, draw: (
        [
            gold + mark
            for mark in (
                "x",
                "!",
                "?",
                "'",
                "_2",
                "^{-1}",
                "\\text{ million}",
                "\\text{ dozen}",
                "\\cdot 10^3",
                "k",
                "e1",
                "\\text{ thousand}",
                " 7919",
            )
        ]
        if plain(gold)
        else []
    ),
    "bar lost": lambda gold, draw: [
        re.sub(r"\\[dt]?frac\{([0-9]+)\}\{([0-9]+)\}", new, gold)
        for new in (r"\1\2", r"\1.\2", r"\1-\2", r"\\binom{\1}{\2}", r"\1^{\2}", r"\1|\2", r"\1 \2")
    ],
    "percent for a fraction": lambda gold, draw: (
        [gold + "\\%"] if re.fullmatch(r"0?\.[0-9]+|\\[dt]?frac\{([0-9])\}\{[0-9]{2}\}", gold) else []
    ),
    "mixed glued": _sub(r"([0-9]+)\s*(\\[dt]?frac)\s*\{?([0-9]+)\}?\{?([0-9]+)\}?", r"\2{\1\3}{\4}"),
    "base converted": _converted,
    "right side dropped": lambda gold, draw: (
        [gold.split("=")[0]] if "=" in gold and len(gold.split("=")[0].strip()) > 2 else []
    ),
    "right side changed": _sub(r"=\s*(.+)$", r"= \1 + 1"),
    "term dropped": _term,
    "root over the rest": _sub(r"\\sqrt\{([^{}]*)\}\s*([-+])\s*([0-9]+)", r"\\sqrt{\1\2\3}"),
    "root over the factor": _sub(r"([0-9]+)\s*\\sqrt\{([^{}]*)\}", r"\\sqrt{\1\2}"),
    "roots joined": _sub(r"\\sqrt\{([0-9]+)\}\s*([-+])\s*\\sqrt\{([0-9]+)\}", r"\\sqrt{\1\2\3}"),
    "pi raised": _sub(r"\\pi(?![a-z])", r"\\pi^2"),
    "pi for a letter": _sub(r"\\pi(?![a-z])", "p"),
    "other money": lambda gold, draw: (
        [gold.replace("\\$", "€"), gold.replace("\\$", "") + "\\text{ euros}"] if gold.startswith("\\$") else []
    ),
    "time's digits": lambda gold, draw: (
        [re.sub(r":|\\!:\\!", new, gold) for new in (".", "", "/")] if ":" in gold else []
    ),
    "bars for brackets": lambda gold, draw: [gold.replace("pmatrix", "vmatrix")],
    "row dropped": _sub(r"\s*\\\\[^\\]*(?=\\end)", " "),
    "turned matrix": _sub(
        r"(\\begin\{pmatrix\})([^&\\]*)&([^&\\]*)\\\\([^&\\]*)&([^&\\]*)(\\end)", r"\1\2&\4\\\\\3&\5\6"
    ),
    "one bracket of a union": lambda gold, draw: [
        re.sub(r"\](?=\s*\\cup)", ")", gold),
        re.sub(r"(\\cup\s*)\(", r"\1[", gold),
        re.sub(r"(?<!\\infty)\)(\s*\\cup)", r"]\1", gold),
    ],
    "entry more": _sub(r"([0-9])((?:\s*\\right)?[)\]])$", r"\1, 7919\2"),
    "entry less": _sub(r"^((?:\\left)?[(\[])[^,()]*,\s*(.*,.*)$", r"\1\2"),
    "negated words": lambda gold, draw: (
        [gold.replace("{", "{not ", 1), gold.replace("}", " or 7919}", 1)] if re.match(r"\\(text|mbox)", gold) else []
    ),
    "half past": _sub(r"(:|\\!:\\!)([0-9]{2})", r"\g<1>59"),
    "afternoon": lambda gold, draw: [gold.replace("p.m.", "a.m.")],
}
