"""The verb: what it prints and writes, its exit codes, and words that it refuses."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys

import pytest
from made_runs import pair_of_arms, run_folder
from rich.console import Console

from grpo_runner.compare.command import compare
from grpo_runner.compare.measures import MEASURES
from grpo_runner.errors import InputError


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Seven pairs: wrong answers of Dr. GRPO are 2.0, 2.1 or 2.2 tokens shorter, accuracies are the same."""
    return str(pair_of_arms(tmp_path_factory.mktemp("sweeps") / "both", range(7)))


def printed(*words: str, width: int = 120, code: int = 0) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False)
    assert compare(words, console) == code
    return console.file.getvalue()


def test_the_verdict_comes_first_then_arms_differences_and_how_to_read_them(sweep):
    said = printed(sweep, width=400)
    lines = said.splitlines()
    assert lines[0] == "both  14 runs, 2 arms; steps 16 to 19 (the last fifth)"
    assert lines[1].startswith("Dr. GRPO against GRPO, 7 paired seeds: wrong answers 2.1 tokens shorter [2.0, 2.2]")
    assert "accuracy the same in all 7 pairs" in lines[1]
    # accuracies at step 20: .6 to .66, so 63 ± 2.16
    (arm,) = [line for line in lines if line.startswith("GRPO  baseline")]
    assert arm.split() == [
        "GRPO",
        "baseline",
        "0",
        "to",
        "6",
        "63.0",
        "±",
        "2.2",
        "points",
        "23.0",
        "±",
        "2.2",
        "tokens",
    ]
    (row,) = [line for line in lines if line.startswith("length/wrong")]
    assert row.split()[:4] == ["length/wrong", "tokens", "23.0", "20.9"]
    assert "−2.1 [−2.2, −2.0]" in row and ".016" in row  # 2 of the 2^7 signs
    assert said.index("Dr. GRPO minus GRPO, 7 pairs") < said.index("Interval: Student's t over seeds.")


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_screen(sweep, width):
    lines = printed(sweep, width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines)  # no cell was cut


def test_metric_window_level_and_baseline_change_what_is_compared(sweep):
    said = printed(sweep, "--metric", "entropy", "--window", "2", "--level", ".9", "--baseline", "dr_grpo", width=400)
    assert "steps 18 to 19" in said and "difference [90 %]" in said
    assert "GRPO minus Dr. GRPO" in said and "wrong answers" in said.splitlines()[2]  # of what was not stated
    (row,) = [line for line in said.splitlines() if line.startswith("entropy")]
    assert row.split()[2:4] == ["1.850", "1.850"]  # of .1 a step, at steps 18 and 19


def test_check_exits_0_1_and_3(sweep, tmp_path):
    assert printed(sweep, "--check", "length/wrong: dr_grpo < grpo").splitlines()[-1].startswith("check: shown")
    printed(sweep, "--check", "length/wrong: dr_grpo > grpo", code=1)
    printed(f"{sweep}/*seed=[01]", "--check", "length/wrong: dr_grpo < grpo", code=3)
    with pytest.raises(InputError, match="ppo"):
        printed(sweep, "--check", "length/wrong: ppo < grpo")


def test_a_target_adds_the_way_there(sweep):
    said = printed(sweep, "--target", ".3", width=200)
    (row,) = [line for line in said.splitlines() if line.startswith("time_to")]
    assert row.split()[:4] == ["time_to", "s", "5.0", "5.0"]  # all seeds at step 10, after ten steps of half a second
    said = printed(sweep, "--target", ".64", width=200)  # seeds 4 to 6 come to .64
    assert "runs that did not reach it: 4 of 7 (GRPO), 4 of 7 (Dr. GRPO)" in said and "\ntime_to" not in said


def test_a_single_run_is_shown_by_itself(sweep):
    said = printed(f"{sweep}/advantage=grpo,seed=3")
    assert said.splitlines()[0].startswith("advantage=grpo,seed=3  1 run; ")
    assert "accuracy, sampled        63.0 points" in said and "verdict" not in said
    assert "nothing to compare" in printed(f"{sweep}/advantage=grpo*")


def test_files_hold_the_same_figures(sweep, tmp_path):
    paths = {kind: tmp_path / f"out.{kind}" for kind in ("csv", "json", "md", "latex")}
    said = printed(sweep, *(word for kind, path in paths.items() for word in (f"--{kind}", str(path))), width=400)
    assert [line for line in said.splitlines() if line.startswith("written")] == [
        f"written: {path}" for path in paths.values()
    ]
    rows = list(csv.DictReader(paths["csv"].open()))
    mine = {(row["arm"], row["seed"]): float(row["value"]) for row in rows if row["measure"] == "length/wrong"}
    assert mine["GRPO", "4"] == 24.0 and mine["Dr. GRPO", "4"] == pytest.approx(21.9)
    assert rows[0]["advantage"] == "grpo" and rows[0]["loss_norm"] == "sequence_mean"

    found = json.loads(paths["json"].read_text())
    (effect,) = [one for one in found["effects"] if one["measure"] == "length/wrong"]
    assert effect["differences"] == pytest.approx([-2.0, -2.1, -2.2, -2.0, -2.1, -2.2, -2.0])
    assert effect["mean"] == pytest.approx(sum(effect["differences"]) / 7) and effect["p"] == 2 / 2**7
    assert found["arms"][0]["values"]["length/wrong"]["4"] == 24.0 and found["shared"]["steps"] == 20
    assert found["verdict"][0] in said

    markdown = paths["md"].read_text().splitlines()
    assert "| measure | GRPO | Dr. GRPO |" in markdown and "| seeds | 0 to 6 | 0 to 6 |" in markdown
    tables = [line for line in markdown if line.startswith("|")]
    assert {line.count(" | ") for line in tables} == {2, 4}
    latex = paths["latex"].read_text()
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 2
    assert r"length of wrong answers & 23.0 $\pm$ 2.2 tokens & 20.9 $\pm$ 2.2 tokens \\" in latex
    bare = latex.replace(r"\%", "").replace(r"\_", "").replace("% \\usepackage", "")
    assert "%" not in bare and "_" not in bare  # either would end the line or the run of LaTeX


def test_standard_output_holds_the_file_alone(sweep, capsys):
    assert printed(sweep, "--json", "-") == ""
    assert json.loads(capsys.readouterr().out)["title"] == "both"


def test_names_with_marks_of_markdown_and_latex_are_text(tmp_path, capsys):
    for name in ("a|b_%", "a*b_%"):
        run_folder(tmp_path / name / "run", 0, lambda step: {"kl": 1.0}, {}, prompt__system=name)
    printed(str(tmp_path), "--md", "-")
    assert r"a\|b\_%" in capsys.readouterr().out
    printed(str(tmp_path), "--latex", "-")
    assert r"a|b\_\%" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Usage: .* compare RUNS"),
        (["RUNS", "--metrics", "kl"], 'no flag "--metrics". Did you mean "--metric"'),
        (["RUNS", "--metric", "lenght/wrong"], 'no run has it. Did you mean "length/wrong"'),
        (["RUNS", "--level", "95"], "--level 95: allowed is a number between 0 and 1"),
        (["RUNS", "--target", "x"], "--target x: allowed"),
        (["RUNS", "--window", "2.5"], "--window 2.5"),
        (["RUNS", "--csv", "no/such/x.csv"], "there is no folder no/such"),
        (["RUNS", "--csv", "-", "--md", "-"], "only one of"),
        (["RUNS", "--by", "advantage"], "The runs differ beside advantage"),
        (["RUNS", "--metric"], "expected one argument"),
    ],
)
def test_words_that_are_refused(sweep, words, said):
    with pytest.raises(InputError, match=said) as refused:
        printed(*(sweep if word == "RUNS" else word for word in words))
    assert len(str(refused.value).splitlines()) <= 5


def test_help_names_every_flag_and_measure():
    said = printed("--help")
    flags = ("by", "baseline", "metric", "window", "level", "target", "allow", "html", "csv", "check", "columns")
    assert all(f"--{flag} " in said for flag in flags)
    assert all(key in said for key in MEASURES)


def test_a_whole_comparison_needs_no_torch(sweep):
    code = (
        "import sys; from grpo_runner.cli import main; assert main(['compare', sys.argv[1]]) == 0; "
        "print([name for name in ('torch', 'transformers', 'pandas', 'wandb', 'matplotlib', 'hydra') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, sweep], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
