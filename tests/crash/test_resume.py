"""A run killed at any place and typed again equals the run that was left alone, and the same seed gives the same run."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from safetensors.torch import load_file

from grpo_runner.cli import main
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
    """The same with its imports done, for what is killed or sent a signal."""
    return Program(*JOB, *extra, f"hydra.run.dir={folder}")


def typed(folder: Path, *extra: str) -> int:
    """The exit code of the same in this process, which is another than the one that was killed."""
    return main([*JOB, *extra, f"hydra.run.dir={folder}"])


def finish(folder: Path, *extra: str) -> None:
    assert typed(folder, *extra) == 0


def without_times(path: Path) -> list[dict]:
    text = path.read_text() if path.exists() else ""  # none of evaluations where there are none
    return [{k: v for k, v in json.loads(line).items() if not k.startswith("time/")} for line in text.splitlines()]


def results(folder: Path) -> dict:
    """What must be equal: metrics and evaluations as text (times aside), question rows, texts, the trained adapter."""
    adapter = load_file(folder / "adapter" / "adapter_model.safetensors")
    return {
        "metrics": json.dumps(without_times(folder / "metrics.jsonl")),
        "evals": json.dumps(without_times(folder / "evals.jsonl")),
        "questions": (folder / "questions.parquet").read_bytes(),
        **{
            kind: {file.name: file.read_bytes() for file in sorted((folder / kind).glob("*"))}
            for kind in ("completions", "evaluations")
        },
        "adapter": {name: value.numpy().tobytes() for name, value in adapter.items()},
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """The folder of the real program, which has other hashes of strings than the others, too."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    process = program(folder)
    output, _ = process.communicate(timeout=180)
    assert process.returncode == 0, output
    return folder


@pytest.fixture(scope="module")
def uninterrupted(whole) -> dict:
    return results(whole)


def test_the_same_seed_twice_is_byte_equal_and_another_is_not(uninterrupted, tmp_path):
    finish(tmp_path / "again")
    assert results(tmp_path / "again") == uninterrupted
    finish(tmp_path / "other", "seed=1")
    other = results(tmp_path / "other")  # negative control
    assert all(other[name] != uninterrupted[name] for name in uninterrupted)


MOMENTS = {
    "while loading": lambda folder: (folder / ".lock").exists(),
    # step 2 is recorded and its checkpoint (after step 3) is not yet
    "between checkpoints": lambda folder: lines(folder / "metrics.jsonl") >= 3,
    "in the last step": lambda folder: lines(folder / "metrics.jsonl") >= STEPS - 1,
}


@pytest.mark.parametrize(
    "moments", [("between checkpoints", "in the last step"), pytest.param(("while loading",), marks=pytest.mark.slow)]
)
def test_killed_and_typed_again_equals_uninterrupted(uninterrupted, tmp_path, capsys, moments):
    """While a process has the folder another exits 3; what it held when it was killed is taken over by the next."""
    folder, words = tmp_path / "run", ["checkpoint.every=2"]
    for moment in moments:
        process = start(folder, *words)
        while not MOMENTS[moment](folder) and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(signal.SIGSTOP)
        if moment == "between checkpoints":
            assert typed(folder, *words) == 3 and "another process" in capsys.readouterr().err
        process.kill()
        process.wait()
        assert not (folder / "DONE").exists() and (folder / ".lock").exists()
    finish(folder, *words)
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
    words = [f"method={method}", "beta.refresh_every=2", "beta.value=0.5", "evaluation.every=0"]
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
    process.kill()
    process.wait()
    assert not (folder / "DONE").exists()
    return sorted((folder / "checkpoints").glob("step_*"))[-1]


def lines(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0


def test_a_finished_run_typed_again_does_nothing(whole, capsys):
    before = {file: file.stat().st_mtime_ns for file in whole.rglob("*") if file.is_file() and file.name != ".lock"}
    finish(whole)
    assert "finished before" in capsys.readouterr().out
    assert {file: file.stat().st_mtime_ns for file in before} == before


def test_more_steps_go_on_other_settings_are_refused_and_other_code_is_told(whole, tmp_path, capsys):
    folder = shutil.copytree(whole, tmp_path / "run")
    made_with = json.loads((folder / "versions.json").read_text())
    (folder / "versions.json").write_text(json.dumps(made_with | {"torch": "1.0", "peft": None}))
    assert typed(folder, "optim.lr=0.5") == 2
    error = capsys.readouterr().err
    assert "optim.lr" in error and "Traceback" not in error
    finish(folder, "steps=6")
    told = " ".join(capsys.readouterr().out.split())
    assert f"with torch 1.0, now {made_with['torch']}; peft unknown, now {made_with['peft']}." in told
    assert json.loads((folder / "versions.json").read_text()) == made_with
    assert [row["step"] for row in without_times(folder / "metrics.jsonl")] == list(range(6))
    assert set(pq.read_table(folder / "questions.parquet")["step"].to_pylist()) == set(range(6))
