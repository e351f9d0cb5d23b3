"""What a run recorded of one step's answers, and what each of them weighed, recomputed from rewards and lengths."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import checks, validate
from ..errors import InputError
from ..objectives import Objective, preset
from ..policy.batch import minibatches
from ..schema import RunConfig
from ..tracking import read_questions
from . import figures

_NAME = re.compile(r"step_(\d+)\.jsonl\.zst")
_MOST_SHOWN = 12
RUN = "this run"  # the label of an objective that has no name of its own here


@dataclass(frozen=True)
class Column:
    """What one objective gives the answers of the step, row = slot · G + sample."""

    objective: Objective
    of_the_run: bool
    advantages_N: Tensor
    token_N: Tensor
    total_N: Tensor


@dataclass(frozen=True)
class StepRecord:
    """rows: the answers as recorded, in the order of (slot, sample); columns: the run's objective first.

    question_weights: of each slot, from questions.parquet; empty where it has none. notes: what a reader should know.
    """

    number: int
    method: str
    rows: Sequence[Mapping[str, Any]]
    group_size: int
    columns: Sequence[Column]
    question_weights: Mapping[int, float]
    notes: Sequence[str]


def read(folder: Path, number: int | None) -> StepRecord:
    """The record of a step. Raises InputError where the step's texts were not kept, or the files cannot be read."""
    config = validate.load(folder / "config.yaml")
    rows = _rows(_file(folder, number, config))
    assert number is not None  # _file names the kept steps otherwise
    size = _group_size(rows, folder, number)
    rewards_QG = torch.tensor([row["reward"] for row in rows], dtype=torch.float64).view(-1, size)
    columns = weigh_all(config, number, rewards_QG, torch.tensor([row["tokens"] for row in rows]))
    table = read_questions(folder)
    names = ("step", "slot", "weight")
    recorded = zip(*(table[name].to_pylist() for name in names), strict=True) if table.num_rows else ()
    weights = {slot: weight for step, slot, weight in recorded if step == number}
    return StepRecord(
        number, checks.method_name(config), rows, size, columns, weights, _notes(rows, columns[0], weights, size)
    )


def run_objective(config: RunConfig) -> Objective:
    """The switches that the run trained with."""
    advantage, norm = config.advantage, config.loss_norm
    budget = float(norm.divisor or config.max_new_tokens)
    return Objective(RUN, advantage.baseline, advantage.scale, advantage.ddof, advantage.eps, norm.kind, budget)


def weigh_all(config: RunConfig, step: int, rewards_QG: Tensor, lengths_N: Tensor) -> list[Column]:
    """The run's objective, then GRPO, Dr. GRPO and leave-one-out on the same answers; the run's stands once.

    The optimizer batches are those that trained. GRPO's std follows the run's ddof and eps where the run has a std.
    """
    optim, own = config.optim, run_objective(config)
    parts = minibatches(
        rewards_QG.numel(), rewards_QG.shape[1], optim.updates_per_rollout, optim.minibatch, config.seed, step
    )
    ddof, eps = (own.ddof, own.eps) if own.scale != "none" else (0, 0.0)
    others = [preset(name, ddof, eps, own.budget) for name in ("grpo", "dr_grpo", "rloo")]
    same = [other for other in others if other.same_weights(own)]
    objectives = [*(same or [own]), *(other for other in others if other not in same)]
    return [
        Column(objective, place == 0, *figures.weigh(rewards_QG, lengths_N, objective, parts)[:3])
        for place, objective in enumerate(objectives)
    ]


def kept(folder: Path) -> list[int]:
    """The steps whose texts a run folder holds."""
    found = (_NAME.fullmatch(path.name) for path in (folder / "completions").glob("step_*.jsonl.zst"))
    return sorted(int(match[1]) for match in found if match)


def _file(folder: Path, number: int | None, config: RunConfig) -> Path:
    steps = kept(folder)
    if number in steps:
        return folder / "completions" / f"step_{number:06d}.jsonl.zst"
    every = config.tracking.completions_every
    if not steps:
        raise InputError(f"{folder} holds no texts of any step (tracking.completions_every={every}).")
    shown = ", ".join(map(str, steps if len(steps) <= _MOST_SHOWN else steps[: _MOST_SHOWN - 1]))
    more = f", … to {steps[-1]} ({len(steps)} in all)" if len(steps) > _MOST_SHOWN else ""
    said = f"The texts of step {number} were not kept" if number is not None else "--step is missing"
    raise InputError(f"{said} (tracking.completions_every={every}). Steps of {folder} with texts: {shown}{more}.")


def _rows(path: Path) -> list[dict[str, Any]]:
    import zstandard

    try:
        text = zstandard.ZstdDecompressor().decompress(path.read_bytes()).decode("utf-8")
        # JSON may hold U+2028 and its like as they are: only a line feed ends a row
        rows = [json.loads(line) for line in text.split("\n") if line]
        for row in rows:
            wanted = (int(row["slot"]), int(row["sample"]), int(row["tokens"]), float(row["reward"]))
            texts = (row["question_id"], row["question"], row["completion"], row["status"])
            if min(wanted[:2]) < 0 or not 0 < wanted[2] <= 10**6 or not all(isinstance(text, str) for text in texts):
                raise ValueError
    except (OSError, zstandard.ZstdError, ValueError, KeyError, TypeError):
        raise InputError(f"{path}: not readable as the answers of a step; the file was damaged or changed.") from None
    return sorted(rows, key=lambda row: (row["slot"], row["sample"]))


def _group_size(rows: Sequence[Mapping[str, Any]], folder: Path, number: int) -> int:
    """G; raises InputError unless every slot has the same samples."""
    size = sum(row["slot"] == 0 for row in rows)
    places = [(row["slot"], row["sample"]) for row in rows]
    if size == 0 or places != [divmod(place, size) for place in range(len(rows))] or len(rows) % size:
        raise InputError(f"{folder}: some answers of step {number} are missing, so its groups cannot be weighed.")
    return size


def _notes(rows: Sequence[Mapping[str, Any]], own: Column, weights: Mapping[int, float], size: int) -> list[str]:
    """Where the figures do not agree with what the run recorded while it trained."""
    notes = []
    pairs = zip(own.advantages_N.tolist(), rows, strict=True)
    if any(not _close(found, row["advantage"]) for found, row in pairs if row.get("advantage") is not None):
        notes.append("these advantages are not those that the run recorded: config.yaml or the code has changed since")
    found_Q = own.total_N.abs().view(-1, size).sum(dim=1).tolist()
    if not weights:
        notes.append("questions.parquet has no row of this step, so the weights are not compared with it")
    elif any(not _close(found_Q[slot], weight) for slot, weight in weights.items() if slot < len(found_Q)):
        notes.append("these weights are not those of questions.parquet: config.yaml or the code has changed since")
    return notes


def _close(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-9 * max(1.0, abs(one), abs(other))
