"""What a wheel carries: all that a run needs outside a checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def files() -> set[str]:
    """The paths in the wheel, as the build backend of pyproject.toml lists them."""
    wheel = pytest.importorskip("hatchling.builders.wheel")
    return {file.distribution_path for file in wheel.WheelBuilder(str(ROOT)).recurse_included_files()}


def test_every_file_of_the_configuration_is_there(files):
    conf = {f"grpo_runner/{path.relative_to(ROOT)}" for path in (ROOT / "conf").rglob("*.yaml")}
    assert len(conf) > 100 and conf <= files


def test_the_launcher_is_where_hydra_looks_for_it(files):
    assert {"hydra_plugins/grpo_runner_gpus.py", "hydra_plugins/grpo_runner_resuming.py"} <= files
    assert "hydra_plugins/__init__.py" not in files  # a namespace that other plugins share


def test_the_embedded_model_the_facts_and_the_pages_parts_are_there(files):
    package = {str(path.relative_to(ROOT)) for path in (ROOT / "grpo_runner").rglob("*.py")}
    assert package <= files
    beside = ("policy/embedded/model.safetensors", "policy/embedded/tokenizer.json", "policy/embedded/config.json")
    assert {f"grpo_runner/{name}" for name in (*beside, "facts.csv")} <= files
    assert {f"grpo_runner/compare/page/assets/page.{kind}" for kind in ("js", "css")} <= files


def test_what_is_no_part_of_it_is_not_there(files):
    assert not [path for path in files if path.startswith(("tests/", "scripts/", "docs/", "outputs/"))]


@pytest.mark.slow
def test_a_built_wheel_trains_sweeps_and_compares_outside_the_checkout(tmp_path):
    wheel = pytest.importorskip("hatchling.builders.wheel")
    (built,) = wheel.WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    installed, outside = tmp_path / "installed", tmp_path / "outside"
    outside.mkdir()
    with zipfile.ZipFile(built) as archive:
        archive.extractall(installed)

    def said(*words: str) -> str:
        environment = os.environ | {"PYTHONPATH": str(installed)}  # before the checkout's own entry
        done = subprocess.run([sys.executable, *words], cwd=outside, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    runner = ("-m", "grpo_runner")
    where = "import grpo_runner.config as c, grpo_runner.policy.embedded as e; print(c.find(), *e.__path__)"
    assert all(path.startswith(str(installed)) for path in said("-c", where).split())
    said(*runner, "debug=cpu_smoke", "steps=1", "run_name=one")
    assert (outside / "outputs/one/DONE").exists()
    sweep = ("seed=0,1", "steps=1", "evaluation=never", "sweep_name=s", "hydra/launcher=gpus")
    assert "2 of 2 runs finished" in said(*runner, "-m", "debug=cpu_smoke", *sweep)
    assert "2 done" in said(*runner, "-m", "debug=cpu_smoke", *sweep)  # by the sweeper that leaves runs out
    said(*runner, "compare", "outputs/sweeps/s", "--html", "page.html", "--json", "out.json")
    (arm,) = json.loads((outside / "out.json").read_text())["arms"]
    assert set(arm["values"]["reward"]) == {"0", "1"}
    assert "vegaEmbed" in (outside / "page.html").read_text(encoding="utf-8")
