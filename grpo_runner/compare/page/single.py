"""The page of one run, in its own folder."""

from __future__ import annotations

import shlex
from pathlib import Path

from ...tracking.local import PAGE, REPORT
from ..types import Analysis

_BESIDE = (PAGE, "config.yaml", "metrics.jsonl", "evals.jsonl", "questions.parquet", "summary.json")


def write_run(folder: Path, analysis: Analysis | None = None) -> Path:
    """RUN/report.html, as `compare RUN` writes it. Raises InputError for a folder that is no run, MachineError."""
    from .html import write

    if analysis is None:
        from ..command import analyse, parse

        analysis = analyse(parse([str(folder)]))
    path = folder / REPORT
    beside = tuple(name for name in _BESIDE if (folder / name).exists())
    write(analysis, path, command=shlex.join(["python", "-m", "grpo_runner", "compare", str(folder)]), beside=beside)
    return path
