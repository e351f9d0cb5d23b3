"""scripts/reliability/worker_kills.py in short: grading processes killed, late and orphaned, and the faults it finds."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[2]


@pytest.fixture
def faults(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE / "scripts/reliability"))  # a run's process imports it by its name
    return importlib.import_module("worker_kills")


def test_killed_grading_processes_cost_no_step_and_no_row(faults, tmp_path, capsys):
    assert faults.kills(tmp_path, 8, 0.15, 0, control=False), capsys.readouterr().out


def test_a_verdict_made_up_for_a_killed_row_is_found(faults, tmp_path, capsys):
    assert not faults.kills(tmp_path, 8, 0.15, 0, control=True), capsys.readouterr().out


def test_a_run_whose_deadlines_all_pass_goes_on_and_says_so(faults, tmp_path, capsys):
    # the rule that says it looks at ten steps
    assert faults.deadlines(tmp_path, 12, 0), capsys.readouterr().out


@pytest.mark.parametrize("stays", [False, True])
def test_a_killed_run_leaves_no_process_and_one_that_stays_is_counted(faults, tmp_path, capsys, stays):
    assert faults.parent(tmp_path, 1, 0, control=stays) is not stays, capsys.readouterr().out
