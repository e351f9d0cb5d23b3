#!/usr/bin/env python3
"""The checker beside other graders, on labelled answers: compare_checkers.py [ROWS.jsonl] [--output FILE.md|FILE.json]

Every grader takes every row in a process of its own that is killed at the deadline; a row without a verdict (killed,
died, raised) is not accepted. Rows have id, kind, response, gold and expected. Those with `policy: "debatable"` stay
out of the scores, and what the checker decides differently there is listed apart. `style` graders are written anew
after the originals (scripts/checker/other_graders.py): the figures are theirs, not the originals'.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from killable import Killable, Outcome
from other_graders import GRADERS, Grade
from rich.console import Console
from rich.markdown import Markdown
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from grpo_runner.reward import Grader
from grpo_runner.types import Verdict

ROOT = Path(__file__).resolve().parents[2]
ROWS = ROOT / "tests" / "reward" / "answers.jsonl"
OURS = next(iter(GRADERS))
COLUMNS = ("accuracy", "recall", "false-positive rate", "wrong accepted", "hacks accepted", "no verdict", "rows/s")
Row = dict[str, Any]


class Score(NamedTuple):
    """Counts of one grader over the scored rows. wrong: rows expected false that are no hack; hacks: those that are."""

    rows: int
    agreed: int
    right: int
    right_accepted: int
    wrong: int
    wrong_accepted: int
    hacks: int
    hacks_accepted: int
    no_verdict: int
    seconds: float

    def cells(self) -> list[str]:
        """The row of the table, in the order of COLUMNS."""
        refused_at_all = self.wrong + self.hacks
        return [
            percent(self.agreed, self.rows),
            percent(self.right_accepted, self.right),
            percent(self.wrong_accepted + self.hacks_accepted, refused_at_all),
            f"{self.wrong_accepted} of {self.wrong}",
            f"{self.hacks_accepted} of {self.hacks}",
            str(self.no_verdict),
            f"{self.rows / self.seconds:,.0f}" if self.seconds else "-",
        ]


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def scored(row: Row) -> bool:
    return row.get("policy") != "debatable"


def score(rows: Sequence[Row], outcomes: Sequence[Outcome]) -> Score:
    """Debatable rows are left out."""
    pairs = [(row, outcome) for row, outcome in zip(rows, outcomes, strict=True) if scored(row)]
    right = [outcome for row, outcome in pairs if row["expected"]]
    hacks = [outcome for row, outcome in pairs if not row["expected"] and row["kind"].startswith("hack")]
    wrong = [outcome for row, outcome in pairs if not row["expected"] and not row["kind"].startswith("hack")]
    return Score(
        rows=len(pairs),
        agreed=sum(outcome.accepted == row["expected"] for row, outcome in pairs),
        right=len(right),
        right_accepted=sum(outcome.accepted for outcome in right),
        wrong=len(wrong),
        wrong_accepted=sum(outcome.accepted for outcome in wrong),
        hacks=len(hacks),
        hacks_accepted=sum(outcome.accepted for outcome in hacks),
        no_verdict=sum(bool(outcome.failed) for _, outcome in pairs),
        seconds=sum(outcome.seconds for _, outcome in pairs),
    )


def read_rows(path: Path) -> list[Row]:
    rows = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        sys.exit(f"{path}: {error.strerror}.")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            missing = [key for key in ("id", "kind", "response", "gold", "expected") if key not in row]
        except (ValueError, TypeError) as error:
            sys.exit(f"{path}:{number}: not a JSON object ({error}).")
        if missing:
            sys.exit(f"{path}:{number}: without {', '.join(missing)}.")
        rows.append(row)
    if not rows:
        sys.exit(f"{path}: no rows.")
    return rows


def grade_all(
    rows: Sequence[Row], graders: dict[str, Grade], deadline_s: float
) -> tuple[dict[str, list[Outcome]], list[str]]:
    """Outcomes by grader, and the files that any of them left behind. Of several golds one is enough."""
    outcomes: dict[str, list[Outcome]] = {}
    left: list[str] = []
    columns = (TextColumn("{task.description:24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        for name, grade in graders.items():
            outcomes[name] = []
            with Killable(grade, deadline_s) as grader:
                for row in progress.track(rows, description=name):
                    golds = [row["gold"]] if isinstance(row["gold"], str) else row["gold"]
                    asked = [grader.ask(row["response"], gold) for gold in golds]
                    outcomes[name].append(next((one for one in asked if one.accepted), asked[0]))
                left += [f"{file} ({name})" for file in grader.left_behind]
            if not progress.console.is_terminal:  # where no bar is drawn before the end
                print(f"{name}: {len(rows)} rows", file=sys.stderr, flush=True)
    return outcomes, left


def differing(rows: Sequence[Row], outcomes: dict[str, list[Outcome]]) -> tuple[list[Row], list[Row]]:
    """Rows where the checker differs from the label (with what it said, and who agrees): scored, debatable."""
    indices = [i for i, row in enumerate(rows) if outcomes[OURS][i].accepted != row["expected"]]
    with Grader(workers=1) as grader:
        verdicts: list[Verdict] = grader.grade([(rows[i]["response"], rows[i]["gold"]) for i in indices])
    listed: tuple[list[Row], list[Row]] = ([], [])
    for i, verdict in zip(indices, verdicts, strict=True):
        row = rows[i]
        agree = [name for name, all_of_them in outcomes.items() if all_of_them[i].accepted == row["expected"]]
        said = {
            "status": verdict.status.value,
            "extracted": verdict.extracted,
            "rule": verdict.rule,
            "as_labelled": agree,
        }
        listed[0 if scored(row) else 1].append({**row, **said})
    return listed


def markdown_table(scores: dict[str, Score]) -> str:
    lines = ["| | " + " | ".join(COLUMNS) + " |", "| --- |" + " ---: |" * len(COLUMNS)]
    lines += [f"| {name} | " + " | ".join(one.cells()) + " |" for name, one in scores.items()]
    return "\n".join(lines)


def code(text: str, most: int = 70) -> str:
    """Text as code in a table's cell."""
    text = text if len(text) <= most else "…" + text[-most:]
    return "`" + text.replace("\n", "⏎").replace("|", "\\|").replace("`", "'") + "`"


def markdown_list(rows: Sequence[Row]) -> str:
    lines = ["| row | response | gold | label | the checker | rule | as labelled |", "| " + "--- | " * 7]
    for row in rows:
        label = ("right" if row["expected"] else "wrong") + (f" ({row['note']})" if row.get("note") else "")
        cells = [
            f"{row['id']} {row['kind']}",
            code(row["response"]),
            code(str(row["gold"])),
            label.replace("|", "\\|"),
            row["status"],
            row["rule"],
            ", ".join(row["as_labelled"]) or "none",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def report(
    rows: Sequence[Row], outcomes: dict[str, list[Outcome]], left: list[str], setting: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """The comparison as Markdown and as data."""
    scores = {name: score(rows, of_one) for name, of_one in outcomes.items()}
    wrong, debatable = differing(rows, outcomes)
    counted = [row for row in rows if not scored(row)]
    load = " to ".join(f"{one:.1f}" for one in setting["load"])
    made_with = f"commit {setting['commit']}, {setting['versions']}; {setting['cores']} cores, load {load}"
    parts = [
        f"{scores[OURS].rows} scored rows of {setting['rows']}, at most {setting['deadline_s']:g} s each; {made_with}.",
        markdown_table(scores),
        "Files that a response made a grader write: " + (", ".join(left) or "none") + ".",
        f"**Scored rows that the checker decides differently: {len(wrong)}.**",
        *([markdown_list(wrong)] if wrong else []),
        f"**Debatable rows: {len(counted)}, of which the checker decides {len(debatable)} differently.**",
        *([markdown_list(debatable)] if debatable else []),
    ]
    figures = {name: one._asdict() for name, one in scores.items()}
    data = {**setting, "scores": figures, "left_behind": left, "differing": wrong, "differing_debatable": debatable}
    return "\n\n".join(parts) + "\n", data


def code_version() -> dict[str, Any]:
    """What figures were made with: commit, versions of the libraries, cores of this process."""
    git = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    versions = ", ".join(f"{name} {version(name)}" for name in ("math-verify", "latex2sympy2_extended", "sympy"))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"commit": git.stdout.strip() or "unknown", "versions": versions, "cores": cores}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="?", type=Path, default=ROWS, help="default: the project's own rows")
    parser.add_argument("--output", type=Path, help="also write it to a .md or .json file")
    parser.add_argument(
        "--deadline",
        type=float,
        default=5.0,
        metavar="S",
        help="seconds for one row (default: 5)",
    )
    parser.add_argument(
        "--graders", nargs="+", choices=GRADERS, default=list(GRADERS), help=f"some of them, {OURS!r} first"
    )
    arguments = parser.parse_args()
    if arguments.output and arguments.output.suffix not in (".md", ".json"):
        parser.error(f"--output: .md or .json, not {arguments.output.name}")
    if OURS not in arguments.graders:
        parser.error(f"--graders: {OURS!r} is always among them")
    rows = read_rows(arguments.rows)
    setting = {
        "rows": arguments.rows.name,
        "deadline_s": arguments.deadline,
        **code_version(),
    }  # no folder: it is shown
    before, start = os.getloadavg()[0], time.monotonic()
    outcomes, left = grade_all(rows, {name: GRADERS[name] for name in arguments.graders}, arguments.deadline)
    setting |= {"load": [before, os.getloadavg()[0]], "seconds": round(time.monotonic() - start)}
    text, data = report(rows, outcomes, left, setting)
    if arguments.output:
        as_json = arguments.output.suffix == ".json"
        arguments.output.write_text(json.dumps(data, indent=1) + "\n" if as_json else text, encoding="utf-8")
    Console(width=None if sys.stdout.isatty() else 160).print(
        Markdown(text) if sys.stdout.isatty() else text, markup=False
    )


if __name__ == "__main__":
    main()
