"""AdamW over the trainable parameters: its rate, one checked step, and its state for checkpoints."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ..errors import NonFiniteError
from ..schema import OptimConfig
from .batch import Batch


def learning_rate(config: OptimConfig, update: int, total: int) -> float:
    """Rate of one optimizer step (from 0) out of `total`: warm-up, then constant, linear or cosine to 0."""
    if update < config.warmup_steps:
        return config.lr * (update + 1) / config.warmup_steps
    left = 1 - (update - config.warmup_steps) / max(1, total - config.warmup_steps)
    shapes = {"constant": 1.0, "linear": left, "cosine": 0.5 * (1 + math.cos(math.pi * (1 - left)))}
    return config.lr * shapes[config.schedule]


class NotFinite(ArithmeticError):
    """What was not finite, in words."""


class Stepper:
    """AdamW (Loshchilov & Hutter 2019) on `named`, which it changes in place. total: optimizer steps of the run."""

    def __init__(self, named: dict[str, nn.Parameter], config: OptimConfig, total: int, device: torch.device) -> None:
        self.named, self.config, self.total = named, config, total
        self.adamw = torch.optim.AdamW(
            named.values(),
            lr=config.lr,
            betas=config.betas,
            eps=config.eps,
            weight_decay=config.weight_decay,
            fused=config.fused and device.type in ("cpu", "cuda"),
        )

    def set_rate(self, update: int) -> float:
        """The rate for optimizer step `update` of the run, from 0."""
        rate = learning_rate(self.config, update, self.total)
        for group in self.adamw.param_groups:
            group["lr"] = rate
        return rate

    def drop_gradients(self) -> None:
        """Forget what backward passes have added."""
        self.adamw.zero_grad(set_to_none=True)

    def step(self) -> float:
        """Clip, check, step; gives the gradient's norm before clipping. Raises NotFinite, with nothing changed.

        All that a step is made of is looked at before it. What it gives is looked at too: a device can be wrong.
        """
        limit = self.config.max_grad_norm
        norm = float(nn.utils.clip_grad_norm_(self.named.values(), limit if limit is not None else math.inf))
        if fault := "gradient" if not math.isfinite(norm) else self._fault():
            self.drop_gradients()
            raise NotFinite(fault)
        self.adamw.step()
        self.drop_gradients()
        if not math.isfinite(_largest(self.named.values())):
            raise NotFinite("policy after the optimizer step")
        return norm

    def _fault(self) -> str | None:
        """What would make a step from a finite gradient one that spoils the policy; None in a sound run.

        Moments of finite gradients are finite as these averages go. A step moves a parameter by its decay and by about
        the rate (Kingma & Ba 2015, section 2.1); a million times the rate leaves room for any betas.
        """
        slots = (slots[name] for slots in self.adamw.state.values() for name in ("exp_avg", "exp_avg_sq"))
        if not math.isfinite(_largest(slots)):
            return "optimizer's state"
        largest = _largest(self.named.values())
        if not math.isfinite(largest):
            return "policy"
        rate = float(self.adamw.param_groups[0]["lr"])
        reached = largest * (1 + rate * self.config.weight_decay) + 1e6 * rate
        most = min((torch.finfo(value.dtype).max for value in self.named.values()), default=math.inf)
        return "policy that the optimizer step would give" if reached > most else None

    def state(self) -> dict[str, Tensor]:
        """The optimizer's tensors by '<parameter>.<slot>', for safetensors."""
        return {
            f"{name}.{slot}": value.detach().cpu().contiguous()
            for name, parameter in self.named.items()
            for slot, value in self.adamw.state.get(parameter, {}).items()
        }

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """Inverse of `state`."""
        for key, value in tensors.items():
            name, slot = key.rsplit(".", 1)
            parameter = self.named[name]
            # plain AdamW keeps its step counter on the CPU, the fused one beside the parameter
            stays = slot == "step" and not self.config.fused
            self.adamw.state[parameter][slot] = value if stays else value.to(parameter.device)


def _largest(tensors: Iterable[Tensor]) -> float:
    """The largest absolute value in all of them, NaN or infinity where there is one; 0 of none."""
    return float(nn.utils.get_total_norm(tensors, norm_type=math.inf))


def non_finite(what: str, batch: Batch, rows: Tensor, step: int) -> NonFiniteError:
    """The error that ends a run, with the questions of these rows."""
    names = sorted({batch.question_ids[row] for row in rows.tolist()})
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    return NonFiniteError(
        f"step {step}: the {what} is not finite.\nQuestions: {shown}.\n"
        "The last good checkpoint is kept. A lower optim.lr or optim.max_grad_norm often helps."
    )
