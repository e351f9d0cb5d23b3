"""Estimators and intervals, against counting, scipy, and draws whose truth is known."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binomtest

from grpo_runner.evaluation import Estimate, difference, estimate, majority_at_k, mean, mean_by_name, pass_at_k


@pytest.mark.parametrize("samples", [1, 4, 7])
def test_pass_at_k_is_the_share_of_subsets_with_a_right_answer(samples):
    for successes in range(samples + 1):
        answers = [True] * successes + [False] * (samples - successes)
        for k in range(1, samples + 1):
            subsets = list(combinations(answers, k))
            assert pass_at_k(successes, samples, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


def won(subset: tuple[str, ...]) -> float:
    """The chance that a vote among answers, "." being none, elects r."""
    counts = Counter(answer for answer in subset if answer != ".")
    most = max(counts.values(), default=0)
    ahead = [answer for answer, count in counts.items() if count == most]
    return ("r" in ahead) / len(ahead) if ahead else 0.0


@pytest.mark.parametrize("answers", ["rraab.", "raab", "rrr", "aab.", "....", "rraabb", "rrrabcd.", "ra"])
def test_majority_at_k_is_the_mean_vote_over_subsets(answers):
    others = [answers.count(letter) for letter in "abcd" if letter in answers]
    for k in range(1, len(answers) + 1):
        votes = [won(subset) for subset in combinations(answers, k)]
        found = majority_at_k(answers.count("r"), others, answers.count("."), k)
        assert found == pytest.approx(sum(votes) / len(votes)), k


def test_all_three_estimators_are_the_mean_at_k_1_and_a_majority_differs_from_a_pass():
    assert majority_at_k(3, [2, 1], 2, 1) == pytest.approx(3 / 8) == pytest.approx(pass_at_k(3, 8, 1))
    assert majority_at_k(1, [3], 0, 4) == 0.0 and pass_at_k(1, 4, 4) == 1.0


@pytest.mark.parametrize(("right", "n"), [(0, 10), (10, 10), (13, 30), (1, 1), (277, 675)])
def test_of_right_and_wrong_questions_the_interval_is_wilsons(right, n):
    found = estimate([1.0] * right + [0.0] * (n - right))
    low, high = binomtest(right, n).proportion_ci(0.95, method="wilson")
    assert (found.value, found.low, found.high) == pytest.approx((right / n, low, high))


def test_samples_count_by_how_much_questions_differ():
    """Alike in all questions, 4 samples of each are 4 n draws; each question all right or all wrong, they are n."""
    alike, apart = estimate([0.5] * 20, samples=4), estimate([1.0] * 10 + [0.0] * 10, samples=4)
    for found, n in ((alike, 80), (apart, 20)):
        low, high = binomtest(n // 2, n).proportion_ci(0.95, method="wilson")
        assert (found.low, found.high) == pytest.approx((low, high))
    between = estimate([1.0] * 5 + [0.5] * 10 + [0.0] * 5, samples=4)
    assert alike.high < between.high < apart.high


def test_a_difference_by_newcombes_formula_written_out():
    before, after = [1.0, 1.0, 0.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 0.0, 1.0, 0.0]
    found = difference(before, after)
    (l1, u1), (l2, u2) = (binomtest(k, 6).proportion_ci(0.95, method="wilson") for k in (3, 4))
    p1, p2, r = 3 / 6, 4 / 6, np.corrcoef(before, after)[0, 1]
    low = p2 - p1 - np.sqrt((p2 - l2) ** 2 - 2 * r * (p2 - l2) * (u1 - p1) + (u1 - p1) ** 2)
    high = p2 - p1 + np.sqrt((u2 - p2) ** 2 - 2 * r * (u2 - p2) * (p1 - l1) + (p1 - l1) ** 2)
    assert (found.value, found.low, found.high) == pytest.approx((1 / 6, low, high))


def test_a_difference_turns_its_sign_with_its_sides_and_gains_from_pairing():
    before, after = [1.0] * 8 + [0.0] * 12, [1.0] * 10 + [0.0] * 10
    one, other = difference(before, after), difference(after, before)
    assert (one.value, one.low, one.high) == pytest.approx((-other.value, -other.high, -other.low))
    shuffled = difference(before, [0.0] * 10 + [1.0] * 10)  # the same accuracies, other questions
    assert shuffled.value == pytest.approx(one.value)
    assert shuffled.high - shuffled.low > 1.5 * (one.high - one.low)


def test_where_nothing_varies_an_interval_has_a_width_still():
    found = difference([0.0] * 10, [0.0] * 10)
    assert found.value == 0 and found.low < -0.2 and found.high > 0.2


def test_the_mean_of_sets_has_no_weights_and_a_narrower_interval():
    found = mean([Estimate(0.2, 0.1, 0.3), Estimate(0.6, 0.5, 0.7)])
    assert (found.value, found.low, found.high) == pytest.approx((0.4, 0.4 - 0.1 / 2**0.5, 0.4 + 0.1 / 2**0.5))
    by_name = mean_by_name([{"a": found, "b": found}, {"b": found}])
    assert list(by_name) == ["b"] and by_name["b"].value == pytest.approx(0.4)


@pytest.mark.parametrize(("questions", "samples"), [(30, 1), (100, 1), (60, 4), (100, 8)])
def test_intervals_hold_the_truth_as_often_as_they_say(questions, samples):
    """Questions of unequal hardness, two policies that differ: over 600 sets, at least 92.5 % of intervals."""
    draw = np.random.default_rng(5)
    held = np.zeros(3)
    chance = draw.beta(0.6, 0.9, (600, questions))
    better = np.clip(chance + 0.1, 0, 1)
    one, two = (draw.binomial(samples, p) / samples for p in (chance, better))
    truth, truth_better = 0.4, np.clip(draw.beta(0.6, 0.9, 2_000_000) + 0.1, 0, 1).mean()
    for a, b in zip(one.tolist(), two.tolist(), strict=True):
        for place, (found, true) in enumerate((
            (estimate(a, samples), truth),
            (estimate(b, samples), truth_better),
            (difference(a, b, samples), truth_better - truth),
        )):  # fmt: skip
            held[place] += found.low <= true <= found.high
    assert (held / 600 >= 0.925).all(), held / 600


def test_samples_taken_for_questions_would_give_intervals_that_hold_the_truth_too_seldom():
    """The negative control of the test above: 60 questions of 8 samples are not 480 questions."""
    draw = np.random.default_rng(5)
    chance = draw.beta(0.6, 0.9, (600, 60))
    right = draw.binomial(8, chance).sum(axis=1)
    found = [binomtest(int(k), 480).proportion_ci(0.95, method="wilson") for k in right]
    assert sum(one.low <= 0.4 <= one.high for one in found) / 600 < 0.8
