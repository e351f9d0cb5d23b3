#!/usr/bin/env python3
"""A plan on paper for 7B, 32B and 70B with LoRA on 8 to 1,024 GPUs, and how its simulation does on this machine.

scale.py                       print the tables of docs/scale.md, from its files
scale.py --write               work all out again (a minute): docs/scale/plan.json, the tables and the picture
scale.py --tables              only write the tables again, from the files
scale.py --calibrate 3         measure 1, 2 and 4 processes on this (idle) machine three times, then write
scale.py --calibrate 3 --model FOLDER    the same with a model of your own beside the embedded one
scale.py --own-core 3          the same in seconds of the processor, which other programs disturb little
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from scripts.cluster import page, picture  # noqa: E402


def calibrate(repetitions: int, model: str | None) -> dict[str, Any]:
    """What the calibration's file holds."""
    from grpo_runner.planning import models
    from scripts.bench.running import commit, machine
    from scripts.cluster.calibrate import Case, answers_of, calibrated, whole_seconds

    def numbers(path: str) -> int:
        sizes = models.find(path).sizes
        assert sizes is not None, f"{path}: its sizes are not known"
        return sizes.lora(16)

    at = machine(1)
    cases = [Case("The embedded model, 32 questions × 16 answers", ("steps=12",), 8, 32, 16, numbers("embedded"))]
    typed = ["python", "scripts/scale.py", "--calibrate", str(repetitions)]
    if model:
        name = f"{Path(model).name}, 8 questions × 4 answers of at most 24 tokens"
        words = ("steps=4", "max_new_tokens=24", f"model.path={model}")
        cases.append(Case(name, words, 4, 8, 4, numbers(model)))
        typed += ["--model", "FOLDER"]
    found: dict[str, Any] = {"machine": at, "whole_token_s": [], "cases": []}
    for case in cases:
        lengths = {questions: answers_of(case.typed(questions), case.size) for questions in (case.small, case.large)}
        made = []
        for number in range(repetitions):
            print(f"{case.name}: {number + 1} of {repetitions}", flush=True)
            found["whole_token_s"].append(whole_seconds())
            made.append(calibrated(case, lengths, at["cores"]))
        said = {"name": case.name, "command": shlex.join(typed), "commit": commit(), "date": time.strftime("%Y-%m-%d")}
        found["cases"].append({**said, "repetitions": made})
    return found


def own_core(repetitions: int) -> dict[str, Any]:
    """What the calibration's file gains."""
    from scripts.bench.running import commit, machine
    from scripts.cluster.calibrate import whole_seconds
    from scripts.cluster.own_core import repetition

    at, whole = machine(1), whole_seconds()
    made = [repetition() for _ in range(repetitions)]
    said = {"command": f"python scripts/scale.py --own-core {repetitions}", "commit": commit()}
    found = {**said, "date": time.strftime("%Y-%m-%d"), "repetitions": made}
    return {"machine": at, "whole_token_s": [whole], "own_core": found}


def whole_s(found: dict[str, Any]) -> float:
    """Seconds a token of the whole step, as measured; the median."""
    taken = sorted(found.get("whole_token_s", ()))
    return page.four(taken[len(taken) // 2]) if taken else page.WHOLE_S


def main(arguments: Sequence[str] | None = None) -> int:
    """Print, write or calibrate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--tables", action="store_true")
    parser.add_argument("--calibrate", type=int, metavar="TIMES", help="on an idle machine")
    parser.add_argument("--own-core", type=int, metavar="TIMES", help="seconds of the processor")
    parser.add_argument("--model", help="a model folder beside the embedded one, of the calibration")
    asked = parser.parse_args(arguments)
    if asked.calibrate:
        page.write(page.CALIBRATION, page.read(page.CALIBRATION) | calibrate(asked.calibrate, asked.model))
    if asked.own_core:
        page.write(page.CALIBRATION, page.read(page.CALIBRATION) | own_core(asked.own_core))
    found = page.read(page.CALIBRATION)
    if asked.write or asked.calibrate or asked.own_core or not page.PLAN.exists():
        page.write(page.PLAN, page.made(whole_s(found)))
        picture.draw(page.read(page.PLAN), page.PICTURE)
    if asked.write or asked.calibrate or asked.own_core or asked.tables:
        text = page.PAGE.read_text(encoding="utf-8")
        page.PAGE.write_text(page.filled(text, page.read(page.PLAN), found), encoding="utf-8")
        print(f"written: {page.PAGE}")
        return 0
    plan = page.read(page.PLAN)
    for part in (
        page.memory(plan),
        page.steps(plan),
        page.both(plan),
        page.bytes_(plan),
        page.sensitivity(plan),
        page.calibration(found),
    ):
        print(part, end="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
