"""What other objectives would have done with the same answers: the norms of their gradients and the angles between.

The gradient is that of Σ token weight · log π at the policy as it stands, before the first optimizer step: there every
surrogate has ratio 1 and no clip, so that the objectives differ in their weights alone. KL and entropy are not in it.
Nothing is changed: no `.grad` is written and no generator is moved, so that training goes on as without it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .batch import Batch
from .scorer import differentiated
from .update import Trainer

Vector = list[Tensor]  # one tensor a trainable parameter


@dataclass(frozen=True)
class Probe:
    """norm: of each objective's gradient. cosine: of each pair, by "a~b"; None where one of them is 0.

    groups: the cosines within each slot, between the parts of the gradients that this question's answers make.
    """

    norm: dict[str, float]
    cosine: dict[str, float | None]
    groups: list[dict[str, float | None]]


def probe(trainer: Trainer, batch: Batch, weights: Mapping[str, Tensor], step: int) -> Probe:
    """weights: (N, T) token weights of each objective, 0 for what is not in its loss.

    Cost: one forward pass over the answers that weigh anything, and at most one backward pass an objective. Within a
    question, objectives whose weights differ by a factor (GRPO and GRPO without its std) share a pass. Memory: two
    gradients an objective.
    """
    names = list(weights)
    total = [[torch.zeros_like(parameter) for parameter in trainer.named.values()] for _ in names]
    groups = []
    for slot in trainer.ranks.share(int(batch.groups_N.max()) + 1):
        rows = (batch.groups_N == slot).nonzero().squeeze(1)
        given = torch.stack([weights[name][rows] for name in names])
        made = _gradients(trainer, batch, rows, given, step, slot)
        groups.append(_cosines(names, made))
        for sums, vector in zip(total, made, strict=True):
            torch._foreach_add_(sums, vector)
    groups = trainer.ranks.gather(groups, "probe")
    total = [[trainer.ranks.sum(part, "probe") for part in vector] for vector in total]
    norm = {name: _dot(vector, vector) ** 0.5 for name, vector in zip(names, total, strict=True)}
    return Probe(norm, _cosines(names, total), groups)


def _gradients(trainer: Trainer, batch: Batch, rows: Tensor, weights_KNT: Tensor, step: int, slot: int) -> list[Vector]:
    """The gradient of each objective over the rows of one question."""
    parameters = list(trainer.named.values())
    factors, distinct = _directions(weights_KNT)
    sums = [[torch.zeros_like(parameter) for parameter in parameters] for _ in distinct]
    live = weights_KNT.abs().sum(dim=(0, 2)) > 0
    place = {row: line for line, row in enumerate(rows.tolist())}
    with torch.enable_grad(), differentiated(trainer.model), trainer.dropout_draws("probe", step, slot):
        for piece in trainer.score.cut(batch, rows[live], trainer.budget.tokens):
            with trainer.precision():
                logprobs_BT, _ = trainer.score(batch, piece)
            lines = [place[row] for row in piece.tolist()]
            for number, (vector, k) in enumerate(zip(sums, distinct, strict=True)):
                pull_BT = weights_KNT[k][lines, : logprobs_BT.shape[1]].to(logprobs_BT)
                more = number + 1 < len(distinct)
                torch._foreach_add_(vector, _pulled(logprobs_BT, parameters, pull_BT, more))
    return [
        list(torch._foreach_mul(sums[of], factor)) if of is not None else _nothing(parameters) for of, factor in factors
    ]


def _pulled(logprobs_BT: Tensor, parameters: Sequence[Tensor], pull_BT: Tensor, more: bool) -> tuple[Tensor, ...]:
    """The gradient; 0 for a parameter that the answers do not use."""
    return torch.autograd.grad(
        logprobs_BT, parameters, pull_BT, retain_graph=more, allow_unused=True, materialize_grads=True
    )


def _directions(weights_KNT: Tensor) -> tuple[list[tuple[int | None, float]], list[int]]:
    """((which distinct direction, factor) of each objective, the objectives that are the distinct directions)."""
    factors: list[tuple[int | None, float]] = []
    distinct: list[int] = []
    for k, weights_NT in enumerate(weights_KNT):
        size = float(weights_NT.norm())
        if size == 0:
            factors.append((None, 0.0))
            continue
        for of, other in enumerate(distinct):
            factor = float((weights_NT * weights_KNT[other]).sum() / weights_KNT[other].square().sum())
            if float((weights_NT - factor * weights_KNT[other]).norm()) <= 1e-12 * size:
                factors.append((of, factor))
                break
        else:
            factors.append((len(distinct), 1.0))
            distinct.append(k)
    return factors, distinct


def _nothing(parameters: Sequence[Tensor]) -> Vector:
    return [torch.zeros_like(parameter) for parameter in parameters]


def _dot(one: Vector, other: Vector) -> float:
    return sum(float((a.double() * b.double()).sum()) for a, b in zip(one, other, strict=True))


def _cosines(names: Sequence[str], vectors: Sequence[Vector]) -> dict[str, float | None]:
    """Of every pair; None where one of the two is 0."""
    size = [_dot(vector, vector) ** 0.5 for vector in vectors]
    return {
        f"{names[i]}~{names[j]}": min(1.0, max(-1.0, _dot(vectors[i], vectors[j]) / (size[i] * size[j])))
        if size[i] > 0 and size[j] > 0
        else None
        for i, j in itertools.combinations(range(len(names)), 2)
    }
