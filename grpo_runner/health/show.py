"""`health RUN_FOLDER`: which rules hold in the series of a run, from which step on, and what to try."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.text import Text

from ..errors import InputError, no_run
from ..lessons.show import Screen, one_line, put, table
from ..tracking import jsonl
from ..tracking.local import METRICS
from .rules import RULES
from .series import Rows
from .watch import firing, told

USAGE = "Usage: python -m grpo_runner health RUN_FOLDER"
MORE = "The rules: docs/health.md. From what you see to what to do: docs/troubleshooting.md"


@dataclass
class Held:
    """Where a rule held: the steps, and what it found at the first of them."""

    steps: list[int] = field(default_factory=list)
    found: str = ""


def held(rows: Rows) -> dict[str, Held]:
    """Of each rule, in the order of `RULES`, the steps at which it held."""
    found = {name: Held() for name in RULES}
    for count, row in enumerate(rows, 1):
        for name, words in firing(rows[:count]).items():
            found[name].found = found[name].found or words
            found[name].steps.append(row["step"])
    return found


def show(words: Sequence[str], console: Console | None = None) -> int:
    """Print the table of all rules for one run folder, and what those that held have found. Gives 0."""
    if {"-h", "--help"} & set(words):
        (console or Screen()).print(f"{USAGE}\n{MORE}", soft_wrap=True)
        return 0
    if len(words) != 1 or words[0].startswith("-"):
        raise InputError(f"{USAGE}\n{MORE}")
    folder = Path(words[0])
    if not folder.is_dir():
        raise InputError(f"{folder}: {no_run(folder)}")
    file = folder / METRICS
    try:
        rows = jsonl.rows(file)
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}.") from error
    if not rows:
        raise InputError(f"{words[0]}: not the folder of a run that has made a step (no rows in {METRICS}).")
    console, found = console or Screen(), held(rows)
    console.print(Text(f"{one_line(words[0])}: {len(rows)} steps", style="bold"), soft_wrap=True)
    made = table("rule", "first step", "last step", "steps held")
    for name, rule in found.items():
        places = [str(rule.steps[0]), str(rule.steps[-1]), str(len(rule.steps))] if rule.steps else ["-", "-", "0"]
        made.add_row(Text(name, style="yellow" if rule.steps else ""), *places)
    put(console, made)
    for name, rule in found.items():
        if rule.steps:
            console.print()
            console.print(Text.assemble((f"{name}, step {rule.steps[0]}: ", "bold yellow"), told(name, rule.found)))
    if not any(rule.steps for rule in found.values()):
        console.print("\nNo rule held at any step.")
    console.print(f"\n{MORE}", style="dim", soft_wrap=True)
    return 0
