"""Published figures beside ours: does ours agree with them, given how few questions a set has?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..evaluation import Estimate
from .summary import AVERAGE, Summary, accuracy_name


@dataclass(frozen=True)
class Published:
    """The figures of one name in docs/facts.csv: set of questions -> percent; sources: what it says about them."""

    name: str
    percent: Mapping[str, float]
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """One published figure, in percent, and ours of the same set, as shares. ours: None where it was not asked.

    what: which of our figures. inside: whether the published figure lies in our interval; None where it says nothing.
    """

    name: str
    set: str
    published: float
    policy: str
    what: str
    ours: Estimate | None
    inside: bool | None


def figures(names: Sequence[str]) -> list[Published]:
    """The figures by name. Raises InputError with the nearest name for one that is not there."""
    if not names:
        return []
    from .. import facts

    found = []
    for name in dict.fromkeys(names):
        percent = facts.figures(name)
        rows = (fact for fact in facts.facts() if fact.preset == name and fact.kind == "published")
        found.append(Published(name, percent, tuple(dict.fromkeys(fact.source for fact in rows))))
    return found


def compare(published: Sequence[Published], policy: str, summary: Summary, embedded: bool = False) -> list[Comparison]:
    """One policy beside all the published figures asked for: a line for greedy and for sampled answers, where both are
    there. Which of them was published, the source says.

    embedded: the policy is of the embedded model, of which nothing was published: whether a figure lies in an interval
    of its own says nothing, and is not said.
    """
    found = []
    for one in published:
        for key, percent in one.percent.items():
            name = re.sub(r"_avg\d+$", "", key)  # aime24_avg32: the sampled figure beside a greedy one of the same set
            ours: list[tuple[str, Estimate | None]] = [*_ours(one, key, name, summary)]
            for what, estimate in ours or [("-", None)]:
                inside = None if estimate is None or embedded else estimate.low <= percent / 100 <= estimate.high
                found.append(Comparison(one.name, key, percent, policy, what, estimate, inside))
    return found


def _ours(published: Published, key: str, name: str, summary: Summary) -> Iterator[tuple[str, Estimate]]:
    """What of ours is measured as the published figure of `key` may have been."""
    votes = re.search(r"self_consistency_(\d+)$", published.name)
    for mode, sets in summary.items():
        if name not in sets or (name == AVERAGE and not _same_sets(published, sets)):
            continue
        estimates = sets[name].estimates
        accuracy = accuracy_name(mode, sets[name].samples)
        if votes:
            if (majority := f"maj@{votes[1]}") in estimates:
                yield majority, estimates[majority]
        elif mode == "sampled" or key == name:
            yield (f"greedy {accuracy}" if mode == "greedy" else accuracy), estimates[accuracy]


def _same_sets(published: Published, sets: Mapping[str, object]) -> bool:
    """Whether both averages are over the same sets."""
    return {key for key in published.percent if not re.search(r"_avg\d+$", key)} == set(sets)
