"""scripts/reproduce: every script names a preset and figures that exist, the page is what table.py writes, two scripts
really go from plan to comparison in their debug form, and wrong input is told in a few lines."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from grpo_runner.config import compose
from grpo_runner.errors import InputError
from grpo_runner.planning import plan

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "scripts" / "reproduce"
sys.path.insert(0, str(ROOT))

from scripts.reproduce import debug, ready, table  # noqa: E402

FILES = sorted(FOLDER.glob("*.sh"))
SCRIPTS = table.scripts()
GB = 10**9


def ids(script: table.Script) -> str:
    return script.file


def bash_n(file: Path) -> int:
    return subprocess.run(["bash", "-n", file], capture_output=True).returncode


def call(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, env=os.environ | environment, timeout=300)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
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


@pytest.mark.parametrize("script", SCRIPTS, ids=ids)
def test_a_script_names_what_there_is(script: table.Script) -> None:
    """Its preset, by which it is named itself; figures, of which it asks one at least; where the authors ran it."""
    assert script.file == f"{script.preset}.sh"
    assert table.told(script.preset, table.HARDWARE)
    figures = table.published()[script.figures]
    assert table.asked(script.preset, script.words) & set(figures)
    assert set(table.not_asked(script, figures)) < set(figures)


def test_a_published_mean_is_asked_for_with_its_sets_alone() -> None:
    suite = table.Script("x.sh", "dr_grpo_oat_zero_7b", "x", "evaluation=dr_grpo_suite")
    five = ["aime24", "amc", "math500", "minerva", "olympiad_bench"]
    assert table.not_asked(suite, [*five, "average"]) == []
    assert table.not_asked(suite, [*five, "aime24_avg32", "average"]) == ["aime24_avg32"]
    assert table.not_asked(suite, [*five, "gsm8k", "average"]) == ["gsm8k", "average"]


OURS = ("laptop_gsm8k", "length_bias")  # they have hardware, and no source


def test_every_preset_of_a_source_stands_on_the_page() -> None:
    page = table.PAGE.read_text()
    presets = [file.stem for file in (ROOT / "conf" / "experiment").glob("*.yaml") if not file.stem.endswith("_lora")]
    named = [preset for preset in presets if table.told(preset, table.HARDWARE) and preset not in OURS]
    assert (
        len(named) > 30
        and [preset for preset in named if f"[{preset}]" not in page and f"`{preset}`" not in page] == []
    )


def test_the_page_is_what_the_table_writes() -> None:
    page = table.PAGE.read_text()
    assert table.written(page, table.table()) == page, "run scripts/reproduce/table.py"


def test_another_figure_in_the_csv_makes_another_page(tmp_path: Path) -> None:
    page = table.PAGE.read_text()
    changed = tmp_path / "facts.csv"
    lines = table.FACTS.read_text().splitlines(keepends=True)
    name = SCRIPTS[0].figures
    [first, *_] = [index for index, line in enumerate(lines) if line.startswith(f"{name},")]
    value = next(iter(table.published()[name].values()))[0]
    lines[first] = lines[first].replace(f",{value},", ",99.9,", 1)
    changed.write_text("".join(lines))
    assert table.written(page, table.table(facts=changed)) != page


def test_our_own_results_stand_in_the_table(tmp_path: Path) -> None:
    preset = SCRIPTS[0].preset
    results = tmp_path / "results.json"
    mine = {"text": "12.5 [8.2, 17.9]", "commit": "abc1234", "command": "python -m grpo_runner experiment=ours"}
    results.write_text(json.dumps({preset: mine, "ours": mine}))
    made = table.table(results=results).splitlines()
    assert [line.endswith("| 12.5 [8.2, 17.9] (commit abc1234) |") for line in made if f"[{preset}]" in line] == [True]
    assert any(
        "[ours]" in line and line.endswith(" | none: the job is ours | 12.5 [8.2, 17.9] (commit abc1234) |")
        for line in made
    )
    assert made[-1] == "- `ours`: `python -m grpo_runner experiment=ours`"


def test_the_page_needs_its_marks() -> None:
    with pytest.raises(ValueError, match="needs the lines"):
        table.written("# A page\n", "| a |")


@pytest.mark.parametrize(
    ("words", "environment", "told"),
    [
        ([], {}, "No NVIDIA GPU was found"),
        (["steps"], {}, '"steps" is no override: write KEY=VALUE'),
        (["--steps=3"], {}, '"--steps=3" is no override'),
        ([], {"DEBUG": "yes"}, "DEBUG=yes is not allowed. Allowed: 1"),
        ([], {"GPUS": "all"}, "GPUS=all is not allowed. Allowed: how many"),
    ],
)
def test_wrong_input_is_told_before_anything_is_done(
    tmp_path: Path, words: list[str], environment: dict[str, str], told: str
) -> None:
    broken = tmp_path / "nvidia-smi"
    broken.write_text("#!/bin/sh\necho NVIDIA-SMI has failed\nexit 9\n")
    broken.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    given = {"PATH": path, "OUT": str(tmp_path / "out"), "CUDA_VISIBLE_DEVICES": "", "DEBUG": "", "GPUS": ""}
    done = call(FOLDER / "rasbt_qwen3_0_6b.sh", *words, **given | environment)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith(told)
    assert len(done.stderr.splitlines()) <= 3 and not (tmp_path / "out").exists()


def test_the_debug_form_leaves_out_what_the_embedded_model_has_of_its_own() -> None:
    """Keys, groups and Hydra's bare `~group` alike; what is of the method stays. It ends where the plan has no folder."""
    left = [
        "data=math",
        "data.train.path=x",
        "~data",
        "++data.levels=[3]",
        "~prompt",
        "model=tiny",
        "reward.units=ignored",
    ]
    stays = ["beta=0.1", "~evaluation", "evaluation.samples=1", "dataset=1", "optim.lr=1e-5"]
    done = call(FOLDER / "rasbt_qwen3_0_6b.sh", *left, *stays, DEBUG="1", OUT="/dev/null/none")
    told = [line for line in done.stdout.splitlines() if "is left out" in line]
    assert told == [f"DEBUG=1: {word} is left out, the embedded model has its own." for word in left]
    assert done.returncode != 0 and "== Train" not in done.stdout


def test_a_script_says_how_it_is_called() -> None:
    assert call(FOLDER / "run.sh", "one").stderr.startswith("Usage: run.sh PRESET FIGURES WORDS")
    told = call(FOLDER / "rasbt_qwen3_0_6b.sh", "--help")
    assert told.returncode == 0 and "DEBUG=1" in told.stdout and "GPUS=N" in told.stdout


def planned(tmp_path: Path, *words: str) -> dict[str, Any]:
    """The plan as the scripts read it."""
    file = tmp_path / "plan.json"
    assert plan([*words, "--json", str(file)], Console(file=io.StringIO())) == 0
    made: dict[str, Any] = json.loads(file.read_text())
    return made


def test_a_run_that_does_not_fit_is_told_with_what_to_change(tmp_path: Path) -> None:
    """Of the plan itself, so that what it calls its parts is what is read here."""
    needs = planned(tmp_path, "experiment=verl_gsm8k_lora_7b", "device=cuda")["needs"]
    peaks = {device["name"]: max(device["peaks"].values()) for device in needs["devices"]}
    assert peaks["GPU, 16 GB"] > 16 * GB
    told, change = ready.too_small(needs, 16 * GB)
    assert told.startswith(f"Needs up to {peaks['GPU, 16 GB'] / 1e9:.0f} GB on each GPU, and there are 16")
    first = next(device for device in needs["devices"] if device["name"] == "GPU, 16 GB")["change"]
    assert change.startswith(f"Change: {' '.join(first['changes'])} (")
    assert ready.too_small(needs, 500 * GB) == []  # more than the largest that the plan shows
    assert len(ready.too_small(needs, 8 * GB)) == 2  # smaller than all of them
    assert ready.too_small(planned(tmp_path, "device=cpu")["needs"], None) == []
    assert ready.too_small({"devices": []}, 16 * GB) == []  # a model that the plan does not know


def test_missing_and_unreadable_questions_are_told(tmp_path: Path) -> None:
    name = "simplerl_zoo_7b"
    assert ready.without_source([{"key": "optim.lr", "text": "x"}], name) == []
    lacks = planned(tmp_path, f"experiment={name}")["bites"]
    told = ready.without_source(lacks, name)
    assert "data.train.path=FILE" in told[0] and f"conf/experiment/{name}.yaml" in told[1]
    (tmp_path / "junk.parquet").write_bytes(b"junk" * 9)
    junk = planned(tmp_path, f"experiment={name}", f"data.train.path={tmp_path / 'junk.parquet'}")["bites"]
    told = ready.without_source(junk, name)
    assert "not a readable Parquet file" in told[0] and len(told) == 3


def test_the_debug_form_asks_the_scripts_sets_in_the_scripts_way() -> None:
    words = ["evaluation=dr_grpo_suite", "~evaluation.sets.amc", "evaluation.samples=16", "evaluation.greedy=false"]
    found = debug.debug_words("dr_grpo_oat_zero_7b", words)
    asked = compose(["experiment=quickstart", *found]).evaluation
    assert list(asked.sets) == ["aime24", "math500", "minerva", "olympiad_bench"]
    assert {one.path for one in asked.sets.values()} == {"scripts/reproduce/debug.jsonl"}
    assert (asked.greedy, asked.samples, asked.temperature, asked.max_new_tokens) == (False, 2, 1.0, 32)
    assert debug.debug_words("rasbt_qwen3_0_6b", ["--steps", "50"])[:2] == ["--steps", "2"]
    with pytest.raises(InputError, match="math50"):
        debug.debug_words("rasbt_qwen3_0_6b", ["evaluation=math50"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "what", "sets"),
    [
        ("verl_gsm8k_lora_0_5b", "greedy accuracy", {"gsm8k"}),
        ("deepscaler_24k", "avg@2", {"aime24", "math500", "minerva", "olympiad_bench"}),
    ],
)
def test_a_debug_chain_goes_from_plan_to_comparison(tmp_path: Path, name: str, what: str, sets: set[str]) -> None:
    """LoRA and greedy; all weights and sampled, with a set and the mean that have no counterpart."""
    done = call(FOLDER / f"{name}.sh", DEBUG="1", OUT=str(tmp_path))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    for step in ("Install", "Plan", "Train", "Evaluate", "The chain works"):
        assert f"== {step}" in done.stdout
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 2  # two steps were trained
    told = json.loads((tmp_path / "evaluation" / "results.json").read_text())["published"]
    assert {row["policy"] for row in told} == {"base", "run, step 2"}
    assert {row["what"] for row in told if row["ours"] is not None} == {what}
    assert {row["set"] for row in told if row["ours"] is not None} == sets
