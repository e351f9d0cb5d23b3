"""What an update saw of its tokens: sums for the metrics, and on demand a record of every token."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..algorithm import kl_slope
from ..parallel import Ranks
from ..schema import RunConfig
from .loss import Given, Loss


@dataclass(frozen=True)
class TokenRecord:
    """What happened to each token in the last optimizer step that used it; (N, T), 0 where nothing was computed.

    coefficient_NT: what multiplied the token's ∇log π, by autograd on the loss itself (an entropy bonus, which has no
    such form, aside). kl_coefficient_NT: the KL term's part of it.
    """

    coefficient_NT: Tensor
    ratio_NT: Tensor
    kl_NT: Tensor
    kl_coefficient_NT: Tensor
    clipped_NT: Tensor
    computed_N: Tensor

    @classmethod
    def empty(cls, shape: torch.Size) -> TokenRecord:
        """Nothing computed yet."""
        coefficient, ratio, kl, pull = (torch.zeros(shape) for _ in range(4))
        clipped = torch.zeros(shape, dtype=torch.bool)
        return cls(coefficient, ratio, kl, pull, clipped, torch.zeros(shape[0], dtype=torch.bool))


class Tally:
    """Sums over the tokens of all micro-batches, so that means do not depend on how batches were cut."""

    def __init__(self, shape: torch.Size, record: bool) -> None:
        self.sums = dict.fromkeys(("kl", "ratio", "clipped", "importance", "capped", "mismatch"), 0.0)
        self.tokens, self.largest = 0, 0.0  # the largest ratio of any token
        self.kl_N, self.tokens_N = (torch.zeros(shape[0], dtype=torch.float64) for _ in range(2))
        self.record = TokenRecord.empty(shape) if record else None

    def add(self, rows: Tensor, given: Given, loss: Loss) -> None:
        mismatch = (given.old.detach() - given.sampled).abs()
        parts = (loss.kl, loss.ratio, loss.clipped, loss.importance, loss.capped, mismatch)
        for name, values in zip(self.sums, parts, strict=True):
            self.sums[name] += float((values * given.mask).double().sum())
        self.tokens += int(given.mask.sum())
        self.largest = max(self.largest, float((loss.ratio * given.mask).max()))
        self.kl_N[rows] += (loss.kl * given.mask).double().sum(1).cpu()
        self.tokens_N[rows] += given.mask.sum(1).cpu()

    def keep_tokens(self, rows: Tensor, given: Given, loss: Loss, gradient: Tensor, config: RunConfig) -> None:
        """Called with the loss's derivative by the log-probabilities, while it goes backward."""
        record, width = self.record, gradient.shape[1]
        assert record is not None
        pull = torch.zeros_like(gradient)
        if given.reference is not None:
            pull = -config.beta.value * given.norm * kl_slope(given.logprobs, given.reference, config.beta.estimator)
        kept = (
            (record.coefficient_NT, -gradient), (record.ratio_NT, loss.ratio), (record.kl_NT, loss.kl),
            (record.kl_coefficient_NT, pull), (record.clipped_NT, loss.clipped & given.mask),
        )  # fmt: skip
        for target, values in kept:
            target[rows, :width] = values.to(target.dtype).cpu()
        record.computed_N[rows] = True

    def sum_over(self, ranks: Ranks) -> None:
        """Take in what the other processes saw; each has computed rows of its own."""
        if ranks.world == 1:
            return
        record = vars(self.record).values() if self.record else ()
        kept = [self.kl_N, self.tokens_N, *record]
        counts = torch.tensor([*self.sums.values(), self.tokens], dtype=torch.float64)
        flat = ranks.sum(torch.cat([counts, *(tensor.double().reshape(-1) for tensor in kept)]), "tally")
        self.largest = max(ranks.gather([self.largest], "largest ratio"))
        counts, *sums = flat.split([len(counts), *(tensor.numel() for tensor in kept)])
        self.sums, self.tokens = dict(zip(self.sums, counts.tolist(), strict=False)), int(counts[-1])
        for tensor, total in zip(kept, sums, strict=True):
            tensor.copy_(total.view_as(tensor))

    def mean(self, name: str) -> float | None:
        return self.sums[name] / self.tokens if self.tokens else None
