"""The tables of an evaluation: accuracies with intervals, lengths, differences, other graders, published figures."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..evaluation import Estimate
from ..lessons.show import fits, one_line, put, section, share, table
from .published import Comparison, Published
from .results import Evaluated
from .summary import AVERAGE, Figures

WIDEST_PROMPT = 60
WIDEST_POLICY = 28
INTERVAL = "in percent, [95 % interval over questions]"
DIFFERENCE = "in points, [95 % interval], question by question"
# what is estimated of so many samples
MEANINGS = {"avg": "share of {} samples", "pass": "any of {} samples", "maj": "vote of {} samples"}

Cell = str | Text
Columns = Sequence[tuple[str, Sequence[Cell]]]


def show(
    console: Console,
    found: Sequence[Evaluated],
    compared: Sequence[Comparison],
    published: Sequence[Published],
    sizes: Mapping[str, int],
    folder: Path,
) -> None:
    """All tables that there is something for, how the answers were asked for, and where the files are."""
    first = found[0]
    if len(found) > 1:
        found = [replace(one, label=label) for one, label in zip(found, labels(found), strict=True)]
        labelled = {one.name: one.label for one in found}
        compared = [replace(line, policy=labelled.get(line.policy, line.policy)) for line in compared]
        first = found[0]
    if len(found) == 1:
        _section(console, f"Right answers of {one_line(first.name)}", INTERVAL, *_accuracies(first, sizes))
    else:
        for mode, key in _shown(first):
            _section(console, _title(mode, key), INTERVAL, *_side_by_side(found, mode, key, sizes))
            title = f"{_title(mode, key)}: difference from {first.label}"
            _section(console, title, DIFFERENCE, *_differences(found, mode, key))
    section(console, "Answers", "right and wrong: their mean lengths in tokens", _answers(found))
    if first.graders:
        section(console, "The same answers under other graders", "shares of right answers", _graders(found))
    for one in published:
        lines = [line for line in compared if line.name == one.name]
        section(console, f"Published: {one.name}", "; ".join(one.sources), _published(lines, len(found) > 1))
    console.print()
    runs = list(dict.fromkeys(one.answered.target.run for one in found if one.answered.target.step is not None))
    policies = [("policies", f"of {os.path.relpath(runs[0])}")] if len(found) > 1 and len(runs) == 1 else []
    for key, text in (*policies, *_asked(first.answered.settings), ("results", str(folder))):
        console.print(Text.assemble((f"{key:11}", "dim"), text), soft_wrap=True)


def interval(found: Estimate) -> str:
    """43.3 [27.4, 60.8], in percent."""
    return f"{100 * found.value:.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}]"


def _section(console: Console, title: str, source: str, names: Columns, columns: Columns) -> None:
    """A section whose columns are spread over as many tables, one below the other, as the console needs. names: the
    columns that each of the tables begins with.
    """
    tables, chosen = [], [columns[0]]
    for column in columns[1:]:
        if fits(console, _table([*names, *chosen, column])):
            chosen.append(column)
        else:
            tables.append(_table([*names, *chosen]))
            chosen = [column]
    section(console, title, source, (tables := [*tables, _table([*names, *chosen])])[0])
    for more in tables[1:]:
        console.print()
        put(console, more)


def _table(columns: Columns) -> Table:
    made = table(*(name for name, _ in columns))
    for row in zip(*(cells for _, cells in columns), strict=True):
        made.add_row(*row)
    return made


def _sets(one: Evaluated) -> list[str]:
    return list(next(iter(one.summary.values())))


def _title(mode: str, key: str) -> str:
    if mode == "greedy":
        return "Greedy accuracy"
    kind, samples = key.split("@")
    return f"{key}, {MEANINGS[kind].format(samples)}"


def _shown(one: Evaluated) -> list[tuple[str, str]]:
    """The estimates that tables have, as (mode, name): of samples the mean, and pass and majority of all of them."""
    found = []
    for mode, sets in one.summary.items():
        figures = next(iter(sets.values()))
        last = f"@{figures.samples}"
        found += [(mode, name) for name in figures.estimates if mode == "greedy" or name.endswith(last)]
    return found


def _accuracies(one: Evaluated, sizes: Mapping[str, int]) -> tuple[Columns, Columns]:
    """A row a set."""
    sets = _sets(one)
    asked = [_count(_figures(one, name).questions, name, sizes) for name in sets]
    return [("set", [_name(name) for name in sets]), ("questions", asked)], [
        (
            f"greedy {key}" if mode == "greedy" else key,
            [interval(one.summary[mode][name].estimates[key]) for name in sets],
        )
        for mode, key in _shown(one)
    ]


def _count(questions: int, name: str, sizes: Mapping[str, int]) -> str:
    """50 of 1,319, where a set has more questions than were asked."""
    whole = sum(sizes.values()) if name == AVERAGE else sizes[name]
    return f"{questions:,}" + (f" of {whole:,}" if whole > questions else "")


def _figures(one: Evaluated, name: str) -> Figures:
    return next(iter(one.summary.values()))[name]


def _side_by_side(found: Sequence[Evaluated], mode: str, key: str, sizes: Mapping[str, int]) -> tuple[Columns, Columns]:
    """A row a policy, a column a set."""
    columns = []
    for name in _sets(found[0]):
        cells = [interval(one.summary[mode][name].estimates[key]) for one in found]
        columns.append((f"{name} ({_count(_figures(found[0], name).questions, name, sizes)})", cells))
    return _policies(found), columns


def _differences(found: Sequence[Evaluated], mode: str, key: str) -> tuple[Columns, Columns]:
    columns = []
    for name in _sets(found[0]):
        of_set = [(one.against_first or {}).get(mode, {}).get(name) for one in found[1:]]
        columns.append((name, ["-" if of is None else _signed(of[key]) for of in of_set]))
    return _policies(found[1:]), columns


def _policies(found: Sequence[Evaluated]) -> Columns:
    return [("policy", [one.label for one in found])]


def labels(found: Sequence[Evaluated]) -> list[str]:
    """Short names for tables of 80 columns. Of one run alone its steps; of others the end of a long name, by which the
    runs of a sweep differ, unless two would be called the same.
    """
    runs = {one.answered.target.run for one in found if one.answered.target.step is not None}
    names = [one_line(one.name) for one in found]
    steps = [one.answered.target.step for one in found]
    if len(runs) == 1 and len(set(steps)) == len(steps) and None not in steps:
        return [f"step {step}" if name != "base" else name for name, step in zip(names, steps, strict=True)]
    short = [name if len(name) <= WIDEST_POLICY else f"…{name[1 - WIDEST_POLICY :]}" for name in names]
    return short if len(set(short)) == len(set(names)) else names


def _signed(found: Estimate) -> str:
    return f"{100 * found.value:+.1f} [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"


def _answers(found: Sequence[Evaluated]) -> Table:
    """A row a set and mode, below the policy's name where there are several."""
    made = table("set", "mode", "right", "wrong", "truncated", "no answer", "tokens")
    made.columns[1].justify = "left"
    ungraded = any(figures.ungraded for one in found for sets in one.summary.values() for figures in sets.values())
    if ungraded:
        made.add_column("not graded", justify="right", no_wrap=True)
    for one in found:
        if len(found) > 1:
            made.add_row(_heading(one))
        for mode, sets in one.summary.items():
            for name, figures in sets.items():
                made.add_row(
                    _name(name),
                    mode,
                    _length(figures.length_right),
                    _length(figures.length_wrong),
                    share(figures.truncated),
                    share(figures.no_answer),
                    f"{figures.tokens:,}",
                    *([share(figures.ungraded)] if ungraded else []),
                )
    return made


def _length(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _name(name: str) -> Text:
    return Text(name, style="bold" if name == AVERAGE else "")


def _heading(one: Evaluated) -> Text:
    return Text(one.label, style="bold")


def _graders(found: Sequence[Evaluated]) -> Table:
    """A column a grader; in the last row of a policy, how many answers are right there alone, and how many not."""
    made = table("set", "mode", *found[0].graders)
    made.columns[1].justify = "left"
    for one in found:
        if len(found) > 1:
            made.add_row(_heading(one))
        for mode, sets in next(iter(one.graders.values())).accuracy.items():
            for name in sets:
                made.add_row(
                    _name(name), mode, *(share(graded.accuracy[mode][name]) for graded in one.graders.values())
                )
        others = [f"+{graded.gained} -{graded.lost}" for graded in list(one.graders.values())[1:]]
        made.add_row(Text("other verdicts", style="dim"), "", "", *others)
    return made


def _published(compared: Sequence[Comparison], several: bool) -> Table:
    """A row a set and figure of ours, below the policy's name where there are several."""
    made = table("set", "what", "published", "ours", "in our interval")
    made.columns[1].justify = "left"
    said = {None: Text("-", style="dim"), True: Text("yes", style="green"), False: Text("no", style="red")}
    before = ""
    for one in compared:
        if several and one.policy != before:
            made.add_row(Text(one.policy, style="bold"))
        before = one.policy
        ours = "-" if one.ours is None else interval(one.ours)
        inside = Text("not asked", style="dim") if one.ours is None else said[one.inside]
        made.add_row(one.set, one.what, f"{one.published:.1f}", ours, inside)
    return made


def _asked(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """How the answers were asked for, and what counts as right: what a figure means nothing without."""
    template = one_line(settings["prompt.template"])
    shown = template if len(template) <= WIDEST_PROMPT else template[: WIDEST_PROMPT - 1] + "…"
    yield "prompt", shown + (", in the model's chat template" if settings["prompt.chat"] else "")
    ways = ["greedy"] if settings["evaluation.greedy"] else []
    if samples := settings["evaluation.samples"]:
        ways.append(
            f"{samples} sampled at temperature {settings['evaluation.temperature']:g}, "
            f"top-p {settings['evaluation.top_p']:g}"
        )
    yield "answers", f"{' and '.join(ways)}; {settings['max_new_tokens']:,} tokens at most, seed {settings['seed']}"
    yield "graded by", f"reward.extract={settings['reward.extract']}, reward.equality={settings['reward.equality']}"
