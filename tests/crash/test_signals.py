"""Asked to end: a scheduler's signal is a step finished, a checkpoint and 143; a second Ctrl-C waits for nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from grpo_runner import cli, signals
from grpo_runner.errors import Interrupted, Preempted, Stopped, exit_code_of
from tests.crash.test_resume import finish, lines, start, without_times

LONGER = ("steps=16", "evaluation.every=0", "checkpoint.every=0")  # only the signal's own save keeps anything


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGUSR1, marks=pytest.mark.slow)])
def test_asked_to_end_a_run_saves_says_how_to_go_on_and_the_same_command_does(number, tmp_path, capsys):
    """By a scheduler, twice, as srun and torchrun do beside Slurm: the second does not cut the save. Then by Ctrl-C."""
    folder, made = tmp_path / "run", 0
    for sent, code in ([number, number], 143), ([signal.SIGINT], 130):
        process = start(folder, *LONGER)
        while lines(folder / "metrics.jsonl") <= made:
            assert process.poll() is None
            time.sleep(0.002)
        for one in sent:
            process.send_signal(one)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == code and "The same command goes on" in output and "Traceback" not in output
        assert f"{'Ctrl-C' if code == 130 else number.name}: finishing this step and saving" in output
        assert made == 0 or f"going on from step {made}" in output
        made = lines(folder / "metrics.jsonl")
        assert (folder / "checkpoints" / f"step_{made:06d}").exists()  # the step that was being made is not lost
        assert not (folder / "DONE").exists() and (folder / "questions.parquet").exists()
    finish(folder, *LONGER)
    said = capsys.readouterr().out
    assert f"going on from step {made}" in said and "the steps before were made with" not in said
    assert [row["step"] for row in without_times(folder / "metrics.jsonl")] == list(range(16))


def test_a_second_ctrl_c_is_at_once_and_a_second_scheduler_signal_is_not():
    said: list[str] = []
    with signals.finishing_the_step(said.append) as asked:
        assert asked() == 0
        signal.raise_signal(signal.SIGINT)
        assert asked() == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    with signals.finishing_the_step(said.append) as asked:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGINT)  # as a job script hands a signal on
        assert asked() == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert [text.split(":")[0] for text in said] == ["Ctrl-C", "SIGTERM"]
    assert signals.error_of(signal.SIGINT) is Interrupted and signals.error_of(signal.SIGUSR1) is Preempted


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGUSR1, 143)])
def test_outside_of_training_a_signal_ends_at_once_with_its_code(number, code, monkeypatch, capsys):
    monkeypatch.setitem(cli.VERBS, "plan", (lambda words: signal.raise_signal(number) or 0, ""))
    before = signal.getsignal(number)
    assert cli.main(["plan"]) == code
    assert capsys.readouterr().err == "Interrupted.\n"
    assert signal.getsignal(number) is before


def test_what_is_put_off_comes_afterwards():
    done = []
    with pytest.raises(Stopped) as end, signals.at_once():
        with signals.put_off():
            signal.raise_signal(signal.SIGTERM)
            done.append("whole")
        done.append("never")
    assert done == ["whole"] and exit_code_of(end.value) == 143


PROGRAM = """
import os, signal, sys
from contextlib import nullcontext
from grpo_runner import signals
with {guard} as asked:
    os.kill(os.getpid(), signal.SIGTERM)
    sys.exit(143 if asked() else 0)
"""


@pytest.mark.parametrize(("guard", "code"), [("signals.finishing_the_step(print)", 143), ("nullcontext(bool)", -15)])
def test_without_the_handler_the_signal_kills(guard, code):
    """The second is the negative control: the system's own answer to SIGTERM saves nothing."""
    command = [sys.executable, "-c", PROGRAM.format(guard=guard)]
    assert subprocess.run(command, capture_output=True, env=dict(os.environ)).returncode == code
