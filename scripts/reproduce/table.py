#!/usr/bin/env python3
"""The table of docs/reproduce.md: preset, published figure, our figure; below it what each command needs, and sources.

    python scripts/reproduce/table.py              writes the table into docs/reproduce.md
    python scripts/reproduce/table.py --check      exits 1 if the page is not what this would write

Nothing in it is typed by hand: presets and names of figures are those of the scripts beside this one, published figures
and their sources those of docs/facts.csv, our figures those of results.json. The words that a preset needs (a file, the
model of a stage before) and the authors' hardware stand in its file, the sets that are asked in the configuration.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from grpo_runner.config import compose

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE, FACTS, RESULTS = ROOT / "docs" / "reproduce.md", ROOT / "docs" / "facts.csv", HERE / "results.json"
BEGIN, END = "<!-- table.py: begin -->", "<!-- table.py: end -->"
CALL = re.compile(r'^exec "[^\n]*/run\.sh" (\S+) (\S+) "([^"\n]*)" "\$@"$', re.MULTILINE)
COMMAND = re.compile(r"^#   python -m grpo_runner experiment=\S+(.*)$", re.MULTILINE)
HARDWARE = re.compile(r"^# Hardware: (.+?)\.?$", re.MULTILINE)
AGAIN = re.compile(r"_avg\d+$")


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


def told(preset: str, line: re.Pattern[str]) -> str:
    """What a line of the first comment of the preset's file says; "" where there is none."""
    found = line.search((ROOT / "conf" / "experiment" / f"{preset}.yaml").read_text(encoding="utf-8"))
    return found[1].strip() if found else ""


@cache
def asked(preset: str, words: str) -> frozenset[str]:
    """The sets that `evaluate` is asked for: of the group in the words, or the preset's own."""
    groups = [word.removeprefix("evaluation=") for word in words.split() if word.startswith("evaluation=")]
    if not groups:
        return frozenset(compose([f"experiment={preset}"]).evaluation.sets)
    found = yaml.safe_load((ROOT / "conf" / "evaluation" / f"{groups[0]}.yaml").read_text(encoding="utf-8"))["sets"]
    out = {word.removeprefix("~evaluation.sets.") for word in words.split() if word.startswith("~evaluation.sets.")}
    if missing := out - set(found):
        raise ValueError(f"evaluation={groups[0]} has no {', '.join(sorted(missing))}.")
    return frozenset(found) - out


def not_asked(script: Script, figures: Iterable[str]) -> list[str]:
    """Published figures that the script has no counterpart for: of other sets, and their mean with those among them."""
    sets = asked(script.preset, script.words)
    left_out = [name for name in figures if name not in sets and name != "average"]
    alike = sets == {name for name in figures if name != "average" and not AGAIN.search(name)}
    return left_out if alike or "average" not in figures else [*left_out, "average"]


def table(folder: Path = HERE, facts: Path = FACTS, results: Path = RESULTS) -> str:
    """The table in Markdown, then a line a script of what would make it too wide: words the command needs, sources,
    sets that are not asked, hardware. Raises KeyError for figures that docs/facts.csv does not have.
    """
    known = published(facts)
    ours = json.loads(results.read_text(encoding="utf-8"))
    there = scripts(folder)
    lines, more = ["| preset | published, % | ours |", "|---|---|---|"], []
    for script in there:
        values = known[script.figures]
        mine = ours.get(script.preset)
        lines.append(_row(script.preset, _figures(values), _result(mine) if mine else "not run"))
        more.append(_details(script, values))
    shown = {script.preset for script in there}
    for preset in (preset for preset in ours if preset not in shown):
        lines.append(_row(preset, "none: the job is ours", _result(ours[preset])))
        more.append(f"- `{preset}`: `{ours[preset]['command']}`")
    return "\n".join([*lines, "", *more])


def _row(preset: str, *cells: str) -> str:
    first = f"[{preset}](../conf/experiment/{preset}.yaml)"
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in (first, *cells)) + " |"


def _figures(values: dict[str, tuple[str, str]]) -> str:
    return ", ".join(f"{name} {value}" for name, (value, _) in values.items())


def _details(script: Script, values: dict[str, tuple[str, str]]) -> str:
    """Of sources that begin alike only what differs is repeated."""
    first, *others = dict.fromkeys(source for _, source in values.values())
    said = []
    if words := told(script.preset, COMMAND):
        said.append(f"Typed with `{words}`")
    if missing := not_asked(script, values):
        said.append(f"Not asked: {', '.join(missing)}")
    said.append(_hardware(told(script.preset, HARDWARE)))
    sources = "; ".join([first, *(other.removeprefix(f"{first}; ") for other in others)])
    return f"- `{script.preset}`: {'. '.join([sources, *said])}."


def _hardware(hardware: str) -> str:
    if not hardware or hardware.startswith("not stated"):
        return f"The authors' hardware is {hardware or 'not stated'}"
    return f"The authors had {hardware}"


def _result(mine: dict[str, str]) -> str:
    """{"text": …, "commit": …}: what was measured, in a sentence, and at which commit."""
    return f"{mine['text']} (commit {mine['commit']})"


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
