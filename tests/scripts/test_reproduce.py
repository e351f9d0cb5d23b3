"""scripts/reproduce: every script names a preset and figures that exist, the page is what table.py writes, and one
script really goes from plan to comparison in its debug form."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from grpo_runner import cli
from grpo_runner.config import compose

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "scripts" / "reproduce"
sys.path.insert(0, str(FOLDER))

import table  # noqa: E402

SCRIPTS = sorted(FOLDER.glob("*.sh"))


def bash_n(file: Path) -> int:
    return subprocess.run(["bash", "-n", file], capture_output=True).returncode


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.stem)
def test_a_script_parses_stops_at_the_first_error_and_can_be_called(file: Path) -> None:
    text = file.read_text()
    assert bash_n(file) == 0 and os.access(file, os.X_OK)
    assert text.startswith("#!/usr/bin/env bash\n# ") and "\nset -euo pipefail\n" in text


def test_a_broken_script_is_seen(tmp_path: Path) -> None:
    broken = tmp_path / "broken.sh"
    broken.write_text("#!/usr/bin/env bash\nif true; then echo\n")
    assert bash_n(broken) != 0
    with pytest.raises(ValueError, match="does not end in"):
        table.scripts(tmp_path)


def test_run_sh_says_how_it_is_called() -> None:
    done = subprocess.run([FOLDER / "run.sh", "one"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("Usage: run.sh PRESET FIGURES WORDS")


@pytest.mark.parametrize("script", table.scripts(), ids=lambda script: script.file)
def test_a_script_names_a_preset_and_figures_that_exist(script: table.Script) -> None:
    compose([f"experiment={script.preset}"])
    assert table.published()[script.figures]
    assert "# Hardware: " in (ROOT / "conf" / "experiment" / f"{script.preset}.yaml").read_text()


@pytest.mark.parametrize("script", table.scripts(), ids=lambda script: script.file)
def test_what_is_evaluated_has_the_published_sets(script: table.Script) -> None:
    """So that a figure stands beside ours, and not beside nothing; a mean of sets is no set."""
    words = [word for word in script.words.split() if "=" in word]
    sets = set(compose([f"experiment={script.preset}", *words]).evaluation.sets)
    assert set(table.published()[script.figures]) - {"average"} <= sets


def test_the_page_is_what_the_table_writes() -> None:
    page = table.PAGE.read_text()
    assert table.written(page, table.table()) == page, "run scripts/reproduce/table.py"


def test_another_figure_in_the_csv_makes_another_page(tmp_path: Path) -> None:
    page = table.PAGE.read_text()
    changed = tmp_path / "facts.csv"
    lines = table.FACTS.read_text().splitlines(keepends=True)
    name = table.scripts()[0].figures
    [first, *_] = [index for index, line in enumerate(lines) if line.startswith(f"{name},")]
    value = next(iter(table.published()[name].values()))[0]
    lines[first] = lines[first].replace(f",{value},", ",99.9,", 1)
    changed.write_text("".join(lines))
    assert table.written(page, table.table(facts=changed)) != page


def test_our_own_results_stand_in_the_table(tmp_path: Path) -> None:
    preset = table.scripts()[0].preset
    results = tmp_path / "results.json"
    mine = {"text": "12.5 [8.2, 17.9]", "commit": "abc1234", "command": "python -m grpo_runner experiment=ours"}
    results.write_text(json.dumps({preset: mine, "ours": mine}))
    made = table.table(results=results).splitlines()
    assert [line.endswith("| 12.5 [8.2, 17.9] (commit abc1234) |") for line in made if f"`{preset}`" in line] == [True]
    assert made[-1].startswith("| `ours` | `python -m grpo_runner experiment=ours` | none")


def test_the_page_needs_its_marks() -> None:
    with pytest.raises(ValueError, match="needs the lines"):
        table.written("# A page\n", "| a |")


@pytest.mark.skipif(not {"plan", "evaluate"} <= set(cli.VERBS), reason="plan or evaluate is not there yet")
def test_a_debug_chain_goes_from_plan_to_comparison(tmp_path: Path) -> None:
    environment = os.environ | {"DEBUG": "1", "OUT": str(tmp_path)}
    script = FOLDER / "verl_gsm8k_lora_0_5b.sh"
    done = subprocess.run([script], capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    for step in ("Install", "Plan", "Train", "Evaluate"):
        assert f"== {step}" in done.stdout
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 2  # two steps were trained
    told = json.loads((tmp_path / "evaluation" / "results.json").read_text())["published"]
    assert [(row["set"], row["published"]) for row in told] == [("gsm8k", 54.3)] * 2  # before and after
    assert all(row["ours"] is not None for row in told)
