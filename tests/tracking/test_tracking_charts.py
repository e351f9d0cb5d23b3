"""The theory curve against closed forms and against advantages worked out one by one; the picture's bytes."""

from __future__ import annotations

import statistics

import numpy as np
import pyarrow as pa
import pytest

from grpo_runner.schema import AdvantageConfig, LossNormConfig
from grpo_runner.tracking import charts, questions


def config(baseline="group_mean", scale="group_std", ddof=0, eps=0.0) -> AdvantageConfig:
    return AdvantageConfig(baseline=baseline, scale=scale, ddof=ddof, eps=eps)


P = np.array([0.0, 0.125, 0.25, 0.5, 0.875, 1.0])


def test_grpo_is_2g_sqrt_p_1_minus_p():
    got = charts.advantage_weight_theory(P, config(), 8)
    assert got == pytest.approx([0, 5.2915026, 6.9282032, 8.0, 5.2915026, 0], rel=1e-7)


def test_dr_grpo_is_2g_p_1_minus_p():
    got = charts.advantage_weight_theory(P, config(scale="none"), 8)
    assert got == pytest.approx([0, 1.75, 3.0, 4.0, 1.75, 0])


def test_worked_groups_of_four():
    # one of four right: 1.7321 + 3 * 0.5774; DESIGN section 6
    assert charts.advantage_weight_theory(np.array([0.25, 0.5]), config(), 4) == pytest.approx([3.4641016, 4.0])
    assert charts.advantage_weight_theory(np.array([0.5]), config(ddof=1), 4) == pytest.approx([3.4641016])


@pytest.mark.parametrize("baseline", ["group_mean", "leave_one_out", "none"])
@pytest.mark.parametrize("scale", ["none", "group_std"])
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
        by = std + eps if scale == "group_std" else 1.0
        expected = sum(abs(reward - b) / by for reward, b in zip(rewards, base, strict=True))
        got = charts.advantage_weight_theory(np.array([right / size]), config(baseline, scale, ddof, eps), size)
        assert got == pytest.approx([expected])


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
