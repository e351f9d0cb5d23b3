"""The processes of one run, as torchrun starts them: which there are, how work is cut, how they meet and how they stop.

One rule keeps them together. Every meeting begins with `_meet`, in which each process says whether it can go on, and
one that fails anywhere says so at its next meeting, whichever that is. So all of them stop with the same error, none
waits for one that is gone, and code between two meetings needs no care. Without torchrun there is one process, no group
and no meeting. torch is imported when the processes join.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from . import errors
from .errors import InputError, Interrupted, MachineError, Preempted, RunnerError, exit_code_of, in_a_line
from .signals import put_off

if TYPE_CHECKING:
    from torch import Tensor, device

T = TypeVar("T")
# How long one process may be ahead of another, such as while a model is fetched. An ended process is seen at once.
PATIENCE = timedelta(hours=2)


class _Said(NamedTuple):
    """What a process brings to a meeting: where it stands, and the class and text of its error, or what it gives."""

    where: str
    error: tuple[str, str] | None
    value: Any


class Ranks:
    """Process `rank` of `world`. Rank 0 leads: it alone writes to the run's folder and to the terminal."""

    def __init__(self, rank: int = 0, world: int = 1, local: int = 0) -> None:
        self.rank, self.world, self.local = rank, world, local
        self.agreed = False  # all have heard of the error that ends the run
        self.lost = False  # a process is gone: there will be no more meetings
        self.unheard = False  # the others are in the middle of a gather (policy/shards.py), and hear of no error
        self.waited = 0.0  # seconds spent in meetings since `idle` was last asked

    @property
    def leads(self) -> bool:
        return self.rank == 0

    @property
    def speaks(self) -> bool:
        """Whether this process says what ended the run: the first for all, unless they cannot have talked about it."""
        return self.leads or not self.agreed

    @property
    def key(self) -> tuple[int, ...]:
        """What keys the draws that each process makes for itself; nothing for the first, as without torchrun."""
        return () if self.leads else (self.rank,)

    # --- cutting work

    def share(self, count: int) -> range:
        """Which of `count` things, in order, are this process's; the shares differ by one at most and may be empty."""
        return range(self.rank * count // self.world, (self.rank + 1) * count // self.world)

    def rows(self, rows: Tensor, groups_N: Tensor, lengths_N: Tensor) -> Tensor:
        """Those of `rows` that this process computes: whole groups, so that a prompt is shared by its answers, or
        single rows where there are fewer groups than processes. All shares together are `rows`, each once.

        The longest group that is left goes to the process that has the fewest tokens so far (Graham 1969: at most
        4/3 of the best there is), the same in all processes. lengths_N: tokens of each row's completion.
        """
        if self.world == 1:
            return rows
        slots, places = groups_N[rows].unique(return_inverse=True)
        if len(slots) < self.world:
            own = self.share(len(rows))
            return rows[own.start : own.stop]
        tokens = lengths_N.new_zeros(len(slots)).index_add_(0, places, lengths_N[rows]).tolist()
        given = [0] * self.world
        mine = []
        for slot in sorted(range(len(slots)), key=lambda slot: -tokens[slot]):
            rank = given.index(min(given))
            given[rank] += tokens[slot] + 1
            mine += [slot] if rank == self.rank else []
        return rows[(places[:, None] == slots.new_tensor(mine)).any(1)]

    def device(self, chosen: device) -> device:
        """A GPU of its own for each process of a machine. Raises InputError where there are too few."""
        if self.world == 1 or chosen.type != "cuda":
            return chosen
        import torch

        if self.local >= (there := torch.cuda.device_count()):
            raise InputError(
                f"device=cuda: process {self.local + 1} of this machine finds {there} GPUs, and each needs its own.\n"
                f"Allowed: --nproc-per-node {there} or fewer; device=cpu."
            )
        torch.cuda.set_device(self.local)
        return torch.device("cuda", self.local)

    # --- meeting

    def gather(self, values: Sequence[T], where: str) -> list[T]:
        """What all processes give, by rank and in order."""
        return [value for given in self._meet(where, list(values)) for value in given]

    def by_first(self, work: Callable[[], T], where: str) -> T:
        """What `work` gives in rank 0, which alone does it, for all."""
        given: T = self._meet(where, work() if self.leads else None)[0]
        return given

    def any(self, flag: bool, where: str) -> bool:
        """Whether any process says so."""
        return any(self._meet(where, flag))

    def idle(self) -> dict[str, float]:
        """{"time/rank_wait_s": mean over the processes of the seconds that each has waited for the others since this
        was last asked}; nothing where there is one. The slowest waits for the messages alone.
        """
        if self.world == 1:
            return {}
        waited = self.gather([self.waited], "waiting")
        self.waited = 0.0
        return {"time/rank_wait_s": sum(waited) / self.world}

    def check_same(self, own: Mapping[str, str]) -> None:
        """Raise InputError where processes, on several machines, were given what is not the same, by its name."""
        given = self._meet("comparing", dict(own))
        if differ := [name for name in own if len({theirs[name] for theirs in given}) > 1]:
            raise InputError(
                f"{differ[0]}: not the same in all {self.world} processes of this run.\n"
                "Each machine needs the same command, the same files, and the same version of this package."
            )

    def sum(self, tensor: Tensor, where: str) -> Tensor:
        """The sum over all processes, the same bits in each; in place where the tensor is contiguous."""
        if self.world > 1:
            import torch.distributed as dist

            tensor = tensor.contiguous()
            with self._undisturbed():
                self._meet(where, None)
                dist.all_reduce(tensor)
        return tensor

    def sum_gradients(self, parameters: Iterable[Any]) -> None:
        """Add up `.grad` over all processes, in one buffer. It stays None where no process has one: AdamW then leaves
        the parameter alone, weight decay included, as it would with one process.
        """
        if self.world == 1:
            return
        import torch

        tensors = list(parameters)
        has = torch.tensor([parameter.grad is not None for parameter in tensors])
        parts = [(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in tensors]
        flat = self.sum(torch.cat([*parts, has.to(parts[0])]), "gradient")
        *sums, known = flat.split([part.numel() for part in parts] + [len(parts)])
        for parameter, total, count in zip(tensors, sums, known.tolist(), strict=True):
            parameter.grad = total.view_as(parameter) if count else None

    def from_first(self, tensors: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
        """The tensors of rank 0, bit by bit, on the CPU; those that other processes bring are not looked at."""
        if self.world == 1:
            return dict(tensors)
        import torch
        import torch.distributed as dist

        own = {name: value.detach().cpu().contiguous() for name, value in tensors.items()} if self.leads else {}
        with self._undisturbed():
            shapes = self.by_first(lambda: {name: (value.shape, value.dtype) for name, value in own.items()}, where)
            for name, (shape, dtype) in shapes.items():
                if not self.leads:
                    own[name] = torch.empty(shape, dtype=dtype)
                dist.broadcast(own[name], src=0)
        return own

    # --- stopping

    @contextmanager
    def together(self) -> Iterator[None]:
        """What fails inside in one process ends it in all, with the error of the lowest rank that has one.

        Raises what that was: a RunnerError of the same kind and words elsewhere, and a RunnerError that names the rank
        for an error that is a fault. A context inside another one only ends earlier.
        """
        self.agreed = False
        try:
            yield
        except BaseException as error:
            self.lost = self.lost or self.unheard
            if self.world == 1 or self.agreed or self.lost:
                raise
            self._meet("end", None, error)
        else:
            if not (self.agreed or self.lost):
                self._meet("end", None)

    def _meet(self, where: str, value: Any, error: BaseException | None = None) -> list[Any]:
        """What each process brings, by rank. Raises the error of the lowest rank that has one."""
        if self.world == 1:
            return [value]
        import torch.distributed as dist

        brought: list[Any] = [None] * self.world
        began = time.perf_counter()
        with self._undisturbed():
            dist.all_gather_object(brought, _Said(where, _told(error, self.rank), value))
        self.waited += time.perf_counter() - began
        failed = next((rank for rank, said in enumerate(brought) if said.error is not None), None)
        if failed is not None:
            self.agreed = True
            if error is not None and (failed == self.rank or not isinstance(error, RunnerError)):
                raise error  # its own, with where it came from
            name, words = brought[failed].error
            raise getattr(errors, name)(words)
        if len({said.where for said in brought}) > 1:
            places = ", ".join(sorted({said.where for said in brought}))
            self.lost = True
            raise RunnerError(
                f"A fault in grpo_runner: the processes of this run are not at the same place ({places})."
            )
        return [said.value for said in brought]

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """A meeting is several messages: Ctrl-C waits for the last. One with a process that is gone ends the run."""
        with put_off():
            try:
                yield
            except RuntimeError as error:  # how torch.distributed tells it
                self.lost = True
                raise MachineError(
                    f"Process {self.rank} of {self.world}: another process of this run ended or cannot be reached.\n"
                    "The last good checkpoint is kept; the same command goes on from there."
                ) from error


def _told(error: BaseException | None, rank: int) -> tuple[str, str] | None:
    """An error as the others raise it: the name of a class in errors.py, and what it says."""
    if error is None:
        return None
    if isinstance(error, KeyboardInterrupt):
        kind = Preempted if exit_code_of(error) == Preempted.exit_code else Interrupted
        return kind.__name__, "Interrupted. The same command goes on from the last checkpoint."
    if isinstance(error, RunnerError) and hasattr(errors, type(error).__name__):
        return type(error).__name__, str(error)
    return RunnerError.__name__, f"Process {rank} failed: {in_a_line(error)}\nIts own lines say where."


def world() -> int:
    """Processes of this run: WORLD_SIZE, where torchrun (or whoever starts them in its way) has set it with RANK."""
    return int(os.environ["WORLD_SIZE"]) if {"RANK", "WORLD_SIZE"} <= set(os.environ) else 1


def speaks() -> bool:
    """Whether this process tells the user of an error; see Ranks.speaks."""
    return not ranks.cache_info().currsize or ranks().speaks


@cache
def ranks() -> Ranks:
    """The processes of this run, joined at the first call. Raises MachineError where they do not find each other."""
    if world() == 1:
        return Ranks()
    import torch
    import torch.distributed as dist

    # it keeps whatever group there is when it is imported, by the defaults of its functions; a group that is not
    # destroyed has threads still, and an exit with them may abort
    import torch.distributed.nn

    own = Ranks(int(os.environ["RANK"]), world(), int(os.environ.get("LOCAL_RANK", "0")))
    # what a process says goes by gloo, what is summed on a GPU by nccl
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
    if not dist.is_initialized():
        try:
            dist.init_process_group(backend, timeout=PATIENCE)
        except (RuntimeError, ValueError) as error:
            raise MachineError(
                f"Process {own.rank} of {own.world} does not find the others: {in_a_line(error)}\n"
                "Start them with torchrun; on several machines with one --rdzv-endpoint that all can reach."
            ) from error
        atexit.register(_leave, own)
    return own


def _leave(own: Ranks) -> None:
    """The last meeting, so that torchrun, which ends all when one has failed, does not end rank 0 while it writes."""
    import torch.distributed as dist

    if not own.lost:
        with suppress(Exception):
            dist.all_gather_object([None] * own.world, None)
    with suppress(Exception):
        dist.destroy_process_group()
