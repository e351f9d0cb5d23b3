"""The real Trainer's gradient of one optimizer batch, computed in ways that must not matter."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import torch

from grpo_runner import algorithm
from grpo_runner.policy.batch import Batch, Padded
from grpo_runner.policy.update import Trainer
from tests.helpers import changed, random_groups, tiny_llama
from tests.proof.draws import CPU, base_config, shaken

QUESTIONS, SIZE, BUDGET = 3, 4, 16
ROWS = QUESTIONS * SIZE
EXCLUDED = (0, 5, 8, 9, 10, 11)  # one answer of the first group, one of the second, all of the third
SHARE = torch.linspace(-1.5, 2.0, ROWS, dtype=torch.float64)


def cases():
    """(norm, surrogate, estimator or None, extra or None): each norm with every one of the others."""
    rest = [("token", estimator, None) for estimator in (None, *algorithm.ESTIMATORS)]
    rest += [(surrogate, None, None) for surrogate in algorithm.SURROGATES if surrogate != "token"]
    rest += [("token", None, extra) for extra in EXTRAS]
    return [(kind, *others) for kind in algorithm.LOSS_NORMS for others in rest]


def crossed(case) -> bool:
    """Each norm as it is by default, and one norm with each of the others: the norm multiplies all the rest."""
    kind, *others = case
    return kind == next(iter(algorithm.LOSS_NORMS)) or others == ["token", None, None]


EXTRAS = {
    "importance_token": {"rollout__importance": "token", "rollout__importance_cap": 1.2},
    "importance_sequence": {"rollout__importance": "sequence"},
    "entropy": {"entropy_bonus": 0.2},
}


class Cut(Batch):
    """A batch that is cut into given micro-batches (sizes that repeat to the end), with columns of padding added."""

    sizes = (ROWS,)
    left = right = 0

    def packed_microbatches(self, rows, tokens):
        return self.microbatches(rows, tokens)

    def microbatches(self, rows, tokens):
        sizes, start = itertools.cycle(self.sizes), 0
        while start < len(rows):
            stop = start + next(sizes)
            yield rows[start:stop]
            start = stop

    def pad(self, rows, pad_id, device):
        made = super().pad(rows, pad_id, device)

        def wide(values, fill, sides):
            return torch.nn.functional.pad(values, sides, value=fill)

        sides = (self.left, self.right)
        attention = wide(made.attention_mask, 0, sides)
        return Padded(
            input_ids=wide(made.input_ids, pad_id, sides),
            attention_mask=attention,
            position_ids=(attention.cumsum(1) - 1).clamp(min=0),
            completion_mask=wide(made.completion_mask, False, (0, self.right)),
        )


class Gradients:
    """Holds a policy away from its reference and from the policy that sampled; gives gradients without moving it."""

    def __init__(self, packing):
        self.model = tiny_llama(3)
        reference = tiny_llama(4).requires_grad_(False)
        draw = np.random.default_rng(0)
        self.old = tiny_llama(3)
        shaken(self.old, draw, 0.05)
        shaken(reference, draw, 0.05)
        self.reference, self.config = reference, changed(base_config(), optim__packing=packing)
        self.groups = random_groups(QUESTIONS, SIZE)
        mask = Cut.of(self.groups).mask_NT
        self.sampled = torch.tensor(draw.uniform(-3.0, -2.0, tuple(mask.shape))) * mask

    def batch(self, order=None, sizes=(ROWS,), left=0, right=0):
        """order: which rows, in which order."""
        made = Cut.of(self.groups)
        mask, sampled = (torch.nn.functional.pad(values, (0, right)) for values in (made.mask_NT, self.sampled))
        order = list(range(ROWS)) if order is None else order
        made = dataclasses.replace(
            made,
            prompts=tuple(made.prompts[row] for row in order),
            completions=tuple(made.completions[row] for row in order),
            question_ids=tuple(made.question_ids[row] for row in order),
            mask_NT=mask[order],
            sampled_NT=sampled[order],
            groups_N=made.groups_N[order],
        )
        for name, value in (("sizes", sizes), ("left", left), ("right", right)):
            object.__setattr__(made, name, value)
        return made

    def of(self, case, batch, rows=None, share=SHARE, weighed=None, excluded=()):
        """One gradient as a vector. rows: those of one process; weighed: token weights and norm, else the package's."""
        kind, surrogate, estimator, extra = case
        config = changed(
            self.config,
            beta__value=0.3 if estimator else 0.0,
            beta__estimator=estimator or "k3",
            clip__kind=surrogate,
            **EXTRAS.get(extra, {}),
        )
        trainer = Trainer(self.model, 0, config, CPU, autocast=False)
        if estimator:
            trainer.score_reference = trainer.scorer(self.reference)
        everything = torch.tensor([row for row in range(len(batch.completions)) if row not in excluded])
        mask = batch.mask_NT.clone()
        mask[list(excluded)] = False
        weights, norm = weighed or algorithm.token_weights(share, mask, batch.groups_N, [everything], kind, BUDGET)
        caught = []

        def catch():
            if not caught:
                caught.append(torch.cat([p.grad.flatten().clone() for p in trainer.named.values()]))

        trainer.optimizer.step = catch
        # a first, empty step: so that the trainer scores the policy that sampled, here another one
        trainer._scores = lambda b, r, ref, scores=trainer._scores: self._behind(trainer, scores, b, r, ref)
        trainer.update(batch, [everything[:0], everything if rows is None else rows], weights, norm, step=0)
        return caught[0]

    def _behind(self, trainer, scores, batch, rows, reference):
        if reference is not None:
            return scores(batch, rows, reference)
        now, trainer.score = trainer.score, trainer.scorer(self.old)
        try:
            return scores(batch, rows, None)
        finally:
            trainer.score = now


def difference(found, expected):
    return float((found - expected).abs().max() / expected.abs().max())


def variants(gradients, case):
    """{what was changed: relative difference to the whole batch in one piece}."""
    whole = gradients.of(case, gradients.batch())
    found = {
        f"micro-batches {name}": gradients.of(case, gradients.batch(sizes=sizes))
        for name, sizes in {"of 1": (1,), "of 2": (2,), "of 3": (3,), "uneven": (5, 1, 4, 2)}.items()
    }
    order = np.random.default_rng(1).permutation(ROWS).tolist()
    found["row order"] = gradients.of(case, gradients.batch(order=order, sizes=(5, 7)), share=SHARE[order])
    found["padding width"] = gradients.of(case, gradients.batch(left=6, right=11, sizes=(4,)))
    for ranks in (2, 3):
        shards = [torch.arange(ROWS)[rank::ranks] for rank in range(ranks)]
        found[f"{ranks} processes"] = sum(gradients.of(case, gradients.batch(), shard) for shard in shards)
    differences = {name: difference(value, whole) for name, value in found.items()}
    kept = [row for row in range(ROWS) if row not in EXCLUDED]
    ragged = gradients.of(case, gradients.batch(order=kept), share=SHARE[kept])
    differences["excluded answers, or never sampled"] = difference(
        gradients.of(case, gradients.batch(sizes=(4, 1)), excluded=EXCLUDED), ragged
    )
    return differences
