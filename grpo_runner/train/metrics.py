"""What a step is reported as: one dict for metrics.jsonl, one row a question for questions.parquet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..algorithm import question_rows, zero_variance
from ..policy.batch import Batch
from ..policy.update import Update
from ..types import Group, Reward, Status, Verdict

Row = dict[str, float | int | str | None]


@dataclass(frozen=True)
class Step:
    """All that one step made: Q groups with their verdicts and rewards, and what trained."""

    number: int
    groups: Sequence[Group]
    verdicts: Sequence[Sequence[Verdict]]
    rewards: Sequence[Sequence[Reward]]
    rewards_QG: Tensor
    advantages_QG: Tensor
    batch: Batch
    weights_NT: Tensor
    update: Update


def mean(values: Sequence[float]) -> float | None:
    """None of nothing: a mean that is not defined is not 0."""
    return sum(values) / len(values) if values else None


def step_metrics(made: Step) -> dict[str, float | None]:
    """Means over the completions of the step. accuracy is the checker's word; reward/mean is what trained."""
    rewards_QG, update = made.rewards_QG, made.update
    answers = [completion for group in made.groups for completion in group.completions]
    flat = [verdict for row in made.verdicts for verdict in row]
    scored = [reward for row in made.rewards for reward in row]
    lengths = [len(answer.token_ids) for answer in answers]
    entropies = [
        (answer.entropy, length) for answer, length in zip(answers, lengths, strict=True) if answer.entropy is not None
    ]

    def share(status: Status) -> float:
        return sum(verdict.status is status for verdict in flat) / len(flat)

    return {
        "reward/mean": mean([reward.total for reward in scored]),
        **{f"reward/{part}": mean([reward.parts[part] for reward in scored]) for part in scored[0].parts},
        # two meanings of "reward std", named apart: inside the groups, and over all completions of the step
        "reward/group_std": float(rewards_QG.std(dim=1, correction=0).mean()),
        "reward/batch_std": float(rewards_QG.std(correction=0)),
        "accuracy": share(Status.CORRECT),
        "tokens/sampled": sum(lengths),
        "length/mean": mean(lengths),
        "length/correct": mean([n for n, verdict in zip(lengths, flat, strict=True) if verdict.correct]),
        "length/wrong": mean([n for n, verdict in zip(lengths, flat, strict=True) if not verdict.correct]),
        "truncated": sum(answer.truncated for answer in answers) / len(answers),
        "no_answer": share(Status.NO_ANSWER),
        "timeout": share(Status.TIMEOUT),
        "error": share(Status.ERROR),
        "kl": update.kl,
        # over tokens, so that long answers count by their length, as in the loss under token_mean
        "entropy": sum(e * n for e, n in entropies) / sum(n for _, n in entropies) if entropies else None,
        "clip_fraction": update.clip_fraction,
        "ratio/mean": update.ratio_mean,
        "grad_norm": update.grad_norm,
        "lr": update.lr,
        "updates": update.updates,
        "zero_variance_fraction": float(zero_variance(rewards_QG).double().mean()),
        "weight/total": float(made.weights_NT.abs().sum()),
    }


def step_questions(made: Step) -> list[Row]:
    """One row a question, in the order of the step's slots: what it is, how it went, and what it weighed."""
    shape = made.advantages_QG.shape
    numbers = question_rows(
        rewards_QG=made.rewards_QG,
        correct_QG=torch.tensor([[verdict.correct for verdict in row] for row in made.verdicts]),
        advantages_QG=made.advantages_QG,
        token_weights_QGT=made.weights_NT.view(*shape, -1),
        lengths_QG=made.batch.lengths_N.view(shape),
    )
    kl_QG = None if made.update.kl_N is None else made.update.kl_N.view(shape)
    rows: list[Row] = []
    for slot, (group, values) in enumerate(zip(made.groups, numbers, strict=True)):
        row: Row = {"step": made.number, "slot": slot, "question_id": group.question.id}
        row |= {"question": group.question.text, "gold": group.question.gold, **values}
        row["truncated"] = sum(answer.truncated for answer in group.completions)
        row["kl"] = None if kl_QG is None else float(kl_QG[slot].mean())
        rows.append(row)
    return rows


def step_completions(made: Step) -> list[dict[str, object]]:
    """One row a completion, with its text, for `completions/`."""
    rows: list[dict[str, object]] = []
    for slot, (group, judged, scored) in enumerate(zip(made.groups, made.verdicts, made.rewards, strict=True)):
        for sample, (answer, verdict, reward) in enumerate(zip(group.completions, judged, scored, strict=True)):
            rows.append(
                {
                    "step": made.number,
                    "slot": slot,
                    "sample": sample,
                    "question_id": group.question.id,
                    "question": group.question.text,
                    "gold": group.question.gold,
                    "completion": answer.text,
                    "finish": answer.finish.value,
                    "tokens": len(answer.token_ids),
                    "status": verdict.status.value,
                    "extracted": verdict.extracted,
                    "reward": reward.total,
                    "parts": dict(reward.parts),
                    "advantage": float(made.advantages_QG[slot, sample]),
                }
            )
    return rows
