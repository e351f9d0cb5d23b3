r"""From a tidied text (normalize.tidy) to its shape: what it is made of, without evaluating any of it. Pure."""

from __future__ import annotations

import re
from dataclasses import replace

from .labels import is_label
from .numbers import exact
from .shapes import Chained, Items, Matrix, Named, Relation, Rounded, Shape, Union, Value, Words
from .units import split_unit

_TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|.", re.DOTALL)
_OPERATORS = {
    "=": "=",
    "\\approx": "=",
    "\\equiv": "=",
    "<": "<",
    ">": ">",
    "\\le": "<=",
    "\\ge": ">=",
    "\\ne": "!=",
    "\\in": "in",
}
_JOINING_TEXT = re.compile(
    r"\s*,?\s*\\text\s*\{\s*,?\s*(?:and|or)\s*\}\s*,?\s*|\s*,?\s+(?:and|or)\s+(?![^{}\\]*\})|\s*\\text\s*\{\s*,\s*\}\s*"
    r"|(?<=[\d)\]}])\s*(?:and|or)\s*(?=[\d(\[\\-])",
    re.IGNORECASE,
)
_WHOLE_TEXT = re.compile(r"\\text\s*\{([^{}]*)\}")
_WORD = re.compile(r"(?<![\\a-zA-Z{])[a-zA-Z]{3,}")
_COMMAND = re.compile(
    r"\\(?:frac|sqrt|pi|infty|cdot|times|div|pm|binom|circ|(?:arc)?(?:sin|cos|tan|cot|sec|csc)|log|ln|exp)(?![a-zA-Z])"
)
_LETTER = re.compile(r"[a-zA-Z]")  # of an unknown, once commands are taken off; \theta is one
_FOLLOWS = re.compile(r"\\(?:implies|Rightarrow|rightarrow|to|iff|Leftrightarrow)(?![a-zA-Z])")
_SIGNED = re.compile(r"\\(?:pm|mp)(?![a-zA-Z])")  # not \pmod
_OR = re.compile(r"\bor\b", re.IGNORECASE)
_CONGRUENCE = re.compile(
    r"(.+?)\\equiv(?![a-zA-Z])(.+?)\(?\s*(?:\\p?mod(?![a-zA-Z])|\\text\s*\{\s*mod\s*\})\s*\{?\s*(\d+)\s*\}?\s*\)?"
)
_BARE_SET = re.compile(r"^\{(.*)\}$")
_ALL_REALS = re.compile(r"(?:all|any|every) (?:real numbers?|reals?|real values?|real)(?: (?:of )?[a-z])?")
_NO_SOLUTION = re.compile(r"(?:there (?:is|are) )?no (?:real )?(?:solutions?|roots?)|(?:the )?empty set")
_THOUSANDS = re.compile(r"-?[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]+)?")
_MATRIX = re.compile(r"\\begin\s*\{([pbvBV]?matrix|array)\}((?:(?!\\end\s*\{\1\}).)*)\\end\s*\{\1\}", re.DOTALL)


def pieces(text: str) -> list[str]:
    """LaTeX tokens: commands whole, other characters one by one."""
    return _TOKEN.findall(text)


def split(text: str, separators: set[str]) -> list[tuple[str, str]]:
    """Cut at separators outside all brackets: (part, the separator behind it), the last part with ''."""
    parts: list[tuple[str, str]] = []
    depth, start, position, bars = 0, 0, 0, 0
    for token in pieces(text):
        if token in separators and depth == 0 and not bars % 2:
            parts.append((text[start:position].strip(), token))
            start = position + len(token)
        elif token in ("(", "[", "{", "\\{", "\\begin"):
            depth += 1
        elif token in (")", "]", "}", "\\}", "\\end"):
            depth -= 1
        elif token == "|":
            bars += 1
        position += len(token)
    parts.append((text[start:].strip(), ""))
    return parts


def enclosed(text: str) -> tuple[str, str] | None:
    r"""(bracket pair, content) when one pair of brackets encloses the whole text: (..), [..], (..], [..), \{..\}."""
    tokens = pieces(text)
    if len(tokens) < 2 or tokens[0] not in ("(", "[", "\\{") or tokens[-1] not in (")", "]", "\\}"):
        return None
    if (tokens[0] == "\\{") != (tokens[-1] == "\\}"):
        return None
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token in ("(", "[", "{", "\\{", "\\begin")) - (token in (")", "]", "}", "\\}", "\\end"))
        if depth == 0 and index < len(tokens) - 1:
            return None
    content = text[len(tokens[0]) : -len(tokens[-1])].strip()
    return tokens[0][-1] + tokens[-1][-1], content


def shape(text: str, depth: int = 0) -> Shape:
    """The shape of a tidied text. Past eight levels of nesting everything is a Value."""
    text = text.strip()
    if depth > 8 or not text:
        return Value(text)
    if (matrix := _MATRIX.fullmatch(text)) is not None:
        return _matrix(matrix, depth)
    if (words := _words(text)) is not None:
        text = words
        if not re.search(r"[,;]|\b(?:and|or)\b", text):
            return _wording(text)
    either = "or" in text and bool(_OR.search(text))
    text = _JOINING_TEXT.sub(" , ", text)
    if "," in text and _THOUSANDS.fullmatch((amount := split_unit(text))[0]):
        return Value(*amount)
    parts = split(text, {",", ";"})
    if len(parts) > 1:
        listed = _listed(parts, depth)
        return replace(listed, either=either) if isinstance(listed, Items) else listed
    if _FOLLOWS.search(text):
        return Value(text)
    if (congruence := _CONGRUENCE.fullmatch(text)) is not None:
        return _congruence(*congruence.groups())
    if (
        len(parts := split(text, {"\\approx"})) == 2
        and parts[0][0]
        and not ("=" in parts[0][0] or is_label(parts[0][0]))
    ):
        return Rounded(shape(parts[0][0], depth + 1), parts[1][0])
    if (named := _named(text, depth)) is not None:
        return named
    if len(parts := split(text, set(_OPERATORS))) > 1 and all(part for part, _ in parts):
        if all(op == "=" for _, op in parts[:-1]) and (chain := _chain([part for part, _ in parts], depth)) is not None:
            return chain
        return Relation(tuple(part for part, _ in parts), tuple(_OPERATORS[op] for _, op in parts[:-1]))
    if len(parts := split(text, {"\\cup"})) > 1:
        return Union(tuple(shape(_BARE_SET.sub(r"\\{\1\\}", part), depth + 1) for part, _ in parts))
    if text in ("\\emptyset", "\\{\\}", "\\{ \\}"):
        return Items("{}", ())
    if (pair := enclosed(text)) is not None and not (pair[0] == "()" and "," in text and _SIGNED.search(text)):
        return _bracketed(*pair, text, depth)
    if _SIGNED.search(text):
        return Items("", tuple(shape(sign, depth + 1) for sign in _signs(text)))
    if words is not None:
        return _wording(text)
    value, unit = split_unit(text)
    if unit is not None and (inner := enclosed(value)) is not None and inner[0] == "()" and "," not in inner[1]:
        value = inner[1]
    if unit is None and (
        _WORD.search(re.sub(r"\\(?:begin|end|text|vec|overline|mathbb)\s*\{[^{}]*\}", "", text)) or "\\text" in text
    ):
        return _wording(text)
    return Value(value, unit)


def _words(text: str) -> str | None:
    """The content when the whole text is one text command or bare words, else None."""
    whole = _WHOLE_TEXT.fullmatch(text)
    if whole:
        return whole[1].strip()
    bare = re.fullmatch(r"[a-zA-Z][a-zA-Z' .\-]*", text)
    return text if bare and (re.search("[a-zA-Z]{3}", text) or text.lower() == "no") else None


def _wording(text: str) -> Shape:
    """Text that holds a number, a letter or a time is that; the rest is words."""
    stripped = text.strip().strip(".,;: ")
    if (pair := enclosed(stripped)) is not None and pair[0] == "()" and "," not in pair[1]:
        stripped = pair[1].strip()
    if not re.search(r"[a-zA-Z]{2}", stripped) and stripped:
        return Value(stripped)
    value, unit = split_unit(stripped)
    if unit is not None and re.fullmatch(r"[-+]?[\d.,/: ]+", value):
        return Value(value, unit)
    plain = re.sub(r"\\text\s*\{([^{}]*)\}", r" \1 ", stripped)
    plain = re.sub(r"(?<=\d)(?:st|nd|rd|th)\b", "", plain)
    plain = " ".join(plain.replace("-", " - ").lower().split())
    if _ALL_REALS.fullmatch(plain):
        return Value("\\mathbb{R}")
    return Items("{}", ()) if _NO_SOLUTION.fullmatch(plain) else Words(plain)


def _matrix(found: re.Match[str], depth: int) -> Matrix:
    body = re.sub(r"^\s*\{[lcr| ]*\}", "", found[2]) if found[1] == "array" else found[2]
    body = body.replace("\\hline", "").replace("\\phantom", "")
    rows = [row for row in re.split(r"\\\\(?:\[[^\]]*\])?", body) if row.strip()]
    cells = tuple(tuple(shape(cell, depth + 1) for cell, _ in split(row, {"&"})) for row in rows)
    return Matrix(cells, "|" if found[1] in ("vmatrix", "Vmatrix") else "")


def _listed(parts: list[tuple[str, str]], depth: int) -> Shape:
    """A bare list. "x=1,2" and "x=1, x=2" are lists of values of x; "x=1, y=2" is a list of relations."""
    shapes = [shape(part, depth + 1) for part, _ in parts if part]
    if not shapes:
        return Value("")
    first = shapes[0]
    if isinstance(first, Named):
        if all(isinstance(one, Named) and one.label == first.label for one in shapes):
            return Named(first.label, _flat([one.shape for one in shapes if isinstance(one, Named)]))
        if not any(isinstance(one, Named | Relation) for one in shapes[1:]):
            return Named(first.label, _flat([first.shape, *shapes[1:]]))
    return _flat(shapes) if len(shapes) > 1 else first


def _flat(shapes: list[Shape]) -> Items:
    """A bare list in which inner bare lists (from \\pm) are spread out."""
    items: list[Shape] = []
    for one in shapes:
        if isinstance(one, Named) and isinstance(one.shape, Items) and not one.shape.brackets:
            one = one.shape
        items.extend(one.items if isinstance(one, Items) and not one.brackets else [one])
    return Items("", tuple(items))


def _named(text: str, depth: int) -> Named | None:
    parts = split(text, set(_OPERATORS))
    if len(parts) < 2 or not all(part for part, _ in parts):
        return None
    ops = [_OPERATORS[op] for _, op in parts[:-1]]
    sides = [part for part, _ in parts]
    if ops == ["in"] and is_label(sides[0]):
        return Named(sides[0], shape(sides[1], depth + 1))
    if any(op != "=" for op in ops):
        return None
    values = {found.value for side in sides[1:] if (found := exact(side)) is not None}
    ops_written = [op for _, op in parts[:-1]]
    if is_label(sides[0]) and ops_written[1:] == ["\\approx"]:
        return Named(sides[0], Rounded(shape(sides[1], depth + 1), sides[2]))
    if len(sides) > 2 and is_label(sides[0]) and (chain := _chain(sides[1:], depth)) is not None:
        return Named(sides[0], chain)
    if len(sides) > 2 and len({bool(_LETTER.search(_COMMAND.sub("", side))) for side in sides[1:]}) > 1:
        return None  # f(x) = x^2 = 9 says nothing of f(x)
    own = re.compile(r"(?<![a-zA-Z\\])" + re.escape(sides[0]) + r"(?![a-zA-Z])")
    # in x = 2 + 3 = 5 all that follows is one value; x = 4 = 5 is none
    if is_label(sides[0]) and len(values) < 2 and (len(sides) > 2 or not own.search(sides[1])):
        return Named(sides[0], shape(sides[-1], depth + 1))
    if len(sides) == 2 and is_label(sides[1]) and not re.search("[a-zA-Z]", re.sub(r"\\[a-zA-Z]+", "", sides[0])):
        return Named(sides[1], shape(sides[0], depth + 1))
    return None


def _bracketed(pair: str, content: str, text: str, depth: int) -> Shape:
    parts = split(_JOINING_TEXT.sub(" , ", content), {",", ";"})
    parts = [part for part in parts if part[0]]
    if pair == "{}" and len(builder := split(content, {"|", ":"})) == 2:
        # {x | x > 3} is read as its condition
        return (
            shape(builder[1][0], depth + 1)
            if is_label(re.sub(r"\\in\s*\\mathbb\{R\}$", "", builder[0][0]).strip())
            else Value(text)
        )
    if len(parts) >= 2 or pair == "{}":
        inner = tuple(shape(part, depth + 1) for part, _ in parts)
        if pair == "{}":
            return Items(pair, _flat(list(inner)).items)
        return Items(pair, inner)
    if pair in ("()", "[]") and len(parts) == 1:
        return shape(content, depth + 1)
    return Value(text)


def _chain(sides: list[str], depth: int) -> Chained | None:
    """Sides without unknowns, between equality signs."""
    if len(set(sides)) < len(sides) or any(_LETTER.search(_COMMAND.sub("", side)) for side in sides):
        return None  # 1 = 1 is said of any number
    return Chained(tuple(shape(side, depth + 1) for side in sides))


def _congruence(left: str, right: str, modulus: str) -> Relation:
    residue = exact(right.strip())
    known = residue is not None and residue.value.denominator == 1 and int(modulus) > 0
    name = str(int(residue.value) % int(modulus)) if known and residue is not None else right.strip()
    return Relation((left.strip(), f"{name} mod {modulus}"), ("mod",))


def _signs(text: str) -> tuple[str, str]:
    r"""The two readings of \pm: all upper signs, all lower signs; a leading plus is dropped."""
    upper = re.sub(r"\\mp(?![a-zA-Z])", "-", re.sub(r"\\pm(?![a-zA-Z])", "+", text))
    lower = re.sub(r"\\mp(?![a-zA-Z])", "+", re.sub(r"\\pm(?![a-zA-Z])", "-", text))
    return upper.lstrip().removeprefix("+").strip(), lower.lstrip().removeprefix("+").strip()
