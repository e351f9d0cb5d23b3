r"""Names of what is sought: x, f(x), f^{-1}(x), AB, \theta. What stands beside one is the answer. Pure."""

from __future__ import annotations

import re

# Two or three lower-case letters are a product (xy = 12), unless they are a word
_WORDS = (
    "gcd|lcm|max|min|sum|area|mean|mode|median|range|total|value|length|width|height|radius|perimeter|volume|slope"
    "|ratio|angle|speed|distance|time|age|cost|price|probability|answer|result"
)
_ARGUMENT = r"(?:[a-zA-Z]|-?\d+)"
_LABEL = re.compile(
    rf"(?:m\s*(?=\\angle))?(?:\\angle\s*|\\triangle\s*)?(?:(?:{_WORDS})|[A-Z]{{2,3}}|[a-zA-Z]"
    r"|\\(?:[a-zA-Z]+(?!\s*\{)|text\s*\{[^{}]*\}|vec\s*\{?\w\}?|overline\s*\{\w+\}))"
    r"(?:(?<=[fghA-Z])\^\s*(?:\{\s*-\s*1\s*\}|-1))?'*(?:_\s*(?:\w|\\[a-zA-Z]+|\{[^{}]*\}))?"
    rf"(?:\s*\(\s*{_ARGUMENT}(?:\s*,\s*{_ARGUMENT})*\s*\))?"
)
_DERIVATIVE = re.compile(r"\\frac\s*\{\s*d\s*[a-zA-Z]?\s*\}\s*\{\s*d\s*[a-zA-Z]\s*\}")
_PROBABILITY = re.compile(
    r"(?:\\Pr|\\mathbb\{[PE]\}|Pr|P|E)\s*(?:\([^()]*\)|\[[^\[\]]*\])|\[[A-Z]{3,}\]|\|[A-Z]{2}\|"
    r"|\\frac\s*\{[A-Z]{2}\}\s*\{[A-Z]{2}\}"
)
_COMPOSED = re.compile(r"\(\s*[a-zA-Z]\s*\\circ\s*[a-zA-Z]\s*\)\s*\(\s*[a-zA-Z]\s*\)|[a-zA-Z]\([a-zA-Z]\([a-zA-Z]\)\)")
_TUPLE = re.compile(r"\(\s*[a-zA-Z](?:\s*,\s*[a-zA-Z])*\s*\)")
_FUNCTION_NAMES = re.compile(
    r"\\(?:(?:arc)?(?:sin|cos|tan|cot|sec|csc)h?|log|ln|lg|exp|max|min|gcd|lcm|lim|arg|mod|sum|prod|int"
    r"|sqrt|frac|pi|infty|pm|mp|circ)(?![a-zA-Z])"
)


def is_label(text: str) -> bool:
    r"""Is this the name of what is sought (x, f(x), AB, \theta, \text{Area}, V_1:V_2), not an expression?"""
    if (
        _PROBABILITY.fullmatch(text)
        or _DERIVATIVE.fullmatch(text)
        or _COMPOSED.fullmatch(text)
        or _TUPLE.fullmatch(text)
    ):
        return True
    if _FUNCTION_NAMES.match(text):
        return False
    return all(_LABEL.fullmatch(part.strip()) is not None for part in text.split(":"))
