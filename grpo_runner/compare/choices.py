"""What tells runs apart, in the words in which it was typed: `advantage=dr_grpo`, not the four keys behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ..errors import InputError
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
METHOD = "method"  # no setting, but what many of them make together


def items(runs: Sequence[Run], keys: Iterable[str], conf: Path) -> list[Item]:
    """The keys, in order, those of one group of conf/ together where every run has one of its named choices."""
    by_group: dict[str, list[str]] = {}
    for key in keys:
        by_group.setdefault(key.partition(".")[0], []).append(key)
    return [item for group, own in by_group.items() for item in _of_group(runs, group, own, conf)]


def method(runs: Sequence[Run], keys: Iterable[str], others: Sequence[Item] = ()) -> Item:
    """The method by whose name a run calls itself. Behind it are those of `keys` that are the same in all runs of a
    method; what differs within one is not. others: what is compared beside it. Raises InputError for a run without.
    """
    if unnamed := [run.name for run in runs if run.method is None]:
        raise InputError(f"--by {METHOD}: {unnamed[0]} does not say what its method is called.")
    if len({run.method for run in runs}) == 1 < len(runs):
        raise InputError(f"--by {METHOD}: the runs do not differ in it; each is {runs[0].method}.")
    groups: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.method, *(typed(item.of(run)) for item in others)), []).append(run)
    within = {key for own in groups.values() for key in differing(own)}
    taken = {key for item in others for key in item.keys}
    return Item(METHOD, frozenset(keys) - within - taken, lambda run: run.method)


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
