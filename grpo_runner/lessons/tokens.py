"""The optional keys of a recorded answer: whether it counted, and what each of its tokens got. No torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

LARGEST = 1e30  # far above any figure of a run; sums and products of what is beyond it overflow
KEYS = ("token_texts", "coefficient", "ratio", "kl", "kl_coefficient", "clipped")


@dataclass(frozen=True)
class Tokens:
    """One entry for each token of an answer; None for what was not computed.

    texts: as the tokenizer decodes them one by one. coefficient: what multiplied ∇log π of the token in the last
    optimizer step that used it, positive where it was made likelier; kl_coefficient is the part of it that comes from
    the KL term of the loss. ratio: π/π_old. kl: the estimate's value.
    """

    texts: tuple[str, ...]
    coefficient: tuple[float, ...] | None
    ratio: tuple[float, ...] | None
    kl: tuple[float, ...] | None
    kl_coefficient: tuple[float, ...] | None
    clipped: tuple[bool, ...] | None


def number(value: Any) -> float:
    """A finite number of at most `LARGEST`, either sign. Raises ValueError for anything else."""
    if type(value) not in (int, float) or not abs(value) <= LARGEST:
        raise ValueError("not a number of a run")
    return float(value)


def included(row: Mapping[str, Any]) -> bool:
    """Whether the answer counted in baseline and loss; runs of before there were others have no such key."""
    said = row.get("included", row["reward"] is not None)
    if not isinstance(said, bool) or (said and row["reward"] is None):
        raise ValueError("included")
    return said


def recorded(row: Mapping[str, Any]) -> bool:
    """Whether the run wrote tokens into its rows, be it to say that none were computed."""
    return any(key in row for key in KEYS)


def read(row: Mapping[str, Any]) -> Tokens | None:
    """The tokens of a row; None where it has none. Raises ValueError or TypeError where they cannot be a run's."""
    texts = _list(row, "token_texts", str)
    others = {key: _list(row, key, bool if key == "clipped" else float) for key in KEYS[1:]}
    if texts is None:
        if any(values is not None for values in others.values()):
            raise ValueError("figures of tokens without the tokens")
        return None
    return Tokens(texts, **others)


def mean(values: tuple[float, ...] | None) -> float | None:
    """None of nothing."""
    return sum(values) / len(values) if values else None


def _list(row: Mapping[str, Any], key: str, kind: type) -> tuple[Any, ...] | None:
    values = row.get(key)
    if values is None:
        return None
    if not isinstance(values, list) or len(values) != row["tokens"]:
        raise ValueError(key)
    if all(value is None for value in values):
        return None
    take: Callable[[Any], Any] = number if kind is float else _exactly(kind)
    return tuple(take(value) for value in values)


def _exactly(kind: type) -> Callable[[Any], Any]:
    def take(value: Any) -> Any:
        if type(value) is not kind:
            raise ValueError(f"not a {kind.__name__}")
        return value

    return take
