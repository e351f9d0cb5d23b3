"""A plan as one screen: what it is, what happens, what it needs, what will bite."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..lessons.show import clean, hanging
from . import models
from .devices import Needs
from .happens import Happens
from .made import Made
from .speed import Estimate
from .what import What


def show(made: Made, console: Console) -> None:
    """Print the four sections."""
    console.print(Text(clean(made.command), style="dim"), soft_wrap=True)
    if made.runs is not None:
        console.print(Text(f"A sweep of {made.runs} runs; this is the first of them.", style="yellow"))
    _heading(console, "What it is")
    _what(console, made.what)
    _heading(console, "What happens")
    _rows(console, _happens(made.happens))
    _heading(console, "What it needs")
    _needs(console, made)
    _heading(console, "What will bite")
    _bites(console, made)


def _heading(console: Console, title: str) -> None:
    console.print()
    console.print(Text(title, style="bold underline"))


def _what(console: Console, told: What) -> None:
    console.print(Text(told.method, style="bold"))
    if told.halves:
        console.print(Text(told.halves, style="yellow"))
    console.print(Text(told.formula, style="cyan"))
    console.print(Text(told.coefficient, style="cyan"))
    console.print(Text(f"  {told.symbols}", style="dim"))
    console.print()
    rows = [("switch", "value"), *((switch.key, clean(switch.value)) for switch in told.switches)]
    widths = [max(len(row[place]) for row in rows) + 2 for place in (0, 1)]
    console.print(Text(f"{'switch':{widths[0]}}{'value':{widths[1]}}from", style="dim"))
    above, repeated = "", False
    for switch in told.switches:
        document, colon, place = switch.source.partition(": ")
        again = bool(colon) and document == above
        source = f"″ {place}" if again else switch.source
        repeated |= again
        above = document
        head = Text(f"{switch.key:{widths[0]}}{clean(switch.value):{widths[1]}}")
        hanging(console, head, Text(clean(source), style="yellow" if switch.typed else "dim"))
    if repeated:
        console.print(Text("″: the same document as in the row above", style="dim"))
    _list(console, f"Departs from {told.group}={told.preset}", told.departures)
    _list(console, "A library's convention, or ours", told.conventions)


def _list(console: Console, title: str, lines: Iterable[str]) -> None:
    lines = list(lines)
    if not lines:
        return
    console.print()
    console.print(Text(title, style="yellow"))
    for line in lines:
        _item(console, Text(clean(line)))


def _item(console: Console, text: Text) -> None:
    hanging(console, Text("- "), text)


def _rows(console: Console, rows: dict[str, str]) -> None:
    width = max(map(len, rows)) + 2
    for name, value in rows.items():
        hanging(console, Text(f"{name:{width}}", style="dim"), Text(clean(value)))


# --- what happens


def _happens(counts: Happens) -> dict[str, str]:
    samples, size = counts.questions * counts.group_size, counts.group_size
    more = f"; up to {counts.rounds} times as many by dynamic sampling" if counts.rounds > 1 else ""
    most, answers = "at most " if counts.source == "base" else "", "answers" if size > 1 else "answer"
    rows = {
        "rollouts": f"{counts.steps:,} of {counts.questions:,} questions × {size} {answers} = {samples:,} each",
        "samples": f"{_samples(counts)}{more}",
        "optimizer steps": f"{counts.optimizer_steps:,}, of {most}{counts.responses:,g} responses each",
        "clip": counts.clip,
        "questions": f"{counts.rows:,} ({counts.rows_from})" if counts.rows else counts.rows_from,
        "passes over them": _passes(counts),
        "evaluations": _evaluations(counts),
        "tokens at most": _tokens(counts),
        "groups without variance": ", ".join(f"{100 * v:.0f} % at p = {p:g}" for p, v in counts.even.items())
        + " (p: share of right answers, the same for each question)",
    }
    if counts.source != "policy":
        rows["steps"] = rows.pop("rollouts")
        rows = {"steps": rows["steps"], **rows}
    if not counts.compared:
        del rows["groups without variance"]
    return rows


def _samples(counts: Happens) -> str:
    """How many answers are sampled for training."""
    if counts.source == "solutions":
        return "none: the data's worked solutions, one a question"
    if counts.source == "base":
        once = f"the base's answers, {counts.group_size} to each question, once before the first step"
        return once if counts.samples is None else f"{counts.samples:,}: {once}"
    return f"{counts.samples:,}"


def _passes(counts: Happens) -> str:
    if counts.epochs is None or counts.seen is None:
        return "not known before the questions are loaded"
    return f"{counts.epochs:.3g}; {counts.seen:,} different questions come up"


def _evaluations(counts: Happens) -> str:
    if not counts.evaluations:
        return "never"
    most = "" if counts.held_out_known else "at most "
    return f"{counts.evaluations}, of {most}{counts.held_out:,} questions, {counts.evaluated:,} answers"


def _tokens(counts: Happens) -> str:
    if counts.sampled_tokens is None:
        said = "not known before the questions are loaded"
    else:
        said = f"{_large(counts.rounds * counts.sampled_tokens)} sampled in training"
    return said + (f", {_large(counts.evaluation_tokens)} in evaluation" if counts.evaluation_tokens else "")


def _large(count: int) -> str:
    for size, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if count >= size:
            return f"{count / size:.3g} {name}"
    return f"{count:,}"


# --- what it needs


def _needs(console: Console, made: Made) -> None:
    model = made.model
    count = "size not known" if model.parameters is None else f"{_large(model.parameters)} parameters"
    console.print(Text(f"{clean(model.path)}: {count}"))
    if made.needs:
        each = "" if made.processes == 1 else f", each of {made.processes} processes"
        size = _unit(made.needs)
        said = (
            f"{size.name}, every answer as long as it may be, worked out, not measured{each}; "
            f"prompts of {made.prompt:,} tokens ({made.prompt_said}; --prompt-tokens)"
        )
        console.print(Text(said, style="dim"))
        console.print(_parts(made.needs, size))
        judge = made.config.reward.model
        if judge and models.weights_of(judge) is None:
            said = f"reward.model={clean(judge)} is not in these figures: no weights in a folder of that name to count."
            _item(console, Text(said, style="yellow"))
        for line in _shortages(made):
            _item(console, Text(line, style="yellow"))
    else:
        console.print(Text(f"Memory: not worked out: {clean(model.why)}.", style="yellow"))
    console.print(Text(_time(made)))


class _Unit(NamedTuple):
    """name: of `size` bytes; places: behind the point."""

    name: str
    size: float
    places: int

    def of(self, size: int | None) -> str:
        return "" if size is None else f"{size / self.size:,.{self.places}f}"


def _unit(needs: tuple[Needs, ...]) -> _Unit:
    """GB, or MB where no part of the run is as large as 1 GB."""
    parts = [
        size for found in needs for part in (found.lasting, found.sampling, found.updating) for size in part.values()
    ]
    return _Unit("GB", 1e9, 2) if max(parts) >= 1e9 else _Unit("MB", 1e6, 0)


def _parts(needs: tuple[Needs, ...], size: _Unit) -> Table:
    """Parts by device, and whether it fits."""
    grid = Table(box=None, header_style="dim", padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column("", no_wrap=True)
    for found in needs:
        grid.add_column(found.place.name.replace(", ", "\n"), justify="right", no_wrap=True)
    moments = {
        "always": [found.lasting for found in needs],
        "sampling adds": [found.sampling for found in needs],
        "the update adds": [found.updating for found in needs],
        "saving adds": [found.saving for found in needs],
    }
    for title, parts in moments.items():
        if not any(parts):
            continue
        grid.add_row(Text(title, style="bold"))
        for name in _in_order(parts):
            grid.add_row(f"  {name}", *(size.of(part.get(name)) for part in parts))
    grid.add_row(Text("together, with the process itself", style="bold"))
    for name in _in_order([found.peaks for found in needs]):
        grid.add_row(f"  {name}", *(size.of(found.peaks.get(name)) for found in needs))
    grid.add_row("  tokens of a micro-batch", *(f"{found.micro:,}" for found in needs))
    sizes = ["-" if found.place.size is None else size.of(found.place.size) for found in needs]
    grid.add_row("  there is", *sizes, style="dim")
    grid.add_row(Text("fits", style="bold"), *(_fits(found) for found in needs))
    return grid


def _in_order(parts: Iterable[Iterable[str]]) -> list[str]:
    """All names once, each as near to its place as in any of the lists."""
    names: list[str] = []
    for part in parts:
        at = 0
        for name in part:
            if name not in names:
                names.insert(at, name)
            at = names.index(name) + 1
    return names


def _fits(found: Needs) -> Text:
    words = {True: ("yes", "bold green"), False: ("no", "bold red"), None: ("-", "dim")}[found.fits]
    return Text(*words)


def _shortages(made: Made) -> list[str]:
    """What to change, devices that want the same together."""
    wanted: dict[str, list[str]] = {}
    for name, short in made.short.items():
        first, *others = short.changes or ("",)
        then = "".join(f", then {words}" for words in others)
        if not first:
            words = "no key here lowers the peak"
        elif short.fits:
            words = f"first change {first}{then}: then it fits"
        else:
            words = f"not even with {first}{then}"
        wanted.setdefault(words, []).append(name)
    return [f"{'; '.join(names)}: {words}." for words, names in wanted.items()]


def _time(made: Made) -> str:
    if made.estimate is None:
        asked = "Time" if made.price is None else "Time and cost"
        return f"{asked}: not measured on this machine for such a run. plan --calibrate times two steps of it."
    found = made.estimate
    said = _estimate(found)
    if made.price is not None:
        said += f" At {made.price:g} an hour and device: {_cost(made, 1)}."
    if made.runs is not None and made.runs > 1:
        low, high = _hours(made.runs * found.least), _hours(made.runs * found.most)
        cost = "" if made.price is None else f", {_cost(made, made.runs)}"
        said += f" {made.runs} such runs, one after another: {low} to {high}{cost}."
    return said


def _cost(made: Made, runs: int) -> str:
    assert made.estimate is not None and made.price is not None
    devices = runs * made.price * made.processes
    return f"{made.estimate.least * devices:,.3g} to {made.estimate.most * devices:,.3g}"


def _estimate(found: Estimate) -> str:
    speed = found.speed
    return (
        f"Time: about {_hours(found.least)} (answers of {speed.length:,.0f} tokens, as measured) to "
        f"{_hours(found.most)} (of {speed.budget:,}, the most). An estimate, from {speed.rollout:,.0f} tokens a second "
        f"sampled and {speed.update:,.0f} updated in one step on {speed.date}; lengths change as a run learns."
    )


def _hours(hours: float) -> str:
    if hours < 1 / 60:
        return f"{3600 * hours:.0f} s"
    return f"{60 * hours:.0f} min" if hours < 2 else f"{hours:,.3g} h"


# --- what will bite


def _bites(console: Console, made: Made) -> None:
    if not made.bites:
        console.print(Text("Nothing that is known here."))
    for bite in made.bites:
        key = f"  [{bite.key}] " if bite.key else "  "
        source = f"{bite.source}; as published" if bite.published else bite.source
        _item(console, Text.assemble(clean(bite.text), (key, "cyan"), (source, "dim")))
