"""The figures' specs: their values against those worked out by hand, and that Vega-Lite takes every one."""

from __future__ import annotations

import re
from dataclasses import replace
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
import vl_convert
from made_runs import ARMS, add_questions, run_folder

from grpo_runner.compare import command
from grpo_runner.compare.page.figures import FIGURES, curves, export, figures_of, points, theme
from grpo_runner.compare.types import Analysis, Series
from grpo_runner.tracking.questions import QuestionLog

T_2 = 4.302652729749464  # Student's t, 2 degrees of freedom, 97.5 %: tables
T_1 = 12.706204736174706  # the same of 1


def sweep(place: Path, seeds: int, arms: int = 2) -> Path:
    """Accuracy: seed 0 .5, seed 1 .6, …; Dr. GRPO .1 · seed below. Entropy: the step. One easy and one hard question."""
    for name in list(ARMS)[:arms]:
        off = name == "dr_grpo"
        for seed in range(seeds):
            level = 0.5 + 0.1 * seed - 0.1 * seed * off
            run_folder(
                place / f"{name},{seed}",
                seed,
                lambda step: {"entropy": float(step), "reward/mean": 0.5},
                {
                    step: {
                        "sampled/accuracy": level, "sampled/length_wrong": 20.0 + seed - 2 * off,
                        "sampled/length_right": 10.0 + seed,
                    }
                    for step in (0, 10, 20)
                },
                *ARMS[name],
            )  # fmt: skip
            rows = [(step, right, weight) for step in range(20) for right, weight in ((1, 3.0), (8, 1.0))]
            add_questions(place / f"{name},{seed}", rows)
    return place


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    return command.analyse(command.parse([str(sweep(tmp_path_factory.mktemp("two"), 3))]))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    return command.analyse(command.parse([str(sweep(tmp_path_factory.mktemp("alone"), 1, arms=1))]))


def means(analysis: Analysis, name: str) -> list[dict]:
    spec = FIGURES[name].function(analysis)
    assert spec is not None
    return spec["data"]["values"]


def thin(analysis: Analysis, name: str) -> list[dict]:
    """The rows of the seeds' lines."""
    spec = FIGURES[name].function(analysis)
    assert spec is not None
    return [row for layer in spec["layer"] for row in layer.get("data", {}).get("values", []) if "seed" in row]


# --- values


def test_a_learning_curve_is_the_mean_over_seeds_with_students_interval(two):
    grpo, dr_grpo = means(two, "accuracy")
    assert [row["arm"] for row in (grpo, dr_grpo)] == [arm.label for arm in two.comparison.arms]
    assert grpo["x"] == [0, 10, 20]
    assert grpo["n"] == [3, 3, 3]
    assert grpo["y"] == [60, 60, 60]  # points, of .5, .6 and .7
    half = T_2 * 10 / sqrt(3)
    assert grpo["lo"] == pytest.approx([60 - half] * 3, rel=1e-4)
    assert grpo["hi"] == pytest.approx([60 + half] * 3, rel=1e-4)
    assert dr_grpo["y"] == [50, 50, 50]
    assert dr_grpo["lo"] == [None] * 3  # .5 three times: no spread, no interval
    of_grpo = [row for row in thin(two, "accuracy") if row["arm"] == grpo["arm"]]
    assert [(row["seed"], row["y"]) for row in of_grpo] == [(0, [50] * 3), (1, [60] * 3), (2, [70] * 3)]


def test_a_difference_is_paired_by_seed(two):
    (row,) = means(two, "accuracy_difference")
    assert row["arm"] == two.comparison.arms[1].label
    assert row["y"] == [-10, -10, -10]  # of 0, -10 and -20
    half = T_2 * 10 / sqrt(3)
    assert row["lo"] == pytest.approx([-10 - half] * 3, rel=1e-4)
    assert [one["y"][0] for one in thin(two, "accuracy_difference")] == [0, -10, -20]


def test_a_seed_without_a_pair_is_in_no_difference(two):
    arms = two.comparison.arms
    short = replace(arms[1], runs={seed: run for seed, run in arms[1].runs.items() if seed != 2})
    (row,) = means(replace(two, comparison=replace(two.comparison, arms=(arms[0], short))), "accuracy_difference")
    assert row["n"] == [2, 2, 2]
    assert row["y"] == [-5, -5, -5]  # of 0 and -10
    assert row["hi"] == pytest.approx([-5 + T_1 * 5] * 3, rel=1e-4)  # standard error: 7.07 / sqrt(2)


def test_lengths_of_right_and_wrong_answers_are_in_one_figure(two):
    rows = {(row["arm"], row["kind"]): row["y"][-1] for row in means(two, "lengths")}
    grpo, dr_grpo = (arm.label for arm in two.comparison.arms)
    assert rows == {
        (grpo, "right answers"): 11, (grpo, "wrong answers"): 21,
        (dr_grpo, "right answers"): 11, (dr_grpo, "wrong answers"): 19,
    }  # fmt: skip


def rows_of(spec: dict, mark: str) -> list[dict]:
    """The rows of a layer with data of its own, by its mark."""
    return [
        row
        for layer in spec["layer"]
        if layer["mark"]["type"] == mark
        for row in layer.get("data", {}).get("values", [])
    ]


def test_an_interval_with_none_beside_it_is_a_bar(tmp_path):
    """Evaluations before the first step, where arms are equal, and after the last: no two make a band."""
    for name, overrides in ARMS.items():
        for seed in range(3):
            last = 0.5 + 0.1 * seed * (name == "dr_grpo")
            evals = {0: {"sampled/accuracy": 0.4}, 20: {"sampled/accuracy": last}}
            run_folder(tmp_path / f"{name},{seed}", seed, lambda step: {"kl": 1.0}, evals, *overrides)
    found = FIGURES["accuracy_difference"].function(command.analyse(command.parse([str(tmp_path)])))
    (bar,) = [row for row in rows_of(found, "rule") if "lo" in row]
    half = T_2 * 10 / sqrt(3)  # differences 0, 10, 20
    assert (bar["arm"], bar["x"]) == ("Dr. GRPO", 20)
    assert (bar["lo"], bar["hi"]) == (pytest.approx(10 - half, rel=1e-4), pytest.approx(10 + half, rel=1e-4))
    there = [0.0, None, 1.0, 1.0, None, 1.0]  # a band shows the middle two
    row = {"arm": "a", "x": [*range(6)], "lo": there, "hi": there}
    assert [one["x"] for one in curves._alone([row])] == [0, 5]


def test_intervals_of_shares_stay_between_0_and_100(tmp_path):
    for seed, accuracy in enumerate((0.8, 1.0)):
        evals = {step: {"sampled/accuracy": accuracy, "sampled/length_right": 1.0 + 9 * seed} for step in (0, 20)}
        run_folder(tmp_path / f"{seed}", seed, lambda step: {"kl": 1.0}, evals)
    analysis = command.analyse(command.parse([str(tmp_path)]))
    (row,) = means(analysis, "accuracy")
    assert (row["hi"][0], row["lo"][0]) == (100, 0) and T_1 * 10 > 90  # 90 ± 127
    assert means(analysis, "length_right")[0]["lo"] == [0, 0]  # no answer has fewer tokens


def test_what_is_flat_has_an_axis_with_more_than_one_label(tmp_path):
    run_folder(tmp_path / "run", 0, lambda step: {"grad_norm": 31.2}, {})
    spec = FIGURES["grad_norm"].function(command.analyse(command.parse([str(tmp_path / "run")])))
    low, high = spec["layer"][-1]["encoding"]["y"]["scale"]["domain"]
    assert low < 31.2 < high
    svg = export.svg(spec)
    labels = {float(one) for one in re.findall(r">(\d\d(?:\.\d+)?)</text>", svg)}
    assert len([one for one in labels if low <= one <= high]) > 1


def test_captions_of_one_run_speak_of_no_interval_and_of_no_other_seeds(alone, two):
    for figure in figures_of(alone).values():
        assert "over seeds" not in figure.caption and "thin line" not in figure.caption, figure.title
    assert "Mean over seeds" in figures_of(two)["entropy"].caption


def test_a_bin_is_the_mean_of_its_steps():
    series = Series(np.arange(10), np.arange(10, dtype=float) ** 2)
    assert points.binned(series, 4) == {1.5: 14 / 4, 5.5: (16 + 25 + 36 + 49) / 4, 9.5: (64 + 81) / 2}
    assert points.binned(series, 1) == {float(step): float(step**2) for step in range(10)}
    late = Series(np.array([5, 6]), np.array([1.0, 3.0]))
    assert points.binned(late, 4) == {5.5: 2.0}  # the same edges, whenever a run began to log
    holes = Series(np.array([0, 1, 2]), np.array([1.0, np.nan, 3.0]))
    assert points.binned(holes, 4) == {1.5: 2.0}
    evaluated = Series(np.array([0, 4, 8]), np.array([1.0, 2.0, 3.0]))
    assert points.binned(evaluated, 4) == {0.0: 1.0, 4.0: 2.0, 8.0: 3.0}  # each has its own step


def test_a_long_run_is_drawn_with_few_points(two):
    long = Series(np.arange(5000), np.ones(5000))
    runs = {0: replace(two.comparison.baseline.runs[0], series={"entropy": long}, steps=5000)}
    analysis = replace(two, comparison=replace(two.comparison, arms=(replace(two.comparison.baseline, runs=runs),)))
    (row,) = means(analysis, "entropy")
    assert len(row["x"]) <= points.BINS
    assert set(row["y"]) == {1}


def test_the_forest_is_in_standard_deviations_of_the_baseline(two):
    rows = {row["measure"]: row for row in means(two, "forest")}
    accuracy = rows["accuracy, sampled"]
    assert accuracy["x"] == -1  # -10 points, and .5, .6, .7 have a standard deviation of 10
    assert accuracy["lo"] == pytest.approx(-1 - T_2 / sqrt(3), rel=1e-4)
    assert accuracy["is"] == "not shown"  # three pairs
    assert accuracy["text"].startswith("−10.0 [")
    assert "reward in training" not in rows  # all runs have the same


def test_weights_by_success_rate(two):
    """Weights are 3 at 1/9 and 1 at 8/9: over their mean, 2, they are 1.5 and .5; Σ|A| was recorded as 1."""
    rows = [row for row in means(two, "weight_by_success") if row["arm"] == two.comparison.baseline.label]
    assert [(row["y"], row["n"]) for row in rows] == [(1, 60), (1, 60)]
    assert [row["p"] for row in rows] == pytest.approx([1 / 9, 8 / 9], rel=1e-4)
    after = [row for row in means(two, "weight_after_norm") if row["arm"] == two.comparison.baseline.label]
    assert [(row["y"], row["lo"], row["hi"]) for row in after] == [(1.5, 1.5, 1.5), (0.5, 0.5, 0.5)]


def test_cumulative_weight_is_a_share_of_all(two):
    rows = [row for row in means(two, "cumulative_weight") if row["arm"] == two.comparison.baseline.label]
    at_end = {row["kind"].split()[0]: row["y"][-1] for row in rows}
    assert at_end == {"hard": 75, "medium": 0, "easy": 25}


def test_the_closed_forms_are_those_of_the_papers(two, tmp_path):
    """2G·√(p(1-p)) and 2G·p(1-p), for rewards of 0 and 1; no curve is drawn where rewards are not known to be that."""
    assert curves_of(two) == {}
    run = two.comparison.baseline.runs[0]
    row = {"slot": 0, "question_id": "q", "question": "q", "gold": "1", "successes": 4, "group_size": 8, "included": 8}
    row |= {"success_rate": 0.5, "reward_mean": 0.5, "advantage_weight": 8.0, "weight": 0.25, "truncated": 0}
    log = QuestionLog(tmp_path)
    log.start(0)
    log.add(0, [row])
    log.finish()
    arm = replace(two.comparison.baseline, runs={0: replace(run, folder=tmp_path)})
    analysis = replace(two, comparison=replace(two.comparison, arms=(arm,)))
    found = curves_of(analysis)
    assert {name: (at[0], at[0.5], at[0.2], at[1]) for name, at in found.items()} == {
        "GRPO": (0, 8, 6.4, 0),
        "Dr. GRPO": (0, 4, 2.56, 0),
    }


def curves_of(analysis: Analysis) -> dict[str, dict[float, float]]:
    spec = FIGURES["weight_by_success"].function(analysis)
    assert spec is not None
    rows = [row for layer in spec["layer"] for row in layer.get("data", {}).get("values", [])]
    return {row["arm"].split(":")[0]: dict(zip(row["p"], row["y"], strict=True)) for row in rows}


# --- one run, no run


def test_one_run_has_the_same_figures_without_differences_and_bands(alone):
    drawn = {name for name, figure in FIGURES.items() if figure.function(alone) is not None}
    assert {"accuracy", "lengths", "entropy", "weight_by_success", "cumulative_weight"} <= drawn
    assert not any("difference" in name or name == "forest" for name in drawn)
    (row,) = means(alone, "accuracy")
    assert row["lo"] == [None] * 3
    assert thin(alone, "accuracy") == []  # the mean is the run


def test_what_no_run_logged_has_no_figure(two):
    assert FIGURES["kl"].function(two) is None
    assert FIGURES["grad_norm"].function(two) is None


# --- the specs


def test_vega_lite_takes_every_figure(two, alone):
    for analysis in (two, alone):
        for name, figure in FIGURES.items():
            if spec := figure.function(analysis):
                vega = vl_convert.vegalite_to_vega(export.fixed(spec))
                assert vega["marks"], name


def test_arms_keep_their_colour_and_differ_without_it(two):
    names = [str(number) for number in range(12)]
    colours, dashes = theme.colour(names)["scale"]["range"], theme.dash(names)["scale"]["range"]
    assert len({(one, str(dash)) for one, dash in zip(colours, dashes, strict=True)}) == 12
    second = theme.colour(names, ["1"])["scale"]
    assert second == {"domain": ["1"], "range": [colours[1]]}
    spec = FIGURES["accuracy"].function(two)
    line = next(layer for layer in spec["layer"] if layer.get("params"))
    assert line["encoding"]["strokeDash"]["field"] == line["encoding"]["color"]["field"] == "arm"


def test_png_and_svg(two):
    spec = FIGURES["accuracy"].function(two)
    assert export.png(spec, scale=1)[:8] == b"\x89PNG\r\n\x1a\n"
    drawn = export.svg(spec)
    assert drawn.startswith("<svg")
    assert "accuracy, sampled (points)" in drawn
    assert spec["width"] == "container"  # the page's spec is not touched
