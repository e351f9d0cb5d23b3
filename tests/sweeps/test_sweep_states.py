"""What a run's folder says of it: states, steps, a process that is there or gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grpo_runner.errors import Interrupted, NonFiniteError
from grpo_runner.sweeps.states import last_row, read, working
from tests.sweeps.folders import failed, made, marked


def test_the_state_of_each_kind_of_folder(tmp_path: Path) -> None:
    assert read(tmp_path / "none", 10).state == "new"
    (tmp_path / "empty").mkdir()
    assert read(tmp_path / "empty", 10).state == "new"
    half = read(made(tmp_path / "half", logged=7, saved=6), 10)
    assert (half.state, half.made, half.saved, half.steps) == ("unfinished", 7, 6, 10)
    bad = read(failed(made(tmp_path / "bad", logged=3)), 10)
    assert bad.state == "failed" and bad.failure is not None and bad.failure.code == 4
    assert read(made(tmp_path / "whole", logged=10, done=True), 10).state == "done"
    assert read(tmp_path / "whole").steps == 10  # its own word, where nobody says how many


def test_a_finished_run_that_is_made_longer_is_unfinished(tmp_path: Path) -> None:
    folder = made(tmp_path / "run", logged=10, saved=10, done=True)
    assert read(folder, 20).state == "unfinished" and read(folder, 20).saved == 10


def test_running_is_a_process_that_is_there(tmp_path: Path) -> None:
    folder = marked(failed(made(tmp_path / "run", logged=3)))
    assert read(folder).state == "running" and read(folder).place.endswith(f":{os.getpid()}")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert read(marked(folder, pid=ended.pid)).state == "failed"
    assert read(marked(folder, pid=1, began="a process of that number before")).state == "failed"
    assert read(marked(folder, pid=ended.pid, host="another-machine")).state == "running"


def test_a_process_that_nobody_waits_for_is_gone(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.read()  # until it has ended; a moment later it is a zombie
    stat = Path(f"/proc/{child.pid}/stat")
    while stat.read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    began = stat.read_text().rpartition(")")[2].split()[19]
    assert read(marked(made(tmp_path / "run"), pid=child.pid, began=began)).state == "unfinished"
    child.wait()


def test_working_leaves_a_word_where_it_fails(tmp_path: Path) -> None:
    folder = made(tmp_path / "run")
    with pytest.raises(NonFiniteError), working(folder):
        assert read(folder).state == "running"
        raise NonFiniteError("step 7: the loss is NaN")
    found = read(folder)
    assert found.state == "failed" and found.failure is not None
    assert (found.failure.code, found.failure.said) == (4, "step 7: the loss is NaN")
    with pytest.raises(ZeroDivisionError), working(folder):
        assert not (folder / "failure.json").exists()  # of this time, not of the last
        raise ZeroDivisionError("of ours")
    again = read(folder).failure
    assert again is not None and (again.code, again.said) == (1, "ZeroDivisionError: of ours")


def test_ctrl_c_is_no_failure(tmp_path: Path) -> None:
    folder = made(tmp_path / "run", logged=3)
    for error in (Interrupted("saved"), KeyboardInterrupt()):
        with pytest.raises(type(error)), working(folder):
            raise error
        assert read(folder).state == "unfinished" and not (folder / ".running").exists()


def test_the_last_row_is_a_whole_one(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    assert last_row(file) is None
    file.write_text("".join(json.dumps({"step": step, "x": "y" * 3000}) + "\n" for step in range(50)) + '{"step": 50')
    row = last_row(file)
    assert row is not None and row["step"] == 49
    file.write_text("no row\n")
    assert last_row(file) is None
