#!/usr/bin/env python3
"""What finished runs reached on held-out questions: runs_table.py RUN_FOLDER ... (a sweep's folder stands for its runs)

Runs that differ in nothing but the seed are one arm, and the run (seed) is the unit of evidence: means with 95 %
Student-t intervals over seeds. With several arms, each is also compared with the first, paired by seed: the same seed
means the same questions, initial weights and sampling seeds. No verdict is given; under six pairs none could be.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table
from scipy import stats

METRICS = {"sampled/accuracy": "sampled", "greedy/accuracy": "greedy", "sampled/length_mean": "length"}
# keys that do not change what a run computes
NAMES = ("seed", "run_name", "sweep_name", "tracking", "checkpoint")


def interval(values: list[float]) -> str:
    """Mean [low, high]; the mean alone of one run, or where all runs are equal."""
    mean = sum(values) / len(values)
    if len(values) < 2 or max(values) == min(values):
        return figure(mean)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=mean, scale=stats.sem(values))
    return f"{figure(mean)} [{figure(low)}, {figure(high)}]"


def figure(value: float) -> str:
    """.902 for shares, 22.3 for lengths and seconds."""
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 2 else f"{value:.1f}"


def leaves(values: dict, prefix: str = "") -> dict[str, object]:
    """A nested mapping as {dotted key: value}."""
    found: dict[str, object] = {}
    for key, value in values.items():
        found |= leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": str(value)}
    return found


def arms(folders: list[str]) -> list[tuple[dict, dict[int, dict]]]:
    """[(settings, {seed: summary})], in the order found. Exits where two runs are the same arm and the same seed."""
    found: dict[str, tuple[dict, dict[int, dict]]] = {}
    for file in sorted({file for folder in folders for file in Path(folder).rglob("summary.json")}):
        config = yaml.safe_load((file.parent / "config.yaml").read_text())
        settings = leaves({key: value for key, value in config.items() if key not in NAMES})
        seeds = found.setdefault(json.dumps(settings), (settings, {}))[1]
        if config["seed"] in seeds:
            sys.exit(f"{file.parent}: a second run of the same settings and seed {config['seed']}; give one of them.")
        seeds[config["seed"]] = json.loads(file.read_text())
    return list(found.values())


def lean(*names: str) -> Table:
    """Figures are never cut: a narrow screen breaks the line instead."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in names:
        table.add_column(name, no_wrap=True)
    return table


def main(folders: list[str]) -> int:
    every = arms(folders)
    if not every:
        print(f"no summary.json under {', '.join(folders)}: are these folders of finished runs?", file=sys.stderr)
        return 2
    console = Console(soft_wrap=True)
    if not console.is_terminal:
        console = Console(soft_wrap=True, width=100)
    values: dict[str, set] = defaultdict(set)
    for settings, _ in every:
        for key, value in settings.items():
            values[key].add(value)
    differing = [key for key, seen in values.items() if len(seen) > 1]
    for number, (settings, runs) in enumerate(every):
        own = ", ".join(f"{key}={settings.get(key)}" for key in differing)
        console.print(f"[bold]{chr(65 + number)}: {next(iter(runs.values()))['method']}[/]", own, highlight=False)
        console.print(f"   seeds {', '.join(map(str, sorted(runs)))}", highlight=False)
        table = lean("", "before", "after", "change")
        for metric in (metric for metric in METRICS if all(metric in run["after"] for run in runs.values())):
            before = [run["before"][metric] for run in runs.values()]
            after = [run["after"][metric] for run in runs.values()]
            change = [b - a for a, b in zip(before, after, strict=True)]
            table.add_row(f"   {METRICS[metric]}", interval(before), interval(after), interval(change))
        table.add_row("   seconds a run", "", interval([run["seconds"] for run in runs.values()]), "")
        console.print(table, "")
    if len(every) > 1:
        paired(console, every)
    commits = {str(run["versions"]["commit"])[:18] for _, runs in every for run in runs.values()}
    console.print("commit", ", ".join(sorted(commits)), highlight=False)
    return 0


def paired(console: Console, every: list[tuple[dict, dict[int, dict]]]) -> None:
    """Each arm minus the first one after training, over the seeds that both have."""
    first = every[0][1]
    console.print("[bold]after training, minus arm A, paired by seed[/]")
    table = lean("arm", "pairs", *METRICS.values())
    for number, (_, runs) in enumerate(every[1:], start=1):
        seeds = sorted(set(runs) & set(first))
        cells = []
        for metric in METRICS:
            pairs = [(runs[seed]["after"].get(metric), first[seed]["after"].get(metric)) for seed in seeds]
            known = [mine - other for mine, other in pairs if mine is not None and other is not None]
            cells.append(interval(known) if known else "-")
        table.add_row(chr(65 + number), str(len(seeds)), *cells)
    console.print(table, "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) if sys.argv[1:] else __doc__)
