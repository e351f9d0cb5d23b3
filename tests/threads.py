"""Threads that stand for the processes of a run: a meeting is a place where all must be."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Meeting:
    """What `world` threads bring to the same place; it breaks in all of them where one is gone."""

    def __init__(self, world: int) -> None:
        self.barrier, self.brought = threading.Barrier(world), {}

    def __call__(self, rank: int, what: object) -> list:
        self.brought[rank] = what
        self.barrier.wait()
        found = [self.brought[rank] for rank in sorted(self.brought)]
        self.barrier.wait()
        return found


def together(world: int, work: Callable[[int, Meeting], None]) -> list[BaseException]:
    """Call work(rank, meeting) in a thread for each rank; gives what they raised. The meeting ends with the first."""
    meeting, errors = Meeting(world), []

    def run(rank: int) -> None:
        try:
            work(rank, meeting)
        except BaseException as error:
            errors.append(error)
            meeting.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors
