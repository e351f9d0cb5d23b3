#!/usr/bin/env python3
"""Processes killed (SIGKILL) at random moments: kills.py [runs|saves] [--kills 25] [--seed 0] [--control]

runs: a job on the embedded model is killed and typed again, a kill to each start, the third of them aimed at a moment
inside a save, until it is done; then the next folder, until there were --kills of them. Each finished folder is held
against one that was left alone: metrics, evaluations (times aside), questions.parquet, texts and adapter, byte by byte.
--control: the same with a start that does not drop the rows which come after its checkpoint.

saves: a process that saves one checkpoint after another is killed --kills times. After each kill the newest checkpoint
that counts has to load whole, and to be the one that was said to be saved last, or the one after. --control: saves in
place, without the folder aside and its rename.

Processes are forked from one that has made the imports. Exits 1 where something is wrong, or a control finds nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from grpo_runner.errors import MachineError  # noqa: E402
from grpo_runner.files import write_json  # noqa: E402
from tests.program import CONTEXT, Program, as_program  # noqa: E402

EVERY = "checkpoint.every=2"  # so that there are rows after the checkpoint


def forgetful(*given: Any) -> None:
    """A process whose start keeps the rows that come after its checkpoint."""
    from grpo_runner.tracking import jsonl

    jsonl.keep_before = lambda path, step: None  # type: ignore[assignment]
    as_program(*given)


def where(folder: Path) -> str:
    """What a killed process was at, by what it left."""
    rows = folder / "metrics.jsonl"
    if list((folder / "checkpoints").glob(".tmp_*")):
        return "inside a save"
    if not rows.exists():
        return "before the first row"
    made = rows.read_text().count("\n")
    saved = max((int(one.name[5:]) for one in (folder / "checkpoints").glob("step_*")), default=0)
    return "between checkpoints" if made > saved else "at a checkpoint or after the last step"


def kill(process: Program, folder: Path, draw: random.Random, in_a_save: bool, span: float) -> bool:
    """Kill it at a moment of the draw; False where it was done before."""
    if in_a_save:
        delay = draw.uniform(0, 0.01)
        while process.poll() is None and not list((folder / "checkpoints").glob(".tmp_*")):
            time.sleep(0.0002)
    else:
        delay = draw.uniform(0, span)
    until = time.perf_counter() + delay
    while process.poll() is None and time.perf_counter() < until:
        time.sleep(0.0005)
    alive = process.poll() is None
    process.kill()
    process.wait()
    return alive


def runs(kills: int, seed: int, control: bool) -> int:
    from tests.crash.test_resume import JOB, results

    with tempfile.TemporaryDirectory() as made:

        def start(folder: Path) -> Program:
            return Program(*JOB, EVERY, f"hydra.run.dir={folder}", target=forgetful if control else None)

        began = time.perf_counter()
        whole = Path(made) / "whole"
        Program(*JOB, EVERY, f"hydra.run.dir={whole}").wait()
        span = time.perf_counter() - began
        wanted, draw, at, killed, equal, folders = results(whole), random.Random(seed), Counter[str](), 0, 0, 0
        while killed < kills:
            folders += 1
            folder, spoilt = Path(made) / f"run_{folders}", ""
            while not (folder / "DONE").exists():
                process = start(folder)
                if killed < kills and killed < 5 * folders:  # five to a folder: each has to come to its end
                    if kill(process, folder, draw, killed % 3 == 2, span):
                        killed += 1
                        at[where(folder)] += 1
                        continue
                elif process.wait() == 0:
                    continue
                if process.wait() != 0:
                    spoilt = process.communicate()[0].strip().splitlines()[-1]
                    break
            found = None if spoilt else results(folder)
            equal += found == wanted
            for name in wanted if found else ():
                if found and found[name] != wanted[name]:
                    print(f"{folder.name}: {name} differs")
            if spoilt:
                print(f"{folder.name}: {spoilt}")
        said = ", ".join(f"{count} {place}" for place, count in sorted(at.items()))
        print(f"{killed} kills ({said}) over {folders} folders: {equal} of {folders} equal to the one left alone")
        print(f"{time.perf_counter() - began:.0f} s")
    return equal == folders


def save_for_ever(root: str, step: int, in_place: bool, ready: str) -> None:
    """Saves step after step, and notes each that is said to be saved."""
    import torch

    from grpo_runner.train.checkpoint import Checkpoints

    if in_place:
        in_place_of(Checkpoints)
    checkpoints = Checkpoints(Path(root), keep=2)
    while True:
        tensors = {name: torch.full((50_000,), float(step)) for name in ("a", "b")}
        checkpoints.save(step, tensors, tensors)
        write_json(Path(ready), {"step": step})
        step += 1


def in_place_of(kind: Any) -> None:
    """The control: what is saved stands from the first byte on where it counts."""
    from safetensors.torch import save_file

    def save(self: Any, step: int, policy: Any, optimizer: Any) -> None:
        folder = self.root / f"step_{step:06d}"
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("adapter", "optimizer"):
            save_file(policy, folder / f"{name}.safetensors")
        write_json(folder / "state.json", {"step": step})

    kind.save = save


def saves(kills: int, seed: int, control: bool) -> int:
    from grpo_runner.train.checkpoint import Checkpoints

    draw, wrong, loaded, torn, step = random.Random(seed), list[str](), Counter[str](), 0, 1
    with tempfile.TemporaryDirectory() as made:
        root, ready = Path(made) / "checkpoints", Path(made) / "ready.json"
        for _ in range(kills):
            ready.unlink(missing_ok=True)
            process = CONTEXT.Process(target=save_for_ever, args=(str(root), step, control, str(ready)))
            process.start()
            while not ready.exists() and process.is_alive():
                time.sleep(0.0005)
            time.sleep(draw.uniform(0, 0.05))
            process.kill()
            process.join()
            noted, said = json.loads(ready.read_text())["step"], list[str]()
            torn += bool(list(root.glob(".tmp_*")))
            try:
                found = Checkpoints(root, keep=2).latest(said.append)
            except MachineError as error:
                wrong.append(str(error).splitlines()[0])
                break
            wrong += said  # one that counts and is damaged
            loaded["the one said to be saved" if found and found.step == noted else "the one after it"] += 1
            if found is None or found.step not in (noted, noted + 1):
                wrong.append(f"{found and found.step} loads where {noted} was saved")
                break
            for part in (found.policy, found.optimizer):
                wrong += [f"{name} of another step" for name, value in part.items() if not (value == found.step).all()]
            step = found.step + 1
    said_loaded = ", ".join(f"{count} × {what}" for what, count in loaded.items())
    print(f"{kills} kills, {torn} of them inside a save, {step - 1} saves; loaded: {said_loaded}; wrong: {len(wrong)}")
    for text in wrong[:3]:
        print(f"  {text}")
    return not wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("runs", "saves"))
    parser.add_argument("--kills", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--control", action="store_true")
    asked = parser.parse_args()
    kills = asked.kills or {"runs": 25, "saves": 60}[asked.what]
    sound = {"runs": runs, "saves": saves}[asked.what](kills, asked.seed, asked.control)
    return int(sound == asked.control)


if __name__ == "__main__":
    sys.exit(main())
