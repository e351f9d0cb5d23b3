"""What tells runs apart, in the words in which it was typed: `advantage=dr_grpo`, not the four keys behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ..validate import NUMERIC_GROUPS
from .series import leaves
from .types import Run


@dataclass(frozen=True)
class Item:
    """One thing in which arms differ. keys: the settings behind it; of: its value for a run."""

    name: str
    keys: frozenset[str]
    of: Callable[[Run], object]


ABSENT = "not set"


def items(runs: Sequence[Run], keys: Iterable[str], conf: Path) -> list[Item]:
    """The keys, in order, those of one group of conf/ together where every run has one of its named choices."""
    by_group: dict[str, list[str]] = {}
    for key in keys:
        by_group.setdefault(key.partition(".")[0], []).append(key)
    return [item for group, own in by_group.items() for item in _of_group(runs, group, own, conf)]


def differing(runs: Sequence[Run]) -> list[str]:
    """The settings that are not the same in all runs, in the order in which configs have them."""
    keys = dict.fromkeys(key for run in runs for key in run.settings)
    return [key for key in keys if len({typed(run.settings.get(key, ABSENT)) for run in runs}) > 1]


def typed(value: object) -> tuple[str, object]:
    """Values that can be told apart: True is not 1, and 1 is 1.0."""
    return ("bool" if isinstance(value, bool) else "", value)


def _of_group(runs: Sequence[Run], group: str, keys: list[str], conf: Path) -> list[Item]:
    if keys == [group]:
        return [_leaf(group)]
    if group in NUMERIC_GROUPS and keys == [f"{group}.value"]:
        return [Item(group, frozenset(keys), lambda run: run.settings.get(f"{group}.value", ABSENT))]
    names = {_name(run, group, conf) for run in runs}
    if None not in names and len(names) > 1:
        return [Item(group, frozenset(keys), lambda run: _name(run, group, conf))]
    return [_leaf(key) for key in keys]


def _leaf(key: str) -> Item:
    return Item(key, frozenset([key]), lambda run: run.settings.get(key, ABSENT))


_FILES: dict[Path, dict[str, dict[str, Any]]] = {}


def _name(run: Run, group: str, conf: Path) -> str | None:
    """The choice of conf/GROUP/ whose keys all are as the run has them; None for none."""
    own = {key: value for key, value in run.settings.items() if key.startswith(f"{group}.")}
    for name, values in _choices(conf / group).items():
        wanted = {f"{group}.{key}": _resolved(value, run.settings) for key, value in values.items()}
        if wanted.keys() == own.keys() and all(typed(wanted[key]) == typed(own[key]) for key in own):
            return name
    return None


def _choices(folder: Path) -> dict[str, dict[str, Any]]:
    if folder not in _FILES:
        files = sorted(folder.glob("*.yaml")) if folder.is_dir() else []
        loaded = {file.stem: yaml.safe_load(file.read_text(encoding="utf-8")) for file in files}
        # a file that is built upon another (defaults) does not say all of its keys
        _FILES[folder] = {
            name: leaves(values)
            for name, values in loaded.items()
            if isinstance(values, dict) and "defaults" not in values
        }
    return _FILES[folder]


def _resolved(value: object, settings: Mapping[str, object]) -> object:
    """A value of conf/ as a run has it: `${key}` looked up, and 1e-8, which YAML takes for text, a number."""
    if not isinstance(value, str):
        return value
    if value.startswith("${") and value.endswith("}"):
        return settings.get(value[2:-1], ABSENT)
    try:
        return float(value)
    except ValueError:
        return value
