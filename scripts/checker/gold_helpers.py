r"""How rules for other spellings are made.

A rule takes a gold and gives another spelling, or None where it does not apply.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import gold_oracle as oracle

Rewrite = Callable[[str], "str | None"]
NUMBER = r"-?[0-9]+(?:\.[0-9]+)?|-?\.[0-9]+"
FRACTION = r"(-?)\\[dtc]?frac\{(-?[0-9]+)\}\{([0-9]+)\}"
ANY = r"^(?!\s*$)"
MATHS = r"^(?!\s*\\(?:text|mbox)|.*\\begin|\s*$)"
BARE = rf"^\s*(?:{NUMBER}|{FRACTION})\s*$"
ONE_VALUE = r"^(?!.*(?:[,;=<>:%$\[]|\\(?:text|mbox|cup|begin|pm|in\b|le|ge|overline|approx)|_))"


def sub(pattern: str, new: str | Callable[[re.Match[str]], str], only: str = "") -> Rewrite:
    """Replace every match; nothing when there is none, or when the gold does not match `only`."""
    compiled = re.compile(pattern, re.DOTALL)
    guard = re.compile(only, re.DOTALL)

    def rewrite(gold: str) -> str | None:
        return compiled.sub(new, gold) if guard.match(gold) and compiled.search(gold) else None

    return rewrite


def around(before: str, after: str = "", only: str = "") -> Rewrite:
    guard = re.compile(only, re.DOTALL)
    return lambda gold: before + gold + after if guard.match(gold) else None


def whole(pattern: str, new: str | Callable[[re.Match[str]], str | None]) -> Rewrite:
    """Replace golds that match the pattern as a whole."""
    compiled = re.compile(pattern, re.DOTALL)

    def rewrite(gold: str) -> str | None:
        found = compiled.fullmatch(gold.strip())
        if found is None:
            return None
        return found.expand(new) if isinstance(new, str) else new(found)

    return rewrite


def outside_text(change: Callable[[str], str]) -> Rewrite:
    """Change what stands outside \\text{...}; `\\ ` and line ends of matrices stay."""

    def rewrite(gold: str) -> str | None:
        parts = re.split(r"(\\(?:text|mbox|textnormal|begin|end|mathbf)\s*\{[^{}]*\}|\\\\|\\ )", gold)
        new = "".join(part if index % 2 else change(part) for index, part in enumerate(parts))
        return new if new != gold else None

    return rewrite


def items(gold: str) -> list[str] | None:
    """The entries of a bare list of values."""
    plain = gold.strip()
    if re.search(r"\\begin|[(\[{:=<>]\s*[^{}]*,[^{}]*[)\]]|\\\$|\\text|\\mbox|\\!|\{,\}|\\pm|=", plain) or re.fullmatch(
        r"\S?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?", plain
    ):
        return None
    parts = [re.sub(r"^\\[,;: ]", "", part).strip() for part in oracle.split(plain, ",")]
    risky = any(re.fullmatch("[0-9]{3}", part) for part in parts[1:])  # 81,256 would be one number
    return parts if len(parts) > 1 and all(parts) and not risky else None


def listed(join: Callable[[list[str]], str]) -> Rewrite:
    def rewrite(gold: str) -> str | None:
        parts = items(gold)
        return None if parts is None else join(parts)

    return rewrite
