"""docs/health.md beside the code, and what `health RUN_FOLDER` prints."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from grpo_runner import cli, validate
from grpo_runner.health import RULES
from grpo_runner.health.show import held
from tests.health.test_rules import series

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import health_table  # noqa: E402

ROWS = series(60, truncated=lambda step: 0.5 if step < 40 else 0.1)


def test_the_page_has_the_rules_of_the_code():
    text = health_table.PAGE.read_text()
    assert health_table.filled(text) == text, "python scripts/health_table.py"
    rows = text.partition(health_table.BEGIN)[2].partition(health_table.END)[0].splitlines()[2:]
    assert tuple(re.match(r"\| `(\w+)` \|", row)[1] for row in rows) == tuple(RULES) == validate.RULES
    # each has all five cells filled, and a threshold with a figure in it
    for row in rows:
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        assert len(cells) == 5 and all(cells) and re.search(r"\d", cells[2])
    # negative control: another threshold would be seen
    assert health_table.filled(text.replace("over 20 %", "over 21 %", 1)) == text != text.replace("over 20 %", "x", 1)


def test_what_is_to_be_tried_names_keys_that_there_are():
    known = {*validate.keys(), "experiment", "prompt"}
    for rule in RULES.values():
        named = re.findall(r"\b((?:reward|optim|rollout|clip|loss_norm|advantage)\.?\w*)(?==|\b)", rule.tries)
        assert all(name in known for name in named if "." in name), rule.tries


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return tmp_path


def test_the_verb_tells_which_rules_held_and_when(folder, capsys):
    assert cli.main(["health", str(folder)]) == 0
    out = capsys.readouterr().out
    lines = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line and line.split()[0] in RULES}
    assert lines["truncation"] == ["19", "41", "23"]
    assert all(lines[name] == ["-", "-", "0"] for name in RULES if name != "truncation")
    said = " ".join(out.split())
    assert "truncation, step 19: 50 % of the answers of the last 10 steps were cut off at the token budget." in said
    assert f"To try: {RULES['truncation'].tries}." in said and said.count("To try") == 1
    assert "No rule held" not in said


def test_the_steps_are_those_of_the_rows():
    late = [{**row, "step": row["step"] + 100} for row in ROWS]
    found = held(late)["truncation"]
    assert (found.steps[0], found.steps[-1], len(found.steps)) == (119, 141, 23)


@pytest.mark.parametrize(
    ("words", "needle"),
    [([], "RUN_FOLDER"), (["a", "b"], "RUN_FOLDER"), (["--fast"], "RUN_FOLDER"), (["nowhere"], "nowhere")],
)
def test_what_is_no_run_folder_is_told(words, needle, capsys):
    assert cli.main(["health", *words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and needle in err and len(err.splitlines()) <= 5 and "Traceback" not in err


def test_a_file_that_cannot_be_read_is_told(tmp_path, capsys):
    (tmp_path / "metrics.jsonl").mkdir()
    assert cli.main(["health", str(tmp_path)]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_where_no_rule_held_that_is_said(tmp_path, capsys):
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in series(30)))
    assert cli.main(["health", str(tmp_path)]) == 0
    assert "No rule held at any step." in capsys.readouterr().out


def test_a_spoilt_line_is_told_by_its_number(folder, capsys):
    with (folder / "metrics.jsonl").open("a") as file:
        file.write("{}\n")
    assert cli.main(["health", str(folder)]) == 2
    assert "line 61" in capsys.readouterr().err


def test_the_verb_needs_no_torch(folder):
    code = (
        "import sys; from grpo_runner import cli; assert cli.main(sys.argv[1:]) == 0; "
        "sys.exit(any(name in sys.modules for name in ('torch', 'transformers', 'wandb', 'matplotlib')))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code, "health", str(folder)], cwd=ROOT, capture_output=True).returncode
        == 0
    )
