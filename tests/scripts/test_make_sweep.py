"""scripts/make_sweep.py: folders that are read as runs, with the differences that were asked for."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from grpo_runner import validate
from grpo_runner.compare.arms import arrange
from grpo_runner.compare.command import compare
from grpo_runner.compare.measures import MEASURES, values
from grpo_runner.compare.read import question_rows, read
from grpo_runner.tracking import read_questions
from grpo_runner.tracking.charts.weights import advantage_weight_theory
from scripts.make_sweep import Curves, Made, make

SMALL = Made(steps=40, seeds=6, evaluate_every=20, held_out=8, questions=2, spread=0.0)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two arms of six seeds without noise of their own: what is planted stands in the figures as it is."""
    folder = tmp_path_factory.mktemp("made") / "sweep"
    make(folder, SMALL)
    return folder


def test_all_folders_are_finished_runs_of_two_arms_and_paired_seeds(place):
    comparison = arrange(read([str(place)]))
    assert [arm.values["advantage"] for arm in comparison.arms] == ["grpo", "dr_grpo"]
    assert [sorted(arm.runs) for arm in comparison.arms] == [list(range(6))] * 2
    assert not comparison.warnings and comparison.title == "sweep"
    assert all(run.finished and run.steps == 40 for arm in comparison.arms for run in arm.runs.values())


def test_the_planted_length_is_found_to_the_last_digit_without_noise(place):
    comparison = arrange(read([str(place)]))
    measures = [MEASURES["length/wrong"], MEASURES["length/right"]]
    base, own = (values(comparison, measures)[arm.name] for arm in comparison.arms)
    for seed in range(6):  # of the evaluation after the last step
        assert own["length/wrong"][seed] - base["length/wrong"][seed] == pytest.approx(-3.0, abs=1e-9)
        assert own["length/right"][seed] == pytest.approx(base["length/right"][seed], abs=1e-9)


def test_what_is_planted_grows_with_the_step_and_better_is_in_points():
    made = Made(steps=100, better=4.0, spread=0.0)
    base, own = (Curves.of(arm, 3, made) for arm in ("grpo", "dr_grpo"))
    share = np.arange(101) / 100
    assert own.wrong_S - base.wrong_S == pytest.approx(-3 * share)
    assert own.accuracy_S - base.accuracy_S == pytest.approx(0.04 * share)


def test_the_noise_of_a_pair_has_the_spread_that_was_asked_for():
    """Each run's noise has SD 1.5, so a difference has 1.5·√2; 400 pairs tell it to some 4 %."""
    ends = [[Curves.of(arm, seed, Made()).wrong_S[-1] for seed in range(400)] for arm in ("dr_grpo", "grpo")]
    d_S = np.subtract(*ends)
    assert d_S.std(ddof=1) == pytest.approx(1.5 * np.sqrt(2), rel=0.12)
    assert d_S.mean() == pytest.approx(-3.0, abs=4 * 1.5 * np.sqrt(2 / 400))


def test_question_rows_and_weights_are_those_of_a_run(place):
    folder = place / "advantage=dr_grpo,loss_norm=constant,seed=2"
    config = validate.load(folder / "config.yaml")
    assert (config.seed, config.run_name, config.advantage.scale) == (2, folder.name, "none")
    table = read_questions(folder)
    assert table.num_rows == 80
    theory = advantage_weight_theory(
        np.array(table["success_rate"].to_pylist()), config.advantage, config.group_size.value
    )
    assert np.array(table["advantage_weight"].to_pylist()) == pytest.approx(theory)
    (run,) = read([str(folder)])
    rows = question_rows(run)
    assert len(rows) == 8 and {row["sampled/answers"] for row in rows} == {8}
    right = sum(row["sampled/right"] for row in rows) / 64
    assert run.series["eval/sampled/accuracy"].values_N[-1] == right
    assert all((row["text"].rsplit("#### ", 1)[1] == row["gold"]) == row["text_right"] for row in rows)


def test_the_same_words_make_the_same_bytes(tmp_path):
    words = Made(steps=10, seeds=1, evaluate_every=5, held_out=3)
    one, two = (make(tmp_path / name / "sweep", words)[0] for name in ("a", "b"))
    files = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert {str(path) for path in files} >= {"config.yaml", "metrics.jsonl", "questions.parquet", "DONE"}
    assert all((one / name).read_bytes() == (two / name).read_bytes() for name in files)
    other = make(tmp_path / "c" / "sweep", Made(steps=10, seeds=1, evaluate_every=5, held_out=3, seed=1))[0]
    assert (one / "metrics.jsonl").read_bytes() != (other / "metrics.jsonl").read_bytes()


def test_compare_reads_it(place):
    out = io.StringIO()
    check = ["--check", "length/wrong: dr_grpo < grpo"]
    assert compare([str(place), *check], Console(file=out, width=120)) == 0
    assert "3.0 tokens shorter" in " ".join(out.getvalue().split())
