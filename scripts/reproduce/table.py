#!/usr/bin/env python3
"""The table of docs/reproduce.md: preset, command, published figure, our figure.

    python scripts/reproduce/table.py              writes the table into docs/reproduce.md
    python scripts/reproduce/table.py --check      exits 1 if the page is not what this would write

Nothing in it is typed by hand: presets and names of figures are those of the scripts beside this one, published figures
and their sources those of docs/facts.csv, our figures those of results.json, the authors' hardware that of the preset's
file.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE, FACTS, RESULTS = ROOT / "docs" / "reproduce.md", ROOT / "docs" / "facts.csv", HERE / "results.json"
BEGIN, END = "<!-- table.py: begin -->", "<!-- table.py: end -->"
CALL = re.compile(r'^exec "[^\n]*/run\.sh" (\S+) (\S+) "([^"\n]*)" "\$@"$', re.MULTILINE)
HARDWARE = re.compile(r"^# Hardware: (.+?)\.?$", re.MULTILINE)


@dataclass(frozen=True)
class Script:
    """One script: its file's name, the preset it trains, the figures it is held against, the words for `evaluate`."""

    file: str
    preset: str
    figures: str
    words: str


def scripts(folder: Path = HERE) -> list[Script]:
    """Every script that calls run.sh, by name. Raises ValueError for one that does not do so in the one agreed line."""
    found = []
    for file in sorted(folder.glob("*.sh")):
        if file.name == "run.sh":
            continue
        call = CALL.search(file.read_text(encoding="utf-8"))
        if call is None:
            raise ValueError(f"{file.name} does not end in: exec …/run.sh PRESET FIGURES WORDS")
        found.append(Script(file.name, *call.groups()))
    return found


def published(facts: Path = FACTS) -> dict[str, dict[str, tuple[str, str]]]:
    """{name of figures: {set: (percent as written, source)}} of docs/facts.csv, in its order."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    with facts.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if row["kind"] == "published":
                found.setdefault(row["preset"], {})[row["key"]] = (row["value"], row["source"])
    return found


def hardware(preset: str) -> str:
    """What the authors used, from the preset's file."""
    found = HARDWARE.search((ROOT / "conf" / "experiment" / f"{preset}.yaml").read_text(encoding="utf-8"))
    return found[1] if found else "not stated"


def table(folder: Path = HERE, facts: Path = FACTS, results: Path = RESULTS) -> str:
    """The table in Markdown. Raises KeyError for figures that docs/facts.csv does not have."""
    known = published(facts)
    ours = json.loads(results.read_text(encoding="utf-8"))
    lines = ["| preset | command | published | ours |", "|---|---|---|---|"]
    for script in scripts(folder):
        values = known[script.figures]
        sources = list(dict.fromkeys(source for _, source in values.values()))
        told = ", ".join(f"{name} {value}" for name, (value, _) in values.items())
        mine = ours.get(script.preset)
        cell = _result(mine) if mine else f"not run; the authors: {hardware(script.preset)}"
        command = f"`scripts/reproduce/{script.file}`"
        lines.append(f"| `{script.preset}` | {command} | {told} ({'; '.join(sources)}) | {_cell(cell)} |")
    named = {script.preset for script in scripts(folder)}
    for preset, mine in ours.items():
        if preset not in named:
            lines.append(f"| `{preset}` | `{mine['command']}` | none, the job is ours | {_cell(_result(mine))} |")
    return "\n".join(lines)


def _result(mine: dict[str, str]) -> str:
    """{"text": …, "commit": …}: what was measured, in a sentence, and at which commit."""
    return f"{mine['text']} (commit {mine['commit']})"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def written(page: str, made: str) -> str:
    """The page with the table between its two marks. Raises ValueError where they are missing."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"The page needs the lines {BEGIN} and {END}.")
    return f"{before}{BEGIN}\n\n{made}\n\n{END}{after}"


def main(words: list[str]) -> int:
    page = PAGE.read_text(encoding="utf-8")
    new = written(page, table())
    if words == ["--check"]:
        print("docs/reproduce.md is as made." if page == new else "docs/reproduce.md differs: run table.py.")
        return int(page != new)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
