"""Processes started as torchrun would, their imports paid once for a file of tests, and the run they are compared with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parallel.runs import JOB, ROOT, alone


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """start(folder, world, *overrides, first="") -> (exit codes, what each process printed)."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=str(ROOT), TOKENIZERS_PARALLELISM="false")
    command = [sys.executable, str(Path(__file__).with_name("launch.py"))]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    )

    def launch(folder: Path, world: int, *overrides: str, first: str = "") -> tuple[list, list[str]]:
        logs = tmp_path_factory.mktemp("logs")
        words = [*JOB, *overrides, f"hydra.run.dir={folder}"]
        order = {"world": world, "words": words, "logs": str(logs), "first": first}
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        codes = json.loads(process.stdout.readline())
        return codes, [(logs / f"{rank}.txt").read_text() for rank in range(world)]

    yield launch
    process.stdin.close()
    process.wait(30)


@pytest.fixture(autouse=True, scope="module")
def without_charts():
    """They take half of the time of a small run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("grpo_runner.tracking.charts.draw", lambda *_, **__: {})
        yield


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> Path:
    return alone(tmp_path_factory.mktemp("one") / "run")
