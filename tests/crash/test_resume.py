"""A run killed at any place and typed again equals the run that was left alone, and the same seed gives the same run."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from safetensors.torch import load_file

from tests.program import Program

STEPS = 5
JOB = [
    "steps=5",
    "questions_per_step=4",
    "group_size=4",
    "evaluation.every=2",
    "evaluation.questions=8",
    "evaluation.samples=1",
]
JOB += [
    "tracking=off",
    "data.train_size=64",
    "data.eval_size=8",
    "max_new_tokens=16",
    "tracking.completions_every=2",
    "optim.lr=0.003",
]


def program(folder: Path, *extra: str) -> subprocess.Popen:
    """The program as a user starts it."""
    command = [sys.executable, "-m", "grpo_runner", *JOB, *extra, f"hydra.run.dir={folder}"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def start(folder: Path, *extra: str) -> Program:
    """The same with its imports done, for all that is held against it."""
    return Program(*JOB, *extra, f"hydra.run.dir={folder}")


def finish(folder: Path, *extra: str, start: Callable[..., subprocess.Popen | Program] = start) -> str:
    process = start(folder, *extra)
    output, _ = process.communicate(timeout=180)
    assert process.returncode == 0, output
    return output


def without_times(path: Path) -> list[dict]:
    return [
        {k: v for k, v in json.loads(line).items() if not k.startswith("time/")}
        for line in path.read_text().splitlines()
    ]


def results(folder: Path) -> dict:
    """What must be equal: metrics and evaluations as text (times aside), question rows, texts, the trained adapter."""
    adapter = load_file(folder / "adapter" / "adapter_model.safetensors")
    return {
        "metrics": json.dumps(without_times(folder / "metrics.jsonl")),
        "evals": json.dumps(without_times(folder / "evals.jsonl")),
        "questions": (folder / "questions.parquet").read_bytes(),
        **{
            kind: {file.name: file.read_bytes() for file in sorted((folder / kind).iterdir())}
            for kind in ("completions", "evaluations")
        },
        "adapter": {name: value.numpy().tobytes() for name, value in adapter.items()},
    }


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> dict:
    """The results of the real program, which has other hashes of strings than the others, too."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    finish(folder, start=program)
    return results(folder)


def test_the_same_seed_twice_is_byte_equal_and_another_is_not(uninterrupted, tmp_path):
    finish(tmp_path / "again")
    assert results(tmp_path / "again") == uninterrupted
    finish(tmp_path / "other", "seed=1")
    other = results(tmp_path / "other")  # negative control
    assert all(other[name] != uninterrupted[name] for name in uninterrupted)


@pytest.mark.parametrize(
    "place", [pytest.param("while loading", marks=pytest.mark.slow), "between checkpoints", "in the last step"]
)
def test_killed_and_typed_again_equals_uninterrupted(uninterrupted, tmp_path, place):
    folder = tmp_path / "run"
    process = start(folder, "checkpoint.every=2")
    ready = {
        "while loading": lambda: (folder / ".lock").exists(),
        # step 2 is recorded and its checkpoint (after step 3) is not yet
        "between checkpoints": lambda: lines(folder / "metrics.jsonl") >= 3,
        "in the last step": lambda: lines(folder / "metrics.jsonl") >= STEPS - 1,
    }[place]
    while not ready() and process.poll() is None:
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (folder / "DONE").exists()
    finish(folder, "checkpoint.every=2")
    assert results(folder) == uninterrupted


MOVES = ["beta=0.5", "beta.refresh_every=3", "rollout.dynamic_sampling=2", "tracking.probe_every=2", "steps=8"]


@pytest.mark.slow
def test_a_reference_that_moves_refills_and_the_probe_survive_a_kill(tmp_path):
    """Killed after the reference was renewed at step 3 and before it would be at 6: it must come from the checkpoint."""
    finish(tmp_path / "whole", *MOVES)
    folder = tmp_path / "run"
    saved = killed(folder, 5, *MOVES)
    assert (saved / "reference.safetensors").exists()
    finish(folder, *MOVES)
    assert results(folder) == results(tmp_path / "whole")
    assert (folder / "probe.jsonl").read_bytes() == (tmp_path / "whole" / "probe.jsonl").read_bytes()
    finish(tmp_path / "fixed", *MOVES, "beta.refresh_every=0")  # negative control: the reference matters
    assert results(tmp_path / "fixed")["adapter"] != results(folder)["adapter"]


@pytest.mark.parametrize("method", ["grpo_iterative", pytest.param("grpo_process", marks=pytest.mark.slow)])
def test_a_method_whose_reference_is_renewed_survives_a_kill(tmp_path, method):
    """Killed in a round: the reference of its beginning is neither the policy of then nor the initial one."""
    words = [f"method={method}", "beta.refresh_every=2", "beta.value=0.5", "steps=7"]
    finish(tmp_path / "whole", *words)
    folder = tmp_path / "run"
    saved = killed(folder, 4, *words)
    reference = load_file(saved / "reference.safetensors")
    policy = load_file(saved / "adapter.safetensors")
    assert any(not reference[name].equal(policy[name]) for name in policy)
    assert any(value.any() for name, value in reference.items() if "lora_B" in name)
    finish(folder, *words)
    assert results(folder) == results(tmp_path / "whole")
    finish(tmp_path / "fixed", *words, "beta.refresh_every=0")  # negative control: without its rounds another run
    assert results(tmp_path / "fixed")["adapter"] != results(folder)["adapter"]


def killed(folder: Path, rows: int, *words: str) -> Path:
    """Start a run and kill it once it has logged so many steps; gives the newest checkpoint's folder."""
    process = start(folder, *words)
    while lines(folder / "metrics.jsonl") < rows and process.poll() is None:
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (folder / "DONE").exists()
    return sorted((folder / "checkpoints").glob("step_*"))[-1]


def lines(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0


def test_ctrl_c_saves_says_how_to_go_on_and_exits_130(tmp_path):
    folder, longer = tmp_path / "run", ("steps=25", "evaluation.every=0")
    process = start(folder, *longer)
    while lines(folder / "metrics.jsonl") < 1:
        assert process.poll() is None
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130 and "The same command goes on" in output and "Traceback" not in output
    assert not (folder / "DONE").exists() and (folder / "questions.parquet").exists()
    made = lines(folder / "metrics.jsonl")
    assert (folder / "checkpoints" / f"step_{made:06d}").exists()  # the step that was being made is not lost
    assert f"going on from step {made}" in finish(folder, *longer)
    assert [row["step"] for row in without_times(folder / "metrics.jsonl")] == list(range(25))


def test_a_finished_run_typed_again_does_nothing(tmp_path):
    folder = tmp_path / "run"
    finish(folder)
    before = {file: file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file() and file.name != ".lock"}
    assert "finished before" in finish(folder)
    assert {file: file.stat().st_mtime_ns for file in before} == before


def test_more_steps_go_on_and_other_settings_are_refused(tmp_path):
    folder = tmp_path / "run"
    finish(folder)
    process = start(folder, "optim.lr=0.5")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2 and "optim.lr" in output and "Traceback" not in output
    finish(folder, "steps=6")
    assert [row["step"] for row in without_times(folder / "metrics.jsonl")] == list(range(6))
    assert set(pq.read_table(folder / "questions.parquet")["step"].to_pylist()) == set(range(6))


def test_a_second_process_on_the_folder_exits_3(tmp_path):
    folder = tmp_path / "run"
    first = start(folder, "steps=500")
    while lines(folder / "metrics.jsonl") < 1:
        assert first.poll() is None
        time.sleep(0.01)
    second = start(folder, "steps=500")
    output, _ = second.communicate(timeout=60)
    first.kill()
    first.wait()
    assert second.returncode == 3 and "another process" in output


@pytest.mark.slow
def test_killed_at_random_moments_until_it_is_done(uninterrupted, tmp_path):
    """Any moment counts: while loading, inside a log, inside a checkpoint. The run is typed again until it ends."""
    folder, draw, kills = tmp_path / "run", random.Random(0), 0
    while not (folder / "DONE").exists():
        process = program(folder)
        try:
            # later and later, so that it comes through on a slow machine too
            process.wait(timeout=draw.uniform(0.5, 2.0 + 0.4 * kills))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
        assert kills < 60
    assert kills > 0 and results(folder) == uninterrupted
