#!/usr/bin/env python3
"""The embedded main job from start to end, and how soon it samples: job.py [--repetitions N] [OVERRIDE ...]

`python -m grpo_runner experiment=quickstart tracking=off` in a process of its own: seconds of the whole command, with
evaluation, and, of a run of one step without evaluation, seconds to the end of the first rollout (imports, set-up and
the rollout itself; what comes after the rollout is taken off the time at which the step's row is written).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

from compare import spread  # noqa: E402
from running import ROOT, command_line, environment, json_lines, machine, watched, write  # noqa: E402
from tables import figure  # noqa: E402
from tables import spread as told  # noqa: E402

JOB = [sys.executable, "-m", "grpo_runner", "experiment=quickstart", "tracking=off"]


def whole(folder: Path, threads: int, words: list[str]) -> dict[str, Any]:
    """The job as it is."""
    made = watched([*JOB, *words, f"hydra.run.dir={folder / 'run'}"], environment(threads), folder, "job")
    rows = json_lines(folder / "run" / "metrics.jsonl")
    return {**made, "steps": [row["time/step_s"] for row in rows]}


def first_rollout(folder: Path, threads: int, words: list[str]) -> float:
    """Seconds from the start of the process to the end of its first rollout."""
    run = folder / "first"
    command = [*JOB, *words, "steps=1", "evaluation.every=0", f"hydra.run.dir={run}"]
    began, path, seen = time.monotonic(), run / "metrics.jsonl", 0.0
    process = subprocess.Popen(
        command, env=os.environ | environment(threads), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while process.poll() is None:
        if not seen and path.is_file() and path.stat().st_size:
            seen = time.monotonic()
        time.sleep(0.005)
    if process.returncode or not seen:
        sys.exit(f"ended with {process.returncode}: {' '.join(command)}")
    row = json_lines(path)[0]
    return seen - began - row["time/update_s"] - row["time/reward_s"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "speed" / "job.json")
    parser.add_argument("ours", nargs="*", metavar="OVERRIDE", help="further overrides")
    asked = parser.parse_args()
    jobs, firsts, at = [], [], machine(asked.threads)
    for _ in range(asked.repetitions):
        with tempfile.TemporaryDirectory() as folder:
            firsts.append(first_rollout(Path(folder), asked.threads, asked.ours))
            jobs.append(whole(Path(folder), asked.threads, asked.ours))
    seconds, step = spread([job["wall_s"] for job in jobs]), spread([s for job in jobs for s in job["steps"][2:]])
    peak = spread([job["peak_mib"] for job in jobs])
    made: dict[str, Any] = {
        "kind": "table",
        "header": ["the embedded main job", "median (range)", "runs"],
        "rows": [
            ["whole command, with evaluation, s", told(seconds), str(len(jobs))],
            ["sampling, grading and update of a step, ms", told(step, 1000), str(len(jobs))],
            ["start to the end of the first rollout, s", told(spread(firsts)), str(len(firsts))],
            ["peak memory, MiB", told(peak), str(len(jobs))],
        ],
        "command": command_line(),
        "machine": at,
        "seconds": seconds,
        "first_rollout_s": spread(firsts),
    }
    print(f"{figure(seconds['median'])} s, first rollout after {figure(made['first_rollout_s']['median'])} s")
    write(asked.output, made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
