r"""How answers are graded: one value for each question on which graders differ. The keys of `reward/` have these names.

The defaults are the policy of docs/checker.md. What each other value is for stands there and in conf/reward/.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

CHOICES: Mapping[str, tuple[str, ...]] = {
    "extract": ("box_or_marker", "box", "answer_tag", "hash", "whole"),
    "boxes": ("unhedged", "last", "first", "only"),
    "equality": ("value", "string", "math_verify"),
    "units": ("optional", "ignored", "required"),
    "percent": ("sign_optional", "strict", "any_scale"),
    "letters": ("with_text", "alone"),
    "lists": ("unordered", "ordered"),
    "several_golds": ("any", "all"),
}
Number = int | float
Gold = str | Number | Sequence[str | Number]


@dataclass(frozen=True)
class Policy:
    """The rules of one grader; immutable, so that verdicts can be kept by (answer, gold).

    extract: where the answer is looked for (extract.py). boxes: which of several boxes. equality: how two texts are
    compared; the keys after it say how `value` does. decimal_tolerance: relative, where both are written decimals.
    rounded_golds: is an exact value right that the gold's decimals round? numeric_tolerance: relative, for any number.
    Raises ValueError, naming the field and what is allowed, for a value that is not among CHOICES or not a tolerance.
    """

    extract: str = "box_or_marker"
    boxes: str = "unhedged"
    equality: str = "value"
    units: str = "optional"
    percent: str = "sign_optional"
    decimal_tolerance: float = 1e-4
    rounded_golds: bool = True
    numeric_tolerance: float = 0.0
    letters: str = "with_text"
    lists: str = "unordered"
    several_golds: str = "any"

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}")
        for name in ("decimal_tolerance", "numeric_tolerance"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not (math.isfinite(value) and 0 <= value < 1):
                raise ValueError(f"{name} must be a number from 0 to below 1, not {value!r}")


DEFAULT = Policy()


def policy_of(config: object) -> Policy:
    """The Policy of a RewardConfig, or of anything that has the same attributes."""
    return Policy(**{field.name: getattr(config, field.name) for field in fields(Policy)})


def golds_of(gold: Gold) -> tuple[str, ...]:
    """The golds of a row as texts. Raises TypeError for what is no text, number, or list or tuple of those."""
    if isinstance(gold, str):
        return (gold,)
    return tuple(map(_text, gold if isinstance(gold, list | tuple) else (gold,)))


def _text(gold: object) -> str:
    if isinstance(gold, str):
        return gold
    if isinstance(gold, int | float) and not isinstance(gold, bool):
        return str(gold)
    raise TypeError(f"a gold is a text, a number, or a list of those, not {type(gold).__name__}")
