"""What `plan` predicts of memory, within 20 % of measured peaks of processes: scripts/plan_check.py measures them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import plan_check  # noqa: E402

from grpo_runner.planning import needs  # noqa: E402

CASES = {case.title: case for case in plan_check.CASES}
FOLDER = os.environ.get("GRPO_RUNNER_SMOLLM2")


def test_every_case_was_measured():
    assert list(plan_check.recorded()) == list(CASES)


@pytest.mark.parametrize("title", CASES)
def test_the_prediction_is_within_a_fifth_of_the_peak_that_was_measured(title):
    peak = plan_check.recorded()[title]
    assert abs(plan_check.predicted(CASES[title]) / peak - 1) < plan_check.BOUND


def test_what_is_left_out_of_the_count_would_be_seen(monkeypatch):
    """Negative controls: the interpreter with its libraries, and the weights as bfloat16."""
    peaks = plan_check.recorded()
    small, large = (next(case for case in plan_check.CASES if case.large is which) for which in (False, True))
    told = plan_check.predicted(large)
    weights = 2 * 134_515_008  # in bfloat16, a copy of the linear layers too
    assert (told - 2 * weights) / peaks[large.title] < 1 - plan_check.BOUND
    monkeypatch.setattr(needs, "LIBRARIES", 0)
    assert plan_check.predicted(small) / peaks[small.title] < 1 - plan_check.BOUND


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peaks are read from /proc")
@pytest.mark.parametrize("title", [title for title, case in CASES.items() if FOLDER or not case.large])
def test_a_run_now_has_the_peak(title):
    peak = plan_check.measured(CASES[title], FOLDER)
    assert abs(plan_check.predicted(CASES[title]) / peak - 1) < plan_check.BOUND
