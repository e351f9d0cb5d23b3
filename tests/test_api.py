"""The pages of the API, and what they need: every module imports without a warning and says what it is.

That every function says what it takes and gives is mypy's to hold (`make lint`, disallow_untyped_defs in pyproject.toml).
"""

from __future__ import annotations

import importlib
import sys
import tomllib
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
script = importlib.import_module("api_docs")


def test_untyped_functions_are_refused_everywhere_in_the_package():
    mypy = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    assert mypy["files"] == ["grpo_runner"]
    assert mypy["disallow_untyped_defs"] and mypy["disallow_incomplete_defs"]
    weaker = [
        one for one in mypy["overrides"] if not one.get("disallow_untyped_defs", True) or one.get("ignore_errors")
    ]
    assert weaker == [] and "exclude" not in mypy


@pytest.mark.slow
def test_every_public_module_imports_without_a_warning_and_says_what_it_is():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=DeprecationWarning)  # of libraries
        made = {name: importlib.import_module(name) for name in script.modules()}
    assert len(made) > 250 and "grpo_runner.__main__" not in made
    assert [name for name, module in made.items() if not (module.__doc__ or "").strip()] == []


@pytest.mark.slow
def test_the_pages_are_made_without_a_warning(tmp_path):
    pytest.importorskip("pdoc")
    count, warned = script.make(tmp_path)
    assert warned == [] and len(list(tmp_path.rglob("*.html"))) == count + 1  # the index
    assert "GRPO" in (tmp_path / "grpo_runner" / "algorithm" / "advantages.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_broken_annotation_is_warned_of(tmp_path):
    """Negative control: what pdoc says of a module that is wrong reaches the script."""
    pdoc = pytest.importorskip("pdoc")
    (tmp_path / "wrong_one.py").write_text("from __future__ import annotations\ndef f(x: NoSuchType) -> None: ...\n")
    with pytest.warns(UserWarning, match="NoSuchType"):
        pdoc.pdoc(tmp_path / "wrong_one.py", output_directory=tmp_path)
