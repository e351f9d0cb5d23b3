"""A typed key of `data` over what the set's file says of one of its sources: typed wins, on either level.

Files of conf/data name columns for the training questions alone (`data.train.answer_column`), before which a typed
`data.answer_column=x`, "in both sets", would otherwise change nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from hydra.core.override_parser.types import Override

from ..schema import DataConfig, SourceConfig

_SOURCES = ("data.train", "data.eval")
_SHARED = [f.name for f in fields(DataConfig) if f.name in {own.name for own in fields(SourceConfig)}]


def covered(typed: Sequence[Override]) -> list[str]:
    """The keys of data.train and data.eval to be null, since their namesake of `data` was typed and they were not."""
    own = {override.key_or_group for override in typed}  # a source's key that is left out (~) is typed too
    keys = {override.key_or_group for override in typed if not override.is_delete()}
    return [
        f"{source}.{name}"
        for name in _SHARED
        if f"data.{name}" in keys
        for source in _SOURCES
        if not {source, f"{source}.{name}"} & own
    ]
