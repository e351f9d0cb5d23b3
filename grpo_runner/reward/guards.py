"""Limits that an answer must keep before any parser or computer algebra sees it. Pure, linear in the text's length."""

from __future__ import annotations

import re

MAX_LENGTH = 1500
# One expression inside an answer. Real golds have at most 160 characters and three levels of brackets; the grammar
# needs a second for 20 levels, or for 600 characters that it can read in many ways.
MAX_EXPRESSION = 600
MAX_NESTING = 20
MAX_DIGITS = 1000
MAX_EXPONENT = 20_000
MAX_FACTORIAL = 300
MAX_POWERS = 8  # within one exponent

_RAISED = re.compile(r"\^|\*\*")
_SMALL = re.compile(r"\{?-?(?:\d|1[0-2])(?:/\d)?\}?|\{\\frac\{\d\}\{\d\}\}")
_DIGITS = re.compile(r"\d+")
_FACTORIAL = re.compile(r"(\d*)\s*[)}]*\s*!")
_BINOMIAL = re.compile(r"\\[dt]?binom\s*\{?\s*(\d+)")


def refusal(text: str, longest: int = MAX_LENGTH) -> str | None:
    """Why `text` may not go to a parser, or None. Text inside the limits parses and evaluates in bounded time.

    longest: characters, MAX_EXPRESSION for what goes to computer algebra.
    """
    if len(text) > longest:
        return f"longer than {longest} characters"
    if _nesting(text) > MAX_NESTING:
        return f"nested deeper than {MAX_NESTING}"
    if any(len(run[0]) > MAX_DIGITS for run in _DIGITS.finditer(text)):
        return f"a number of more than {MAX_DIGITS} digits"
    return _factorials(text) or _exponents(text)


def _nesting(text: str) -> int:
    depth = deepest = 0
    for character in text:
        if character in "{([":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "})]":
            depth -= 1
    return deepest


def _factorials(text: str) -> str | None:
    if "binom" in text and any(int(found[1]) > MAX_FACTORIAL for found in _BINOMIAL.finditer(text)):
        return f"a binomial of a number over {MAX_FACTORIAL}"
    if "!" not in text:
        return None
    if re.search(r"!\s*[)}\]]*\s*!", text):
        return "a factorial of a factorial"
    if any(found[1] and int(found[1]) > MAX_FACTORIAL for found in _FACTORIAL.finditer(text)):
        return f"a factorial of a number over {MAX_FACTORIAL}"
    if re.search(r"\^[^+\-]*[)}\]]\s*!", text):
        return "a factorial of a power"
    return None


def _exponents(text: str) -> str | None:
    """Refuse towers of powers and numeric exponents over the limit; a power inside an exponent needs a letter."""
    for found in _RAISED.finditer(text):
        exponent = _argument(text, found.end())
        if any(int(run[0]) > MAX_EXPONENT for run in _DIGITS.finditer(exponent)):
            return f"an exponent over {MAX_EXPONENT}"
        inner = [_argument(exponent, one.end()) for one in _RAISED.finditer(exponent)]
        if inner and not re.search(r"(?<![a-zA-Z\\])[a-zA-Z](?![a-zA-Z])", exponent):
            return "a tower of powers"
        if len(inner) > MAX_POWERS or any("^" in one for one in inner):
            return "a tower of powers"
        behind = text[found.end() + len(exponent) :].lstrip()
        if _RAISED.match(behind):
            return "a tower of powers"
        closed = behind.lstrip(")}] ")
        # (x^2)^3 is a power of a power, and small ones are no bomb
        if closed != behind and _RAISED.match(closed) and not (_SMALL.fullmatch(exponent) or exponent[:1].isalpha()):
            return "a tower of powers"
    return None


def _argument(text: str, start: int) -> str:
    """The exponent that begins at `start`: a balanced group, or the run of characters up to a space or operator."""
    stripped = text[start:].lstrip()
    offset = len(text) - start - len(stripped)
    if stripped[:1] in ("{", "("):
        depth = 0
        for index, character in enumerate(stripped):
            depth += (character in "{(") - (character in "})")
            if depth == 0:
                return text[start : start + offset + index + 1]
        return text[start:]
    run = re.match(r"-?(?:[\d.]+|\\[a-zA-Z]+|[a-zA-Z])", stripped)
    return text[start : start + offset + (run.end() if run else 1)]
