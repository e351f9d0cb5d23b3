"""The rules that decide a verdict, in plain words."""

from __future__ import annotations

from collections.abc import Mapping

from . import countdown

WORDS: Mapping[str, str] = {
    "identical": "the two texts are the same",
    "empty": "the answer holds nothing",
    "no answer": "no answer was found in the form that is asked for",
    "integer": "two written integers are compared as texts",
    "same spelling": "the two are the same once spacing and LaTeX habits are tidied away",
    "number": "the two are compared as exact numbers",
    "choice": "the gold is a choice letter, and so must the answer be",
    "notation": "the two are compared as times, ratios or numerals of a base",
    "value": "the two are compared as values with their units",
    "words": "the two are compared as words",
    "list": "lists, sets, tuples and intervals are compared element by element",
    "region": "the two are compared as sets of numbers",
    "matrix": "matrices are compared cell by cell",
    "relation": "equations and inequalities are compared as what they say of their unknown",
    "alternatives": "several answers are offered, and each of them must be the gold",
    "hedge": "the answer offers several values, of which one is the gold",
    "all golds": "the answer must list every gold",
    "division by zero": "a value divides by zero",
    "string": "the two texts are compared as they stand",
    "math-verify": "math-verify's own parse and verify decide",
    countdown.RULE: "each given number is used exactly once, and the value is the target",
}
ALGEBRA = " with algebra"


def in_words(rule: str) -> str:
    """A rule of a Verdict in plain words; what is no rule's name (a refusal, a timeout, an error) is said as it is."""
    plain = rule.removesuffix(ALGEBRA)
    words = WORDS.get(plain, plain)
    return f"{words}, by computer algebra" if plain != rule else words
