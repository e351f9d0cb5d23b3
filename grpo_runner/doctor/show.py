"""The lines as a table, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console
from rich.text import Text

from .. import __version__
from ..lessons.show import hanging, one_line
from .lines import FAILURE, OK, WARNING, Line

_STYLES = {OK: "green", WARNING: "yellow", FAILURE: "bold red"}


def show(console: Console, lines: Sequence[Line]) -> None:
    """A row each: state, what was looked at, what is there; below one that is not ok, what to do."""
    names = max(len(line.name) for line in lines) + 2
    for line in lines:
        head = Text.assemble((f"{line.state:9}", _STYLES[line.state]), f"{line.name:{names}}")
        hanging(console, head, Text(one_line(line.found)))
        if line.do:
            hanging(console, Text(" " * (9 + names)), Text(f"→ {one_line(line.do)}", style="bold"))
    failures, warnings = (sum(line.state == state for line in lines) for state in (FAILURE, WARNING))
    style = _STYLES[FAILURE if failures else WARNING if warnings else OK]
    console.print(Text(f"\n{_count(failures, 'failure')}, {_count(warnings, 'warning')}", style=style))


def as_json(lines: Sequence[Line]) -> str:
    """{version, ok, lines: [{name, state, found, do}]}; ok: no line is a failure."""
    ok = all(line.state != FAILURE for line in lines)
    return json.dumps({"version": __version__, "ok": ok, "lines": [asdict(line) for line in lines]}, indent=2)


def _count(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'s' * (count != 1)}"
