"""Weights of a question under the reference objectives, their factors, excluded answers; concentration of a step."""

from __future__ import annotations

import itertools
import math
import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_runner.algorithm import question_rows, weigh
from grpo_runner.algorithm.question_weights import concentration
from grpo_runner.objectives import preset

NAMES = ("grpo", "dr_grpo", "rloo")
L = 50.0
NAN = math.nan


def rows_of(rewards, lengths, correct=None, cut=None):
    """question_rows of groups given as lists; a reward of NaN marks an excluded answer, cut: rows of each batch."""
    rewards_QG, lengths_QG = torch.tensor(rewards, dtype=torch.float64), torch.tensor(lengths)
    included_QG = ~rewards_QG.isnan()
    correct_QG = rewards_QG == 1 if correct is None else torch.tensor(correct)
    mask_NT = torch.arange(int(lengths_QG.max()))[None, :] < (lengths_QG * included_QG).view(-1, 1)
    kept = included_QG.flatten().nonzero().squeeze(1)
    batches = [kept] if cut is None else [torch.tensor(part) for part in cut]
    made = {name: weigh(rewards_QG, mask_NT, batches, preset(name, 0, 0.0, L)) for name in NAMES}
    by_token = made["grpo"].weights_NT.view(*rewards_QG.shape, -1)
    return question_rows(rewards_QG, correct_QG, made["grpo"].advantages_QG, by_token, lengths_QG, included_QG, made)


def test_a_worked_step_of_two_questions():
    """[1,0,0,0] and [1,1,1,0]; all by hand: p(1-p) = 3/16, std √3/4, N = 8."""
    short, long = rows_of([[1.0, 0, 0, 0], [1.0, 1, 1, 0]], [[10, 20, 20, 20], [40, 40, 40, 20]])
    for row in (short, long):
        assert row["centred_weight"] == pytest.approx(1.5)  # 2·4·3/16
        assert row["std_factor"] == pytest.approx(4 / math.sqrt(3))
        assert row["length_factor"] == pytest.approx(1 / 8)
        assert row["weight_grpo"] == pytest.approx(1.5 * 4 / math.sqrt(3) / 8)
    # Σ|r - mean|·|o| is .75·10 + 3·.25·20 = 22.5 and 3·.25·40 + .75·20 = 45; over N·L = 400
    assert short["weight_dr_grpo"] == pytest.approx(22.5 / 400) and long["weight_dr_grpo"] == pytest.approx(45 / 400)
    assert short["constant_factor"] == pytest.approx(15 / 400) and long["constant_factor"] == pytest.approx(30 / 400)
    assert short["weight_rloo"] == pytest.approx(22.5 / 400 * 4 / 3 * L)  # over no constant
    # one switch moves both alike, the other only by length
    assert long["weight_dr_grpo"] / short["weight_dr_grpo"] == pytest.approx(2.0)
    assert long["weight_grpo"] / short["weight_grpo"] == pytest.approx(1.0)


@pytest.mark.parametrize("successes", range(1, 8))
def test_the_std_factor_is_one_over_sqrt_p_1_minus_p(successes):
    p = successes / 8
    (row,) = rows_of([[1.0] * successes + [0.0] * (8 - successes)], [[5] * 8])
    assert row["std_factor"] == pytest.approx(1 / math.sqrt(p * (1 - p)))
    assert row["constant_factor"] == pytest.approx(5 / (8 * L)) and row["length_factor"] == pytest.approx(1 / 8)


@pytest.mark.parametrize("reward", [0.0, 1.0, 0.1])
def test_without_variance_nothing_weighs_and_no_factor_is_defined(reward):
    (row,) = rows_of([[reward] * 3], [[4, 5, 6]])
    assert [row[f"weight_{name}"] for name in NAMES] == [0.0, 0.0, 0.0]
    assert row["centred_weight"] == 0.0  # of 0.1 the mean of three has a rounding residue
    assert row["std_factor"] is row["length_factor"] is row["constant_factor"] is None


def test_excluded_answers_count_in_the_lengths_and_in_nothing_else():
    """Equal to the group without them, but for what is of sampled text: success rate, lengths, group size."""
    (row,) = rows_of([[1.0, 0.0, 0.0, NAN]], [[10, 20, 30, 50]], correct=[[True, False, False, True]])
    (without,) = rows_of([[1.0, 0.0, 0.0]], [[10, 20, 30]])
    text = {"successes", "group_size", "success_rate", "length_mean", "length_right"}
    assert {name: row[name] for name in row if name not in text} == pytest.approx(
        {name: without[name] for name in without if name not in text}
    )
    assert (row["included"], row["group_size"], row["successes"], row["success_rate"]) == (3, 4, 2, 0.5)
    assert (row["length_mean"], row["length_right"], row["length_wrong"]) == (27.5, 30.0, 25.0)
    assert row["reward_mean"] == pytest.approx(1 / 3)
    assert row["reward_std"] == pytest.approx(statistics.pstdev([1, 0, 0]))
    assert row["weight_per_token_right"] == pytest.approx(math.sqrt(2) / (3 * 10))
    # control: as a wrong answer of the loss it would have changed all of that
    (counted,) = rows_of([[1.0, 0.0, 0.0, 0.0]], [[10, 20, 30, 50]])
    assert counted["weight"] != pytest.approx(row["weight"]) and counted["std_factor"] != pytest.approx(
        row["std_factor"]
    )


def test_a_group_that_is_turned_down_has_lengths_and_no_figure_that_is_not_a_number():
    rows = rows_of([[1.0, 0.0], [NAN, NAN]], [[3, 4], [5, 7]], correct=[[True, False], [True, True]])
    assert not [key for row in rows for key, value in row.items() if value is not None and math.isnan(value)]
    gone = rows[1]
    assert (gone["included"], gone["weight"], gone["advantage_weight"], gone["centred_weight"]) == (0, 0.0, 0.0, 0.0)
    assert gone["reward_mean"] is gone["reward_std"] is gone["advantage_right"] is gone["std_factor"] is None
    assert (gone["success_rate"], gone["length_mean"]) == (1.0, 6.0)
    assert rows[0]["length_factor"] == pytest.approx(1 / 2)  # the other group is alone in its batch


groups = st.integers(2, 5).flatmap(
    lambda size: st.lists(
        st.tuples(
            st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5, NAN]), min_size=size, max_size=size),
            st.lists(st.integers(1, 9), min_size=size, max_size=size),
        ),
        min_size=1, max_size=4,
    )
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(groups)
def test_the_factors_multiply_to_the_weights_and_each_is_what_it_says(step):
    rewards, lengths = [group[0] for group in step], [group[1] for group in step]
    responses = sum(not math.isnan(reward) for reward in itertools.chain(*rewards))
    if not responses:
        return
    for row, reward_G, length_G in zip(rows_of(rewards, lengths), rewards, lengths, strict=True):
        kept = [(r, n) for r, n in zip(reward_G, length_G, strict=True) if not math.isnan(r)]
        values = [r for r, _ in kept]
        if len(set(values)) < 2:
            assert row["weight_grpo"] == row["weight_dr_grpo"] == row["weight_rloo"] == row["centred_weight"] == 0
            continue
        mean, std, count = statistics.fmean(values), statistics.pstdev(values), len(values)
        spread = sum(abs(r - mean) for r in values)
        assert row["centred_weight"] == pytest.approx(spread)
        assert row["std_factor"] == pytest.approx(1 / std)
        assert row["length_factor"] == pytest.approx(1 / responses)
        weighted = sum(abs(r - mean) * n for r, n in kept) / spread
        assert row["constant_factor"] == pytest.approx(weighted / (responses * L))
        assert row["weight_grpo"] == pytest.approx(row["centred_weight"] * row["std_factor"] * row["length_factor"])
        assert row["weight_dr_grpo"] == pytest.approx(row["centred_weight"] * row["constant_factor"])
        assert row["weight_rloo"] == pytest.approx(row["weight_dr_grpo"] * L * count / (count - 1))


def test_groups_split_over_optimizer_batches_still_multiply():
    """Two batches of three and five rows: 1/N is no longer one number, and is |A|-weighted within the group."""
    rewards, lengths = [[1.0, 0, 0, 0], [1.0, 1, 0, 0]], [[3, 5, 7, 9], [2, 4, 6, 8]]
    first, second = rows_of(rewards, lengths, cut=[[0, 1, 4], [2, 3, 5, 6, 7]])
    assert first["length_factor"] == pytest.approx(((0.75 + 0.25) / 3 + (0.25 + 0.25) / 5) / 1.5)
    assert second["length_factor"] == pytest.approx((1 / 3 + 3 / 5) / 4)
    for row in (first, second):
        assert row["weight_grpo"] == pytest.approx(row["centred_weight"] * row["std_factor"] * row["length_factor"])
        assert row["weight_dr_grpo"] == pytest.approx(row["centred_weight"] * row["constant_factor"])


# --- concentration


def gini_by_pairs(weights):
    """The definition: mean absolute difference of two draws over twice the mean."""
    count = len(weights)
    apart = sum(abs(a - b) for a, b in itertools.product(weights, repeat=2)) / count**2
    return apart / (2 * sum(weights) / count)


@pytest.mark.parametrize("count", [1, 2, 7, 10, 11])
def test_concentration_of_equal_weights_and_of_one_that_has_all(count):
    equal, one = concentration([0.3] * count), concentration(torch.tensor([0.0] * (count - 1) + [5.0]))
    assert equal["gini"] == pytest.approx(0, abs=1e-12)
    assert equal["top_tenth"] == pytest.approx(math.ceil(count / 10) / count)
    assert one == {"gini": pytest.approx((count - 1) / count), "top_tenth": 1.0}


@pytest.mark.parametrize("apart", [0.0, 1e-17, 6e-8, 4e-7])
def test_weights_apart_by_the_rounding_of_float32_are_equal(apart):
    assert concentration([0.3, 0.3 * (1 + apart), 0.3, 0.3 * (1 - apart)])["gini"] == 0.0


def test_weights_apart_by_more_than_rounding_are_not_equal():
    """Two questions of 1 and 1 + x: half the mean difference, x/4, over the mean, 1 + x/2."""
    assert concentration([1.0, 1.00001])["gini"] == pytest.approx(0.25e-5 / 1.000005, rel=1e-6)


def test_concentration_of_a_worked_step():
    """Weights 1, 2, 3, 4: pairs differ by 1 three times, by 2 twice, by 3 once: 10·2/16 over 2·2.5 is .25."""
    assert concentration([4.0, 1.0, 3.0, 2.0]) == {"gini": pytest.approx(0.25), "top_tenth": pytest.approx(0.4)}
    assert concentration([2.0] * 9 + [6.0, 8.0])["top_tenth"] == pytest.approx(14 / 32)  # the two weightiest of eleven


@pytest.mark.parametrize("weights", [[], [0.0], [0.0, 0.0, 0.0]])
def test_where_nothing_weighs_there_is_no_concentration(weights):
    assert concentration(weights) == {"gini": None, "top_tenth": None}


weights = st.lists(st.floats(0, 100), min_size=1, max_size=25).filter(lambda values: sum(values) > 1e-3)


@settings(max_examples=100, deadline=None)
@given(weights, st.floats(0.01, 100), st.randoms())
def test_concentration_is_the_definition_without_order_and_scale(values, factor, random):
    found = concentration(values)
    assert found["gini"] == pytest.approx(gini_by_pairs(values), abs=1e-6)
    assert 0 <= found["gini"] <= (len(values) - 1) / len(values) + 1e-9
    top = sorted(values, reverse=True)[: math.ceil(len(values) / 10)]
    assert found["top_tenth"] == pytest.approx(sum(top) / sum(values))
    shuffled = random.sample(values, len(values))
    assert concentration([factor * value for value in shuffled]) == pytest.approx(found, abs=1e-6)


@settings(max_examples=50, deadline=None)
@given(weights.filter(lambda values: max(values) > min(values) + 1e-3))
def test_giving_from_the_heaviest_to_the_lightest_lowers_gini(values):
    apart = max(values) - min(values)
    moved = sorted(values)
    moved[0], moved[-1] = moved[0] + apart / 4, moved[-1] - apart / 4
    assert concentration(moved)["gini"] < concentration(values)["gini"]
