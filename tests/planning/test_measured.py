"""What `plan` predicts of memory beside measured peaks of processes, within 20 %: scripts/plan_check.py's cases."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import plan_check  # noqa: E402

CASES = {case.name: case for case in plan_check.CASES}
FOLDER = os.environ.get("GRPO_RUNNER_SMOLLM2")
pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peaks are read from /proc")


def off(case, factor=1.0):
    """By how much the prediction misses, as a share of what was measured."""
    return factor * plan_check.predicted(case, FOLDER) / plan_check.measured(case, FOLDER) - 1


def test_the_embedded_model():
    case = CASES["embedded, 64 × 16 × 96 tokens"]
    found = plan_check.measured(case, None)
    assert abs(plan_check.predicted(case, None) / found - 1) < plan_check.BOUND
    # negative control: without the interpreter and its libraries it would be far too little
    assert plan_check.predicted(case, None) - plan_check.needs.LIBRARIES < (1 - plan_check.BOUND) * found


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.model])
def test_each_case_of_the_embedded_model(name):
    assert abs(off(CASES[name])) < plan_check.BOUND


@pytest.mark.slow
@pytest.mark.skipif(not FOLDER, reason="GRPO_RUNNER_SMOLLM2 names no folder of SmolLM2-135M")
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.model])
def test_smollm2(name):
    assert abs(off(CASES[name])) < plan_check.BOUND
