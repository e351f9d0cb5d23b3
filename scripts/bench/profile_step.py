#!/usr/bin/env python3
"""Where the time of a step goes, and what share of the machine's own speed it reaches: profile_step.py [--case …]

--case embedded is the default job without evaluation; the others are those of compare.py, and are set beside the
measured speed of matrix products (flops.py says what is counted). Runs in this process; the first two steps are left
out.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

import flops  # noqa: E402
from cases import CASES, model_folder, prompts, write_questions  # noqa: E402
from compare import WARM_UP, settings_of  # noqa: E402
from parts import OVERHEAD, ROLLOUT, UPDATE, Clock, wrap  # noqa: E402
from running import ROOT, command_line, machine, overrides, prompt_tokens, write  # noqa: E402


def train(words: list[str], folder: Path) -> None:
    """One run in this process."""
    from grpo_runner.cli import main as cli

    sys.argv = ["grpo_runner", *words, f"hydra.run.dir={folder}"]
    if code := cli():
        sys.exit(code)


def limit(settings: dict[str, Any], seconds: dict[str, float], step_s: float) -> dict[str, Any]:
    """FLOP a second of sampling, update and step, beside the measured limits."""
    model = flops.shapes(json.loads((Path(settings["model"]) / "config.json").read_text()))
    rows, prompt = settings["questions"] * settings["group_size"], prompt_tokens(settings)
    counted = flops.step_flops(model, settings["rank"], prompt, rows, settings["new_tokens"])
    found = flops.limits(model, settings["dtype"], prompt + rows * settings["new_tokens"], rows)
    parts = [
        ("sampling", counted["rollout"], sum(seconds[part] for part in ROLLOUT), found["decode"]),
        ("update", counted["update"], sum(seconds[part] for part in UPDATE), found["own"]),
    ]
    made = [
        {
            "what": what,
            "gflop": work / 1e9,
            "rate": work / spent / 1e9,
            "of_square": work / spent / 1e9 / found["square"],
            "of_own": work / spent / 1e9 / own,
        }
        for what, work, spent, own in parts
    ]
    whole = sum(counted.values())
    least = sum(work / own for _, work, _, own in parts) / 1e9
    made.append(
        {
            "what": "step",
            "gflop": whole / 1e9,
            "rate": whole / step_s / 1e9,
            "of_square": whole / step_s / 1e9 / found["square"],
            "of_own": least / step_s,
        }
    )
    return {**found, "rows": made}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=["embedded", *CASES], default="embedded")
    parser.add_argument("--model", help="a model folder; for the cases smollm2 and smollm2_1k")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--steps", type=int, help="at least 3; the first two are left out")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--ops", type=int, default=0, help="also print so many of torch's own costliest operations")
    parser.add_argument("--output", type=Path, help="default: docs/speed/profile_CASE_DTYPE.json")
    parser.add_argument("ours", nargs="*", metavar="OVERRIDE", help="further overrides")
    asked = parser.parse_args()
    steps = asked.steps or (32 if asked.case == "embedded" else CASES[asked.case].steps)
    if steps <= WARM_UP:
        parser.error(f"--steps: at least {WARM_UP + 1}")
    command, settings, at = command_line(), None, machine(asked.threads)
    import torch
    from torch.profiler import profile

    torch.set_num_threads(asked.threads)
    clock = Clock()
    with tempfile.TemporaryDirectory() as name:
        if asked.case == "embedded":
            words = ["experiment=quickstart", f"steps={steps}", "evaluation.every=0", "tracking=off"]
            words += [f"dtype={asked.dtype}", *asked.ours]
        else:
            case = CASES[asked.case]
            if not (where := asked.model or case.model):
                parser.error(f"--case {case.name} needs --model FOLDER")
            data = write_questions(Path(name), prompts(case.questions, case.characters))
            model = model_folder(where, Path(name))
            settings = settings_of(case, model, data, asked.threads, asked.dtype, 0)
            settings |= {"steps": steps, "ours": asked.ours}
            words = overrides(settings)
        missing = wrap(clock)
        if asked.ops:
            with profile() as seen:
                train(words, Path(name) / "run")
            print(seen.key_averages().table(sort_by="self_cpu_time_total", row_limit=asked.ops))
        else:
            train(words, Path(name) / "run")
        step_s, seconds = clock.seconds(WARM_UP)
        found = limit(settings, seconds, step_s) if settings else None
    made = {
        "kind": "profile",
        "case": asked.case,
        "dtype": asked.dtype,
        "command": command,
        "machine": at,
        "steps": steps - WARM_UP,
        "step_s": step_s,
        "parts": [{"part": part, "seconds": own, "share": own / step_s} for part, own in seconds.items()],
        "overhead": sum(seconds[part] for part in OVERHEAD) / step_s,
        "missing": missing,
        "limit": found,
    }
    for row in made["parts"]:
        print(f"{row['part']:22} {1000 * row['seconds']:9.1f} ms {row['share']:6.1%}")
    write(asked.output or ROOT / "docs" / "speed" / f"profile_{asked.case}_{asked.dtype}.json", made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
