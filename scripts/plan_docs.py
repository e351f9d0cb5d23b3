#!/usr/bin/env python3
"""docs/plan.md: what `plan` prints for some presets. plan_docs.py writes the page, and keeps the times that it has.

plan_docs.py              write the page
plan_docs.py --times      measure how long `plan` and `--help` take, and write them too (on an idle machine)
"""

from __future__ import annotations

import argparse
import io
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

import plan_check  # noqa: E402
from rich.console import Console  # noqa: E402

from grpo_runner.planning.devices import GB  # noqa: E402
from grpo_runner.planning.made import make  # noqa: E402
from grpo_runner.planning.page import show  # noqa: E402
from grpo_runner.planning.words import read  # noqa: E402

PAGE = ROOT / "docs" / "plan.md"
MEMORY = 32 * GB
WIDTH = 110
PRESETS = (
    (
        "experiment=dr_grpo_oat_zero_7b",
        "data.train.path=understand-r1-zero/datasets/train/math_lvl3to5_8k/train/data-00000-of-00001.arrow",
        "beta=0.04",
    ),
    ("experiment=deepseekmath_grpo", "--success-rate", "0.9"),
    ("experiment=dapo_32b", "--processes", "64"),
    ("experiment=verl_gsm8k_lora_7b", "device=cuda"),
    ("experiment=grpo_vs_dr_grpo",),
)
RUNS = 5
TIMED = {
    "plan": ["plan", "experiment=dr_grpo_oat_zero_7b"],
    "--help": ["--help"],
}
TIMES = re.compile(r"(?<=<!-- times -->\n).*?(?=<!-- /times -->)", re.DOTALL)

HEAD = f"""\
# What a run will be: `plan`

    python -m grpo_runner plan experiment=NAME [overrides] [flags]

It composes the run as it would run, and loads neither torch nor a model. Four sections: what it is, what happens, what
it needs, what will bite. `plan --help` has its flags.

- **What it is.** The method's name, the objective with the values in, each switch with where its value is from
  (`docs/facts.csv` where the preset has facts), what the overrides change against the preset, and where a library's
  convention departs from the paper's formula.
- **What it needs** is worked out from the model's sizes (`planning/models.json`, or a local folder's config.json) by
  `planning/needs.py`, with every answer as long as it may be and prompts of the mean length of the questions, where
  these are known (`planning/prompt_length.py`), else of `data.max_prompt_tokens`; `optim.microbatch_tokens=auto` takes
  what is free, so that the update is shown with the micro-batch that each device allows. On a CPU the figure is held
  to measured peaks within 20 % (below, and in `tests/planning/test_measured.py`). On GPUs nothing was measured. The
  line `fits` says "no" where even a single answer at a time does not fit, and what to change is said below it: first
  what leaves the run as it is, then its rounding, then what is trained.
- **Time** is only told where it was measured: `plan --calibrate` makes two steps of the run, and keeps tokens a second
  in the user's cache (`~/.cache/grpo_runner/speed.json`) for later plans of such runs on that machine.
- **What will bite** is what `advice.py` tells every run, and complaints in other trainers' issues, each with its key;
  those of which the preset's source has it so come last, and say "as published".

Below, the machine has {MEMORY // GB} GB of memory; `python scripts/plan_docs.py` writes this page.
"""
AFTER = """\
## Predicted and measured memory

High-water marks of CPU runs of two steps (`tests/planning/peaks.json`, which names the commit):
`python scripts/plan_check.py --smollm2 FOLDER --record`. Answers of the embedded model end before their budget, and
its runs need next to nothing beside Python and its libraries: their predictions are above.

{check}

## How long it takes

<!-- times -->
{times}<!-- /times -->
"""


def screen(words: Sequence[str]) -> str:
    """What `plan` prints, as text."""
    console = Console(file=io.StringIO(), width=WIDTH, highlight=False, markup=False, emoji=False, color_system=None)
    show(make(read(words), memory=MEMORY, remembered=False), console)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def page(before: str, times: str | None = None) -> str:
    """The whole page; what was measured stays as it stands in the page `before`, unless times are given."""
    kept = TIMES.search(before)
    parts = [HEAD]
    for words in PRESETS:
        shown = " ".join(words)
        parts.append(f"## `plan {shown}`\n\n```text\n{screen(words)}\n```\n")
    parts.append(
        AFTER.format(
            check="\n".join(plan_check.lines(plan_check.recorded())),
            times=times or (kept[0] if kept else "Not measured: `python scripts/plan_docs.py --times`.\n"),
        )
    )
    return "\n".join(parts)


def measure() -> str:
    """A table of seconds, each of a process of its own."""
    rows = []
    for words in TIMED.values():
        seconds = []
        for _ in range(RUNS):
            began = time.perf_counter()
            command = [sys.executable, "-m", "grpo_runner", *words]
            subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
            seconds.append(time.perf_counter() - began)
        spread = f"{statistics.median(seconds):.2f} ({min(seconds):.2f}–{max(seconds):.2f})"
        rows.append(f"| `python -m grpo_runner {' '.join(words)}` | {spread} | {RUNS} |")
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    head = "| command | seconds, median (least–most) | runs |\n| --- | --- | ---: |\n"
    load = f"load {os.getloadavg()[0]:.1f} before"
    said = f"\n\n`python scripts/plan_docs.py --times`, commit {commit}, {os.cpu_count()} cores, {load}.\n"
    return head + "\n".join(rows) + said


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", action="store_true", help="measure the times too")
    asked = parser.parse_args(arguments)
    before = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    PAGE.write_text(page(before, measure() if asked.times else None), encoding="utf-8")
    print(f"written: {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
