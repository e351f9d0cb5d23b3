"""The tables of an evaluation: accuracies with intervals, lengths, differences, other graders, published figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..evaluation import Estimate
from ..lessons.show import one_line, put, section, share, table
from .published import Comparison
from .results import Evaluated
from .summary import Figures, accuracy_name

INTERVAL = "in brackets 95 % intervals, over questions"


def show(console: Console, found: Sequence[Evaluated], compared: Sequence[Comparison], folder: Path) -> None:
    """All tables that there is something for, and where the files are."""
    if len(found) == 1 or len(found[0].summary) * len(_sets(found[0])) > 1:
        for one in found:
            section(console, one_line(one.name), INTERVAL, _accuracies(one))
    if len(found) > 1:
        for mode in found[0].summary:
            title = f"{_what(found[0], mode)} of all policies"
            section(console, title, INTERVAL, _side_by_side(found, mode))
            title = f"{_what(found[0], mode)}, difference from {one_line(found[0].name)}"
            section(console, title, "points, question by question", _differences(found, mode))
    section(console, "Answers", "lengths in tokens", _answers(found))
    if found[0].graders:
        section(console, "The same answers under other graders", "shares of right answers", _graders(found))
    if compared:
        section(console, "Published figures", "in percent; ours with its 95 % interval", _published(compared))
    console.print()
    console.print(Text.assemble(("results    ", "dim"), str(folder)), soft_wrap=True)


def interval(found: Estimate) -> str:
    """43.3 [27.4, 60.8], in percent."""
    return f"{100 * found.value:.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}]"


def _sets(one: Evaluated) -> list[str]:
    return list(next(iter(one.summary.values())))


def _what(one: Evaluated, mode: str) -> str:
    samples = next(iter(one.summary[mode].values())).samples
    return "Greedy accuracy" if mode == "greedy" else accuracy_name(mode, samples)


def _accuracies(one: Evaluated) -> Table:
    """A row a set; of the estimates of samples the mean, and pass and majority at the number of samples."""
    shown = [(mode, name) for mode, sets in one.summary.items() for name in _estimates(next(iter(sets.values())))]
    made = table("set", "questions", *(f"greedy {name}" if mode == "greedy" else name for mode, name in shown))
    for name in _sets(one):
        cells = [interval(one.summary[mode][name].estimates[key]) for mode, key in shown]
        made.add_row(_name(name), f"{_figures(one, name).questions:,}", *cells)
    return made


def _estimates(figures: Figures) -> list[str]:
    last = f"@{figures.samples}"
    return [name for name in figures.estimates if name == "accuracy" or name.endswith(last)]


def _figures(one: Evaluated, name: str) -> Figures:
    return next(iter(one.summary.values()))[name]


def _side_by_side(found: Sequence[Evaluated], mode: str) -> Table:
    sets = _sets(found[0])
    made = table("policy", *sets)
    for one in found:
        made.add_row(one_line(one.name), *(_of(one, mode, name) for name in sets))
    return made


def _of(one: Evaluated, mode: str, name: str) -> str:
    figures = one.summary[mode].get(name)
    return "-" if figures is None else interval(figures.estimates[accuracy_name(mode, figures.samples)])


def _differences(found: Sequence[Evaluated], mode: str) -> Table:
    sets = _sets(found[0])
    made = table("policy", *sets)
    for one in found[1:]:
        cells = []
        for name in sets:
            estimates = ((one.against_first or {}).get(mode) or {}).get(name) or {}
            key = accuracy_name(mode, one.summary[mode][name].samples) if name in one.summary[mode] else ""
            cells.append(_signed(estimates[key]) if key in estimates else "-")
        made.add_row(one_line(one.name), *cells)
    return made


def _signed(found: Estimate) -> str:
    return f"{100 * found.value:+.1f} [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"


def _answers(found: Sequence[Evaluated]) -> Table:
    several = len(found) > 1
    made = table(*(["policy"] if several else []), "set", "mode", "right", "wrong", "truncated", "no answer", "tokens")
    if several:
        made.columns[1].justify = made.columns[2].justify = "left"
    else:
        made.columns[1].justify = "left"
    ungraded = any(figures.ungraded for one in found for sets in one.summary.values() for figures in sets.values())
    if ungraded:
        made.add_column("not graded", justify="right", no_wrap=True)
    for one in found:
        for mode, sets in one.summary.items():
            for name, figures in sets.items():
                made.add_row(
                    *([one_line(one.name)] if several else []),
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
    return Text(name, style="bold" if name == "average" else "")


def _graders(found: Sequence[Evaluated]) -> Table:
    names = list(found[0].graders)
    made = table("policy", "set", "mode", *names)
    made.columns[1].justify = made.columns[2].justify = "left"
    for one in found:
        for mode, sets in next(iter(one.graders.values())).accuracy.items():
            for name in sets:
                cells = [share(graded.accuracy[mode][name]) for graded in one.graders.values()]
                made.add_row(one_line(one.name), _name(name), mode, *cells)
        others = [f"+{graded.gained} -{graded.lost}" for graded in list(one.graders.values())[1:]]
        made.add_row(Text("answers that count otherwise", style="dim"), "", "", "", *others)
    return made


def _published(compared: Sequence[Comparison]) -> Table:
    made = table("published", "set", "policy", "what", "published", "ours", "inside")
    for column in made.columns[1:4]:
        column.justify = "left"
    for one in compared:
        inside = {None: Text("not asked", style="dim"), True: Text("yes", style="green"), False: Text("no", style="red")}
        ours = "-" if one.ours is None else interval(one.ours)
        made.add_row(one.name, one.set, one_line(one.policy), one.what, f"{one.published:g}", ours, inside[one.inside])
    return made


__all__ = ["interval", "put", "show"]
