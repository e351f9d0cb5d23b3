#!/usr/bin/env python3
"""Time of a step and peak memory of the default job: bench.py [--steps N] [OVERRIDE ...]

Runs in a process of its own, in a temporary folder, without W&B, and prints the median and the range over steps (the
first left out: it warms up), by part of the step.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("overrides", nargs="*", help="Hydra overrides, as for the runner")
    arguments = parser.parse_args()
    if arguments.steps < 2:
        parser.error("--steps: at least 2, for the first one warms up")
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "grpo_runner",
            f"steps={arguments.steps}",
            "evaluation.every=0",
            "tracking=off",
        ]
        code = subprocess.run(
            [*command, *arguments.overrides, f"hydra.run.dir={folder}/run"], stdout=subprocess.DEVNULL
        ).returncode
        if code:
            return code
        rows = [json.loads(line) for line in (Path(folder) / "run" / "metrics.jsonl").read_text().splitlines()][1:]
    table = Table("part", "median ms", "fastest", "slowest", title=f"{len(rows)} steps {' '.join(arguments.overrides)}")
    for key in ("time/step_s", "time/rollout_s", "time/reward_s", "time/update_s"):
        values = [1000 * row[key] for row in rows]
        table.add_row(
            key.removeprefix("time/").removesuffix("_s"), *(f"{f(values):.0f}" for f in (statistics.median, min, max))
        )
    console = Console()
    console.print(table)
    # ru_maxrss is in kilobytes on Linux and in bytes on a Mac
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    console.print(f"peak memory of the process {peak / 2**20:.0f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
