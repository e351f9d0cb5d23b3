"""What a run recorded of one step's answers and tokens, and what each answer weighed, recomputed from the rewards."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import validate
from ..algorithm import plug_in
from ..errors import InputError, nearest
from ..method import method_name
from ..objectives import REFERENCES, Objective, beside, budget_of
from ..policy.batch import minibatches
from ..schema import RunConfig
from ..tracking import read_questions
from ..tracking.texts import kept_steps, not_kept, read_texts
from . import figures, tokens
from .show import one_line

RUN = "this run"  # the label of an objective that has no name of its own here


BY_TOKEN = (
    "advantage.credit={}: what tokens got is not of their answer's reward alone. A and the weight of a token are the "
    "means that the run recorded; each token's own is its coefficient"
)


@dataclass(frozen=True)
class Column:
    """What one objective gives the answers of the step, row = slot · G + sample."""

    objective: Objective
    of_the_run: bool
    advantages_N: Tensor
    token_N: Tensor
    total_N: Tensor
    norm_N: Tensor


@dataclass(frozen=True)
class StepRecord:
    """rows: the answers as recorded, in the order of (slot, sample); columns: the run's objective first.

    included: whether each answer counted; tokens: what was recorded of each answer's, None where nothing was computed.
    question_weights: of each slot, from questions.parquet; empty where it has none. notes: what a reader should know.
    """

    number: int
    method: str
    rows: Sequence[Mapping[str, Any]]
    group_size: int
    included: Sequence[bool]
    tokens: Sequence[tokens.Tokens | None]
    columns: Sequence[Column]
    question_weights: Mapping[int, float]
    notes: Sequence[str]

    @property
    def has_tokens(self) -> bool:
        """Whether the run recorded the tokens of this step."""
        return any(tokens.recorded(row) for row in self.rows)

    def slots(self, question: str | None) -> list[int]:
        """The slots of a question, or all of them. Raises InputError for an id that the step does not have."""
        ids = [row["question_id"] for row in self.rows[:: self.group_size]]
        slots = [slot for slot, name in enumerate(ids) if question in (None, name)]
        if not slots:
            names = list(dict.fromkeys(map(one_line, ids)))
            shown = ", ".join(names[:8]) + (f", … ({len(names)} in all)" if len(names) > 8 else "")
            raise InputError(
                f'Step {self.number} has no question "{one_line(question or "")}". It has: {shown}.'
                f"{nearest(question or '', names)}"
            )
        return slots

    def of(self, slot: int) -> range:
        """The rows of a slot."""
        return range(slot * self.group_size, (slot + 1) * self.group_size)


def read(folder: Path, number: int | None) -> StepRecord:
    """The record of a step. Raises InputError where the step's texts were not kept, or the files cannot be read."""
    config = validate.load(folder / "config.yaml")
    plug_in(config.advantage, config.loss_norm)
    every = config.tracking.completions_every
    if number is None or number not in kept_steps(folder, every):
        raise not_kept(folder, number, every)
    rows = read_texts(folder, number, _checked)
    size = _group_size(rows, folder, number)
    counted = [tokens.included(row) for row in rows]
    rewards = [row["reward"] if wanted else math.nan for row, wanted in zip(rows, counted, strict=True)]
    rewards_QG = torch.tensor(rewards, dtype=torch.float64).view(-1, size)
    columns = weigh_all(config, number, rewards_QG, torch.tensor([row["tokens"] for row in rows]))
    by_outcome = config.advantage.credit == "outcome"
    if not by_outcome:
        columns[0] = _as_recorded(columns[0], rows)
    table = read_questions(folder)
    names = ("step", "slot", "weight")
    recorded = zip(*(table[name].to_pylist() for name in names), strict=True) if table.num_rows else ()
    weights = {slot: weight for step, slot, weight in recorded if step == number and weight is not None}
    return StepRecord(
        number=number,
        method=method_name(config),
        rows=rows,
        group_size=size,
        included=counted,
        tokens=[tokens.read(row) for row in rows],
        columns=columns,
        question_weights=weights,
        notes=_notes(rows, columns[0], weights, size) if by_outcome else [BY_TOKEN.format(config.advantage.credit)],
    )


def run_objective(config: RunConfig) -> Objective:
    """The switches that the run trained with."""
    advantage, norm = config.advantage, config.loss_norm
    switches = (advantage.baseline, advantage.scale, advantage.ddof, advantage.eps, norm.kind)
    return Objective(RUN, *switches, budget_of(config))


def weigh_all(config: RunConfig, step: int, rewards_QG: Tensor, lengths_N: Tensor) -> list[Column]:
    """The run's objective, then GRPO, Dr. GRPO and leave-one-out on the same answers; the run's stands once.

    The optimizer batches are those that trained; an excluded answer (a reward of NaN) is in none of them. GRPO's std
    follows the run's ddof and eps where the run has a std.
    """
    optim, own, included_N = config.optim, run_objective(config), ~rewards_QG.isnan().flatten()
    parts = minibatches(included_N, rewards_QG.shape[1], optim.updates_per_rollout, optim.minibatch, config.seed, step)
    others = [beside(name, config) for name in REFERENCES]
    of_reward = config.advantage.credit == "outcome"
    same = [other for other in others if of_reward and other.same_weights(own)]
    objectives = [*(same or [own]), *(other for other in others if other not in same)]
    return [
        Column(objective, place == 0, *figures.weigh(rewards_QG, lengths_N, objective, parts))
        for place, objective in enumerate(objectives)
    ]


def _as_recorded(own: Column, rows: Sequence[Mapping[str, Any]]) -> Column:
    """The run's column with the advantages that it recorded, under its own loss norm."""
    made_N = torch.tensor([row.get("advantage") or 0.0 for row in rows], dtype=torch.float64)
    token_N = made_N * own.norm_N
    lengths_N = torch.tensor([row["tokens"] for row in rows])
    return replace(own, advantages_N=made_N, token_N=token_N, total_N=token_N * lengths_N)


def _checked(row: dict[str, Any]) -> dict[str, Any]:
    """The row; raises one of several errors where it is not an answer."""
    places, texts = ("slot", "sample", "tokens"), ("question_id", "question", "completion", "status")
    if not all(type(row[key]) is int for key in places) or not all(isinstance(row[key], str) for key in texts):
        raise ValueError
    if min(row["slot"], row["sample"]) < 0 or not 0 < row["tokens"] <= 10**6:
        raise ValueError
    for figure in (row["reward"], row.get("advantage")):
        if figure is not None:
            tokens.number(figure)
    tokens.included(row)
    tokens.read(row)
    return row


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
    if not any(map(tokens.recorded, rows)):
        notes.append("this run did not record tokens: what is shown is of whole answers")
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
