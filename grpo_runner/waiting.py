"""What is waited for, said on stderr where it takes longer than a user may wonder about."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from . import parallel

SOON = 3.0  # seconds in which what is in the local cache is there


@contextmanager
def waiting(what: str, soon: float = SOON) -> Iterator[None]:
    """Say once that `what` is waited for, where it takes more than `soon` seconds; of several processes the first."""

    def say() -> None:
        print(f"waiting for {what}", file=sys.stderr, flush=True)

    timer = threading.Timer(soon, say)
    timer.daemon = True  # Ctrl-C ends the wait
    if parallel.speaks():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
