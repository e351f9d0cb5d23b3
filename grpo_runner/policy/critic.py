"""PPO's critic: the value of the state before each token, from a linear head on a transformer's last hidden states.

Two kinds. `shared_base` has a LoRA adapter of its own over the base that the policy has as well: its tensors take the
places of the policy's for the length of a pass. `own_model` is a second model, as PPO had it (DeepSeekMath 4.1:
"another model of comparable size"), and trains of it what the policy trains of its own. The gradient of one never
reaches the other: after a pass the places hold the policy's tensors again, without a gradient.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..algorithm import explained_variance, value_loss
from ..schema import RunConfig
from .batch import Batch
from .models import trainable
from .optimizer import NotFinite, Stepper, non_finite
from .scorer import differentiated
from .update import Trainer
from .values import head_values, hidden_size


class Expected(NamedTuple):
    """What a rollout asks of the critic: values_NT as they were before the update, returns_NT that it is fitted to."""

    values_NT: Tensor
    returns_NT: Tensor


class Critic:
    """Values of states, fitted to returns by an optimizer of its own. `named` is what a checkpoint keeps.

    The head begins at 0, so that the first advantages are the plain returns; the adapter begins as the policy's does.
    """

    def __init__(self, trainer: Trainer, config: RunConfig) -> None:
        assert config.critic.lr is not None
        self.trainer, self.config, self.ranks = trainer, config.critic, trainer.ranks
        own = config.critic.kind == "own_model"
        self.model = copy.deepcopy(trainer.model) if own else trainer.model
        self.score = trainer.scorer(self.model) if own else trainer.score
        places = trainable(self.model)
        # shared_base: what stands in the policy's places during a pass; own_model: the model's own parameters
        self.tensors: dict[str, nn.Parameter] = (
            places if own else {name: nn.Parameter(value.detach().clone()) for name, value in places.items()}
        )
        dtype = torch.promote_types(next(iter(places.values())).dtype, torch.float32)
        self.head = nn.Linear(hidden_size(self.model), 1, device=trainer.device, dtype=dtype)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        head = {f"value_head.{name}": value for name, value in self.head.named_parameters()}
        self.named: dict[str, nn.Parameter] = {**self.tensors, **head}
        updates = config.steps * config.optim.updates_per_rollout
        self.stepper = Stepper(self.named, replace(config.optim, lr=config.critic.lr), updates, trainer.device)

    @torch.no_grad()
    def values(self, batch: Batch, rows: Tensor) -> Tensor:
        """(N, T) float64 values of the state before each token; 0 outside the mask, and of rows not asked for."""
        values_NT = torch.zeros(batch.mask_NT.shape, dtype=torch.float64)
        with self._in_place(), self.trainer.precision():
            own = self.ranks.rows(rows, batch.groups_N, batch.lengths_N)
            self.trainer.in_pieces(
                self.score, batch, own, values_NT, lambda piece: head_values(self.score, self.head, batch, piece)
            )
            self.trainer.shards.follow()
        return self.ranks.sum(values_NT, "values")

    def update(
        self, batch: Batch, mask_NT: Tensor, minibatches: Sequence[Tensor], expected: Expected, step: int
    ) -> dict[str, float | None]:
        """One optimizer step for each minibatch of the policy's: the mean value loss over its tokens.

        Gives what is logged: the loss of the first step, the norm of the gradient (mean over the steps), and how much
        of the variance of the returns the values explained before. Raises NonFiniteError before a step that would spoil
        the critic.
        """
        losses: list[float] = []
        norms: list[float] = []
        for number, minibatch in enumerate(minibatches):
            self.stepper.set_rate(step * len(minibatches) + number)
            if not mask_NT[minibatch].any():
                continue
            losses.append(self._accumulate(batch, mask_NT, minibatch, expected, (step, number)))
            self.ranks.sum_gradients(self.named.values())
            if not math.isfinite(losses[-1]):
                self.stepper.drop_gradients()
                raise non_finite("critic's loss", batch, minibatch, step)
            try:
                norms.append(self.stepper.step())
            except NotFinite as what:
                raise non_finite(f"critic's {what}", batch, minibatch, step) from None
        return {
            "critic/loss": losses[0] if losses else None,
            "critic/grad_norm": sum(norms) / len(norms) if norms else None,
            "critic/explained_variance": explained_variance(expected.values_NT, expected.returns_NT, mask_NT),
            "critic/value": float(expected.values_NT[mask_NT].mean()) if mask_NT.any() else None,
        }

    def _accumulate(
        self, batch: Batch, mask_NT: Tensor, minibatch: Tensor, expected: Expected, draw: tuple[int, int]
    ) -> float:
        """Leave the gradient of one minibatch in the critic's own `.grad`; gives its loss, over all processes."""
        tokens = int(mask_NT[minibatch].sum())
        while True:
            total = 0.0
            try:
                with (
                    self._in_place(),
                    differentiated(self.model),
                    self.trainer.dropout_draws("critic dropout", *draw),
                ):
                    own = self.ranks.rows(minibatch, batch.groups_N, batch.lengths_N)
                    for piece in self.score.cut(batch, own, self.trainer.budget.tokens):
                        total += self._backward(batch, mask_NT, piece, expected, tokens)
                    self.trainer.shards.follow()
                return float(self.ranks.sum(torch.tensor(total, dtype=torch.float64), "critic"))
            except torch.OutOfMemoryError:
                pass  # out of the handler first: its traceback keeps the tensors of the failed pass
            self.stepper.drop_gradients()
            self.trainer.budget.halve()

    def _backward(self, batch: Batch, mask_NT: Tensor, piece: Tensor, expected: Expected, tokens: int) -> float:
        with self.trainer.precision():
            values_BT = head_values(self.score, self.head, batch, piece)
        width_T = values_BT.shape[1]
        old_BT, returns_BT = (part_NT[piece, :width_T].to(values_BT) for part_NT in expected)
        loss_BT = value_loss(values_BT, old_BT, returns_BT, self.config.clip)
        loss = (loss_BT * mask_NT[piece, :width_T].to(loss_BT)).sum() / tokens
        self.trainer.shards.backward(loss)
        return float(loss.detach())

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        """Within this context, `model` computes with the critic's tensors, and their gradients become the critic's."""
        if self.model is not self.trainer.model:
            yield
            return
        places = self.trainer.named
        self._swap(places)
        try:
            yield
        finally:
            self._swap(places)
            for name, place in places.items():
                if place.grad is not None:  # the policy's own was dropped by its last optimizer step
                    grad, own = place.grad, self.tensors[name]
                    own.grad, place.grad = grad if own.grad is None else own.grad + grad, None

    def _swap(self, places: Mapping[str, nn.Parameter]) -> None:
        for name, place in places.items():
            own = self.tensors[name]
            place.data, own.data = own.data, place.data

    def state(self) -> dict[str, Tensor]:
        """Tensors and optimizer state for a checkpoint, under `tensors/` and `optimizer/`."""
        tensors = {f"tensors/{name}": value.detach() for name, value in self.named.items()}
        return tensors | {f"optimizer/{name}": value for name, value in self.stepper.state().items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Inverse of `state`."""
        parts: dict[str, dict[str, Tensor]] = {"tensors": {}, "optimizer": {}}
        for key, value in state.items():
            kind, _, name = key.partition("/")
            parts[kind][name] = value
        with torch.no_grad():
            for name, value in parts["tensors"].items():
                self.named[name].copy_(value)
        self.stepper.load_state(parts["optimizer"])
