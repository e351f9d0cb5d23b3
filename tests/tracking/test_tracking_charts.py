"""Theory curves against closed forms and against weights worked out one by one; what each picture holds; the page."""

from __future__ import annotations

import base64
import dataclasses
import math
import re
import statistics
import time

import numpy as np
import pyarrow as pa
import pytest

from grpo_runner.objectives import preset
from grpo_runner.schema import AdvantageConfig, LossNormConfig
from grpo_runner.tracking import charts, questions
from grpo_runner.tracking.charts import cumulative, length, probe
from grpo_runner.tracking.charts.page import CAPTIONS
from grpo_runner.tracking.charts.progress import smoothed
from grpo_runner.tracking.local import PICTURES

pytestmark = pytest.mark.usefixtures("real_pictures")


def config(baseline="group_mean", scale="group_std", ddof=0, eps=0.0) -> AdvantageConfig:
    return AdvantageConfig(credit="outcome", baseline=baseline, scale=scale, ddof=ddof, eps=eps)


P = np.array([0.0, 0.125, 0.25, 0.5, 0.875, 1.0])


def test_grpo_is_2g_sqrt_p_1_minus_p():
    got = charts.advantage_weight_theory(P, config(), 8)
    assert got == pytest.approx([0, 5.2915026, 6.9282032, 8.0, 5.2915026, 0], rel=1e-7)


def test_dr_grpo_is_2g_p_1_minus_p():
    got = charts.advantage_weight_theory(P, config(scale="none"), 8)
    assert got == pytest.approx([0, 1.75, 3.0, 4.0, 1.75, 0])


def test_worked_groups_of_four():
    # one of four right: 1.7321 + 3 * 0.5774
    assert charts.advantage_weight_theory(np.array([0.25, 0.5]), config(), 4) == pytest.approx([3.4641016, 4.0])
    assert charts.advantage_weight_theory(np.array([0.5]), config(ddof=1), 4) == pytest.approx([3.4641016])


@pytest.mark.parametrize("baseline", ["group_mean", "leave_one_out", "none"])
@pytest.mark.parametrize("scale", ["none", "group_std", "group_mean"])
@pytest.mark.parametrize("ddof, eps", [(0, 0.0), (1, 1e-4)])
def test_each_switch_against_advantages_summed_one_by_one(baseline, scale, ddof, eps):
    size = 6
    for right in range(1, size):
        rewards = [1.0] * right + [0.0] * (size - right)
        base = {
            "group_mean": [right / size] * size,
            "leave_one_out": [(right - reward) / (size - 1) for reward in rewards],
            "none": [0.0] * size,
        }[baseline]
        std = statistics.pstdev(rewards) if ddof == 0 else statistics.stdev(rewards)
        by = {"none": 1.0, "group_std": std + eps, "group_mean": right / size + eps}[scale]
        expected = sum(abs(reward - b) / by for reward, b in zip(rewards, base, strict=True))
        got = charts.advantage_weight_theory(np.array([right / size]), config(baseline, scale, ddof, eps), size)
        assert got == pytest.approx([expected])


def test_maxrl_is_2g_1_minus_p_and_no_curve_where_tokens_are_credited_apart():
    got = charts.advantage_weight_theory(P, config(scale="group_mean"), 8)
    assert got == pytest.approx([0, 14, 12, 8, 2, 0])  # without variance nothing
    for credit in ("process", "gae", "pairs"):
        assert charts.advantage_weight_theory(P, dataclasses.replace(config(), credit=credit), 8) is None


def test_control_the_two_methods_have_different_curves():
    grpo, dr = (charts.advantage_weight_theory(P, config(scale=scale), 8) for scale in ("group_std", "none"))
    assert not np.allclose(grpo, dr) and grpo[3] == 2 * dr[3]


@pytest.mark.parametrize("kind, divisor", [("sequence_mean", None), ("constant", 32.0)])
def test_the_picture_has_both_panels_curves_and_points(fake, kind, divisor):
    rows = [row | {"step": step} for step in range(9) for row in fake.questions(step)]
    table = pa.Table.from_pylist(rows, schema=questions.schema())
    norm = LossNormConfig(kind=kind, divisor=divisor)
    figure = charts.weight_scatter(table, config(), norm)
    left, right = figure.axes[:2]
    # every measured point lies on the theory: left as it is, right times the constant 1/64 of these rows
    for axes, factor in ((left, 1.0), (right, 1 / 64)):
        points = axes.collections[0].get_offsets()
        assert len(points) == 9
        theory = charts.advantage_weight_theory(np.asarray(points[:, 0]), config(), 8) * factor
        assert np.asarray(points[:, 1]) == pytest.approx(theory, abs=1e-4)
        assert max(axes.lines[0].get_ydata()) == pytest.approx(8.0 * factor)
    assert "success rate" in left.get_xlabel() and kind in right.get_title()
    first = charts.png(figure)
    assert first == charts.png(charts.weight_scatter(table, config(), norm)) and first[:4] == b"\x89PNG"


def test_groups_without_variance_alone_can_be_drawn(fake):
    rows = [row | {"step": 0, "successes": 0, "success_rate": 0.0, "advantage_weight": 0.0, "weight": 0.0,
                   "length_mean": None} for row in fake.questions(0)]  # fmt: skip
    table = pa.Table.from_pylist(rows, schema=questions.schema())
    assert charts.png(charts.weight_scatter(table, config(), LossNormConfig(kind="token_mean", divisor=None)))


def test_the_other_methods_curves_stand_beside_the_run_s_own(fake):
    table = job_table(fake, 6, "dr_grpo")
    left = charts.weight_scatter(table, config(scale="none"), LossNormConfig(kind="constant", divisor=None)).axes[0]
    labels = [text.get_text() for text in left.get_legend().get_texts()]
    assert labels[:2] == ["theory: 2G·p(1-p)", "GRPO: 2G·√(p(1-p))"]
    assert max(left.lines[1].get_ydata()) == pytest.approx(8.0) and left.lines[1].get_linestyle() == "--"


def test_groups_with_excluded_answers_are_counted_and_do_not_hide_the_theory(fake):
    rows = fake.job(20, preset("grpo", 0, 0.0, 32.0), excluded=0.2)
    figure = charts.weight_scatter(as_table(rows), config(), LossNormConfig(kind="sequence_mean", divisor=None))
    partial = sum(row["included"] < row["group_size"] for row in rows)
    assert 0 < partial < len(rows)
    assert f"{partial} groups with answers left out of the loss" in figure.get_suptitle()
    assert len(figure.axes[1].lines) == 1  # the curve after the loss norm, which needs 0/1 rewards
    whole = charts.weight_scatter(job_table(fake, 20), config(), LossNormConfig(kind="sequence_mean", divisor=None))
    assert "left out" not in whole.get_suptitle()


# --- weight by length


def as_table(rows) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=questions.schema())


def job_table(fake, steps: int, name: str = "grpo", norm: str | None = None, **more) -> pa.Table:
    """Rows as a job leaves them, under a named objective with another loss norm or its own; L = 32."""
    return as_table(fake.job(steps, preset(name, 0, 0.0, 32.0, norm), **more))


@pytest.mark.parametrize(
    "kind, expected",
    [("sequence_mean", [1 / 640, 1 / 6400]), ("constant", [1 / 2048] * 2), ("sequence_sum", [1 / 64] * 2)],
)
def test_weight_per_token_by_hand(kind, expected):
    """N = 64, L = 32, answers of 10 and of 100 tokens."""
    assert length.weight_per_token_theory(np.array([10, 100]), kind, 64, 32) == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["token_mean", "group_token_mean", "median"])
def test_a_norm_in_which_other_lengths_enter_has_no_curve(fake, kind):
    assert length.weight_per_token_theory(np.array([10.0]), kind, 64, 32) is None
    figure = length.weight_by_length(job_table(fake, 5, norm="token_mean"), kind, 32.0)
    assert not figure.axes[0].lines and "no theory curve" in figure.get_supxlabel()


@pytest.mark.parametrize("norm", ["sequence_mean", "constant", "sequence_sum"])
@pytest.mark.parametrize("name", ["grpo", "dr_grpo"])
def test_every_dot_lies_on_the_line_of_its_colour(fake, name, norm):
    """Under 1/|o| where the group has one right answer; with more, of unlike lengths, the dot lies above the line."""
    rows = fake.job(40, preset(name, 0, 0.0, 32.0, norm))
    figure = length.weight_by_length(as_table(rows), norm, 32.0)
    axes = figure.axes[0]
    assert "N = 32 answers" in figure.get_supxlabel()  # four questions of eight
    shown = [row for row in rows if 0 < row["successes"] < 8]
    dots = np.asarray(axes.collections[0].get_offsets())
    assert len(dots) == len(shown) and axes.get_title() == f"Right answers: {len(shown)} groups"
    by_level = {}
    for line in axes.lines:
        x, y = line.get_data()
        level = float(y[0] * 32 * {"sequence_mean": x[0], "constant": 32, "sequence_sum": 1}[norm])
        by_level[round(level, 5)] = (x, y)
    sizes = {round(abs(row["advantage_right"]), 5) for row in shown}
    assert set(by_level) == sizes  # a line for each |A| of the run
    checked = 0
    for (x, y), row in zip(dots, shown, strict=True):
        line = by_level[round(abs(row["advantage_right"]), 5)]
        on_line = math.exp(np.interp(math.log(x), np.log(line[0]), np.log(line[1])))
        if norm != "sequence_mean" or row["successes"] == 1:
            assert y == pytest.approx(on_line, rel=1e-5)
            checked += 1
        else:
            assert y >= on_line * (1 - 1e-5)  # the mean of 1/|o| is at least 1 over the mean
    assert checked > 3


def test_control_another_norm_s_lines_do_not_meet_the_dots(fake):
    axes = length.weight_by_length(job_table(fake, 40), "constant", 32.0).axes[0]
    dots = np.asarray(axes.collections[0].get_offsets())
    levels = np.array([line.get_ydata()[0] for line in axes.lines])
    assert np.abs(dots[:, 1, None] / levels - 1).min(axis=1).max() > 0.1


def test_the_two_panels_keep_right_and_wrong_apart(fake):
    """In these jobs right answers have 14 to 25 tokens, wrong ones 4 to 13."""
    right, wrong = (np.asarray(axes.collections[0].get_offsets())[:, 0]
                    for axes in length.weight_by_length(job_table(fake, 20), "sequence_mean", 32.0).axes[:2])  # fmt: skip
    assert right.min() >= 14 and wrong.max() <= 13


def test_many_different_advantages_get_a_few_lines(fake):
    rows = [row | {"advantage_right": 0.1 + 0.01 * i, "weight_per_token_right": 0.001}
            for i, row in enumerate(fake.job(20, preset("grpo", 0, 0.0, 32.0)))]  # fmt: skip
    assert len(length.weight_by_length(as_table(rows), "sequence_mean", 32.0).axes[0].lines) == 5


@pytest.mark.parametrize("size, bars", [(2, 0), (3, 1), (8, 1)])
def test_the_colour_bar_of_A_has_some_ticks_and_is_left_out_for_a_single_value(fake, size, bars):
    """Of two answers with unlike rewards |A| is 1; of three it is √2/2 and √2."""
    figure = length.weight_by_length(
        as_table(fake.job(30, preset("grpo", 0, 0.0, 32.0), size=size)), "sequence_mean", 32.0
    )
    charts.png(figure)
    assert len(figure.axes) == 2 + bars
    assert all(len(shown_ticks(bar.yaxis)) >= 3 for bar in figure.axes[2:])
    assert ("|A| = 1 throughout" in figure.get_supxlabel()) == (size == 2)


# --- cumulative weight


def test_classes_are_cut_at_one_and_two_thirds():
    successes = np.array([0, 2, 3, 3, 4, 5, 6, 1, 2, 1, 0])
    sizes = np.array([6, 6, 6, 8, 6, 8, 8, 3, 3, 1, 1])
    expected = ["hard", "hard", "medium", "medium", "easy", "medium", "easy", "hard", "easy", "easy", "hard"]
    assert cumulative.classes(successes, sizes).tolist() == expected


def test_cumulative_shares_of_a_worked_run(fake):
    """Step 0: hard 1, easy 3; step 1: medium 4; step 3: hard 2, easy 0."""
    base = fake.questions(0)[0] | {"weight_grpo": 0.0, "weight_dr_grpo": 1.0}
    given = [(0, 1, 1.0), (0, 8, 3.0), (1, 4, 4.0), (3, 2, 2.0), (3, 6, 0.0)]
    table = as_table([base | {"step": step, "slot": i, "successes": right, "weight": weight}
                      for i, (step, right, weight) in enumerate(given)])  # fmt: skip
    steps, sums = cumulative.cumulative_by_class(table, "weight")
    assert steps.tolist() == [0, 1, 3]
    assert {name: values.tolist() for name, values in sums.items()} == {
        "hard": [1, 1, 3], "medium": [0, 4, 4], "easy": [3, 3, 3],
    }  # fmt: skip
    left, right = cumulative.cumulative_weight(table).axes[:2]
    assert [line.get_ydata().tolist() for line in left.lines] == [[1, 1, 3], [0, 4, 4], [3, 3, 3]]
    own, dr_grpo = right.lines[:3], right.lines[3:]
    assert [line.get_ydata()[-1] for line in own] == pytest.approx([0.3, 0.4, 0.3])
    # GRPO would have given nothing: no lines; Dr. GRPO's are dotted, a weight of 1 for each of the rows
    assert [line.get_ydata()[-1] for line in dr_grpo] == pytest.approx([0.4, 0.2, 0.4])
    assert {line.get_linestyle() for line in dr_grpo} == {":"}


@pytest.mark.parametrize("name, other, style", [("grpo", "Dr. GRPO", ":"), ("dr_grpo", "GRPO", "--")])
def test_the_reference_that_is_in_use_is_not_drawn_twice(fake, name, other, style):
    figure = cumulative.cumulative_weight(job_table(fake, 20, name))
    right = figure.axes[1]
    assert [line.get_linestyle() for line in right.lines] == ["-"] * 3 + [style] * 3
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    mine = {"grpo": "GRPO", "dr_grpo": "Dr. GRPO"}[name]
    assert words[3] == f"share under the objective in use (what {mine} would have given is the same)"
    assert words[4] == f"share that {other} would have given the same answers"
    assert words[0].startswith("hard: p ≤ 1/3 (") and words[2].startswith("easy: p ≥ 2/3 (")


def words_of(figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts() if text.get_text()]


@pytest.mark.parametrize("lacking", [("weight_grpo", "weight_dr_grpo"), ("weight_grpo",), ("weight_dr_grpo",)])
@pytest.mark.parametrize("steps", [1, 5, 20])
def test_a_share_that_some_rows_do_not_record_is_left_out_and_said_to_be(fake, lacking, steps):
    """A run of before the columns that was gone on from: a null is not a weight of 0."""
    rows = fake.job(20, preset("grpo", 0, 0.0, 32.0, "constant"))
    labels = {"weight_grpo": "GRPO", "weight_dr_grpo": "Dr. GRPO"}
    old = [row | (dict.fromkeys(lacking) if row["step"] < steps else {}) for row in rows]
    figure = cumulative.cumulative_weight(as_table(old))
    others = [name for name in labels if name not in lacking]
    assert len(figure.axes[1].lines) == 3 + 3 * len(others)
    said = f"without what {' and '.join(labels[name] for name in lacking)} would have given: some rows, of an older run"
    assert words_of(figure)[-1].startswith(said)
    whole = cumulative.cumulative_weight(as_table(rows))
    assert len(whole.axes[1].lines) == 9 and not any("older run" in text for text in words_of(whole))


def test_both_references_that_are_the_same_are_said_once_and_the_classes_stay_in_one_column(fake):
    rows = [row | {"weight_dr_grpo": row["weight"]} for row in fake.job(20, preset("grpo", 0, 0.0, 32.0))]
    figure = cumulative.cumulative_weight(as_table(rows))
    assert words_of(figure)[3:] == [
        "share under the objective in use (what GRPO and Dr. GRPO would have given is the same)"
    ]
    assert len(figure.legends[0].get_texts()) == 6  # three rows in two columns


def test_lines_at_the_edges_of_a_panel_are_whole(fake):
    rows = [row | {"successes": 0} for row in fake.job(5, preset("grpo", 0, 0.0, 32.0))]
    left, right = cumulative.cumulative_weight(as_table(rows)).axes[:2]
    assert right.lines[0].get_ydata()[-1] == 1 and right.lines[2].get_ydata()[-1] == 0
    for axes in (left, right):
        data = np.concatenate([line.get_ydata() for line in axes.lines])
        low, high = axes.get_ylim()
        assert low <= np.nanmin(data) - 0.01 * (high - low) and high >= np.nanmax(data) + 0.01 * (high - low)


def shown_ticks(axis) -> list[float]:
    low, high = sorted(axis.get_view_interval())
    return [place for place in axis.get_majorticklocs() if low <= place <= high]


def test_one_step_has_one_tick_and_one_of_anything_no_plural(fake):
    rows = [row | {"step": 3} for row in fake.job(1, preset("grpo", 0, 0.0, 32.0), questions=1, seed=3)]
    table, norm = as_table(rows), LossNormConfig(kind="sequence_mean", divisor=None)
    shares, weights = cumulative.cumulative_weight(table), charts.weight_scatter(table, config(), norm)
    by_length = length.weight_by_length(table, "sequence_mean", 32.0)
    for figure in (shares, weights, by_length):
        charts.png(figure)
        assert "1 question, asked 1 time in step 3" in figure.get_suptitle()
    assert [shown_ticks(axes.xaxis) for axes in shares.axes[:2]] == [[3], [3]]
    assert shown_ticks(weights.axes[2].yaxis) == [3]  # the colour bar
    assert "hard: p ≤ 1/3 (1 group)" in words_of(shares) and by_length.axes[0].get_title() == "Right answers: 1 group"
    assert weights.axes[0].get_legend().get_texts()[-1].get_text() == "measured (a dot: one group)"
    figure = probe.probe_cosines([fake.probe(3)])
    assert shown_ticks(figure.axes[0].xaxis) == [3] and "dots: 1 group;" in figure.axes[1].get_title()
    assert "1 probe on one step's answers" in figure.get_suptitle()
    partial = charts.weight_scatter(as_table([rows[0] | {"included": 7}]), config(), norm)
    assert "1 group with answers left out" in partial.get_suptitle()


def test_control_two_steps_have_two_ticks_and_plurals(fake):
    figure = cumulative.cumulative_weight(job_table(fake, 2))
    assert shown_ticks(figure.axes[0].xaxis) == [0, 1] and "times in steps 0 to 1" in figure.get_suptitle()


def test_between_the_two_both_references_are_drawn(fake):
    right = cumulative.cumulative_weight(job_table(fake, 20, "grpo", norm="constant")).axes[1]
    assert [line.get_linestyle() for line in right.lines] == ["-"] * 3 + ["--"] * 3 + [":"] * 3


def test_shares_start_with_the_first_weight_and_sum_to_one(fake):
    rows = [row | ({"successes": 0, "weight": 0.0} if row["step"] < 3 else {}) for row in
            fake.job(12, preset("dr_grpo", 0, 0.0, 32.0))]  # fmt: skip
    lines = cumulative.cumulative_weight(as_table(rows)).axes[1].lines[:3]
    total = np.sum([line.get_ydata() for line in lines], axis=0)
    assert np.isnan(total[:3]).all() and total[3:] == pytest.approx(1.0)


# --- the probe


def test_the_probe_draws_every_pair_and_the_groups_that_have_a_cosine(fake):
    figure = probe.probe_cosines([fake.probe(step) for step in (0, 3, 6)])
    left, right = figure.axes
    assert [line.get_label() for line in left.lines] == [
        "GRPO ~ Dr. GRPO", "GRPO ~ GRPO without its std", "GRPO ~ GRPO without its 1/|o|",
        "Dr. GRPO ~ GRPO without its std", "Dr. GRPO ~ GRPO without its 1/|o|",
        "GRPO without its std ~ GRPO without its 1/|o|",
    ]  # fmt: skip
    assert left.lines[0].get_xydata().tolist() == [[0, 0.9], [3, pytest.approx(0.87)], [6, pytest.approx(0.84)]]
    assert len({line.get_color() for line in left.lines}) == 6
    dots = np.asarray(right.collections[0].get_offsets())
    assert dots.tolist() == [[0.25, 0.9], [0.25, pytest.approx(0.87)], [0.25, pytest.approx(0.84)]]
    assert right.lines[0].get_xydata().tolist() == [[0.25, pytest.approx(0.87)]]  # the median
    assert "GRPO ~ Dr. GRPO" in right.get_title()


def test_of_many_objectives_the_pairs_with_the_first_are_drawn(fake):
    names = ["dr_grpo", "grpo", "rloo", "no_std", "no_length_norm"]
    pairs = [f"{a}~{b}" for i, a in enumerate(names) for b in names[i + 1 :]]
    row = fake.probe(0) | {"cosine": dict.fromkeys(pairs, 0.5)}
    figure = probe.probe_cosines([row])
    left = figure.axes[0]
    assert left.get_title() == "Of the whole step, the pairs with Dr. GRPO"
    assert [line.get_label() for line in left.lines] == [probe.pair_label(f"dr_grpo~{name}") for name in names[1:]]
    # one more probe, gone on with two other objectives: GRPO is in both
    other = fake.probe(3) | {"cosine": {"grpo~rloo": 0.5}}
    left = probe.probe_cosines([row, other]).axes[0]
    assert left.get_title() == "Of the whole step, the pairs with GRPO" and len(left.lines) == 4
    assert probe.probe_cosines([fake.probe(0)]).axes[0].get_title() == "Of the whole step, every pair"


def test_a_probe_of_nothing_and_one_of_other_objectives_can_be_drawn(fake):
    row = fake.probe(0)
    nothing = row | {"cosine": dict.fromkeys(row["cosine"]), "groups": []}
    figure = probe.probe_cosines([nothing])
    assert not figure.axes[0].lines and charts.png(figure)
    other = {"step": 0, "norm": {}, "cosine": {"rloo~mine": 0.5}, "groups": [
        {"slot": 0, "question_id": "q", "success_rate": 0.5, "cosine": {"rloo~mine": 0.25}}]}  # fmt: skip
    figure = probe.probe_cosines([other, {"step": 1, "norm": {}, "cosine": {"rloo~mine": None}}])
    assert figure.axes[1].get_title().startswith("Question by question: RLOO ~ mine")
    assert np.asarray(figure.axes[1].collections[0].get_offsets()).tolist() == [[0.5, 0.25]]


# --- all of them


@pytest.mark.slow
def test_all_pictures_and_the_page_of_a_job_are_quick_and_the_same_twice(make_config, fake):
    run, table = make_config(), job_table(fake, 250, questions=8)
    rows = [fake.probe(step) for step in range(0, 60, 3)]
    metrics, evals = ([made(step) for step in range(250)] for made in (fake.metrics, fake.evaluation))
    metrics, evals = ([{"step": i} | row for i, row in enumerate(rows)] for rows in (metrics, evals))
    charts.draw(run, table.slice(0, 40), metrics, evals, rows)  # the first picture of a process also reads fonts
    began = time.process_time()
    drawn = charts.draw(run, table, metrics, evals, rows)
    assert time.process_time() - began < 6  # about one on one core; a dot at a time would take minutes
    assert tuple(drawn) == PICTURES and all(made.png[:4] == b"\x89PNG" for made in drawn.values())
    assert charts.draw(run, table, metrics, evals, rows) == drawn
    # control: one weight more
    assert charts.draw(run, table.slice(1), [], [], rows)["cumulative_weight"] != drawn["cumulative_weight"]
    made = charts.page(run, drawn, ["questions.parquet", "metrics.jsonl"])
    assert made == charts.page(run, drawn, ["questions.parquet", "metrics.jsonl"])


def test_the_page_holds_its_pictures_and_fetches_nothing(make_config):
    drawn = {name: charts.Drawn(f"<{name}>".encode(), f"|{name}| < 1") for name in PICTURES}
    text = charts.page(make_config(run_name="a<b&c"), drawn, ["questions.parquet"]).decode()
    held = re.findall(r'src="data:image/png;base64,([^"]*)"', text)
    assert [base64.b64decode(data) for data in held] == [made.png for made in drawn.values()]
    assert text.count("src=") == 5 and not re.search(r"https?:|<script|<link|@import|url\(", text)
    assert re.findall(r'href="([^"]*)"', text) == ["questions.parquet", *(f"{name}.png" for name in PICTURES)]
    assert "a&lt;b&amp;c: how it went and what questions weighed" in text and "a<b" not in text
    assert all(f"|{name}| &lt; 1 " in text for name in PICTURES)
    assert "GRPO · seed 0 · 6 steps" in text and text.count("<figcaption>") == 5


def test_one_picture_alone_makes_a_page(make_config):
    text = charts.page(make_config(), {"probe": charts.Drawn(b"x", "y")}, ["probe.jsonl"]).decode()
    assert text.count("<figure>") == 1 and 'href="probe.jsonl"' in text


def test_the_page_lists_what_the_rules_found(make_config):
    drawn = {"probe": charts.Drawn(b"x", "y")}
    text = charts.page(make_config(), drawn, ["a"], [(19, "truncation", "1 < 2"), (30, "grader", "late")]).decode()
    assert "<li><b>truncation</b>, from step 19: 1 &lt; 2</li>\n<li><b>grader</b>, from step 30: late</li>" in text
    assert "No rule held" not in text and "No rule held" in charts.page(make_config(), drawn, ["a"]).decode()


def no_weight(rows):
    nothing = dict.fromkeys(("weight", "advantage_weight", "weight_grpo", "weight_dr_grpo", "weight_rloo"), 0.0)
    return [row | nothing | {"successes": 0, "success_rate": 0.0, "reward_mean": 0.0, "advantage_wrong": 0.0,
                             "advantage_right": None, "weight_per_token_right": None, "weight_per_token_wrong": 0.0,
                             "length_right": None, "length_factor": None} for row in rows]  # fmt: skip


def all_right(rows):
    return [row | {"successes": 8, "success_rate": 1.0, "reward_mean": 1.0, "advantage_right": 0.0, "weight": 0.0,
                   "advantage_wrong": None, "length_wrong": None, "weight_per_token_wrong": None} for row in rows]  # fmt: skip


def only_wrong_weigh(rows):
    return [row | {"advantage_right": None, "weight_per_token_right": None} for row in rows]


def before_the_columns(rows):
    new = ("included", "weight_grpo", "weight_dr_grpo", "weight_rloo", "centred_weight", "std_factor", "length_factor",
           "constant_factor")  # fmt: skip
    return [{key: value for key, value in row.items() if key not in new} for row in rows]


def turned_down(rows):
    return [row | {"included": 0, "reward_mean": None, "reward_std": None} for row in no_weight(rows)]


def graded_rewards(rows):
    return [row | {"reward_mean": 0.3 + 0.5 * row["success_rate"]} for row in rows]


@pytest.mark.parametrize(
    "spoil", [no_weight, all_right, only_wrong_weigh, before_the_columns, turned_down, graded_rewards]
)
@pytest.mark.parametrize(
    "steps, scale, kind",
    [
        (1, "group_std", "sequence_mean"),
        pytest.param(7, "batch_std", "token_mean", marks=pytest.mark.slow),
    ],
)
@pytest.mark.filterwarnings("error::RuntimeWarning", "error::UserWarning")
def test_what_is_missing_spoils_no_picture(make_config, fake, spoil, steps, scale, kind):
    run = make_config(advantage=config(scale=scale), loss_norm=LossNormConfig(kind=kind, divisor=None))
    table = as_table(spoil(fake.job(steps, preset("grpo", 0, 0.0, 32.0))))
    assert tuple(charts.draw(run, table, [], [], [])) == PICTURES[1:4]


def test_no_rows_no_pictures(make_config):
    run = make_config()
    assert charts.draw(run, questions.schema().empty_table(), [], [{"step": 0, "greedy/accuracy": 0.5}], []) == {}


# --- how it went


@pytest.mark.parametrize("width, expected", [
    (1, [1, None, 4, None, None, None, 7]),
    (3, [1, 2.5, 4, 4, None, 7, 7]),
    (5, [2.5, 2.5, 2.5, 4, 5.5, 7, 7]),
    (99, [4] * 7),
])  # fmt: skip
def test_the_mean_around_each_value_leaves_out_what_is_not_there(width, expected):
    got = smoothed(np.array([1, np.nan, 4, np.nan, np.nan, np.nan, 7]), width)
    assert [None if math.isnan(value) else value for value in got] == expected


def run_of(steps: int, **figures):
    return [{"step": step, "accuracy": step / steps, **figures} for step in range(steps)]


def test_a_long_run_has_its_steps_thin_and_their_mean_thick():
    figure = charts.progress(
        run_of(40, kl=None), [{"step": 0, "greedy/accuracy": 0.1}, {"step": 40, "greedy/accuracy": 1}]
    )
    thin, thick, held_out = figure.axes[0].lines
    assert thin.get_ydata().tolist() == [step / 40 for step in range(40)] and thin.get_lw() < thick.get_lw()
    assert thick.get_ydata()[[0, 20, 39]] == pytest.approx(
        [1 / 40, 20 / 40, 38 / 40]
    )  # two on each side, where there are
    assert held_out.get_xydata().tolist() == [[0, 0.1], [40, 1]]
    assert "thick, the mean over the 5 steps around it" in figure.get_suptitle()


@pytest.mark.filterwarnings("error::RuntimeWarning", "error::UserWarning")
@pytest.mark.parametrize("steps", [1, 3, 19, 20])
def test_a_run_without_evaluations_and_lengths_can_be_drawn(steps):
    metrics = run_of(steps, **{"length/correct": None, "length/wrong": None, "reward/mean": 0.5, "entropy": "spoilt"})
    figure = charts.progress(metrics, [])
    accuracy, reward, lengths, entropy = figure.axes
    for axes in (lengths, entropy):
        assert not axes.lines and axes.texts[0].get_text() == "no figure in this run"
    words = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in (accuracy, reward)]
    assert words == [["training answers"], ["mean of the step"]]
    assert len(reward.lines) == (2 if steps >= 20 else 1)
    assert ("thick" in figure.get_suptitle()) == (steps >= 20)
    if steps == 1:
        assert shown_ticks(accuracy.xaxis) == [0]
    assert charts.png(figure) == charts.png(charts.progress(metrics, []))
    assert "eld-out" not in caption("progress", figure)
    assert "Held-out" in caption("progress", charts.progress(metrics, [{"step": 0, "sampled/accuracy": 0.5}]))


# --- captions: of what is drawn, and of nothing else


def caption(name: str, figure) -> str:
    return " ".join(CAPTIONS[name][1](figure).split())


@pytest.mark.parametrize("name, norm, said", [
    ("grpo", "sequence_mean", "Grey: the closed form of Dr. GRPO (dotted)."),
    ("dr_grpo", "constant", "Grey: the closed form of GRPO (dashed)."),
    ("rloo", "sequence_sum", "Grey: the closed form of GRPO (dashed) and Dr. GRPO (dotted)."),
    ("batch_std", "token_mean", "Grey: the closed form of GRPO (dashed) and Dr. GRPO (dotted)."),
])  # fmt: skip
def test_the_caption_of_the_weights_names_the_curves_that_are_there(fake, name, norm, said):
    made = preset(name, 0, 0.0, 32.0, norm)
    figure = charts.weight_scatter(
        job_table(fake, 20, name, norm), config(made.baseline, made.scale), LossNormConfig(kind=norm, divisor=None)
    )
    text = caption("weights", figure)
    assert text.endswith(said) and ("Red:" in text) == (name != "batch_std")
    graded = charts.weight_scatter(
        as_table(graded_rewards(fake.job(20, made))),
        config(made.baseline, made.scale),
        LossNormConfig(kind=norm, divisor=None),
    )
    assert "Grey" not in caption("weights", graded) and "on the right" not in caption("weights", graded)


@pytest.mark.parametrize("norm, said", [("sequence_mean", "They fall"), ("constant", "They are flat"),
                                        ("sequence_sum", "They are flat"), ("token_mean", None)])  # fmt: skip
def test_the_caption_of_the_lengths_speaks_of_lines_where_there_are_some(fake, norm, said):
    text = caption("weight_by_length", length.weight_by_length(job_table(fake, 20, norm=norm), norm, 32.0))
    assert [words for words in ("They fall", "They are flat") if words in text] == [said] * (said is not None)
    assert ("Lines" in text) == ("its line" in text) == (said is not None)
    assert "logarithmic" in text and "unlike advantages, the colour is that of their mean" in text
    nothing = length.weight_by_length(as_table(no_weight(fake.job(3, preset("grpo", 0, 0.0, 32.0)))), norm, 32.0)
    assert not any(word in caption("weight_by_length", nothing) for word in ("Lines", "logarithmic", "colour"))


@pytest.mark.parametrize("name, norm, said", [
    ("grpo", "sequence_mean", "the shares that Dr. GRPO (dotted) would"), ("dr_grpo", "constant", "the shares that GRPO (dashed) would"),
    ("grpo", "constant", "the shares that GRPO (dashed) and Dr. GRPO (dotted) would"),
])  # fmt: skip
def test_the_caption_of_the_shares_names_the_methods_that_are_there(fake, name, norm, said):
    assert said in caption("cumulative_weight", cumulative.cumulative_weight(job_table(fake, 20, name, norm)))
    old = before_the_columns(fake.job(20, preset(name, 0, 0.0, 32.0, norm)))
    assert "GRPO" not in caption("cumulative_weight", cumulative.cumulative_weight(as_table(old)))


def test_advantages_that_cancel_out_do_not_stretch_the_colours(fake):
    """A penalty makes unlike advantages among the wrong answers of a group; what is left of their sum is rounding."""
    rows = fake.job(20, preset("grpo", 0, 0.0, 32.0))
    shown = sum(0 < row["successes"] < 8 for row in rows)
    first = next(i for i, row in enumerate(rows) if 0 < row["successes"] < 8)
    spoilt = [row | ({"advantage_wrong": 5e-17} if i == first else {}) for i, row in enumerate(rows)]
    figure = length.weight_by_length(as_table(spoilt), "sequence_mean", 32.0)
    assert [axes.get_title() for axes in figure.axes[:2]] == [
        f"Right answers: {shown} groups", f"Wrong answers: {shown - 1} groups"
    ]  # fmt: skip
    assert len(shown_ticks(figure.axes[2].yaxis)) >= 3 and figure.axes[2].get_ylim()[0] > 0.1
    # nothing but such: not the same as no weight
    all_of_them = [row | ({"advantage_wrong": 5e-17} if row["advantage_wrong"] else {}) for row in rows]
    wrong = length.weight_by_length(as_table(all_of_them), "sequence_mean", 32.0).axes[1]
    assert wrong.texts[0].get_text() == "the advantages of wrong answers cancel out"
