"""One vLLM for several processes of a run: one that splits the model over their GPUs (tensor parallel)."""

from __future__ import annotations

from typing import Any

from ..errors import InputError
from ..parallel import Ranks
from .vllm_process import VllmProcess


def sharing(ranks: Ranks, gpus: int) -> range:
    """The ranks that share a vLLM over so many GPUs with this one; the first of them has it. Raises InputError."""
    size = min(gpus, ranks.world)
    if ranks.world % size:
        raise InputError(
            f"rollout.vllm_tensor_parallel={gpus}: {ranks.world} processes are no multiple of it.\n"
            "Allowed: a divisor of the number of processes."
        )
    first = ranks.rank - ranks.rank % size
    return range(first, first + size)


class SharedVllm:
    """Backend's calls (vllm_server.py) for what the processes `sharing` ask, answered by the vLLM of the first of them.

    backend: None in the others. Called in all processes of the run, with no requests in one that has none.
    """

    def __init__(self, backend: VllmProcess | None, ranks: Ranks, sharing: range) -> None:
        self.backend, self.ranks, self.sharing = backend, ranks, sharing

    def generate(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        """See Backend.generate; adapter, version and sampling are the first's, which all processes have alike."""
        asked = self.ranks.gather([order["requests"]], "vllm")
        requests = [request for rank in self.sharing for request in asked[rank]]
        made: list[dict[str, Any]] = []
        if self.backend is not None and requests:
            made = self.backend.generate({**order, "requests": requests})
        rows = self.ranks.gather([made], "vllm's answers")[self.sharing.start]
        counts = {rank: sum(len(seeds) for _, seeds in asked[rank]) for rank in self.sharing}
        first = sum(count for rank, count in counts.items() if rank < self.ranks.rank)
        return rows[first : first + counts[self.ranks.rank]]

    def close(self) -> None:
        """See Backend.close."""
        if self.backend is not None:
            self.backend.close()
