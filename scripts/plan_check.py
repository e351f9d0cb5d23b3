#!/usr/bin/env python3
"""What `plan` predicts of a CPU run's memory beside the measured peak: plan_check.py [--smollm2 FOLDER] [--only NAME]

Each case is a run of two steps in a process of its own, whose high-water mark is read from /proc (Linux); its grading
processes are not in it. Exits 1 where a prediction is more than 20 % off. --record keeps what was measured in
tests/planning/peaks.json, which docs/plan.md shows and the tests hold predictions to. FOLDER: SmolLM2-135M as a Hugging
Face folder; without it those cases are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from grpo_runner.planning.made import make  # noqa: E402
from grpo_runner.planning.words import read  # noqa: E402

MIB = 2**20
BOUND = 0.2
POLL_S = 0.02
PEAKS = ROOT / "tests" / "planning" / "peaks.json"
# of the machine that predictions are made for: micro-batches depend on it, once it is small
MEMORY = 24 * 10**9
# every answer has weight, whatever the model can do, and none is evaluated
COMMON = [
    *("reward=custom", "reward.function=grpo_runner.planning.speed:by_text", "reward.truncated=keep", "device=cpu"),
    *("steps=2", "evaluation=never", "tracking=off", "checkpoint.every=0"),
]
SMOLLM2 = ["prompt=chat_boxed", "data.max_prompt_tokens=128"]
HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
FULL = ("lora=off", "optim=full_finetune")


class Case(NamedTuple):
    """size: questions, answers each, tokens each. prompt: tokens of its prompts, about. large: of SmolLM2-135M."""

    name: str
    size: tuple[int, int, int]
    overrides: tuple[str, ...] = ()
    large: bool = False

    @property
    def prompt(self) -> int:
        return 70 if self.large else 14

    @property
    def title(self) -> str:
        return f"{self.name}, {' × '.join(map(str, self.size))}"


CASES = (
    Case("embedded", (1, 2, 4)),
    Case("embedded", (8, 8, 32)),
    Case("embedded, group of 16", (64, 16, 96)),
    Case("embedded, all weights", (8, 8, 32), FULL),
    Case("embedded, transformers, padded", (32, 8, 64), ("rollout=transformers", "optim.packing=false")),
    Case("SmolLM2", (4, 8, 64), (), True),
    Case("SmolLM2, bfloat16", (1, 4, 16), ("dtype=bfloat16",), True),
    Case("SmolLM2, merge_lora off, checkpointing", (2, 8, 32),
         ("rollout.merge_lora=false", "model.gradient_checkpointing=true"), True),
    Case("SmolLM2, group of 16, short", (2, 16, 16), (), True),
    Case("SmolLM2, transformers, padded", (2, 4, 32), ("rollout=transformers", "optim.packing=false"), True),
    Case("SmolLM2, all weights", (1, 4, 32), FULL, True),
    Case("SmolLM2, all weights, no KL, bfloat16", (1, 4, 16), (*FULL, "beta=no_kl", "dtype=bfloat16"), True),
)  # fmt: skip


def overrides(case: Case, smollm2: str | None) -> list[str]:
    """As typed for a run, and for plan. smollm2: a folder, or the hub id."""
    questions, size, tokens = case.size
    counts = [f"questions_per_step={questions}", f"group_size={size}", f"max_new_tokens={tokens}"]
    return [*([f"model.path={smollm2 or HUB_ID}", *SMOLLM2] if case.large else []), *COMMON, *counts, *case.overrides]


def predicted(case: Case) -> int:
    """Bytes."""
    words = [*overrides(case, None), "--prompt-tokens", str(case.prompt)]
    made = make(read(words), memory=MEMORY, remembered=False)
    return next(found for found in made.needs if found.place.kind == "cpu").most


def measured(case: Case, smollm2: str | None) -> int:
    """Bytes: the high-water mark of the run's own process."""
    with tempfile.TemporaryDirectory() as folder:
        words = [*overrides(case, smollm2), f"hydra.run.dir={folder}/run"]
        return high_water([sys.executable, "-m", "grpo_runner", *words])


def high_water(command: Sequence[str]) -> int:
    """Bytes of the peak of a process, VmHWM of /proc. Exits where it fails."""
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT), "TOKENIZERS_PARALLELISM": "false"}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    peak = 0
    while process.poll() is None:
        try:
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        except OSError:
            break
        peak = max([peak, *(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))])
        time.sleep(POLL_S)
    _, errors = process.communicate()
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{errors[-2000:]}")
    return peak


def recorded() -> dict[str, int]:
    """{title: bytes} of peaks.json; {} before there is one."""
    if not PEAKS.exists():
        return {}
    found: dict[str, int] = json.loads(PEAKS.read_text(encoding="utf-8"))["peaks"]
    return found


def record(peaks: dict[str, int]) -> None:
    """Add to peaks.json, in the order of the cases; others that it has are kept."""
    known = recorded() | peaks
    git = ["git", "describe", "--always", "--dirty"]
    values = {
        "about": "bytes: high-water marks of a run's process, written by scripts/plan_check.py --record",
        "commit": subprocess.run(git, cwd=ROOT, capture_output=True, text=True).stdout.strip(),
        "threads": os.environ.get("OMP_NUM_THREADS", str(os.cpu_count())),
        "torch": version("torch"),
        "peaks": {case.title: known[case.title] for case in CASES if case.title in known},
    }
    PEAKS.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def lines(peaks: dict[str, int]) -> list[str]:
    """The table, of the cases that were measured."""
    head = [
        "| questions × answers × tokens | predicted, MiB | measured, MiB | off by |",
        "| --- | ---: | ---: | ---: |",
    ]
    rows = [(case.title, predicted(case), peaks[case.title]) for case in CASES if case.title in peaks]
    return head + [f"| {t} | {told / MIB:.0f} | {peak / MIB:.0f} | {told / peak - 1:+.1%} |" for t, told, peak in rows]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; gives 1 where a prediction is too far off."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smollm2", metavar="FOLDER", help="SmolLM2-135M as a folder")
    parser.add_argument("--only", metavar="NAME", default="", help="cases whose title holds this")
    parser.add_argument("--record", action="store_true", help=f"write {PEAKS.relative_to(ROOT)}")
    asked = parser.parse_args(arguments)
    cases = [case for case in CASES if asked.only in case.title and (asked.smollm2 or not case.large)]
    print("\n".join(lines({})), flush=True)
    far = False
    for case in cases:
        peak = {case.title: measured(case, asked.smollm2)}
        far |= abs(predicted(case) / peak[case.title] - 1) > BOUND
        print(lines(peak)[-1], flush=True)
        if asked.record:
            record(peak)
    return int(far)


if __name__ == "__main__":
    sys.exit(main())
