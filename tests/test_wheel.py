"""What a wheel carries: all that a run needs outside a checkout."""

from __future__ import annotations

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
