"""The tables of an evaluation: accuracies with intervals, lengths, differences, other graders, published figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..evaluation import Estimate
from ..lessons.show import one_line, section, share, table
from .published import Comparison
from .results import Evaluated
from .summary import Figures

WIDEST_PROMPT = 60
INTERVAL = "in brackets 95 % intervals, over questions"


def show(console: Console, found: Sequence[Evaluated], compared: Sequence[Comparison], folder: Path) -> None:
    """All tables that there is something for, and where the files are."""
    if len(found) == 1:
        section(console, one_line(found[0].name), INTERVAL, _accuracies(found[0]))
    else:
        for mode, key in _shown(found[0]):
            title = f"{_title(mode, key)} of all policies"
            section(console, title, INTERVAL, _side_by_side(found, mode, key))
            title = f"{_title(mode, key)}, difference from {one_line(found[0].name)}"
            section(console, title, "points, question by question", _differences(found, mode, key))
    section(console, "Answers", "lengths in tokens", _answers(found))
    if found[0].graders:
        section(console, "The same answers under other graders", "shares of right answers", _graders(found))
    if compared:
        section(console, "Published figures", "in percent; ours with its 95 % interval", _published(compared))
    console.print()
    for key, text in (*_asked(found[0].answered.settings), ("results", str(folder))):
        console.print(Text.assemble((f"{key:11}", "dim"), text), soft_wrap=True)


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


def interval(found: Estimate) -> str:
    """43.3 [27.4, 60.8], in percent."""
    return f"{100 * found.value:.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}]"


def _sets(one: Evaluated) -> list[str]:
    return list(next(iter(one.summary.values())))


def _title(mode: str, key: str) -> str:
    return "Greedy accuracy" if mode == "greedy" else key


def _shown(one: Evaluated) -> list[tuple[str, str]]:
    """The estimates that tables have, as (mode, name): of samples the mean, and pass and majority of all of them."""
    found = []
    for mode, sets in one.summary.items():
        figures = next(iter(sets.values()))
        last = f"@{figures.samples}"
        found += [(mode, name) for name in figures.estimates if mode == "greedy" or name.endswith(last)]
    return found


def _accuracies(one: Evaluated) -> Table:
    """A row a set."""
    shown = _shown(one)
    made = table("set", "questions", *(f"greedy {key}" if mode == "greedy" else key for mode, key in shown))
    for name in _sets(one):
        cells = [interval(one.summary[mode][name].estimates[key]) for mode, key in shown]
        made.add_row(_name(name), f"{_figures(one, name).questions:,}", *cells)
    return made


def _figures(one: Evaluated, name: str) -> Figures:
    return next(iter(one.summary.values()))[name]


def _side_by_side(found: Sequence[Evaluated], mode: str, key: str) -> Table:
    sets = _sets(found[0])
    made = table("policy", *sets)
    for one in found:
        cells = [
            interval(one.summary[mode][name].estimates[key]) if name in one.summary[mode] else "-" for name in sets
        ]
        made.add_row(one_line(one.name), *cells)
    return made


def _differences(found: Sequence[Evaluated], mode: str, key: str) -> Table:
    sets = _sets(found[0])
    made = table("policy", *sets)
    for one in found[1:]:
        of_sets = (one.against_first or {}).get(mode, {})
        made.add_row(one_line(one.name), *(_signed(of_sets[name][key]) if name in of_sets else "-" for name in sets))
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
        inside = {
            None: Text("not asked", style="dim"),
            True: Text("yes", style="green"),
            False: Text("no", style="red"),
        }
        ours = "-" if one.ours is None else interval(one.ours)
        made.add_row(one.name, one.set, one_line(one.policy), one.what, f"{one.published:g}", ours, inside[one.inside])
    return made
