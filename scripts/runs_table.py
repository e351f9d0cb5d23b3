#!/usr/bin/env python3
"""What finished runs reached on held-out questions. A sweep's folder stands for the runs in it.

Runs that differ in nothing but the seed are one arm, and the run (seed) is the unit of evidence: means with 95 %
Student-t intervals over seeds. With several arms, each is also compared with the first that ran, paired by seed: the
same seed means the same questions, initial weights and sampling seeds. No verdict is given; under six pairs none
could be.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path

import yaml
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from scipy import stats

METRICS = {"sampled/accuracy": "sampled", "greedy/accuracy": "greedy", "sampled/length_mean": "length"}
# keys that do not change what a run computes
NAMES = ("seed", "run_name", "sweep_name", "tracking", "checkpoint", "health")


def interval(values: list[float], digits: int = 3) -> str:
    """Mean [low, high]; the mean alone of one run, or where all runs are equal."""
    mean = sum(values) / len(values)
    if len(values) < 2 or max(values) == min(values):
        return figure(mean, digits)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=mean, scale=stats.sem(values))
    return f"{figure(mean, digits)} [{figure(low, digits)}, {figure(high, digits)}]"


def figure(value: float, digits: int) -> str:
    """.902 for shares (3 digits), 22.28 for lengths and seconds (2)."""
    text = f"{value:.{digits}f}"
    return text.replace("0.", ".", 1) if digits == 3 and abs(value) < 1 else text


def digits_of(metric: str) -> int:
    return 2 if "length" in metric else 3


def leaves(values: dict, prefix: str = "") -> dict[str, object]:
    """A nested mapping as {dotted key: value}."""
    found: dict[str, object] = {}
    for key, value in values.items():
        found |= leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": str(value)}
    return found


def arms(folders: list[str]) -> list[tuple[dict, dict[int, dict]]]:
    """[(settings, {seed: summary})], in the order in which they ended. Exits where arm and seed of two runs agree."""
    found: dict[str, tuple[dict, dict[int, dict]]] = {}
    files = {file for folder in folders for file in Path(folder).rglob("summary.json")}
    for file in sorted(files, key=lambda file: (file.stat().st_mtime_ns, str(file))):
        try:
            config = yaml.safe_load((file.parent / "config.yaml").read_text())
            summary = json.loads(file.read_text())
            summary["method"], summary["versions"]["commit"], config["seed"]  # what is read below
        except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError) as error:
            sys.exit(f"{file.parent}: no folder of a finished run ({type(error).__name__}: {error}).")
        settings = leaves({key: value for key, value in config.items() if key not in NAMES})
        seeds = found.setdefault(json.dumps(settings), (settings, {}))[1]
        if config["seed"] in seeds:
            sys.exit(f"{file.parent}: a second run of the same settings and seed {config['seed']}; give one of them.")
        seeds[config["seed"]] = summary
    return list(found.values())


def name_of(arm: int) -> str:
    """A to Z, then A1, B1, …"""
    return chr(65 + arm % 26) + (str(arm // 26) if arm >= 26 else "")


def short(commit: str | None) -> str:
    """Seven digits, and whether the checkout had changes beyond them."""
    return "none (an installed package)" if commit is None else commit[:7] + commit[40:]


def lean(*names: str) -> Table:
    """Figures are never cut: a narrow screen breaks the line instead."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in names:
        table.add_column(name, no_wrap=True)
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="folders of finished runs, or of sweeps")
    folders = parser.parse_args().folders
    every = arms(folders)
    if not every:
        print(f"no summary.json under {', '.join(folders)}: are these folders of finished runs?", file=sys.stderr)
        return 2
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    values: dict[str, set] = defaultdict(set)
    for settings, _ in every:
        for key, value in settings.items():
            values[key].add(value)
    differing = [key for key, seen in values.items() if len(seen) > 1]
    for number, (settings, runs) in enumerate(every):
        own = escape(", ".join(f"{key}={settings.get(key)}" for key in differing))
        console.print(f"[bold]{name_of(number)}: {next(iter(runs.values()))['method']}[/]", own, highlight=False)
        console.print(f"   seeds {', '.join(map(str, sorted(runs)))}", highlight=False)
        table = lean("", "before", "after", "change")
        for metric in (metric for metric in METRICS if all(metric in run["after"] for run in runs.values())):
            before = [run["before"][metric] for run in runs.values()]
            after = [run["after"][metric] for run in runs.values()]
            change = [b - a for a, b in zip(before, after, strict=True)]
            table.add_row(
                f"   {METRICS[metric]}", *(interval(values, digits_of(metric)) for values in (before, after, change))
            )
        table.add_row("   seconds of the last call", "", interval([run["seconds"] for run in runs.values()], 2), "")
        console.print(table, "")
    if len(every) > 1:
        paired(console, every)
    commits = {short(run["versions"]["commit"]) for _, runs in every for run in runs.values()}
    console.print("commit", ", ".join(sorted(commits)), highlight=False)
    return 0


def paired(console: Console, every: list[tuple[dict, dict[int, dict]]]) -> None:
    """Each arm minus the first one after training, over the seeds that both have."""
    first = every[0][1]
    name = next(iter(first.values()))["method"]
    console.print(f"[bold]after training, minus arm A ({name}), paired by seed[/]", highlight=False)
    table = lean("arm", "pairs", *METRICS.values())
    for number, (_, runs) in enumerate(every[1:], start=1):
        seeds = sorted(set(runs) & set(first))
        cells = []
        for metric in METRICS:
            pairs = [(runs[seed]["after"].get(metric), first[seed]["after"].get(metric)) for seed in seeds]
            known = [mine - other for mine, other in pairs if mine is not None and other is not None]
            cells.append(interval(known, digits_of(metric)) if known else "-")
        table.add_row(name_of(number), str(len(seeds)), *cells)
    console.print(table, "")


if __name__ == "__main__":
    sys.exit(main())
