#!/usr/bin/env python3
"""This package and TRL side by side: compare.py [--case tiny|smollm2|smollm2_1k] [--model FOLDER] [--dtype …]

Each run is a process of its own, the two take turns, and both get the same model folder, prompts, number of tokens,
LoRA, threads and dtype. A step is all that lies between two calls of the reward that both share (noted_reward.py):
update, log, checkpoint, next rollout. That the work is equal is checked; exits 1 where it is not. TRL runs in an
environment of its own: scripts/bench/setup_trl.sh.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

from cases import CASES, Case, model_folder, prompts, write_questions  # noqa: E402
from running import ROOT, command_line, machine, run_ours, run_trl, write  # noqa: E402

WARM_UP = 2  # first steps of a run that are left out


def settings_of(case: Case, model: Path, data: Path, threads: int, dtype: str, seed: int) -> dict[str, Any]:
    """What both sides are told."""
    common = {"model": str(model), "data": str(data), "threads": threads, "dtype": dtype, "seed": seed}
    return asdict(case) | common | {"alpha": 2 * case.rank, "lr": 1e-5}


def unequal(case: Case, runs: list[dict[str, Any]]) -> list[str]:
    """What is not as it must be for the same work, in words."""
    found = []
    for number, run in enumerate(runs):
        name = f"run {number + 1} ({run['side']})"
        if odd := {tokens for tokens in run["tokens"] if tokens != case.sampled}:
            found.append(f"{name}: steps of {sorted(odd)} tokens, not {case.sampled}")
        if odd := {rows for rows in run["weighted"] if rows != case.rows}:
            found.append(f"{name}: steps with {sorted(odd)} rows that carry weight, not {case.rows}")
        if run["updates"] != case.steps or len(run["tokens"]) != case.steps:
            found.append(f"{name}: {run['updates']} updates in {len(run['tokens'])} steps, not {case.steps}")
    for key, what in (("trainable", "trainable parameters"), ("prompt_tokens", "prompt tokens a step")):
        values = {run["side"]: run[key] for run in runs}
        if len({run[key] for run in runs}) > 1:
            found.append(f"{what} differ: {values}")
    for library in ("torch", "transformers", "peft"):
        if len(seen := {run["versions"][library] for run in runs}) > 1:
            found.append(f"versions of {library} differ: {sorted(seen)}")
    return found


def spread(values: list[float]) -> dict[str, float]:
    """Median, and from the least to the most."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def summary(runs: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of each side: seconds of a step over all runs without the warm-up, memory, tokens a second of sampling."""
    made: dict[str, dict[str, Any]] = {}
    for side in dict.fromkeys(run["side"] for run in runs):
        own = [run for run in runs if run["side"] == side]
        made[side] = {
            "step_s": spread([value for run in own for value in run["steps_s"][WARM_UP:]]),
            "rollout_s": spread([value for run in own for value in run["rollout_s"][WARM_UP:]]),
            "first_rollout_s": spread([run["first_rollout_s"] for run in own]),
            "peak_mib": spread([run["peak_mib"] for run in own]),
            "peak_all_mib": spread([run["peak_all_mib"] for run in own]),
            "tokens_a_step": own[0]["tokens"][0],
            "trainable": own[0]["trainable"],
            "runs": len(own),
            "versions": own[0]["versions"],
        }
        if "update_s" in own[0]:
            made[side]["update_s"] = spread([value for run in own for value in run["update_s"][WARM_UP:]])
    if {"ours", "trl"} <= made.keys():
        ours, trl = made["ours"], made["trl"]
        made["ratio"] = {
            key: trl[key]["median"] / ours[key]["median"] for key in ("step_s", "peak_mib", "peak_all_mib", "rollout_s")
        }
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=CASES, default="tiny")
    parser.add_argument("--model", help="a model folder; for the cases smollm2 and smollm2_1k")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--steps", type=int, help="steps a run, at least 4; the first two are left out")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--trl-env", type=Path, default=ROOT / "build" / "trl-env")
    parser.add_argument("--trl-rows", type=int, help="answers in a micro-batch of TRL's; the case's own by default")
    parser.add_argument("--only", choices=("ours", "trl"), help="one side alone")
    parser.add_argument("--output", type=Path, help="default: docs/speed/CASE_DTYPE.json")
    parser.add_argument("ours", nargs="*", metavar="OVERRIDE", help="further overrides for this package's side")
    asked = parser.parse_args()
    case = CASES[asked.case]
    case = Case(**asdict(case) | {k: v for k in ("steps", "trl_rows") if (v := getattr(asked, k)) is not None})
    if case.steps < WARM_UP + 2:
        parser.error(f"--steps: at least {WARM_UP + 2}")
    if not (where := asked.model or case.model):
        parser.error(f"--case {case.name} needs --model FOLDER (shared/tools/get_smollm2.py makes one)")
    python = asked.trl_env.absolute() / "bin" / "python"
    if asked.only != "ours" and not python.is_file():
        parser.error(f"no TRL in {asked.trl_env}: bash scripts/bench/setup_trl.sh, or --trl-env FOLDER")
    runs, at = [], machine(asked.threads)
    with tempfile.TemporaryDirectory() as name:
        model = model_folder(where, Path(name))
        data = write_questions(Path(name), prompts(case.questions, case.characters, where == "embedded"))
        for repetition in range(asked.repetitions):
            settings = settings_of(case, model, data, asked.threads, asked.dtype, repetition)
            settings["ours"] = asked.ours
            sides = ["ours", "trl"] if repetition % 2 == 0 else ["trl", "ours"]
            for side in [side for side in sides if asked.only in (None, side)]:
                run = run_ours(settings) if side == "ours" else run_trl(settings, python)
                runs.append(run)
                seconds = statistics.median(run["steps_s"][WARM_UP:])
                print(
                    f"{repetition + 1}/{asked.repetitions} {side}: {seconds:.3f} s, {run['peak_mib']:.0f} MiB",
                    flush=True,
                )
    problems = unequal(case, runs)
    made = {
        "kind": "compare",
        "case": asdict(case),
        "dtype": asked.dtype,
        "command": command_line(),
        "machine": at,
        "summary": summary(runs),
        "unequal": problems,
        "runs": runs,
    }
    write(asked.output or ROOT / "docs" / "speed" / f"{case.name}_{asked.dtype}.json", made)
    print("\n".join(problems) or "equal work: tokens, rows with weight, updates, parameters, prompts, versions")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
