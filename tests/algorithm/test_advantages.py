"""Advantages against the numbers of the papers, worked out by hand or with the standard library."""

import math
import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_runner.algorithm import BASELINES, SCALES, advantages, std, zero_variance

ROOT3 = 3**0.5


def of(rewards, baseline="group_mean", scale="group_std", ddof=0, eps=0.0, dtype=torch.float32):
    return advantages(torch.tensor(rewards, dtype=dtype), baseline, scale, ddof, eps)


@pytest.mark.parametrize(
    ("rewards", "right", "wrong"),
    [
        ((1, 0, 0, 1), 1, -1),
        ((1, 0, 0, 0), ROOT3, -1 / ROOT3),
        ((1, 1, 1, 0), 1 / ROOT3, -ROOT3),
        ((1, 0, 0, 0, 0), 2, -0.5),
    ],
)
def test_the_papers_worked_groups_under_population_std(rewards, right, wrong):
    expected = torch.tensor([right if reward else wrong for reward in rewards], dtype=torch.float64)
    torch.testing.assert_close(of([list(rewards)])[0], expected, rtol=1e-12, atol=1e-12)


def test_pb005_reference_numbers_of_four_variants():
    rewards = [[1, 0, 0, 1, 0, 0, 0, 0]]
    for keywords, right, wrong in (
        ({"scale": "none"}, 0.75, -0.25),
        ({"ddof": 1}, 1.6201852, -0.5400617),
        ({"ddof": 0}, 1.7320508, -0.5773503),
        ({"baseline": "leave_one_out", "scale": "none"}, 0.8571429, -0.2857143),
        ({"baseline": "none", "scale": "none"}, 1.0, 0.0),
    ):
        found = of(rewards, **keywords)[0]
        assert found[0] == pytest.approx(right, abs=1e-6) and found[1] == pytest.approx(wrong, abs=1e-6), keywords


def test_ddof_one_is_another_number():
    """Negative control: the population numbers do not come out under the sample std."""
    assert of([[1, 0, 0, 0]], ddof=1)[0, 0] == pytest.approx(1.5)
    assert of([[1, 0, 0, 0]], ddof=1)[0, 0] != pytest.approx(ROOT3, abs=0.1)


@pytest.mark.parametrize("baseline", ["group_mean", "leave_one_out"])
@pytest.mark.parametrize("scale", ["none", "group_std"])
@pytest.mark.parametrize(("size", "reward"), [(8, 1.0), (7, 0.1), (6, 0.3), (7, 0.95)])
def test_pb001_pb002_a_group_without_variance_is_exactly_zero(baseline, scale, size, reward):
    for ddof, eps in ((0, 0.0), (1, 1e-8), (1, 1e-9)):
        assert (of([[reward] * size], baseline, scale, ddof, eps) == 0).all()


def test_a_naive_formula_does_fail_on_rewards_that_float32_cannot_hold():
    """Negative control of the test above: rounding residue over a tiny eps is a real advantage."""
    rewards = torch.full((1, 7), 0.1, dtype=torch.float32)
    naive = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-9)
    assert naive.abs().max() > 0.1


def test_pb004_the_std_is_two_pass():
    """Seven rewards of 0.95 and one other: E[x²]-E[x]² in float32 loses the digits, two passes do not."""
    rewards = [0.95] * 7 + [0.0]
    spread = statistics.pstdev(rewards)
    expected = [(reward - statistics.fmean(rewards)) / spread for reward in rewards]
    torch.testing.assert_close(of([rewards])[0], torch.tensor(expected, dtype=torch.float64), rtol=1e-6, atol=1e-6)


def test_pb004_the_std_of_equal_rewards_is_nothing_at_all():
    """One pass, E[x²]-E[x]², leaves 1e-8 in float64 and 4.6e-4 in float32; the odd one's advantage would be -2075."""
    values = torch.tensor([[0.95] * 7], dtype=torch.float64)
    assert float(std(values, 0)) < 1e-15
    squares, mean = math.fsum([0.95 * 0.95] * 7) / 7, sum([0.95] * 7) / 7
    assert abs(squares - mean * mean) ** 0.5 > 1e-9  # negative control
    assert float(of([[0.95] * 7 + [0.0]], "leave_one_out", "none")[0, 7]) == pytest.approx(-0.95)


@pytest.mark.parametrize("baseline", ["group_mean", "leave_one_out", "batch_mean"])
@pytest.mark.parametrize("scale", ["none", "group_std", "batch_std"])
def test_rewards_that_differ_by_the_rounding_of_their_sums_are_equal(baseline, scale):
    """0.1 + 0.2 beside 0.3: the std of that is 2e-17, over which a residue would be an advantage of full size."""
    assert (of([[0.1 + 0.2, 0.3, 0.3, 0.3]], baseline, scale, dtype=torch.float64) == 0).all()
    near = of([[0.3 + 1e-9, 0.3, 0.3, 0.3]], baseline, scale, dtype=torch.float64)  # a difference that is meant
    assert (near != 0).all() and torch.isfinite(near).all()


def test_pb007_group_of_two():
    assert of([[1, 0]])[0].tolist() == [1, -1]
    assert of([[1, 0]], ddof=1)[0].tolist() == pytest.approx([0.5**0.5, -(0.5**0.5)])


def test_pb011_equal_questions_are_two_groups():
    """Rows of the tensor are slots of the step: all right beside all wrong gives no advantage to either."""
    assert (of([[1, 1, 1, 1], [0, 0, 0, 0]]) == 0).all()


def test_zero_variance_compares_and_does_not_round():
    assert zero_variance(torch.tensor([[0.1, 0.1, 0.1], [0.1, 0.1, 0.1 + 1e-9]], dtype=torch.float64)).tolist() == [
        True,
        False,
    ]


# NaN: an excluded answer; groups of a step have one size
NUMBERS = st.floats(-10, 10, allow_nan=False, width=32)
ANSWERS = st.one_of(NUMBERS, NUMBERS, NUMBERS, st.just(math.nan))
GROUPS = st.lists(ANSWERS, min_size=2, max_size=16)
STEPS = st.integers(2, 6).flatmap(
    lambda size: st.lists(st.lists(ANSWERS, min_size=size, max_size=size), min_size=1, max_size=4)
)


def too_close(values):
    """A shift in binary floating point may then swallow the differences themselves."""
    left = [value for value in values if not math.isnan(value)]
    return bool(left) and 0 < max(left) - min(left) < 1e-3


@settings(max_examples=200, deadline=None)
@given(
    rewards=GROUPS, shift=st.sampled_from([-4.0, 0.5, 8.0]), baseline=st.sampled_from(["group_mean", "leave_one_out"])
)
def test_sums_to_zero_ignores_a_shift_and_is_never_nan(rewards, shift, baseline):
    if too_close(rewards):
        return
    for scale in ("none", "group_std"):
        found = of([rewards], baseline, scale, dtype=torch.float64)
        assert torch.isfinite(found).all()
        assert abs(float(found.sum())) < 1e-6
        torch.testing.assert_close(
            of([[r + shift for r in rewards]], baseline, scale, dtype=torch.float64), found, rtol=1e-6, atol=1e-6
        )


@settings(max_examples=100, deadline=None)
@given(rewards=STEPS, shift=st.sampled_from([-4.0, 0.5, 8.0]))
def test_the_batch_mean_sums_to_zero_over_the_step_and_ignores_a_shift(rewards, shift):
    everything = [reward for group in rewards for reward in group]
    if too_close(everything) or any(too_close(group) for group in rewards):
        return
    for scale in ("none", "batch_std"):
        found = of(rewards, "batch_mean", scale, dtype=torch.float64)
        assert abs(float(found.sum())) < 1e-6
        moved = of([[r + shift for r in group] for group in rewards], "batch_mean", scale, dtype=torch.float64)
        torch.testing.assert_close(moved, found, rtol=1e-6, atol=1e-6)


@settings(max_examples=150, deadline=None)
@given(rewards=STEPS, ddof=st.integers(0, 1), eps=st.sampled_from([0.0, 1e-8, 1e-4]))
def test_never_nan_and_excluded_answers_are_exactly_zero(rewards, ddof, eps):
    gone = torch.tensor(rewards).isnan()
    for baseline in BASELINES:
        for scale in SCALES:
            found = of(rewards, baseline, scale, ddof, eps, dtype=torch.float64)
            assert torch.isfinite(found).all() and (found[gone] == 0).all()


@settings(max_examples=100, deadline=None)
@given(rewards=STEPS, factor=st.sampled_from([0.25, 2.0, 64.0]))
def test_only_a_std_makes_it_independent_of_the_rewards_scale(rewards, factor):
    scaled = [[reward * factor for reward in group] for group in rewards]  # powers of two: exact in floating point
    for baseline in BASELINES:
        for scale in SCALES:
            found, other = (of(values, baseline, scale, dtype=torch.float64) for values in (rewards, scaled))
            expected = found * factor if scale == "none" else found
            torch.testing.assert_close(other, expected, rtol=1e-9, atol=1e-9)


@settings(max_examples=50, deadline=None)
@given(rewards=STEPS)
def test_leave_one_out_is_the_group_mean_times_n_over_n_minus_1(rewards):
    """n: the answers that are left."""
    one_out, centred = (of(rewards, b, "none", dtype=torch.float64) for b in ("leave_one_out", "group_mean"))
    for group, a, b in zip(rewards, one_out, centred, strict=True):
        left = sum(not math.isnan(reward) for reward in group)
        torch.testing.assert_close(a, b * (left / (left - 1) if left > 1 else 0.0), rtol=1e-9, atol=1e-9)
