r"""Whether what a line of an answer states is so: `29+22=51`, `$12 × 3 = $36`, `<<48/2=24>>`, `2 + 3 + 4 = 5 + 4 = 9`.

    holds("29+22=51")          # True
    holds("6*7=41")            # False
    holds("so he has 5 left")  # None: nothing to check

A statement is a chain of `=` between numbers, + - * / ^ and brackets, with an operation in it. It is computed in
fractions; nothing is evaluated as code. What cannot be told with certainty is no statement: a variable, a word or a
sign beside it that may belong to it (`half of 10 + 2 = 7`, `x - 3 * 2 = 5`, `7 / 2 = 3 R 1`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction

from .calculation import Parser, Token, Unclear

LONGEST = 2000  # characters of a line

_MARK = re.compile(r"<<([^<>]{1,200})>>")  # GSM8K's
_BULLET = re.compile(r"\s*(?:[-*•+]|\(?[0-9]{1,3}[.)])\s+")
_SAME = str.maketrans(
    {"×": "*", "·": "*", "⋅": "*", "∙": "*", "÷": "/", "⁄": "/", "−": "-", "–": "-", "²": "^2", "³": "^3", "≃": "≈"}
)
_BETWEEN = r"(?<=[0-9)%])\s*{}\s*(?=[0-9(.-])"
_CROSS = r"(?<=[0-9)%])(?:\s*[xX]\s*(?=[0-9(.])|\s+[xX]\s+(?=-[0-9(.]))"  # 3 x -3, but 3x-3 and 3 x - 3 have a variable
_SPELT = [
    (re.compile(pattern), by)
    for pattern, by in (
        (r"\\d?frac\{([0-9]+)\}\{([0-9]+)\}", r"(\1/\2)"),
        (r"\\(?:times|cdot)(?![A-Za-z])", "*"),
        (r"\\div(?![A-Za-z])", "/"),
        (r"\\approx(?![A-Za-z])", "≈"),
        (r"\\(?:left|right)(?=[()])", ""),
        (r"\\%", "%"),
        (r"\\?[$€£¥]", ""),
        (r"\\[,;!: ]", " "),
        (r"\\[()\[\]]", ";"),
        (r"->|=>|→|⇒|>=|<=|!=|:=|≠|≤|≥", ";"),
        (r"\*\*(?![0-9(.])|(?<![0-9)])\*\*", " "),  # bold type
        (r"\*\*", "^"),
        (r"==", "="),
        (r"%\s+of\s+(?=[0-9(.])", "%*"),
        (_CROSS, "*"),
        (_BETWEEN.format(r"(?<=\s)(?:times|multiplied by)(?=\s)"), "*"),
        (_BETWEEN.format(r"(?<=\s)divided by(?=\s)"), "/"),
        (_BETWEEN.format(r"(?<=\s)plus(?=\s)"), "+"),
        (_BETWEEN.format(r"(?<=\s)minus(?=\s)"), "-"),
    )
]
_TOKEN = re.compile(
    r"(?P<number>[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|\.[0-9]+)"
    r"|(?P<sign>[-+*/^()%=≈])|(?P<word>[^\W\d_]+)|(?P<other>\S)"
)
# what may change a number that it stands before or behind
_BEFORE = {
    "of",
    "times",
    "plus",
    "minus",
    "by",
    "over",
    "half",
    "twice",
    "double",
    "triple",
    "root",
    "sqrt",
    "less",
    "x",
}
_BEHIND = {"r", "rem", "remainder", "squared", "cubed", "times", "plus", "minus", "over", "more", "less", "divided"}
_BEHIND |= {"dozen", "hundred", "thousand", "million", "billion", "percent", "multiplied"}
_OPENS, _ENDS = set("\"'“‘[{;:,|>"), set(".;:,?)]}\"'”’|<°")
_TEX = {"text", "mathrm", "mbox", "quad", "qquad", "ldots", "dots"}


def holds(line: str) -> bool | None:
    """Whether all that the line states is so; None where it states nothing that can be checked."""
    if len(line) > LONGEST:
        return None
    marked = [found for mark in _MARK.findall(line) for found in _checked(mark)]
    found = [*marked, *_checked(_MARK.sub("", line))]
    return all(found) if found else None


def _checked(line: str) -> Iterator[bool]:
    """For each statement of the line, whether it holds."""
    text = _BULLET.sub("", line, count=1) if _BULLET.match(line) else line
    text = text.translate(_SAME)
    for pattern, by in _SPELT:
        text = pattern.sub(by, text)
    tokens = [Token(str(match.lastgroup), match.group(), *match.span()) for match in _TOKEN.finditer(text)]
    tokens = _without_asides(tokens)
    first = 0
    while first < len(tokens):
        last = first
        while last < len(tokens) and tokens[last].kind in ("number", "sign"):
            last += 1
        if last > first and _stands_alone(tokens, first, last):
            with suppress(Unclear):
                # 20% is a fifth, but some write 3 / 4 * 100 = 75%
                yield any(_true(tokens[first:last], percent) for percent in (Fraction(1, 100), Fraction(1)))
        first = max(last, first + 1)


def _without_asides(tokens: Sequence[Token]) -> list[Token]:
    """Brackets around a whole statement, and those without a partner, end a run as punctuation does."""
    made, open_at = list(tokens), list[int]()
    aside: set[int] = set()
    for at, token in enumerate(tokens):
        if token.text == "(":
            open_at.append(at)
        elif token.text == ")":
            begin = open_at.pop() if open_at else None
            if begin is None:
                aside.add(at)
            elif any(other.text in "=≈" for other in tokens[begin:at]):
                aside |= {begin, at}
    for at in aside | set(open_at):
        made[at] = made[at]._replace(kind="other", text=";")
    return made


def _stands_alone(tokens: Sequence[Token], first: int, last: int) -> bool:
    """Whether nothing beside the run may belong to it."""
    run = tokens[first:last]
    if not any(token.text in ("=", "≈") for token in run):
        return False
    if run[0].text in "*/^)%" or run[-1].text in "+-*/^(":
        return False
    before, behind = tokens[first - 1] if first else None, tokens[last] if last < len(tokens) else None
    if before is not None:
        touches = before.end == run[0].start
        digit_before = first > 1 and tokens[first - 2].kind == "number" and tokens[first - 2].end == before.start
        signed = run[0].text in "+-"
        if run[0].text in "=≈":
            pass  # what stands before it is left out
        elif before.kind == "word":
            named = first > 1 and tokens[first - 2].text in "+-*/"  # week 1 + week 2 = 35 + 35
            if touches or signed or named or before.text.lower() in _BEFORE:
                return False
        else:
            beside = touches and (before.text not in _OPENS or digit_before)
            if beside or before.text == "√" or (signed and before.text not in _OPENS | {"."}):
                return False
    if behind is None:
        return True
    touches = run[-1].end == behind.start
    after = tokens[last + 1] if last + 1 < len(tokens) else None
    if behind.kind == "word":
        if behind.text.lower() == "and" and _fraction(tokens, last + 1):  # 17/3 = 5 and 2/3
            return False
        return not (touches and len(behind.text) == 1) and behind.text.lower() not in _BEHIND
    if behind.text == "\\":
        return after is not None and after.text in _TEX
    digit_behind = after is not None and after.kind == "number" and after.start == behind.end
    return behind.text != "√" and not (
        touches and (behind.text not in _ENDS or (digit_behind and behind.text in ",:."))
    )


def _fraction(tokens: Sequence[Token], first: int) -> bool:
    """Whether a fraction begins there that no `=` follows."""
    texts = [token.text for token in tokens[first : first + 6] if token.text not in "()"]
    kinds = [token.kind for token in tokens[first : first + 6] if token.text not in "()"]
    return kinds[:3] == ["number", "sign", "number"] and texts[1] == "/" and (kinds[3:4] != ["sign"])


def _true(run: Sequence[Token], percent: Fraction) -> bool:
    """Whether the sides of a run are equal. Raises Unclear where it is no statement."""
    sides: list[tuple[str, list[Token]]] = [("", [])]
    for token in run:
        if token.text in ("=", "≈"):
            sides.append((token.text, []))
        else:
            sides[-1][1].append(token)
    if not sides[0][1]:
        sides = sides[1:]
    if not sides[-1][1]:
        sides = sides[:-1]
    values: list[Fraction | None] = []
    operations = 0
    for _, side in sides:
        parser = Parser(side, percent)
        values.append(parser.value())
        operations += parser.operations
    if len(sides) < 2 or not operations:
        raise Unclear
    return all(
        _equal(value, other, relation, side, percent)
        for value, other, (relation, side) in zip(values, values[1:], sides[1:], strict=False)
    )


def _equal(
    value: Fraction | None, other: Fraction | None, relation: str, side: Sequence[Token], percent: Fraction
) -> bool:
    """Exactly; a decimal may also be what it rounds to, where no decimal is exact (two places at least) or after ≈."""
    if value is None or other is None:  # divided by 0
        return False
    if value == other:
        return True
    unit = Fraction(1)
    if side[-1].text == "%":  # 1 / 3 = 33.33%
        side, unit = side[:-1], percent
    value, other = value / unit, other / unit
    numbers = [token.text for token in side if token.kind == "number"]
    if len(numbers) != 1 or len(side) > 2 or side[-1].kind != "number":
        return False
    places = len(numbers[0].partition(".")[2])
    if relation == "=" and (places < 2 or _terminates(value)):
        return False
    return abs(value - other) <= Fraction(1, 2 * 10**places)


def _terminates(value: Fraction) -> bool:
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1
