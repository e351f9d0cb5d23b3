"""The simulation held against runs of 1, 2 and 4 processes on this machine. Rates come from single processes alone.

Measured: two sizes of a step by one process (rates), two single processes side by side (how much a busy neighbour
slows), messages by themselves (`meet.py`), what a process does with the whole step (`whole_seconds`). Predicted from
these and the lengths of the very answers: the runs of several processes, which no rate was fitted to.
"""

from __future__ import annotations

import json
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from grpo_runner.parallel import Ranks
from grpo_runner.tracking import jsonl

from . import simulate
from .plan import MEETINGS, PICKLED
from .simulate import Rates, Step, Whole

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = ("evaluation=never", "tracking=off", "device=cpu", "optim.lr=1e-6", "seed=0")
WORLDS = (1, 2, 4)
WARM = 2  # first steps that are left out
# what a row of metrics.jsonl is read for
TIMES = ("time/step_s", "time/rollout_s", "time/reward_s", "time/update_s", "time/rank_wait_s")


def command(world: int, words: Sequence[str], folder: Path) -> list[str]:
    """A run as a user starts it."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world)] if world > 1 else []
    return [sys.executable, *torchrun, "-m", "grpo_runner", *SETTINGS, *words, f"hydra.run.dir={folder}"]


def environment() -> dict[str, str]:
    """One thread a process, so that a process is a core."""
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": paths}


def started(made: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as file:
        return subprocess.Popen(made, env=environment(), cwd=ROOT, stdout=file, stderr=subprocess.STDOUT)


def finished(process: subprocess.Popen[bytes], log: Path) -> None:
    if process.wait():
        sys.exit(f"ended with {process.returncode}:\n" + "\n".join(log.read_text(errors="replace").splitlines()[-10:]))


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """Of each step its times and tokens."""
    return [
        {key: row[key] for key in (*TIMES, "tokens/sampled") if key in row}
        for row in jsonl.rows(folder / "metrics.jsonl")
    ]


def ran(world: int, words: Sequence[str], at_once: int = 1) -> list[list[dict[str, Any]]]:
    """The rows of so many runs, started at once."""
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name) / str(number) for number in range(at_once)]
        processes = [started(command(world, words, folder), folder.with_suffix(".log")) for folder in folders]
        for process, folder in zip(processes, folders, strict=True):
            finished(process, folder.with_suffix(".log"))
        return [rows_of(folder) for folder in folders]


def answers_of(words: Sequence[str], size: int) -> list[Whole]:
    """(Q, G) lengths of the answers of each step: a run by one process that keeps all texts. The draws are the same in
    every run of the same seed, with however many processes.
    """
    from grpo_runner.tracking import texts

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        process = started(command(1, [*words, "tracking.completions_every=1"], folder), folder.with_suffix(".log"))
        finished(process, folder.with_suffix(".log"))
        found = []
        for step in texts.files(folder):
            made = texts.read_texts(folder, step, lambda row: row["tokens"])
            found.append(np.array(made, dtype=np.int64).reshape(-1, size))
        return found


def messages(world: int, bytes_: int, numbers: int) -> dict[str, float]:
    """What `meet.py` prints; nothing takes time for one process."""
    if world == 1:
        return {"meeting_s": 0.0, "gather_s": 0.0, "sum_s": 0.0}
    made = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world)]
    made += [str(Path(__file__).with_name("meet.py")), str(bytes_), str(numbers)]
    out = subprocess.run(made, env=environment(), cwd=ROOT, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(next(line for line in out.splitlines() if line.startswith("{")))
    return found


def whole_seconds(questions: int = 16, size: int = 8, length: int = 2_000) -> float:
    """Seconds of the processor that a process takes for a token of the whole step's answers, whoever sampled them:
    taken out of their message, made into tensors, weighed. Answers of made tokens, all as long.
    """
    import torch

    from grpo_runner.algorithm import token_weights
    from grpo_runner.policy.batch import Batch
    from grpo_runner.types import Completion, Finish, Group, Question

    drawn = np.random.default_rng(0)

    def answer(ids: Whole) -> Completion:
        numbers = tuple(map(float, drawn.random(length)))
        return Completion(tuple(map(int, ids)), "word " * (length // 2), numbers, Finish.EOS)

    groups = [
        Group(Question(str(slot), "?", "1"), (1,) * 256, tuple(map(answer, drawn.integers(0, 150_000, (size, length)))))
        for slot in range(questions)
    ]
    message = pickle.dumps(groups)
    began = time.process_time()
    batch = Batch.of(
        pickle.loads(message)
    )  # our own bytes of a line before, as torch.distributed does with a meeting's
    advantages_NT = torch.ones(batch.mask_NT.shape, dtype=torch.float64)
    parts = [torch.arange(len(batch.mask_NT))]
    token_weights(advantages_NT, batch.mask_NT, batch.groups_N, parts, "constant", length)
    return (time.process_time() - began) / (questions * size * length)


# --- rates from single processes


def middle(rows: Sequence[Mapping[str, Any]], key: str) -> float:
    """The median step: one that another program has disturbed moves it little."""
    return statistics.median(row.get(key, 0.0) for row in rows[WARM:])


def fitted(runs: Sequence[tuple[Sequence[Mapping[str, Any]], Sequence[Whole]]]) -> dict[str, float]:
    """Rates of one process from the median step of each run: sampling by decoding rounds and tokens, the update by a
    fixed part and tokens, grading by answers, the rest of a step by tokens.
    """
    sampled, updated, graded, rest = [], [], [], []
    for rows, lengths in runs:
        tokens = statistics.median(float(one.sum()) for one in lengths[WARM:])
        rounds = statistics.median(float(one.max()) for one in lengths[WARM:])
        sampled.append((rounds, tokens, middle(rows, "time/rollout_s")))
        updated.append((1.0, tokens, middle(rows, "time/update_s")))
        graded.append(middle(rows, "time/reward_s") / lengths[0].size)
        parts = ("time/rollout_s", "time/reward_s", "time/update_s")
        others = statistics.median(row["time/step_s"] - sum(row[part] for part in parts) for row in rows[WARM:])
        rest.append(max(0.0, others) / tokens)
    first, second = solved(sampled), solved(updated)
    return {
        "round_s": first[0], "token_s": first[1], "update_fixed_s": second[0], "update_s": second[1],
        "answer_s": statistics.fmean(graded), "whole_s": statistics.fmean(rest),
    }  # fmt: skip


def solved(rows: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """(a, b) ≥ 0 of y = a·x1 + b·x2, least squares; where one would be below 0 it is 0."""
    table = np.array(rows)
    left, right = table[:, :2], table[:, 2]
    a, b = np.linalg.lstsq(left, right, rcond=None)[0]
    if a < 0 or b < 0:
        a, b = (
            (0.0, left[:, 1] @ right / (left[:, 1] @ left[:, 1]))
            if a < 0
            else (left[:, 0] @ right / (left[:, 0] @ left[:, 0]), 0.0)
        )
    return float(a), float(b)


# --- what several processes should take


def predicted(
    lengths_QG: Whole, world: int, rates: Mapping[str, float], said: Mapping[str, float], neighbour: float, cores: int
) -> Step:
    """A step of `world` processes on so many cores. neighbour: how many times longer work takes beside another busy
    process; said: of `messages`.
    """
    slower = neighbour if world > 1 else 1.0
    shares = [
        lengths_QG[share.start : share.stop]
        for rank in range(world)
        if (share := Ranks(rank, world).share(len(lengths_QG)))
    ]
    works = [rates["round_s"] * s.max() + rates["token_s"] * s.sum() + rates["answer_s"] * s.size for s in shares]
    loads = simulate.update_loads(lengths_QG, 0, world)
    own = Rates(
        round_s=lambda rows, context: rows * 0.0,  # sampling is given as a whole here
        prompt_s=0.0,
        update_s=rates["update_s"],
        update_fixed_s=rates["update_fixed_s"],
        whole_s=rates["whole_s"] * slower * max(1.0, world / cores),
        exchange_s=said["gather_s"] + (MEETINGS - 1) * said["meeting_s"] if world > 1 else 0.0,
        reduce_s=said["sum_s"],
    )
    sampled = simulate.on_cores([slower * work for work in works], cores)
    updated = simulate.on_cores((slower * simulate.update_seconds(loads, own)).tolist(), cores)
    return simulate.step(sampled, updated, float(lengths_QG.sum()), own)


# --- a calibration


@dataclass(frozen=True)
class Case:
    """words: overrides of the runs; small, large: questions of the two sizes of a step, of `size` answers each.
    numbers: of the adapter, whose gradient is summed.
    """

    name: str
    words: tuple[str, ...]
    small: int
    large: int
    size: int
    numbers: int

    def typed(self, questions: int) -> list[str]:
        return [*self.words, f"group_size={self.size}", f"questions_per_step={questions}"]


def calibrated(case: Case, lengths: Mapping[int, Sequence[Whole]], cores: int) -> dict[str, Any]:
    """One repetition: rates, predictions and what was measured. lengths: of `answers_of`, by questions of a step."""
    many, load = case.typed(case.large), os.getloadavg()[0]
    alone = {questions: ran(1, case.typed(questions))[0] for questions in (case.small, case.large)}
    rates = fitted([(alone[questions], lengths[questions]) for questions in alone])
    beside = ran(1, many, at_once=2)
    neighbour = statistics.fmean(middle(rows, "time/step_s") for rows in beside) / middle(
        alone[case.large], "time/step_s"
    )
    bytes_ = int(PICKLED * statistics.fmean(float(found.sum()) for found in lengths[case.large]))
    made = []
    for world in WORLDS:
        said = messages(world, bytes_, case.numbers)
        steps = [predicted(found, world, rates, said, neighbour, cores) for found in lengths[case.large][WARM:]]
        rows = alone[case.large] if world == 1 else ran(world, many)[0]
        expected = {
            "step_s": statistics.median(one.seconds for one in steps),
            "update_s": statistics.median(one.update + one.reduce for one in steps),
            "wait_s": statistics.median(one.waited + one.exchange for one in steps),
        }
        keys = {"step_s": "time/step_s", "update_s": "time/update_s", "wait_s": "time/rank_wait_s"}
        measured = {name: middle(rows, key) for name, key in keys.items()}
        made.append({"world": world, "messages": said, "predicted": expected, "measured": measured})
    return {"load": round(load, 2), "rates": rates, "neighbour": neighbour, "worlds": made}
