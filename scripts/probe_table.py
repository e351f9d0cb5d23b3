#!/usr/bin/env python3
"""How far apart the gradients of the probed objectives lie, by stage of training, over the seeds of finished runs.

    python -m grpo_runner -m experiment=quickstart tracking.probe_every=2 seed=0,1,2
    python scripts/probe_table.py outputs/sweeps/SWEEP

A stage is a third of the steps. The run (seed) is the unit of evidence: the mean over a stage's probed steps within
each run, then mean and 95 % Student-t interval over runs. "Within a question" compares the parts of the two gradients
that one question's answers make. A norm's quotient is the first gradient's over the second's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table
from runs_table import interval

STAGES = ("first third", "second third", "last third")


def runs(folders: list[str]) -> list[tuple[int, list[dict]]]:
    """(steps, rows of probe.jsonl) of each finished run."""
    found = []
    for file in sorted({file for folder in folders for file in Path(folder).rglob("probe.jsonl")}):
        try:
            steps = json.loads((file.parent / "summary.json").read_text())["steps"]
            found.append((steps, [json.loads(line) for line in file.read_text().splitlines()]))
        except (OSError, ValueError, KeyError) as error:
            sys.exit(f"{file.parent}: no folder of a finished run ({type(error).__name__}: {error}).")
    if not found:
        sys.exit(f"{', '.join(folders)}: no run with a probe (tracking.probe_every) in there.")
    return found


def by_stage(found: list[tuple[int, list[dict]]], figure: Callable[[dict], float | None]) -> list[str]:
    """One cell a stage: the interval over runs of the mean over the stage's steps; a dash where no run has a figure."""
    cells = []
    for stage in range(len(STAGES)):
        means = []
        for steps, rows in found:
            here = [figure(row) for row in rows if row["step"] * len(STAGES) // steps == stage]
            if values := [value for value in here if value is not None]:
                means.append(statistics.fmean(values))
        cells.append(interval(means) if means else "-")
    return cells


def within(pair: str) -> Callable[[dict], float | None]:
    def figure(row: dict) -> float | None:
        values = [group["cosine"][pair] for group in row["groups"] if group["cosine"][pair] is not None]
        return statistics.fmean(values) if values else None

    return figure


def quotient(one: str, other: str) -> Callable[[dict], float | None]:
    return lambda row: row["norm"][one] / row["norm"][other] if row["norm"][other] else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", help="folders of runs, or of sweeps")
    found = runs(parser.parse_args().folders)
    pairs = list(found[0][1][0]["cosine"])
    if any(list(row["cosine"]) != pairs for _, rows in found for row in rows):
        sys.exit("The runs were probed for different objectives: give runs with the same tracking.probe.")
    table = Table(
        box=None, header_style="bold", title=f"{len(found)} runs of {found[0][0]} steps", title_justify="left"
    )
    for name in ("", *STAGES):
        table.add_column(name, no_wrap=True)
    for pair in pairs:
        table.add_row(f"cosine {pair}", *by_stage(found, lambda row, pair=pair: row["cosine"][pair]))
    for pair in pairs:
        table.add_row(f"within a question {pair}", *by_stage(found, within(pair)))
    for pair in pairs:
        one, other = pair.split("~")
        table.add_row(f"norm {one} / {other}", *by_stage(found, quotient(one, other)))
    Console(width=None if sys.stdout.isatty() else 140).print(table)


if __name__ == "__main__":
    main()
