"""The simulation held against runs of 1, 2 and 4 processes in seconds of the processor: as if each had its own core.

What a process waits, and what other programs take of a machine, is not in these seconds (`timed.py`). So they show,
also on a machine with fewer cores than processes, what the simulation says of unequal answers: the slowest process,
the mean one, and so the idle share.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grpo_runner.parallel import Ranks

from . import simulate
from .calibrate import ROOT, WARM, WORLDS, environment, solved
from .simulate import Rates, Whole

SETTINGS = (
    *("evaluation=never", "tracking=off", "device=cpu", "optim.lr=1e-6", "seed=0", "steps=8", "beta=0"),
    # rewards that differ from answer to answer, so that each has weight in the update
    *("reward=custom", "reward.function=grpo_runner.planning.speed:by_text", "reward.truncated=keep"),
)
SIZE, SMALL, LARGE = 16, 4, 16  # answers of a question; questions of the two sizes of a step


def ran(world: int, questions: int) -> list[dict[str, Any]]:
    """What each process noted."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world)] if world > 1 else []
        words = [*SETTINGS, f"group_size={SIZE}", f"questions_per_step={questions}", f"hydra.run.dir={folder / 'run'}"]
        made = [sys.executable, *torchrun, str(Path(__file__).with_name("timed.py")), str(folder), *words]
        done = subprocess.run(made, env=environment(), cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            sys.exit("\n".join(done.stderr.splitlines()[-10:]))
        return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(world)]


def fitted(runs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Rates of one process, from all steps of its runs: sampling by rounds and tokens, the update by a fixed part and
    tokens.
    """
    sampled, updated = [], []
    for one in runs:
        for rollout_s, update_s, lengths in list(zip(one["rollout_s"], one["update_s"], one["lengths"], strict=True))[
            WARM:
        ]:
            lengths_QG = np.array(lengths)
            sampled.append((float(lengths_QG.max()), float(lengths_QG.sum()), rollout_s))
            updated.append((1.0, float(lengths_QG.sum()), update_s))
    first, second = solved(sampled), solved(updated)
    return {"round_s": first[0], "token_s": first[1], "update_fixed_s": second[0], "update_s": second[1]}


def expected(lengths_QG: Whole, world: int, rates: Mapping[str, float]) -> dict[str, list[float]]:
    """Seconds of each process's sampling and update."""
    own = Rates(
        lambda rows, context: rates["round_s"] + rates["token_s"] * rows,
        0.0,
        rates["update_s"],
        rates["update_fixed_s"],
    )
    shares = simulate.by_replica(lengths_QG, world)
    loads = simulate.update_loads(lengths_QG, 0, world)
    return {
        "rollout_s": simulate.rollout(shares, 0, np.zeros(world), shares.shape[1], own).tolist(),
        "update_s": simulate.update_seconds(loads, own).tolist(),
    }


def summed(steps: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, float]:
    """Means over steps of the slowest process's seconds, and the share in which the mean one would wait."""
    found = {}
    for what in ("rollout_s", "update_s"):
        slowest = [max(one[what]) for one in steps]
        found[what] = statistics.fmean(slowest)
        found[f"{what.removesuffix('_s')}_idle"] = 1 - sum(statistics.fmean(one[what]) for one in steps) / sum(slowest)
    return found


def repetition() -> dict[str, Any]:
    """Rates from one process, and the predicted and measured seconds of each number of processes."""
    load = os.getloadavg()[0]
    alone = {questions: ran(1, questions)[0] for questions in (SMALL, LARGE)}
    rates = fitted([*alone.values()])
    made = []
    for world in WORLDS:
        noted = [alone[LARGE]] if world == 1 else ran(world, LARGE)
        lengths = [
            np.concatenate([np.array(one["lengths"][step]).reshape(-1, SIZE) for one in noted])
            for step in range(len(noted[0]["lengths"]))
        ]
        assert all(len(one) == LARGE for one in lengths) and len(Ranks(0, world).share(LARGE)) == len(
            noted[0]["lengths"][0]
        )
        measured = [
            {what: [one[what][step] for one in noted] for what in ("rollout_s", "update_s")}
            for step in range(WARM, len(lengths))
        ]
        said = summed([expected(one, world, rates) for one in lengths[WARM:]])
        made.append({"world": world, "predicted": said, "measured": summed(measured)})
    return {"load": round(load, 2), "rates": rates, "worlds": made}
