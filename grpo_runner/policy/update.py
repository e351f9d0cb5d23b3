"""One rollout's update: token weights × clipped ratio, minus beta × KL, over one or more optimizer steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .. import rng
from ..algorithm import ESTIMATORS, SURROGATES, Range
from ..errors import NonFiniteError
from ..schema import OptimConfig, RunConfig
from .batch import Batch
from .logprobs import completion_logprobs
from .models import Reference


@dataclass(frozen=True)
class Update:
    """What an update saw. A value that was not computed (KL at beta 0, ratios of a skipped step) is None, not 0.

    kl, ratio_mean, clip_fraction: means over the tokens of all optimizer steps; with beta 0 only tokens that carry
    weight are computed, and the ratio is of those. kl_N: of each row, (N,). grad_norm: mean over the optimizer steps
    that were made, before clipping. updates: optimizer steps made.
    """

    kl: float | None
    kl_N: Tensor | None
    ratio_mean: float | None
    clip_fraction: float | None
    grad_norm: float | None
    lr: float
    updates: int


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
        self.named = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        optim = config.optim
        self.optimizer = torch.optim.AdamW(
            self.named.values(), lr=optim.lr, betas=optim.betas, eps=optim.eps, weight_decay=optim.weight_decay
        )
        self.reference = Reference(model, config.lora.enabled) if config.beta.value > 0 else None

    def update(
        self, batch: Batch, minibatches: Sequence[Tensor], weights_NT: Tensor, norm_NT: Tensor, step: int
    ) -> Update:
        """Make one optimizer step for each minibatch. Raises NonFiniteError before a step that would spoil the policy.

        Where beta is 0, rows without weight are not computed at all, and a minibatch in which nothing has weight makes
        no optimizer step: parameters and moments stay bit-identical.
        """
        beta = self.config.beta.value
        wanted_N = torch.ones(len(batch.completions), dtype=torch.bool) if beta > 0 else weights_NT.abs().sum(1) > 0
        rows = wanted_N.nonzero().squeeze(1)
        reference_NT = self._scores(batch, rows, self.reference) if self.reference else None
        old_NT = self._scores(batch, rows, None) if len(minibatches) > 1 else None

        tally = _Tally(batch.mask_NT.shape[0])
        norms: list[float] = []
        rate = self.config.optim.lr
        for number, minibatch in enumerate(minibatches):
            rate = self._set_rate(step * len(minibatches) + number)
            minibatch = minibatch[wanted_N[minibatch]]
            if len(minibatch) == 0:
                continue
            with differentiated(self.model), self._dropout_draws(step, number):
                for piece in batch.microbatches(minibatch, self.config.optim.microbatch_tokens):
                    self._backward(batch, piece, weights_NT, norm_NT, old_NT, reference_NT, step, tally)
            norms.append(self._optimizer_step(batch, minibatch, step))
        return Update(
            kl=tally.mean("kl") if beta > 0 else None,
            kl_N=tally.kl_N / tally.tokens_N.clamp(min=1) if beta > 0 else None,
            ratio_mean=tally.mean("ratio"),
            clip_fraction=tally.mean("clipped"),
            grad_norm=sum(norms) / len(norms) if norms else None,
            lr=rate,
            updates=len(norms),
        )

    def _backward(
        self,
        batch: Batch,
        piece: Tensor,
        weights_NT: Tensor,
        norm_NT: Tensor,
        old_NT: Tensor | None,
        reference_NT: Tensor | None,
        step: int,
        tally: _Tally,
    ) -> None:
        """Add the gradient of one micro-batch. Weights carry the whole batch's norm, so the sums simply add up."""
        padded = batch.pad(piece, self.pad_id, self.device)
        mask_BT = padded.completion_mask
        width_T = mask_BT.shape[1]

        with self._precision():
            logprobs_BT = completion_logprobs(self.model, padded, self.config.temperature).masked_fill(~mask_BT, 0.0)

        def here(values_NT: Tensor) -> Tensor:
            return values_NT[piece, :width_T].to(logprobs_BT)

        # with a single update the old policy is the policy: the ratio is 1 and carries the gradient alone
        old_BT = here(old_NT) if old_NT is not None else logprobs_BT.detach()
        clip, weights_BT = self.config.clip, here(weights_NT)
        limits = Range(clip.low, clip.high, clip.dual)
        found = SURROGATES[clip.kind](logprobs_BT, old_BT, weights_BT, mask_BT, limits)
        loss = -found.value_NT.sum()
        kl_BT = torch.zeros_like(logprobs_BT)
        if reference_NT is not None:
            kl_BT = ESTIMATORS[self.config.beta.estimator](logprobs_BT, here(reference_NT))
            loss = loss + self.config.beta.value * (here(norm_NT) * kl_BT).sum()
        # the ratio is looked at by itself: where a weight is 0, an infinite ratio makes no infinite loss
        if not (torch.isfinite(loss) and torch.isfinite(found.ratio_NT).all()):
            raise _non_finite("loss or ratio", batch, piece, step)
        loss.backward()
        tally.add(piece, mask_BT, found.ratio_NT.detach(), kl_BT.detach(), found.clipped_NT)

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
        with reference.active() if reference else nullcontext(), self._precision():
            for piece in batch.microbatches(rows, self.config.optim.microbatch_tokens):
                padded = batch.pad(piece, self.pad_id, self.device)
                values_BT = completion_logprobs(model, padded, self.config.temperature)
                values_BT = values_BT.masked_fill(~padded.completion_mask, 0.0)
                scores_NT[piece, : values_BT.shape[1]] = values_BT.double().cpu()
        return scores_NT

    @contextmanager
    def _dropout_draws(self, step: int, number: int) -> Iterator[None]:
        """Dropout's draws as a function of (seed, step, update), so that a resumed run repeats them."""
        if not self.config.lora.dropout:
            yield
            return
        with torch.random.fork_rng(devices=[self.device.index or 0] if self.device.type == "cuda" else []):
            torch.manual_seed(rng.key(self.config.seed, "dropout", step, number) % 2**63)
            yield

    def _precision(self) -> torch.autocast | nullcontext[None]:
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


class _Tally:
    """Sums over the tokens of all micro-batches, so that means do not depend on how batches were cut."""

    def __init__(self, rows: int) -> None:
        self.sums = {"kl": 0.0, "ratio": 0.0, "clipped": 0.0}
        self.tokens = 0
        self.kl_N, self.tokens_N = torch.zeros(rows, dtype=torch.float64), torch.zeros(rows, dtype=torch.float64)

    def add(self, rows: Tensor, mask: Tensor, ratio: Tensor, kl: Tensor, clipped: Tensor) -> None:
        for name, values in (("kl", kl), ("ratio", ratio), ("clipped", clipped)):
            self.sums[name] += float((values * mask).double().sum())
        self.tokens += int(mask.sum())
        self.kl_N[rows] += (kl * mask).double().sum(1).cpu()
        self.tokens_N[rows] += mask.sum(1).cpu()

    def mean(self, name: str) -> float | None:
        return self.sums[name] / self.tokens if self.tokens else None


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
