"""One rollout's update: the gradient of `loss_of`, micro-batch by micro-batch, over one or more optimizer steps."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .. import rng
from ..algorithm import reward_penalty
from ..parallel import Ranks
from ..schema import RunConfig
from .batch import Batch
from .budget import MicrobatchBudget
from .decoder import causal_of
from .loss import Given, loss_of
from .models import trainable
from .optimizer import NotFinite, Stepper, non_finite
from .reference import Reference
from .scorer import Scorer, differentiated
from .shards import shards_of
from .tally import Tally, TokenRecord


@dataclass(frozen=True)
class Update:
    """What an update saw. A value that was not computed (KL at beta 0, ratios of a skipped step) is None, not 0.

    kl, ratio_mean, clip_fraction, importance_mean, importance_capped, mismatch: means over the tokens of all
    optimizer steps; where neither KL nor entropy is in the loss, only tokens that carry weight are computed, and the
    means are over those. mismatch: |log π_old - log μ|, between the trainer's and the engine's log-probability of the
    same token, None with dropout, which alone would be seen, and for
    answers that were not sampled in this step. kl_N: of each row, (N,), NaN where it was not computed.
    ratio_max: the largest ratio of any of these tokens.
    grad_norm: mean over the optimizer steps that were made, before clipping. updates: optimizer steps made. tokens:
    where they were asked for.
    """

    kl: float | None
    kl_N: Tensor | None
    ratio_mean: float | None
    ratio_max: float | None
    clip_fraction: float | None
    importance_mean: float | None
    importance_capped: float | None
    mismatch: float | None
    grad_norm: float | None
    lr: float
    updates: int
    tokens: TokenRecord | None = None


@dataclass(frozen=True)
class _Work:
    """One rollout's update: the rows, their weights and norms (N, T), and the log-probabilities made beforehand.

    old_NT: None with a single optimizer step, where the policy is the old one; else filled for the rows of the first
    optimizer step as that goes over them. reference_NT: None without a KL term in the loss.
    """

    batch: Batch
    weights_NT: Tensor
    norm_NT: Tensor
    old_NT: Tensor | None
    reference_NT: Tensor | None
    step: int


class Trainer:
    """Owns the optimizer and changes the policy's trainable parameters in place.

    say: where a lower micro-batch after a lack of memory is told.
    """

    def __init__(
        self,
        model: nn.Module,
        pad_id: int,
        config: RunConfig,
        device: torch.device,
        autocast: bool,
        say: Callable[[str], None] = lambda _: None,
        ranks: Ranks | None = None,
    ) -> None:
        self.ranks = ranks or Ranks()
        self.model, self.pad_id, self.config, self.device, self.autocast = model, pad_id, config, device, autocast
        self.named = trainable(model)
        updates = config.steps * config.optim.updates_per_rollout
        self.stepper = Stepper(self.named, config.optim, updates, device)
        self.optimizer = self.stepper.adamw
        self.reference = Reference(model, config) if config.beta.value > 0 else None
        self.score = self.score_reference = self.scorer(model)
        if self.score.why_padded:
            say(f"optim.packing does not know this model ({self.score.why_padded}): its rows are padded instead")
        if self.reference is not None and self.reference.model is not model:  # a second model, in full fine-tuning
            self.score_reference = self.scorer(self.reference.model)
        packed = self.score.decoder is not None
        self.shards = shards_of(causal_of(model))
        self.budget = MicrobatchBudget(config.optim.microbatch_tokens, model, device, packed, say, self.shards.on)

    def scorer(self, model: nn.Module) -> Scorer:
        """Log-probabilities under `model` as it stands."""
        return Scorer(model, self.pad_id, self.device, self.config.temperature, self.config.optim.packing)

    def update(
        self,
        batch: Batch,
        minibatches: Sequence[Tensor],
        weights_NT: Tensor,
        norm_NT: Tensor,
        step: int,
        record: bool = False,
    ) -> Update:
        """Make one optimizer step for each minibatch. Raises NonFiniteError before a step that would spoil the policy.

        Rows without weight are not computed at all unless KL or entropy is in the loss, and a minibatch in which
        nothing has weight makes no optimizer step: parameters and moments stay bit-identical. Excluded rows, for which
        the norm is 0, are never computed. record: also keep what happened to each token.
        """
        reference = self.reference if self.config.beta.placement == "loss" else None
        everywhere = reference is not None or self.config.entropy_bonus > 0
        wanted_N = (norm_NT if everywhere else weights_NT).abs().sum(1) > 0
        rows = wanted_N.nonzero().squeeze(1)
        reference_NT = self._scores(batch, rows, reference) if reference else None
        old_NT = None
        if len(minibatches) > 1:
            # the first optimizer step's own pass gives the old log-probabilities of its rows, unless dropout is in it
            given = rows[:0] if self._drops_out() else minibatches[0]
            old_NT = self._scores(batch, rows[~torch.isin(rows, given)], None)
        work = _Work(batch, weights_NT, norm_NT, old_NT, reference_NT, step)

        tally = Tally(batch.mask_NT.shape, record)
        norms: list[float] = []
        rate = self.config.optim.lr
        for number, minibatch in enumerate(minibatches):
            rate = self.stepper.set_rate(step * len(minibatches) + number)
            minibatch = minibatch[wanted_N[minibatch]]
            if len(minibatch) == 0:
                continue
            tally = self._accumulate(work, minibatch, number, tally)
            self.ranks.sum_gradients(self.named.values())
            try:
                norms.append(self.stepper.step())
            except NotFinite as what:
                raise non_finite(str(what), batch, minibatch, step) from None
        tally.sum_over(self.ranks)
        return Update(
            kl=tally.mean("kl") if reference else None,
            kl_N=tally.kl_N / tally.tokens_N if reference else None,
            ratio_mean=tally.mean("ratio"),
            ratio_max=tally.largest if tally.tokens else None,
            clip_fraction=tally.mean("clipped"),
            importance_mean=tally.mean("importance") if self.config.rollout.importance != "none" else None,
            importance_capped=tally.mean("capped") if self.config.rollout.importance != "none" else None,
            mismatch=tally.mean("mismatch")
            if not self._drops_out() and self.config.samples.source == "policy"
            else None,
            grad_norm=sum(norms) / len(norms) if norms else None,
            lr=rate,
            updates=len(norms),
            tokens=tally.record,
        )

    def penalty(self, batch: Batch, included_N: Tensor, step: int) -> Tensor | None:
        """(N, T) the KL estimate of each token, 0 outside the mask, where it is not in the loss (`beta.placement`).

        None where it is; NaN for rows that are not included, which are not computed.
        """
        if self.reference is None or self.config.beta.placement == "loss":
            return None
        rows = included_N.nonzero().squeeze(1)
        policy_NT, reference_NT = self._scores(batch, rows, None), self._scores(batch, rows, self.reference)
        found_NT = reward_penalty(policy_NT, reference_NT, batch.mask_NT, self.config.beta.estimator)
        if broken := [row for row in rows.tolist() if not math.isfinite(found_NT[row].sum())]:
            raise non_finite("KL penalty", batch, torch.tensor(broken), step)
        return found_NT.masked_fill(~included_N[:, None], torch.nan)

    def refresh_reference(self, step: int) -> None:
        """Every `beta.refresh_every` steps, the reference becomes the policy as it stands."""
        every = self.config.beta.refresh_every
        if self.reference is not None and every and step and step % every == 0:
            self.reference.refresh()

    def _drops_out(self) -> bool:
        return self.config.lora.enabled and self.config.lora.dropout > 0

    def reference_state(self) -> Mapping[str, Tensor]:
        """What a checkpoint needs of a reference that moves; nothing for one that the configuration gives again."""
        moves = self.reference is not None and self.config.beta.refresh_every > 0
        return self.reference.state() if self.reference is not None and moves else {}

    def _accumulate(self, work: _Work, minibatch: Tensor, number: int, tally: Tally) -> Tally:
        """Leave the gradient of one minibatch in `.grad`; gives the tally with what was seen.

        Weights carry the whole batch's norm, so that the sums over micro-batches simply add up. Where memory runs out
        the minibatch begins again with half the tokens: what half a backward pass has added must not be counted.
        """
        while True:
            seen = copy.deepcopy(tally)
            try:
                with differentiated(self.model), self.dropout_draws("dropout", work.step, number):
                    own = self.ranks.rows(minibatch, work.batch.groups_N, work.batch.lengths_N)
                    for piece in self.score.cut(work.batch, own, self.budget.tokens):
                        self._backward(work, piece, number == 0, seen)
                    self.shards.follow()
                return seen
            except torch.OutOfMemoryError:
                pass  # out of the handler first: its traceback keeps the tensors of the failed pass
            self.stepper.drop_gradients()
            self.budget.halve()

    def _backward(self, work: _Work, piece: Tensor, first: bool, tally: Tally) -> None:
        """Add the gradient of one micro-batch. first: no optimizer step of this rollout was made yet."""
        with self.precision():
            logprobs_BT, entropy_BT = self.score(work.batch, piece, self.config.entropy_bonus > 0)
        width_T = logprobs_BT.shape[1]

        def here(values_NT: Tensor) -> Tensor:
            return values_NT[piece, :width_T].to(logprobs_BT)

        old_BT = logprobs_BT.detach()  # before the first step the ratio is 1 and carries the gradient alone
        if work.old_NT is not None:
            if first and not self._drops_out():
                work.old_NT[piece, :width_T] = old_BT.to("cpu", work.old_NT.dtype)
            old_BT = here(work.old_NT)
        given = Given(
            logprobs=logprobs_BT,
            old=old_BT,
            sampled=here(work.batch.sampled_NT),
            weights=here(work.weights_NT),
            norm=here(work.norm_NT),
            mask=work.batch.mask_NT[piece, :width_T].to(self.device),
            reference=here(work.reference_NT) if work.reference_NT is not None else None,
            entropy=entropy_BT,
        )
        loss = loss_of(given, self.config)
        # the ratios are looked at by themselves: where a weight is 0, an infinite ratio makes no infinite loss
        if not all(torch.isfinite(values).all() for values in (loss.value, loss.ratio, loss.importance)):
            raise non_finite("loss or ratio", work.batch, piece, work.step)
        caught: list[Tensor] = []
        if tally.record is not None:  # a hook that held the tensor itself would be a cycle that is never freed
            logprobs_BT.register_hook(caught.append)
        self.shards.backward(loss.value)
        if caught:
            tally.keep_tokens(piece, given, loss, caught[0], self.config)
        tally.add(piece, given, loss)

    @torch.no_grad()
    def _scores(self, batch: Batch, rows: Tensor, reference: Reference | None) -> Tensor:
        """(N, T) log-probabilities under the reference, or under the policy as it stands; 0 outside the mask."""
        scores_NT = torch.zeros(batch.mask_NT.shape, dtype=torch.float64)
        score = self.score_reference if reference else self.score
        with reference.active() if reference else nullcontext(), self.precision():
            own = self.ranks.rows(rows, batch.groups_N, batch.lengths_N)
            self.in_pieces(score, batch, own, scores_NT, lambda piece: score(batch, piece)[0])
            self.shards.follow()
        return self.ranks.sum(scores_NT, "scores")

    def in_pieces(
        self, score: Scorer, batch: Batch, rows: Tensor, into_NT: Tensor, made: Callable[[Tensor], Tensor]
    ) -> None:
        """Fill `into_NT` with what `made` gives of each piece of the rows, (B, T); smaller pieces where memory ends."""
        while len(rows):
            try:
                for piece in score.cut(batch, rows, self.budget.tokens):
                    values_BT = made(piece)
                    into_NT[piece, : values_BT.shape[1]] = values_BT.double().cpu()
                return
            except torch.OutOfMemoryError:
                pass
            self.budget.halve()

    @contextmanager
    def dropout_draws(self, purpose: str, step: int, number: int) -> Iterator[None]:
        """Dropout's draws as a function of (seed, purpose, step, update), so that a resumed run repeats them."""
        if not self._drops_out():
            yield
            return
        with torch.random.fork_rng(devices=[self.device.index or 0] if self.device.type == "cuda" else []):
            torch.manual_seed(rng.key(self.config.seed, purpose, step, number, *self.ranks.key) % 2**63)
            yield

    def precision(self) -> torch.autocast | nullcontext[None]:
        """bf16 arithmetic over fp32 parameters, where those are what is trained (full fine-tuning)."""
        return torch.autocast(self.device.type, torch.bfloat16) if self.autocast else nullcontext()

    def state(self) -> dict[str, Tensor]:
        """The optimizer's tensors by '<parameter>.<slot>', for safetensors."""
        return self.stepper.state()

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """Inverse of `state`."""
        self.stepper.load_state(tensors)
