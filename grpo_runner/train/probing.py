"""The probe of a step: the gradients of other objectives on its answers, as metrics and as a row of probe.jsonl."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from ..algorithm import weigh
from ..objectives import beside
from ..policy.batch import Batch
from ..policy.probe import probe
from .collect import Rollout
from .metrics import known, mean
from .parts import Parts


@dataclass(frozen=True)
class Probed:
    """metrics: norms, cosines and their means over questions, for metrics.jsonl. row: with each question's, or None."""

    metrics: dict[str, float | None]
    row: dict[str, object] | None


def probe_step(
    run: Parts, step: int, rollout: Rollout, batch: Batch, rewards_QG: Tensor, mask_NT: Tensor, parts: Sequence[Tensor]
) -> Probed:
    """Compare the gradients of `tracking.probe` on this step's answers, before the update; nothing when none is due."""
    every = run.config.tracking.probe_every
    if not every or step % every:
        return Probed({}, None)
    began = time.perf_counter()
    weights = {
        name: weigh(rewards_QG, mask_NT, parts, beside(name, run.config)).weights_NT
        for name in run.config.tracking.probe
    }
    found = probe(run.trainer, batch, weights, step)
    within = {pair: mean(known([group[pair] for group in found.groups])) for pair in found.cosine}
    metrics: dict[str, float | None] = {f"probe/norm/{name}": value for name, value in found.norm.items()}
    metrics |= {f"probe/cosine/{pair}": value for pair, value in found.cosine.items()}
    metrics |= {f"probe/group_cosine/{pair}": value for pair, value in within.items()}
    groups = [
        {
            "slot": slot,
            "question_id": group.question.id,
            "success_rate": sum(verdict.correct for verdict in judged) / len(judged),
            "cosine": cosine,
        }
        for slot, (group, judged, cosine) in enumerate(zip(rollout.groups, rollout.verdicts, found.groups, strict=True))
    ]
    row = {"step": step, "norm": found.norm, "cosine": found.cosine, "groups": groups}
    return Probed(metrics | {"time/probe_s": time.perf_counter() - began}, row)
