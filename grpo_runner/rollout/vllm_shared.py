"""One vLLM for all processes of a run, such as one that splits the model over their GPUs (tensor parallel)."""

from __future__ import annotations

from typing import Any

from ..parallel import Ranks
from .vllm_process import VllmProcess


class SharedVllm:
    """Backend's calls (vllm_server.py) for what all processes ask, answered by the one that rank 0 has.

    Called in all processes of the run, with no requests in one that has none.
    """

    def __init__(self, backend: VllmProcess | None, ranks: Ranks) -> None:
        self.backend, self.ranks = backend, ranks

    def generate(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        """See Backend.generate; adapter, version and sampling are those of rank 0, which all processes have alike."""
        asked = self.ranks.gather([order["requests"]], "vllm")
        requests = [request for each in asked for request in each]

        def answers() -> list[dict[str, Any]]:
            assert self.backend is not None
            return self.backend.generate({**order, "requests": requests}) if requests else []

        rows = self.ranks.by_first(answers, "vllm's answers")
        counts = [sum(len(seeds) for _, seeds in each) for each in asked]
        first = sum(counts[: self.ranks.rank])
        return rows[first : first + counts[self.ranks.rank]]

    def close(self) -> None:
        """See Backend.close."""
        if self.backend is not None:
            self.backend.close()
