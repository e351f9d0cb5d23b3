"""Cosines between the gradients of several objectives on the same answers, from probe.jsonl."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...objectives import NAMED
from .drawing import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    count,
    dress,
    new_figure,
    say_nothing_to_show,
    whole_numbers,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = (VERMILLION, BLUE, GREEN, PURPLE, ORANGE, SKY)
_STYLES = ("-", "--", ":", "-.")
_PAIR = "grpo~dr_grpo"
_EVERY_PAIR = 4  # objectives at most; of more, only the pairs with the first are drawn


def pair_label(pair: str) -> str:
    """`grpo~dr_grpo` as "GRPO ~ Dr. GRPO"; a name without a label stays as it is."""
    return " ~ ".join(NAMED[name].label if name in NAMED else name for name in pair.split("~"))


def first_objective(rows: Sequence[Mapping[str, Any]]) -> str:
    """The first of the objectives that most probes have, since a run that was gone on from may have others; "" of none.

    rows: of probe.jsonl.
    """
    probed = [dict.fromkeys(name for pair in row["cosine"] for name in pair.split("~")) for row in rows]
    names = dict.fromkeys(name for names in probed for name in names)
    return max(names, key=lambda name: sum(name in some for some in probed), default="")


def probe_cosines(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Left, the cosines of the pairs by step; right, GRPO with Dr. GRPO question by question against the success rate.

    rows: of probe.jsonl, at least one. A cosine that is null (a gradient of nothing) is left out. Of more than four
    objectives, the left panel has the pairs with the first one: all of eight would be 28 lines. Where no question has
    a cosine of GRPO with Dr. GRPO, the right panel takes the first pair that has.
    """
    figure, left, right = new_figure(5.4)
    pairs = list(dict.fromkeys(pair for row in rows for pair in row["cosine"]))
    shown, title = _shown(rows, pairs)
    some = False
    for i, pair in enumerate(shown):
        found = [(row["step"], value) for row in rows if (value := row["cosine"].get(pair)) is not None]
        if not found:
            continue
        some = True
        steps, values = zip(*found, strict=True)
        style = _STYLES[i // len(_COLOURS) % len(_STYLES)]
        left.plot(
            steps, values, style, color=_COLOURS[i % len(_COLOURS)], marker="o", ms=3.5, lw=1.4, label=pair_label(pair)
        )
    left.set_title(f"Of the whole step, {title}")
    left.set_xlabel("step")
    left.set_ylabel("cosine of the two gradients")
    if some:
        whole_numbers(left.xaxis)
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    else:
        say_nothing_to_show(left, "no two gradients could be compared")

    groups = [group for row in rows for group in row.get("groups") or []]
    pair = next((pair for pair in [_PAIR, *pairs] if _of_groups(groups, pair).size), _PAIR)
    rate, cosine = _of_groups(groups, pair)
    right.set_title(f"Question by question: {pair_label(pair)}")
    right.set_xlabel("success rate p of the group")
    right.set_ylabel("cosine of the question's two gradients")
    if cosine.size:
        right.scatter(rate, cosine, s=18, color=BLUE, alpha=0.35, linewidths=0, zorder=2)
        places = np.unique(rate)
        medians = [np.median(cosine[rate == place]) for place in places]
        right.plot(places, medians, "--", color=GREY, lw=1.4, marker="_", ms=14, mew=2, zorder=3)
        explained = f"dots: {count(cosine.size, 'group')}; dashed: median at a success rate"
        right.set_title(f"{right.get_title()}\n{explained}", fontsize=10)
        right.set_xlim(-0.03, 1.03)
    else:
        say_nothing_to_show(right, "no question's gradients could be compared")
    for axes in (left, right):
        dress(axes)
    probes = count(len(rows), "probe") + (", each" if len(rows) > 1 else "")
    figure.suptitle(f"Do the objectives pull the same way? {probes} on one step's answers", fontsize=12)
    return figure


def _shown(rows: Sequence[Mapping[str, Any]], pairs: Sequence[str]) -> tuple[list[str], str]:
    """The pairs that are drawn by step, and what they are in words."""
    names = list(dict.fromkeys(name for pair in pairs for name in pair.split("~")))
    if len(names) <= _EVERY_PAIR:
        return list(pairs), "every pair"
    first = first_objective(rows)
    return [pair for pair in pairs if first in pair.split("~")], f"the pairs with {pair_label(first)}"


def _of_groups(groups: Sequence[Mapping[str, Any]], pair: str) -> np.ndarray:
    """(2, groups): success rate and cosine, where both are there."""
    found = [(group.get("success_rate"), (group.get("cosine") or {}).get(pair)) for group in groups]
    kept = [values for values in found if None not in values]
    return np.array(kept, dtype=float).reshape(-1, 2).T
