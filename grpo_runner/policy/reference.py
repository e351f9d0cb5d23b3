"""The reference policy of the KL term: the policy as it was at some earlier moment, without a second model for LoRA."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..schema import RunConfig
from .models import read_adapter, trainable


class Reference:
    """Which policy that is, by `beta.reference`; with beta 0 there is none, and no memory is spent on it.

    initial: the policy as the run began, with the adapter it began from. base: the model with its adapter off. A
    folder: the model with that adapter. A fresh adapter is 0, so that both of the first cost nothing; another adapter
    is a copy of the trainable tensors, and full fine-tuning holds a copy of the model.
    `model` is what to call inside `active()`.
    """

    def __init__(self, policy: Any, config: RunConfig) -> None:
        self.policy, self.lora = policy, config.lora.enabled
        # the copy stays trainable in name, so that it is computed as the policy is, to the last digit; none trains it
        self.model = policy if self.lora else copy.deepcopy(policy)
        # LoRA: the tensors that stand in for the policy's own; None: the adapter is off
        self.held: dict[str, Tensor] | None = None
        if self.lora and config.beta.reference == "initial" and config.lora.adapter is not None:
            self.refresh()
        elif self.lora and config.beta.reference not in ("initial", "base"):
            folder = Path(config.beta.reference)
            self.held = read_adapter(folder, policy, config.lora, "beta.reference")

    @contextmanager
    def active(self) -> Iterator[None]:
        """Within this context, `model` computes as the reference."""
        if not self.lora:
            yield
        elif self.held is None:
            with self.policy.disable_adapter():
                yield
        else:
            self._swap(self.held)
            try:
                yield
            finally:
                self._swap(self.held)

    def refresh(self) -> None:
        """From here on, the reference is the policy as it stands (DeepSeekMath, Algorithm 1, line 3)."""
        if self.lora:
            self.held = {name: parameter.detach().clone() for name, parameter in trainable(self.policy).items()}
        else:
            self.load(trainable(self.policy))

    def state(self) -> Mapping[str, Tensor]:
        """The tensors that a checkpoint needs to have this reference again; none for an adapter that is off."""
        return trainable_like(self.model, self.policy) if not self.lora else (self.held or {})

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Inverse of `state`."""
        if self.lora:
            device = next(self.policy.parameters()).device
            self.held = {name: value.to(device).clone() for name, value in tensors.items()} or None
            return
        with torch.no_grad():
            for name, parameter in trainable_like(self.model, self.policy).items():
                parameter.copy_(tensors[name])

    def _swap(self, held: dict[str, Tensor]) -> None:
        for name, parameter in trainable(self.policy).items():
            parameter.data, held[name] = held[name], parameter.data


def trainable_like(model: nn.Module, policy: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters of `model` that bear the names of those that the policy trains."""
    names = trainable(policy)
    return {name: parameter for name, parameter in model.named_parameters() if name in names}
