#!/usr/bin/env python3
"""What `plan` predicts of a CPU run's memory beside the measured peak: plan_check.py [--smollm2 FOLDER] [--only NAME]

Each case is a run of two steps in a process of its own, whose high-water mark is read from /proc (Linux); its grading
processes are not in it. `libraries` is a process that only imports what a run imports. Exits 1 where a prediction is
more than 20 % off. FOLDER: SmolLM2-135M as a Hugging Face folder; without it those cases are left out.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from grpo_runner.planning import needs  # noqa: E402
from grpo_runner.planning.made import make  # noqa: E402
from grpo_runner.planning.words import read  # noqa: E402

MIB = 2**20
BOUND = 0.2
POLL_S = 0.02
# every answer has weight, whatever the model can do, and none is evaluated
COMMON = [
    *("reward=custom", "reward.function=grpo_runner.planning.speed:by_text", "reward.truncated=keep", "device=cpu"),
    *("steps=2", "evaluation=never", "tracking=off", "checkpoint.every=0"),
]
SMOLLM2 = ["prompt=chat_boxed", "data.max_prompt_tokens=128", "questions_per_step=4", "max_new_tokens=64", "beta=0"]
IMPORTS = "import grpo_runner.train, transformers, peft, datasets; from transformers import AutoModelForCausalLM"


class Case(NamedTuple):
    """prompt: tokens of its prompts, about. model: `smollm2` where it needs the folder."""

    name: str
    overrides: tuple[str, ...]
    prompt: int
    model: str = ""


CASES = (
    Case("embedded", (), 14),
    Case("embedded, 64 × 16 × 96 tokens", ("questions_per_step=64", "group_size=16", "max_new_tokens=96"), 14),
    Case("embedded, all weights", ("lora=off", "optim=full_finetune"), 14),
    Case("SmolLM2, 4 × 8 × 64, float32", (*SMOLLM2,), 70, "smollm2"),
    Case("SmolLM2, 4 × 8 × 64, bfloat16", (*SMOLLM2, "dtype=bfloat16"), 70, "smollm2"),
    Case("SmolLM2, 8 × 16 × 128, float32",
         (*SMOLLM2, "questions_per_step=8", "group_size=16", "max_new_tokens=128"), 70, "smollm2"),
    Case("SmolLM2, all weights, float32", (*SMOLLM2, "lora=off", "optim=full_finetune"), 70, "smollm2"),
)  # fmt: skip


def overrides(case: Case, smollm2: str | None) -> list[str]:
    """As typed for a run, and for plan."""
    return [*([f"model.path={smollm2}"] if case.model else []), *COMMON, *case.overrides]


def predicted(case: Case, smollm2: str | None) -> int:
    """Bytes."""
    made = make(read([*overrides(case, smollm2), "--prompt-tokens", str(case.prompt)]), remembered=False)
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


def libraries() -> int:
    """Bytes of a process that imports what a run imports, and does nothing."""
    return high_water([sys.executable, "-c", IMPORTS])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; gives 1 where a prediction is too far off."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smollm2", metavar="FOLDER", help="SmolLM2-135M as a folder")
    parser.add_argument("--only", metavar="NAME", default="", help="cases whose name holds this")
    asked = parser.parse_args(arguments)
    cases = [case for case in CASES if asked.only in case.name and (asked.smollm2 or not case.model)]
    print("| case | predicted, MiB | measured, MiB | off by |\n| --- | ---: | ---: | ---: |")
    print(_row("libraries alone", needs.LIBRARIES, libraries()), flush=True)
    far = False
    for case in cases:
        told, found = predicted(case, asked.smollm2), measured(case, asked.smollm2)
        far |= abs(told / found - 1) > BOUND
        print(_row(case.name, told, found), flush=True)
    return int(far)


def _row(name: str, told: int, found: int) -> str:
    return f"| {name} | {told / MIB:.0f} | {found / MIB:.0f} | {told / found - 1:+.1%} |"


if __name__ == "__main__":
    sys.exit(main())
