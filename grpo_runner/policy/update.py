"""One rollout's update: the gradient of `loss_of`, micro-batch by micro-batch, over one or more optimizer steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .. import rng
from ..algorithm import reward_penalty
from ..errors import NonFiniteError
from ..schema import OptimConfig, RunConfig
from .batch import Batch
from .logprobs import completion_logprobs, logprobs_and_entropy
from .loss import Given, loss_of
from .models import trainable
from .reference import Reference
from .tally import Tally, TokenRecord


@dataclass(frozen=True)
class Update:
    """What an update saw. A value that was not computed (KL at beta 0, ratios of a skipped step) is None, not 0.

    kl, ratio_mean, clip_fraction, importance_mean, importance_capped, mismatch: means over the tokens of all
    optimizer steps; where neither KL nor entropy is in the loss, only tokens that carry weight are computed, and the
    means are over those. mismatch: |log π_old - log μ|, between the trainer's and the engine's log-probability of the
    same token, None with dropout, which alone would be seen. kl_N: of each row, (N,), NaN where it was not computed.
    grad_norm: mean over the optimizer steps that were made, before clipping. updates: optimizer steps made. tokens:
    where they were asked for.
    """

    kl: float | None
    kl_N: Tensor | None
    ratio_mean: float | None
    clip_fraction: float | None
    importance_mean: float | None
    importance_capped: float | None
    mismatch: float | None
    grad_norm: float | None
    lr: float
    updates: int
    tokens: TokenRecord | None = None


def learning_rate(config: OptimConfig, update: int, total: int) -> float:
    """Rate of one optimizer step (from 0) out of `total`: warm-up, then constant, linear or cosine to 0."""
    if update < config.warmup_steps:
        return config.lr * (update + 1) / config.warmup_steps
    left = 1 - (update - config.warmup_steps) / max(1, total - config.warmup_steps)
    shapes = {"constant": 1.0, "linear": left, "cosine": 0.5 * (1 + math.cos(math.pi * (1 - left)))}
    return config.lr * shapes[config.schedule]


class Trainer:
    """Owns the optimizer and changes the policy's trainable parameters in place."""

    def __init__(self, model: nn.Module, pad_id: int, config: RunConfig, device: torch.device, autocast: bool) -> None:
        self.model, self.pad_id, self.config, self.device, self.autocast = model, pad_id, config, device, autocast
        self.named = trainable(model)
        optim = config.optim
        self.optimizer = torch.optim.AdamW(
            self.named.values(), lr=optim.lr, betas=optim.betas, eps=optim.eps, weight_decay=optim.weight_decay
        )
        self.reference = Reference(model, config) if config.beta.value > 0 else None

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
        old_NT = self._scores(batch, rows, None) if len(minibatches) > 1 else None

        tally = Tally(batch.mask_NT.shape, record)
        norms: list[float] = []
        rate = self.config.optim.lr
        for number, minibatch in enumerate(minibatches):
            rate = self._set_rate(step * len(minibatches) + number)
            minibatch = minibatch[wanted_N[minibatch]]
            if len(minibatch) == 0:
                continue
            with differentiated(self.model), self.dropout_draws("dropout", step, number):
                for piece in batch.microbatches(minibatch, self.config.optim.microbatch_tokens):
                    self._backward(batch, piece, weights_NT, norm_NT, old_NT, reference_NT, step, tally)
            norms.append(self._optimizer_step(batch, minibatch, step))
        return Update(
            kl=tally.mean("kl") if reference else None,
            kl_N=tally.kl_N / tally.tokens_N if reference else None,
            ratio_mean=tally.mean("ratio"),
            clip_fraction=tally.mean("clipped"),
            importance_mean=tally.mean("importance") if self.config.rollout.importance != "none" else None,
            importance_capped=tally.mean("capped") if self.config.rollout.importance != "none" else None,
            mismatch=tally.mean("mismatch") if not self._drops_out() else None,
            grad_norm=sum(norms) / len(norms) if norms else None,
            lr=rate,
            updates=len(norms),
            tokens=tally.record,
        )

    def penalty(self, batch: Batch, included_N: Tensor, step: int) -> Tensor | None:
        """(N,) the KL estimate summed over each response's tokens, where `beta.placement` puts it into the reward.

        None where it does not; NaN for rows that are not included, which are not computed.
        """
        if self.reference is None or self.config.beta.placement != "reward":
            return None
        rows = included_N.nonzero().squeeze(1)
        policy_NT, reference_NT = self._scores(batch, rows, None), self._scores(batch, rows, self.reference)
        found_N = reward_penalty(policy_NT, reference_NT, batch.mask_NT, self.config.beta.estimator)
        if broken := [row for row in rows.tolist() if not math.isfinite(found_N[row])]:
            raise _non_finite("KL penalty", batch, torch.tensor(broken), step)
        return found_N.masked_fill(~included_N, torch.nan)

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

    def _backward(
        self,
        batch: Batch,
        piece: Tensor,
        weights_NT: Tensor,
        norm_NT: Tensor,
        old_NT: Tensor | None,
        reference_NT: Tensor | None,
        step: int,
        tally: Tally,
    ) -> None:
        """Add the gradient of one micro-batch. Weights carry the whole batch's norm, so the sums simply add up."""
        padded = batch.pad(piece, self.pad_id, self.device)
        mask_BT, entropy_BT = padded.completion_mask, None
        width_T = mask_BT.shape[1]
        with self.precision():
            if self.config.entropy_bonus > 0:
                logprobs_BT, entropy_BT = logprobs_and_entropy(self.model, padded, self.config.temperature)
                entropy_BT = entropy_BT.masked_fill(~mask_BT, 0.0)
            else:
                logprobs_BT = completion_logprobs(self.model, padded, self.config.temperature)
        logprobs_BT = logprobs_BT.masked_fill(~mask_BT, 0.0)

        def here(values_NT: Tensor) -> Tensor:
            return values_NT[piece, :width_T].to(logprobs_BT)

        given = Given(
            logprobs=logprobs_BT,
            # with a single update the old policy is the policy: the ratio is 1 and carries the gradient alone
            old=here(old_NT) if old_NT is not None else logprobs_BT.detach(),
            sampled=here(batch.sampled_NT),
            weights=here(weights_NT),
            norm=here(norm_NT),
            mask=mask_BT,
            reference=here(reference_NT) if reference_NT is not None else None,
            entropy=entropy_BT,
        )
        loss = loss_of(given, self.config)
        # the ratios are looked at by themselves: where a weight is 0, an infinite ratio makes no infinite loss
        if not all(torch.isfinite(values).all() for values in (loss.value, loss.ratio, loss.importance)):
            raise _non_finite("loss or ratio", batch, piece, step)
        if tally.record is not None:
            logprobs_BT.register_hook(lambda gradient: tally.keep_tokens(piece, given, loss, gradient, self.config))
        loss.value.backward()
        tally.add(piece, given, loss)

    def _optimizer_step(self, batch: Batch, rows: Tensor, step: int) -> float:
        """Clip, check, step; gives the gradient's norm before clipping.

        The parameters are looked at too: a step of finite gradients can overflow, and must not reach a checkpoint.
        """
        limit = self.config.optim.max_grad_norm
        norm = float(nn.utils.clip_grad_norm_(self.named.values(), limit if limit is not None else math.inf))
        if not math.isfinite(norm):
            self.optimizer.zero_grad(set_to_none=True)
            raise _non_finite("gradient", batch, rows, step)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if not torch.isfinite(nn.utils.get_total_norm(self.named.values())):
            raise _non_finite("policy after the optimizer step", batch, rows, step)
        return norm

    def _set_rate(self, update: int) -> float:
        optim = self.config.optim
        rate = learning_rate(optim, update, self.config.steps * optim.updates_per_rollout)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        return rate

    @torch.no_grad()
    def _scores(self, batch: Batch, rows: Tensor, reference: Reference | None) -> Tensor:
        """(N, T) log-probabilities under the reference, or under the policy as it stands; 0 outside the mask."""
        scores_NT = torch.zeros(batch.mask_NT.shape, dtype=torch.float64)
        model = reference.model if reference else self.model
        with reference.active() if reference else nullcontext(), self.precision():
            for piece in batch.microbatches(rows, self.config.optim.microbatch_tokens):
                padded = batch.pad(piece, self.pad_id, self.device)
                values_BT = completion_logprobs(model, padded, self.config.temperature)
                values_BT = values_BT.masked_fill(~padded.completion_mask, 0.0)
                scores_NT[piece, : values_BT.shape[1]] = values_BT.double().cpu()
        return scores_NT

    @contextmanager
    def dropout_draws(self, purpose: str, step: int, number: int) -> Iterator[None]:
        """Dropout's draws as a function of (seed, purpose, step, update), so that a resumed run repeats them."""
        if not self._drops_out():
            yield
            return
        with torch.random.fork_rng(devices=[self.device.index or 0] if self.device.type == "cuda" else []):
            torch.manual_seed(rng.key(self.config.seed, purpose, step, number) % 2**63)
            yield

    def precision(self) -> torch.autocast | nullcontext[None]:
        """bf16 arithmetic over fp32 parameters, where those are what is trained (full fine-tuning)."""
        return torch.autocast(self.device.type, torch.bfloat16) if self.autocast else nullcontext()

    def state(self) -> dict[str, Tensor]:
        """The optimizer's tensors by '<parameter>.<slot>', for safetensors."""
        return {
            f"{name}.{slot}": value.detach().cpu().contiguous()
            for name, parameter in self.named.items()
            for slot, value in self.optimizer.state.get(parameter, {}).items()
        }

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """Inverse of `state`."""
        for key, value in tensors.items():
            name, slot = key.rsplit(".", 1)
            parameter = self.named[name]
            # AdamW keeps its step counter on the CPU
            self.optimizer.state[parameter][slot] = value if slot == "step" else value.to(parameter.device)


@contextmanager
def differentiated(model: nn.Module) -> Iterator[None]:
    """LoRA dropout and gradient checkpointing on, for the passes that are differentiated and for nothing else.

    The backward pass belongs in it too, since checkpointing computes the forward pass again there. The base's own
    dropout stays off: sampling, old, reference and new log-probabilities are of one and the same policy.
    """
    from transformers.modeling_layers import GradientCheckpointingLayer

    switched = [
        m for name, m in model.named_modules() if isinstance(m, GradientCheckpointingLayer) or "lora_dropout" in name
    ]
    for module in switched:
        module.training = True
    try:
        yield
    finally:
        for module in switched:
            module.training = False


def _non_finite(what: str, batch: Batch, rows: Tensor, step: int) -> NonFiniteError:
    names = sorted({batch.question_ids[row] for row in rows.tolist()})
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    return NonFiniteError(
        f"step {step}: the {what} is not finite.\nQuestions: {shown}.\n"
        "The last good checkpoint is kept. A lower optim.lr or optim.max_grad_norm often helps."
    )
