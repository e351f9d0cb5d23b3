"""Checks from end to end: a short training run, and the tests of `tests/gpu`."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from grpo_runner import compose, run

from .rows import Row, Setting

ROOT = Path(__file__).resolve().parents[2]
STEPS, ENDS = 16, 4
# The default job at three times its rate. On a CPU the reward rises by about 0.3, without learning by less than 0.
JOB = (f"steps={STEPS}", "optim.lr=1e-3", "evaluation.every=0", "tracking=off", "seed=0")
RISE = 0.1


def training(setting: Setting) -> Iterator[Row]:
    """The embedded model learns: the mean reward of the last steps is above that of the first."""
    with tempfile.TemporaryDirectory() as folder:
        config = compose([*JOB, f"device={setting.device.type}"])
        with contextlib.redirect_stdout(io.StringIO()):
            summary = run(dataclasses.replace(config, run_dir=f"{folder}/run"))
        lines = (Path(summary.run_dir) / "metrics.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
    yield from judged(rows, setting)


def judged(rows: Sequence[dict[str, Any]], setting: Setting) -> Iterator[Row]:
    """Of the lines of metrics.jsonl."""
    rewards = [row["reward/mean"] for row in rows]
    first, last = statistics.fmean(rewards[:ENDS]), statistics.fmean(rewards[-ENDS:])
    yield setting.least("steps made", len(rows), STEPS)
    yield setting.fact(f"mean reward of the first {ENDS} steps", first)
    yield setting.least(f"rise of the mean reward to the last {ENDS} steps", last - first, RISE)


def tests(setting: Setting) -> Iterator[Row]:
    """`pytest tests/gpu`: on a GPU all pass and none is skipped; in dry form they are only collected."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/gpu"]
    command += ["--collect-only"] if setting.dry else []
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    counts = counted(done.stdout)
    yield setting.fact("what pytest says", ", ".join(f"{count} {what}" for what, count in counts.items()))
    yield setting.most("exit code of pytest", done.returncode, 0)
    found = "collected" if setting.dry else "passed"
    yield setting.least(f"tests {found}", counts.get(found, 0), 1)
    yield setting.most("tests skipped", counts.get("skipped", 0), 0)


def counted(output: str) -> dict[str, int]:
    """From pytest's last line that counts, such as `2 failed, 3 passed in 4.5s`."""
    words = "passed|failed|skipped|error|errors|tests? collected"
    for line in reversed(output.splitlines()):
        if found := re.findall(rf"(\d+) ({words})", line):
            return {re.sub(r"^tests? ", "", what).replace("errors", "error"): int(count) for count, what in found}
    return {}
