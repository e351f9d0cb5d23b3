"""Published figures beside ours: does ours agree with them, given how few questions a set has?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..evaluation import Estimate
from .summary import AVERAGE, MODES, Summary, accuracy_name

_AGAIN = re.compile(r"_avg\d+$")  # aime24_avg32: a second figure of aime24, no set of its own


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
    """One policy beside all the published figures asked for; a published mean only beside a mean of the same sets."""
    mode = next(mode for mode in MODES if mode in summary)
    sets = summary[mode]
    what = accuracy_name(mode, next(iter(sets.values())).samples)
    found = []
    for name, values in published.items():
        alike = _names(sets) == _names(values)
        for key, value in values.items():
            ours = sets[key].estimates[what] if key in sets and (key != AVERAGE or alike) else None
            inside = None if ours is None else ours.low <= value / 100 <= ours.high
            found.append(
                Comparison(name, key, value, policy, f"{mode} {what}" if mode == "greedy" else what, ours, inside)
            )
    return found


def _names(keys: Iterable[str]) -> set[str]:
    """The sets among the keys of figures, the mean left out."""
    return {key for key in keys if key != AVERAGE and not _AGAIN.search(key)}
