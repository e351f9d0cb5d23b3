"""DPO and RLOO beside the installed TRL, where there is one."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "compare_preference_with_trl.py"


def test_every_setting_is_as_said():
    pytest.importorskip(
        "trl", reason="TRL is no dependency: scripts/compare_with_trl.py says how to get it beside the package"
    )
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_trl_the_script_says_how_to_get_it():
    """The real script; where TRL is there, it is hidden."""
    hidden = (
        "import sys, runpy; sys.modules['trl'] = None; sys.path.insert(0, sys.argv[1]); runpy.run_path(sys.argv[2])"
    )
    command = [sys.executable, "-c", hidden, str(SCRIPT.parent), str(SCRIPT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "trl is not installed here" in done.stderr and "Traceback" not in done.stderr
