#!/usr/bin/env python3
"""A long run looked at from outside: long_run.py [--steps 2000] [--leak] [--out FILE] [overrides …]

A small job on the embedded model, as a process of its own. Every 10 steps memory and open files of it and of its
grading processes are noted apart (the latter start with the first answer that needs computer algebra, which is one jump
and no leak), its threads, its time a step on the clock and on the processor, and the size of its folder by part. What
grows is told as the slope over 1,000 steps of the means over 50 steps (of times: medians), with the 95 % Student-t
interval of its least-squares fit, the first --warm steps left out. `flat`: the interval ends below the limit; `GROWS`:
it begins above 0 and the slope is over the limit; `not shown` otherwise. --leak is the negative control: a reward
function that keeps 50 kB and an open file at each call. Exits 1 where something is not flat (time on the clock aside,
which other work on the machine moves).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
EACH, WINDOW = 10, 50  # steps
# Growth in 1,000 steps that would be felt in a run of 100,000: 200 MB, a file in ten thousand steps, a fifth of a step
LIMITS = {"memory, MB": 2.0, "open files": 0.1, "threads": 0.1, "CPU a step, ms": 1.0, "step, ms": 1.0}
CHILDREN = ("grading: memory, MB", "grading: open files", "grading: processes")
JOB = [
    *("questions_per_step=4", "group_size=4", "max_new_tokens=16", "tracking=off", "optim.lr=0.001"),
    *("evaluation.every=100", "evaluation.questions=8", "evaluation.samples=1"),
]
LEAK = """
kept = []
def score(questions, golds, completions):
    kept.append((bytearray(b"x" * 50_000), open(__file__)))
    return [float(len(text) % 3) for text in completions]
"""
TICK = os.sysconf("SC_CLK_TCK")


def below(pid: int) -> list[int]:
    """All processes that this one has started, and theirs."""
    direct = [
        int(one) for task in Path(f"/proc/{pid}/task").iterdir() for one in (task / "children").read_text().split()
    ]
    return [*direct, *(one for child in direct for one in below(child))]


def memory(pid: int) -> float:
    """Resident, MB."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1000


def files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def cpu(pid: int) -> float:
    """Seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def sizes(folder: Path) -> dict[str, float]:
    """kB by part of the folder."""
    found: dict[str, float] = {}
    for file in folder.rglob("*"):
        part = f"size of {file.relative_to(folder).parts[0]}, kB"
        try:
            found[part] = found.get(part, 0.0) + file.stat().st_size / 1000
        except OSError:  # written anew between the two looks
            continue
    return found


def seen(pid: int, folder: Path) -> dict[str, float]:
    children = below(pid)
    return {
        "memory, MB": memory(pid),
        "open files": files(pid),
        "threads": len(os.listdir(f"/proc/{pid}/task")),
        "grading: memory, MB": sum(map(memory, children)),
        "grading: open files": sum(map(files, children)),
        "grading: processes": len(children),
        **sizes(folder),
    }


def watch(command: list[str], folder: Path, environment: dict[str, str]) -> list[dict[str, float]]:
    """Looks at a run, one in EACH steps. Ends with what it said where it fails."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, env=environment)
        metrics, read, made, looks = folder / "metrics.jsonl", 0, 0, list[dict[str, float]]()
        at, spent, before = 0.0, 0.0, 0
        while process.poll() is None:
            time.sleep(0.02)
            if not metrics.exists() or metrics.stat().st_size == read:
                continue
            with open(metrics, "rb") as file:
                file.seek(read)
                new = file.read()
            read, made = read + len(new), made + new.count(b"\n")
            if made - before < EACH:
                continue
            try:
                now, used = time.perf_counter(), cpu(process.pid)
                look = {"step": float(made), **seen(process.pid, folder)}
            except (OSError, StopIteration):  # it ends
                continue
            if before:
                look["step, ms"] = 1000 * (now - at) / (made - before)
                look["CPU a step, ms"] = 1000 * (used - spent) / (made - before)
            looks.append(look)
            at, spent, before = now, used, made
        if process.returncode != 0:
            said.seek(0)
            raise SystemExit(f"the run ended with {process.returncode}:\n{said.read()[-2000:].decode()}")
    return looks


def slope(looks: list[dict[str, float]], name: str, warm: int) -> tuple[float, float, list[float]]:
    """(slope over 1,000 steps, half of its 95 % interval, the windows' levels); medians of times, means of all else."""
    from scipy.special import stdtrit

    windows: dict[int, list[float]] = {}
    for look in looks:
        if name in look and look["step"] > warm:
            windows.setdefault(int((look["step"] - 1) // WINDOW), []).append(look[name])
    middle = statistics.median if name.endswith("ms") else statistics.fmean
    x = [(number + 0.5) * WINDOW / 1000 for number in sorted(windows)]
    y = [middle(windows[number]) for number in sorted(windows)]
    fit = statistics.linear_regression(x, y)
    rest = sum((b - fit.intercept - fit.slope * a) ** 2 for a, b in zip(x, y, strict=True))
    spread = sum((a - statistics.fmean(x)) ** 2 for a in x)
    half = float(stdtrit(len(x) - 2, 0.975)) * math.sqrt(rest / (len(x) - 2) / spread)
    return fit.slope, half, y


def report(looks: list[dict[str, float]], warm: int) -> dict[str, Any]:
    """Prints a table; gives what is in it."""
    table: dict[str, Any] = {}
    for name in (*LIMITS, *CHILDREN):
        if len({int((look["step"] - 1) // WINDOW) for look in looks if name in look and look["step"] > warm}) < 3:
            continue
        value, half, levels = slope(looks, name, warm)
        limit = LIMITS.get(name)
        grows = limit is not None and value > limit and value - half > 0
        said = "" if limit is None else "flat" if value + half < limit else "GROWS" if grows else "not shown"
        table[name] = {"slope": value, "low": value - half, "high": value + half, "verdict": said, "levels": levels}
        interval = f"{value:+8.3f} in 1,000 steps [{value - half:+.3f}, {value + half:+.3f}]"
        print(f"{name:20} {levels[0]:8.1f} -> {levels[-1]:8.1f}  {interval}  {said}")
    first, last = next(look for look in looks if look["step"] >= warm), looks[-1]
    for name in sorted(last):
        if name.startswith("size"):
            table[name] = [first.get(name, 0.0), last[name]]
            print(f"{name:36} {first.get(name, 0.0):9.1f} at step {first['step']:.0f}, {last[name]:9.1f} at the end")
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--warm", type=int, default=500)
    parser.add_argument("--leak", action="store_true", help="the negative control")
    parser.add_argument("--out", type=Path)
    parser.add_argument("overrides", nargs="*")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "run"
        words = [*JOB, f"steps={asked.steps}", *asked.overrides]
        if asked.leak:
            (Path(made) / "leaking_reward.py").write_text(LEAK)
            words += ["reward=custom", "reward.function=leaking_reward:score"]
        path = os.pathsep.join([str(ROOT), made])
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        command = [sys.executable, "-m", "grpo_runner", *words, f"hydra.run.dir={folder}"]
        began = time.perf_counter()
        looks = watch(command, folder, environment)
        print(f"{asked.steps} steps in {time.perf_counter() - began:.0f} s, {len(looks)} looks: {' '.join(words)}")
        table = report(looks, asked.warm)
        kept = len(list((folder / "checkpoints").glob("step_*")))
        print(f"checkpoints kept: {kept}")
    if asked.out:
        asked.out.write_text(json.dumps({"table": table, "looks": looks}, indent=1) + "\n")
    open_ones = [name for name in LIMITS if name != "step, ms" and table[name]["verdict"] != "flat"]
    first, last = table["size of checkpoints, kB"]
    if last > 1.5 * first or kept > 2:
        open_ones.append("checkpoints")
    print("not flat: " + "; ".join(open_ones) if open_ones else "all flat")
    return bool(open_ones)


if __name__ == "__main__":
    sys.exit(main())
