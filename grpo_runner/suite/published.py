"""Published figures beside ours: does ours agree with them, given how few questions a set has?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..evaluation import Estimate
from .summary import MODES, Summary, accuracy_name


@dataclass(frozen=True)
class Comparison:
    """One published figure, in percent, and ours of the same set, as shares. ours: None where it was not asked.

    what: greedy accuracy where there is one, else avg@n. inside: whether the published figure lies in our interval.
    """

    name: str
    set: str
    published: float
    policy: str
    what: str
    ours: Estimate | None
    inside: bool | None


def figures(names: Sequence[str]) -> dict[str, dict[str, float]]:
    """The figures of docs/facts.csv by name. Raises InputError with the nearest name for one that is not there."""
    if not names:
        return {}
    from .. import facts

    return {name: dict(facts.figures(name)) for name in names}


def compare(published: Mapping[str, Mapping[str, float]], policy: str, summary: Summary) -> list[Comparison]:
    """One policy beside all the published figures asked for."""
    mode = next(mode for mode in MODES if mode in summary)
    sets = summary[mode]
    what = accuracy_name(mode, next(iter(sets.values())).samples)
    found = []
    for name, values in published.items():
        for key, value in values.items():
            ours = sets[key].estimates[what] if key in sets else None
            inside = None if ours is None else ours.low <= value / 100 <= ours.high
            found.append(
                Comparison(name, key, value, policy, f"{mode} {what}" if mode == "greedy" else what, ours, inside)
            )
    return found
