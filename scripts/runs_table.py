#!/usr/bin/env python3
"""Mean and 95 % Student-t interval over seeds of what run folders reached: runs_table.py RUN_FOLDER ...

A sweep's folder stands for the runs in it. Runs of the same method and settings (all but the seed) are one row.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

from rich.console import Console
from rich.table import Table
from scipy import stats

METRICS = ("sampled/accuracy", "greedy/accuracy", "sampled/length_mean")


def interval(values: list[float]) -> str:
    """Mean [low, high]; the interval is over runs, which are the unit of evidence."""
    mean = sum(values) / len(values)
    if len(values) < 2:
        return f"{mean:.3f}"
    low, high = stats.t.interval(0.95, len(values) - 1, loc=mean, scale=stats.sem(values))
    return f"{mean:.3f} [{low:.3f}, {high:.3f}]" if low < high else f"{mean:.3f}"


def main(folders: list[str]) -> int:
    files = sorted(file for folder in folders for file in Path(folder).rglob("summary.json"))
    if not files:
        print(f"no summary.json under {', '.join(folders)}: are these folders of finished runs?", file=sys.stderr)
        return 2
    arms: dict[str, list[dict]] = defaultdict(list)
    for file in files:
        summary = json.loads(file.read_text())
        arms[summary["method"]].append(summary)
    table = Table("method", "seeds", "held-out figure", "before", "after", "change")
    for method, runs in sorted(arms.items()):
        seeds = ",".join(str(run["seed"]) for run in sorted(runs, key=lambda run: run["seed"]))
        for metric in (metric for metric in METRICS if all(metric in run["after"] for run in runs)):
            before, after = [run["before"][metric] for run in runs], [run["after"][metric] for run in runs]
            change = [b - a for a, b in zip(before, after, strict=True)]
            table.add_row(method, seeds, metric, interval(before), interval(after), interval(change))
        table.add_row(
            method, seeds, "seconds a run", "", interval([run["seconds"] for run in runs]), "", end_section=True
        )
    Console().print(table)
    print("commit", ", ".join(sorted({run["versions"]["commit"][:10] for runs in arms.values() for run in runs})))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) if sys.argv[1:] else __doc__)
