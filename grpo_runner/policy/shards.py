"""A frozen base that is shared out: each process keeps a slice of every matrix, and a layer is whole while it computes.

The slices are FSDP2's (`fully_shard`, Zhao et al. 2023, arXiv 2304.11277). When a layer is gathered is decided here,
since our own forward pass reads weights without calling modules, which is what FSDP's hooks wait for. Every gather
takes all processes, while processes have other numbers of passes to make. So each pass over the layers begins with a
meeting, in which each process says what it is about to do, and one that has no pass left takes part in the gathers of
the others (`follow`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ..errors import InputError, MachineError
from ..parallel import Ranks

T = TypeVar("T")


class Whole:
    """Where each process has the whole base: nothing to gather and nobody to wait for."""

    on = False

    def backward(self, loss: Tensor) -> None:
        """loss.backward()."""
        loss.backward()

    def follow(self) -> None:
        """Nothing to do."""


class Shards(Whole):
    """layers: as `split` has made them, in order. Between passes each process holds its slices alone."""

    on = True

    def __init__(self, layers: Sequence[Any], ranks: Ranks) -> None:
        self.layers, self.ranks = layers, ranks
        trained = [any(parameter.requires_grad for parameter in layer.parameters()) for layer in layers]
        # of the layers before the first that is trained, no gradient is asked for
        self.first = trained.index(True) if any(trained) else len(layers)

    def forward(self, read: Callable[[Any], T]) -> Iterator[T]:
        """What `read` gives of each layer, which is whole until the next is asked for. A pass of its own."""
        self._meet("forward")
        with self._inside():
            for number, layer in enumerate(self.layers):
                self.open(number, number + 1)
                yield read(layer)
                self.close(number)

    def backward(self, loss: Tensor) -> None:
        """loss.backward(), in which each layer is gathered once more (`leave`, `enter`). A pass of its own."""
        self._meet("backward")
        with self._inside():
            loss.backward()
            for number in range(len(self.layers)):
                self.close(number)  # the first that is trained: nothing asks for the gradient of its input

    def follow(self) -> None:
        """Take part in the others' passes until no process has one left: at the end of every stretch that has some."""
        while kind := self._meet(None):
            with self._inside():
                numbers = range(len(self.layers))
                for number in numbers if kind == "forward" else reversed(numbers[self.first :]):
                    self.open(number, number + 1 if kind == "forward" else number - 1)
                    self.close(number)

    def open(self, number: int, then: int) -> None:
        """Have a layer whole, and begin to gather the one that comes then. Raises MachineError."""
        try:
            self.layers[number].unshard()
            if (0 if then > number else self.first) <= then < len(self.layers):
                self.layers[then].unshard(async_op=True)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:  # how torch.distributed tells it
            raise MachineError(
                f"Process {self.ranks.rank} of {self.ranks.world}: another process of this run ended within a pass.\n"
                "The last good checkpoint is kept; the same command goes on from there."
            ) from error

    def close(self, number: int) -> None:
        """Have a slice of the layer alone."""
        self.layers[number].reshard()

    def _meet(self, kind: str | None) -> str | None:
        """What the processes do next that do anything. Raises the error of one that has failed."""
        said = {each for each in self.ranks.gather([kind], "pass") if each is not None}
        if len(said) > 1:
            raise RuntimeError(f"the processes are in different passes ({', '.join(sorted(said))})")
        return next(iter(said), None)

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """What fails from here to the end cannot be told to the others, who are in the middle of a gather."""
        self.ranks.unheard = True
        yield
        self.ranks.unheard = False  # not after an error


WHOLE = Whole()


def shards_of(causal: Any) -> Whole:
    """Those of a causal LM of transformers."""
    found: Whole = getattr(causal, "shards", WHOLE)
    return found


class Gathered(Collection[T]):
    """The layers of a base that is shared out, as `read` gives them; going through them is a pass of all processes."""

    def __init__(self, shards: Shards, read: Callable[[Any], T]) -> None:
        self.shards, self.read = shards, read

    def __len__(self) -> int:
        return len(self.shards.layers)

    def __iter__(self) -> Iterator[T]:
        return self.shards.forward(self.read)

    def __contains__(self, layer: object) -> bool:
        return False


def enter(layers: Collection[Any], number: int, x: Tensor) -> Tensor:
    """x, on its way into a layer; on the way back, the layer is done with."""
    return _Enter.apply(x, layers.shards, number) if _pulled(layers, x) else x  # type: ignore[attr-defined]


def leave(layers: Collection[Any], number: int, x: Tensor) -> Tensor:
    """x, on its way out of a layer; on the way back, the layer is needed."""
    return _Leave.apply(x, layers.shards, number) if _pulled(layers, x) else x  # type: ignore[attr-defined]


def _pulled(layers: Collection[Any], x: Tensor) -> bool:
    return isinstance(layers, Gathered) and x.requires_grad and torch.is_grad_enabled()


class _Enter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, shards: Shards, number: int) -> Tensor:
        ctx.shards, ctx.number = shards, number
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        ctx.shards.close(ctx.number)
        return gradients[0], None, None


class _Leave(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, shards: Shards, number: int) -> Tensor:
        ctx.shards, ctx.number = shards, number
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        ctx.shards.open(ctx.number, ctx.number - 1)
        return gradients[0], None, None


def split(causal: Any, which: str, device: torch.device, ranks: Ranks) -> None:
    """Share out the frozen matrices of each layer of `causal`, in place, and bring the rest to the device.

    which: `machine`, over the processes of each machine, or `all`. Embedding, head, norms, biases and what is trained
    stay whole. The model may come from the CPU: a layer at a time goes to the device. Raises InputError.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    width = _width(which, ranks.world)
    kind = device.type
    mesh = init_device_mesh(kind, (ranks.world // width, width), mesh_dim_names=("copies", "slices"))["slices"]
    layers = list(causal.model.layers)
    for layer in layers:
        kept = {parameter for parameter in layer.parameters() if parameter.requires_grad or parameter.dim() < 2}
        fully_shard(layer, mesh=mesh, reshard_after_forward=True, ignored_params=kept)
    sliced = {id(parameter) for layer in layers for parameter in layer.parameters() if hasattr(parameter, "placements")}
    for tensor in (*causal.parameters(), *causal.buffers()):
        if id(tensor) not in sliced:
            tensor.data = tensor.data.to(device)
    causal.shards = Shards(layers, ranks)


def _width(which: str, world: int) -> int:
    """Over how many processes each matrix is shared out."""
    if which == "all":
        return world
    width = int(os.environ.get("LOCAL_WORLD_SIZE", world))
    if world % width:
        raise InputError(
            f"shard_base=machine: {world} processes are not {width} on each machine. Allowed: shard_base=all, or none."
        )
    return width


def held_bytes(model: nn.Module) -> int:
    """Bytes of the model's parameters that this process holds, its slices of those that are shared out."""
    own = [parameter.to_local() if hasattr(parameter, "to_local") else parameter for parameter in model.parameters()]
    return sum(tensor.numel() * tensor.element_size() for tensor in own)
