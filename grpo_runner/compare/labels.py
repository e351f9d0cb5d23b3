"""What an arm is called in sentences, tables and figures: short, and no two alike. What it is in full is its name.

In this order, the first that tells all arms apart: the method; all keys in which the arms differ, where that is short;
the name that the runs have beside their seed; and as few as can be of the method and the differing keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from ..method import OF_CHOICE, short_name
from ..validate import shown
from .types import Arm

LONGEST = 44
# of a method's name, what tells no arm from another where beta is the same in all
_OF_KL = (" without its KL term", " and a KL term", " with the KL in the reward")
_MOST_PARTS = 3  # of a label


def labelled(arms: Sequence[Arm]) -> list[Arm]:
    """The same arms with labels; where nothing short tells them apart, the name is the label."""
    if len(arms) == 1:
        (arm,) = arms
        return [replace(arm, label=_method(arm) or arm.label)]
    found = next((words for words in _candidates(arms) if _fit(words)), [arm.name for arm in arms])
    return [replace(arm, label=str(label)) for arm, label in zip(arms, found, strict=True)]


def _candidates(arms: Sequence[Arm]) -> Iterator[list[str | None]]:
    methods = _without_common([_method(arm) for arm in arms])
    yield methods
    if all(arm.values.keys() == {"name"} for arm in arms):  # logs of others, whose arm is their name
        yield [worded(arm.values["name"]) for arm in arms]
    yield [arm.name for arm in arms]
    yield [_own_name(arm) for arm in arms]
    yield from _of_few(arms, methods)


def choice(arm: Arm) -> str | None:
    """The choice of conf/method whose name all runs of the arm call themselves by: `grpo_process`; None for none."""
    methods = {run.method for run in arm.runs.values()}
    return next((name for name, method in OF_CHOICE.items() if methods == {method}), None)


def _fit(words: Sequence[str | None]) -> bool:
    return len(set(words)) == len(words) and all(label and len(label) <= LONGEST for label in words)


def _method(arm: Arm) -> str | None:
    """The short name of the method by which all runs of the arm call themselves."""
    methods = {run.method for run in arm.runs.values()}
    name = methods.pop() if len(methods) == 1 else None
    if name is None:
        return None
    name = short_name(name)
    if not any(key.partition(".")[0] == "beta" for key in arm.values):
        head, comma, extras = name.partition(", with ")
        head = next((head.removesuffix(ending) for ending in _OF_KL if head.endswith(ending)), head)
        name = head + comma + extras
    return name


def _without_common(methods: Sequence[str | None]) -> list[str | None]:
    """Without the extras (", with dynamic sampling") that all of them have."""
    extras = {name.partition(", with ")[2] for name in methods if name}
    return [name.partition(", with ")[0] if name and len(extras) == 1 else name for name in methods]


def _own_name(arm: Arm) -> str | None:
    """The name that the arm's runs share once the seed is taken out."""
    seeds = {
        re.sub(rf"(^|[,_-])seed[=_-]?{run.seed}(?=$|[,_-])", "", run.name).strip(",_-") for run in arm.runs.values()
    }
    return seeds.pop() if len(seeds) == 1 else None


def _of_few(arms: Sequence[Arm], methods: Sequence[str | None]) -> Iterator[list[str | None]]:
    """By the method and `key=value`s: the fewest first; of as many those with the method, then the shortest."""
    columns = [[f"{key}={worded(arm.values[key])}" for arm in arms] for key in arms[0].values]
    by_method = [[str(name) for name in methods]] if all(methods) else []
    telling = [column for column in (*by_method, *columns) if len(set(column)) > 1]

    def rank(chosen: Sequence[list[str]]) -> tuple[bool, int]:
        return chosen[0] not in by_method, max(map(len, map(", ".join, zip(*chosen, strict=True))))

    for count in range(1, _MOST_PARTS + 1):
        for chosen in sorted(combinations(telling, count), key=rank):
            yield [", ".join(parts) for parts in zip(*chosen, strict=True)]


def worded(value: object) -> str:
    """A setting's value as it is typed."""
    return value if isinstance(value, str) else shown(list(value)) if isinstance(value, tuple) else shown(value)
