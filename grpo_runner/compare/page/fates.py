"""The questions whose fate differs most: between an arm and the baseline, or in one arm between first and last."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..read import evaluated_steps, question_rows
from ..types import Analysis, Arm, Run
from .markup import safe, safe_line

MOST = 6  # questions of each pair of arms
LEAST = 0.05  # difference of the shares of right answers that is worth a look
Row = dict[str, Any]
Rows = dict[int, dict[tuple[str, str], Row]]  # by seed, then by set and question


class Fate(NamedTuple):
    """A question's share of right answers on two sides, and the greedy answer of each (text, whether it was right).

    of: sampled or greedy, the answers that the shares are of.
    """

    question: str
    gold: str
    shares: tuple[float, float]
    answers: tuple[tuple[str, bool], tuple[str, bool]]
    of: str = "sampled"


def sections(analysis: Analysis) -> list[str]:
    """Of each arm beside the baseline a piece of HTML; of a single arm one on its first and last evaluation."""
    arms = analysis.comparison.arms
    if len(arms) == 1:
        steps = _common(arms[0].runs.values())
        if len(steps) < 2:
            return []
        sides = (f"step {steps[0]}", f"step {steps[-1]}")
        return _section("", sides, fates(_rows(arms[0], steps[0]), _rows(arms[0], steps[-1])))
    made = []
    for arm in arms[1:]:
        steps = _common([*arms[0].runs.values(), *arm.runs.values()])
        if steps:
            title = f"{arm.label} against {arms[0].label}, evaluation before step {steps[-1]}"
            sides = (arms[0].label, arm.label)
            made += _section(title, sides, fates(_rows(arms[0], steps[-1]), _rows(arm, steps[-1])))
    return made


def fates(before: Rows, after: Rows, most: int = MOST) -> list[Fate]:
    """The questions with the largest difference in the share of right answers, over the seeds that both sides have."""
    seeds = sorted(set(before) & set(after))
    names = dict.fromkeys(name for seed in seeds for name in before[seed] if name in after[seed])
    found = []
    for name in names:
        own = [seed for seed in seeds if name in before[seed] and name in after[seed]]
        pairs = [(before[seed][name], after[seed][name]) for seed in own]
        shares = (_share(pair[0] for pair in pairs), _share(pair[1] for pair in pairs))
        if abs(shares[1] - shares[0]) >= LEAST:
            # of the pairs of answers one that shows the difference
            first, last = max(pairs, key=lambda pair: _sign(shares) * (_right(pair[1]) - _right(pair[0])))
            answers = ((first["text"], _right(first)), (last["text"], _right(last)))
            found.append(Fate(first["question"], first["gold"], shares, answers, _mode(first)))
    return sorted(found, key=lambda fate: -abs(fate.shares[1] - fate.shares[0]))[:most]


def _share(rows: Iterable[Row]) -> float:
    """Of right answers among all: sampled ones where there are some, else the greedy ones."""
    right, answers = 0, 0
    for row in rows:
        mode = _mode(row)
        right, answers = right + row.get(f"{mode}/right", 0), answers + row.get(f"{mode}/answers", 0)
    return right / answers if answers else 0.0


def _mode(row: Row) -> str:
    return "sampled" if row.get("sampled/answers") else "greedy"


def _sign(shares: tuple[float, float]) -> int:
    return 1 if shares[1] > shares[0] else -1


def _right(row: Row) -> bool:
    return bool(row.get("text_right", False))


def _rows(arm: Arm, step: int) -> Rows:
    found = {}
    for seed, run in arm.runs.items():
        rows = question_rows(run, step)
        if rows:
            found[seed] = {(str(row.get("set", "")), row["question_id"]): row for row in rows}
    return found


def _common(runs: Iterable[Run]) -> list[int]:
    """The evaluations that all finished runs kept, by step."""
    kept = [set(evaluated_steps(run)) for run in runs if run.finished]
    return sorted(set.intersection(*kept)) if kept else []


def _section(title: str, sides: tuple[str, str], found: Sequence[Fate]) -> list[str]:
    if not found:
        return []
    head = f"<h3>{safe_line(title)}</h3>\n" if title else ""
    return [head + "\n".join(_fate(fate, sides) for fate in found)]


def _fate(fate: Fate, sides: tuple[str, str]) -> str:
    made = f'<article class="fate">\n<p class="q">{safe(fate.question)}</p>\n'
    made += f'<p class="dim">right answer: {safe_line(fate.gold)}</p>\n<div class="two">\n'
    for side, share, (text, right) in zip(sides, fate.shares, fate.answers, strict=True):
        mark = '<span class="right">✓ right</span>' if right else '<span class="wrong">✗ wrong</span>'
        made += (
            f"<div><p><b>{safe_line(side)}</b>: right in {100 * share:.0f} % of {fate.of} answers; "
            f"the greedy answer {mark}</p>"
            f"<pre>{safe(text) or '(no text)'}</pre></div>\n"
        )
    return made + "</div>\n</article>"
