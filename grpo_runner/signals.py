"""What a run does when it is asked to end: Ctrl-C by a person, SIGTERM or SIGUSR1 by a scheduler.

Outside of training either ends what goes on at once, and nothing is lost: a run is its last checkpoint. In training the
first lets the step finish and be saved. A person's second one stops at once; a scheduler's does not, for the same one
often arrives twice (from Slurm to every process, and once more from srun or torchrun), and what does not wait kills.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from .errors import Interrupted, Preempted, Stopped

# SIGTERM: Slurm's pre-emption, `kill`, Kubernetes. SIGUSR1: what `sbatch --signal=USR1@600` sends before the end.
SCHEDULERS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGUSR1") if hasattr(signal, name))
ALL = (signal.SIGINT, *SCHEDULERS)


def error_of(number: int) -> type[Interrupted]:
    """What a run that was asked to end by this signal raises."""
    return Interrupted if number == signal.SIGINT else Preempted


@contextmanager
def at_once() -> Iterator[None]:
    """A scheduler's signal raises Stopped, as Ctrl-C raises KeyboardInterrupt. Does nothing outside the main thread."""

    def handler(number: int, frame: FrameType | None) -> None:
        raise Stopped(code=Preempted.exit_code)

    with _handled(dict.fromkeys(SCHEDULERS, handler)):
        yield


@contextmanager
def finishing_the_step(say: Callable[[str], None]) -> Iterator[Callable[[], int]]:
    """Gives `asked`: the number of the signal that asked the run to end, 0 where none did.

    A second Ctrl-C raises KeyboardInterrupt. The first may come after a scheduler's signal: job scripts hand one on.
    """
    asked: list[int] = []

    def handler(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and signal.SIGINT in asked:
            raise KeyboardInterrupt
        if not asked:
            name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
            again = "once more" if name == "Ctrl-C" else "Ctrl-C twice"
            say(f"{name}: finishing this step and saving; {again} stops at once")
        asked.append(number)

    with _handled(dict.fromkeys(ALL, handler)):
        yield lambda: asked[0] if asked else 0


@contextmanager
def put_off() -> Iterator[None]:
    """What must not be cut in two: signals that arrive in it are handled after it, the last one of them."""
    asked: list[tuple[int, FrameType | None]] = []
    before: dict[int, Any] = {number: signal.getsignal(number) for number in ALL}
    # a default action cannot be called afterwards: it is left to the system
    late = {number: lambda *given: asked.append(given) for number in ALL if callable(before[number])}
    with _handled(late):
        yield
    if asked:
        before[asked[-1][0]](*asked[-1])


@contextmanager
def _handled(handlers: dict[int, Any]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only there can signals be received
        yield
        return
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
