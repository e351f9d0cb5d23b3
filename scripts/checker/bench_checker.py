#!/usr/bin/env python3
"""Speed of the checker: bench_checker.py --gsm8k ROWS.jsonl --math ROWS.jsonl [--repeats N] [--output FILE.md]

Rows are made from the questions (JSONL with question and answer; for --gsm8k also solution) in a fixed order by
bench_rows.py, and every repeat takes rows that no earlier one had. Caches of graders and of sympy are emptied before
each, then one row is graded to warm up. The checker and math-verify take the same rows one after the other; `through
Grader` they go in one batch to two workers, started before the clock. Start-up is timed beside `python -c pass`, turn
about.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import bench_rows
from bench_rows import Row
from compare_checkers import code_version
from other_graders import Grade, math_verify_default, this_checker
from rich.console import Console
from rich.table import Table

from grpo_runner.reward import Grader

TARGETS = {"integers": "≥ 20,000", "gsm8k": "≥ 10", "math": "≥ 5", "expressions": ""}
TITLES = {"gsm8k": "GSM8K in prose", "math": "MATH golds", "expressions": "MATH sums in another order"}
HEADS = ("", "median", "least", "most", "target")
WARM = ("So it is $\\boxed{\\sqrt{2}x}$.", "x\\sqrt{2}")
Figures = dict[str, Any]


def clear_caches() -> None:
    """Forget what was graded before. Compiled patterns are made anew by the row that warms up."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("grpo_runner.reward", "math_verify", "latex2sympy2_extended")):
            for value in list(vars(module).values()):
                if callable(clear := getattr(value, "cache_clear", None)):
                    clear()
    if "sympy" in sys.modules:
        from sympy.core.cache import clear_cache

        clear_cache()


def rate(grade: Grade, rows: Sequence[Row]) -> tuple[float, int]:
    """Rows a second in this process, and how many verdicts are as expected."""
    clear_caches()
    grade(*WARM)
    start = time.perf_counter()
    verdicts = [grade(response, gold) for response, gold, _ in rows]
    seconds = time.perf_counter() - start
    return len(rows) / seconds, sum(verdict == row[2] for verdict, row in zip(verdicts, rows, strict=True))


def batch_rate(grader: Grader, rows: Sequence[Row]) -> tuple[float, int]:
    """The same in one batch over the grader's workers."""
    clear_caches()
    start = time.perf_counter()
    verdicts = grader.grade([(response, gold) for response, gold, _ in rows])
    seconds = time.perf_counter() - start
    return len(rows) / seconds, sum(one.correct == row[2] for one, row in zip(verdicts, rows, strict=True))


def repeated(parts: Sequence[Sequence[Row]], **ways: Callable[[Sequence[Row]], tuple[float, int]]) -> Figures:
    """Each way over each part of the rows: rates, and the share of verdicts that are as expected."""
    figures: Figures = {"rows": sum(map(len, parts)), "repeats": len(parts)}
    for name in ways:
        figures[name] = {"rates": [], "as_expected": 0}
    for part in parts:
        for name, way in ways.items():
            speed, right = way(part)
            figures[name]["rates"].append(speed)
            figures[name]["as_expected"] += right
    return figures


def cut(rows: Sequence[Row], repeats: int) -> list[Sequence[Row]]:
    """Parts of equal length; part k takes every repeats-th row from the k-th."""
    length = len(rows) // repeats
    return [rows[start::repeats][:length] for start in range(repeats)]


def times_faster(figures: Figures, one: str, other: str) -> list[float]:
    return [a / b for a, b in zip(figures[one]["rates"], figures[other]["rates"], strict=True)]


def start_times(repeats: int) -> Figures:
    """Seconds from start to exit of `check` on an integer and of Python alone, turn about."""
    python = [sys.executable, "-c", "pass"]
    check = [sys.executable, "-m", "grpo_runner", "check", "--response", r"It is \boxed{42}.", "--gold", "42"]
    figures: Figures = {"check": [], "python": []}
    for _ in range(repeats + 1):  # the first fills the disk cache
        for name, command in (("python", python), ("check", check)):
            start = time.perf_counter()
            code = subprocess.run(command, stdout=subprocess.DEVNULL).returncode
            figures[name].append(time.perf_counter() - start)
            if code:
                sys.exit(f"{' '.join(command)} ended with exit code {code}.")
    return {name: seconds[1:] for name, seconds in figures.items()}


def peak_mib(who: int) -> float:
    """Peak memory of this process, or the highest of those that it waited for (ru_maxrss: bytes on a Mac, else KiB)."""
    return resource.getrusage(who).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def questions(path: str, *needed: str) -> list[dict[str, str]]:
    try:
        rows = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        sys.exit(f"{path}: {error}")
    if not rows or any(not isinstance(row.get(key), str) for row in rows for key in needed):
        sys.exit(f"{path}: every row needs {' and '.join(needed)}.")
    return rows


def spread(values: Sequence[float], form: str = ",.0f") -> list[str]:
    return [format(figure(values), form) for figure in (statistics.median, min, max)]


def table_of(measured: dict[str, Figures], starts: Figures, peaks: dict[str, float]) -> list[list[str]]:
    """Rows of the table: what, median, least, most, target."""
    lines = [["integers in a box, rows/s", *spread(measured["integers"]["ours"]["rates"]), TARGETS["integers"]]]
    for key, title in TITLES.items():
        figures = measured[key]
        for name, words in (("ours", ""), ("grader", " through Grader, 2 workers"), ("math_verify", ", math-verify")):
            share = figures[name]["as_expected"] / figures["rows"]
            lines.append([f"{title}{words}, rows/s ({share:.1%} as expected)", *spread(figures[name]["rates"]), ""])
        quotient = spread(times_faster(figures, "ours", "math_verify"), ",.1f")
        lines.append([f"{title}, times math-verify", *quotient, TARGETS[key]])
    lines.append(["start of `check` for an integer, s", *spread(starts["check"], ".3f"), "≤ 0.5"])
    lines.append(["start of Python alone, s", *spread(starts["python"], ".3f"), ""])
    lines += [[f"peak memory {name}, MiB", f"{peak:.0f}", "", "", ""] for name, peak in peaks.items()]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gsm8k", required=True, metavar="ROWS.jsonl", help="question, solution and answer")
    parser.add_argument("--math", required=True, metavar="ROWS.jsonl", help="question and answer")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1000, help="made of each set, at most (default: 1000)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="also write it to a .md or .json file")
    arguments = parser.parse_args()
    if arguments.output and arguments.output.suffix not in (".md", ".json"):
        parser.error(f"--output: .md or .json, not {arguments.output.name}")
    if arguments.repeats < 2:
        parser.error("--repeats: at least 2, to tell a spread")
    logging.disable(logging.WARNING)  # math-verify tells each of its timeouts
    math = questions(arguments.math, "question", "answer")
    made = {
        "gsm8k": bench_rows.gsm8k(questions(arguments.gsm8k, "question", "solution", "answer")),
        "math": bench_rows.math(math),
        "expressions": bench_rows.expressions(math),
    }
    before = os.getloadavg()[0]
    parts = cut(bench_rows.integers(5_000 * arguments.repeats), arguments.repeats)
    measured = {"integers": repeated(parts, ours=lambda part: rate(this_checker, part))}
    peaks = {"after integers": peak_mib(resource.RUSAGE_SELF)}
    with Grader(workers=2) as grader:
        grader.grade([WARM, ("\\boxed{\\sqrt{3}y}", "y\\sqrt{3}")])
        for key, rows in made.items():
            measured[key] = repeated(
                cut(rows[: arguments.rows], arguments.repeats),
                ours=lambda part: rate(this_checker, part),
                math_verify=lambda part: rate(math_verify_default, part),
                grader=lambda part: batch_rate(grader, part),
            )
    peaks["of the grading process"] = peak_mib(resource.RUSAGE_CHILDREN)
    starts = start_times(20)
    setting = {**code_version(), "load": [before, os.getloadavg()[0]]}
    lines = table_of(measured, starts, peaks)
    load = " to ".join(f"{one:.1f}" for one in setting["load"])
    made_with = f"Commit {setting['commit']}, {setting['versions']}; {setting['cores']} cores, load {load}."
    table = Table(*HEADS, title=made_with)
    for line in lines:
        table.add_row(*line)
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    if arguments.output and arguments.output.suffix == ".md":
        head = ["| " + " | ".join(HEADS) + " |", "| --- |" + " ---: |" * (len(HEADS) - 1)]
        text = "\n".join([made_with, "", *head, *("| " + " | ".join(line) + " |" for line in lines)])
        arguments.output.write_text(text + "\n", encoding="utf-8")
    elif arguments.output:
        figures = {**setting, "measured": measured, "starts_s": starts, "peak_mib": peaks, "table": lines}
        arguments.output.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
