"""Statistics of paired differences against scipy, brute force, rliable's definitions and simulation of fixed seeds."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import inf, sqrt

import numpy as np
import pytest
from scipy import stats as reference

from grpo_runner.compare import stats

D = [0.4, -1.2, 3.0, 2.2, 0.9, 1.7, -0.3, 2.5]


def at_least(count: int, draws: int, share: float, chance: float = 1e-6) -> bool:
    """Whether a count is no rarer than `chance` where each draw succeeds with probability `share` or more."""
    return bool(reference.binom.cdf(count, draws, share) > chance)


def at_most(count: int, draws: int, share: float, chance: float = 1e-6) -> bool:
    return bool(reference.binom.sf(count - 1, draws, share) > chance)


# --- Student's t


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("values", [D, D[:2], D[:3], [1e-9, 2e-9, -1e-9]])
def test_student_t_is_scipys(values, level):
    expected = reference.t.interval(level, len(values) - 1, np.mean(values), reference.sem(values))
    assert stats.student_t(values, level) == pytest.approx(expected, rel=1e-12)


def test_many_at_once_are_each_by_itself():
    block = np.random.default_rng(0).normal(size=(5, 6))
    for method in (stats.student_t, stats.bootstrap_t):
        low, high = method(block, 0.9)
        for k, row in enumerate(block):
            assert (low[k], high[k]) == pytest.approx(method(row, 0.9), rel=1e-12)


def test_huge_and_tiny_values_neither_overflow_nor_vanish():
    for scale in (1e299, 1e-290):
        low, high = stats.student_t(np.array(D) * scale)
        assert (low / scale, high / scale) == pytest.approx(stats.student_t(D), rel=1e-9)
        assert stats.sign_flip(np.array(D) * scale) == stats.sign_flip(D)
        assert stats.detectable(np.array(D) * scale) / scale == pytest.approx(stats.detectable(D), rel=1e-9)


@pytest.mark.parametrize("value", [0.0, 0.3, -7.0])
def test_equal_differences_have_no_width(value):
    d = [value] * 6
    assert stats.student_t(d) == (value, value)
    assert stats.bootstrap_t(d) == (value, value)
    assert bool(stats.flat(np.array([0.1 + 0.2, 0.3, 0.3])))
    assert not bool(stats.flat(np.array([0.3, 0.3, 0.3001])))


# --- bootstrap-t


def by_enumeration(d: np.ndarray, level: float) -> tuple[float, float]:
    """Bootstrap-t over all n^n resamples, t of each by hand."""
    n, mean = len(d), d.mean()
    found = []
    for drawn in itertools.product(range(n), repeat=n):
        one = d[list(drawn)]
        error = one.std() / sqrt(n - 1)  # population variance over n - 1: the sample's over n
        distance = one.mean() - mean
        found.append(distance / error if len(set(drawn)) > 1 else inf * np.sign(distance) if distance else 0.0)
    found.sort()
    below = int((1 - level) / 2 * (len(found) + 1)) - 1
    error = d.std(ddof=1) / sqrt(n)
    return mean - found[-1 - below] * error, mean - found[below] * error


def test_bootstrap_t_is_that_over_all_resamples():
    """3,125 resamples of five; two ways to draw a quantile of 5 % agree within its sampling error."""
    d = np.array([0.1, 0.4, 0.5, 1.6, 4.0])
    low, high = by_enumeration(d, 0.8)
    drawn = stats.bootstrap_t(d, 0.8, np.random.default_rng(1), resamples=40_000)
    assert drawn == pytest.approx((low, high), rel=0.03)
    assert high - d.mean() > 1.3 * (d.mean() - low)  # skewed to the right, as the values are


def test_bootstrap_t_of_three_has_no_end():
    """Of 27 resamples 3 draw one value thrice: t is infinite in more than 2.5 % at each end, or at one of them."""
    assert max(np.abs(stats.bootstrap_t([1.0, 2.0, 4.0]))) == inf
    assert np.isfinite(stats.bootstrap_t(D)).all()


def test_bootstrap_t_is_the_same_each_time():
    assert stats.bootstrap_t(D) == stats.bootstrap_t(D)


# --- sign flips


def flipped(d: list[Fraction]) -> float:
    """All 2^n signs in exact arithmetic."""
    seen = abs(sum(d))
    sums = [
        abs(sum(s * x for s, x in zip(signs, d, strict=True))) for signs in itertools.product((1, -1), repeat=len(d))
    ]
    return sum(one >= seen for one in sums) / len(sums)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 6, 9])
def test_sign_flip_counts_every_flip(count):
    draws = np.random.default_rng(count)
    for cents in (draws.integers(-300, 400, count), draws.integers(-2, 3, count), np.abs(draws.integers(1, 9, count))):
        exact = [Fraction(int(value), 100) for value in cents]
        assert stats.sign_flip([float(value) for value in exact]) == flipped(exact)


def test_sign_flip_of_one_sign_is_two_flips():
    for count in (1, 5, 6, 7, 24, 32):
        assert stats.sign_flip(np.full(count, 0.1)) == 2.0 ** (1 - count)
        assert stats.sign_flip(np.arange(1, count + 1) * -0.3) == 2.0 ** (1 - count)


def test_sign_flip_of_nothing_or_of_no_difference_is_1():
    assert stats.sign_flip([]) == 1.0
    assert stats.sign_flip([0.0] * 8) == 1.0
    assert stats.sign_flip([0.1, -0.1]) == 1.0
    assert stats.sign_flip([0.0] * 5 + [0.2] * 3) == 2 / 2**3  # a tie has no sign


def test_sign_flip_is_scipys_permutation_test():
    found = reference.permutation_test((D,), np.mean, permutation_type="samples", n_resamples=inf)
    assert stats.sign_flip(D) == pytest.approx(found.pvalue)


def test_beyond_the_exact_pairs_flips_are_drawn():
    d = np.random.default_rng(3).normal(0.4, 1, stats.EXACT_PAIRS + 8)
    normal = 2 * reference.norm.sf(abs(d.sum()) / sqrt((d**2).sum()))  # the sum of 40 signed values
    p = stats.sign_flip(d)
    assert p == pytest.approx(normal, rel=0.15)
    assert stats.sign_flip(np.ones(33)) == stats.sign_flip(np.ones(33)) == 1 / (1 + stats.FLIPS)  # never 0


# --- what rliable defines


def test_iqm_is_rliables():
    """rliable: scipy's trim_mean with a quarter off each end, rounded down."""
    assert stats.iqm([100.0, 1.0, 2.0, 3.0, 6.0, -50.0, 4.0, 5.0]) == (2 + 3 + 4 + 5) / 4
    assert stats.iqm([9.0, 1.0, 2.0]) == 4.0  # three: nothing to cut
    assert stats.iqm([7.0]) == 7.0
    for count in range(1, 14):
        values = np.random.default_rng(count).normal(size=count)
        assert stats.iqm(values) == pytest.approx(reference.trim_mean(values, 0.25))


def test_improvement_is_rliables():
    """rliable: Mann and Whitney's U over the number of pairs."""
    assert stats.improvement([3.0, 5.0], [1.0, 4.0, 5.0]) == (1 + 0 + 0 + 1 + 1 + 0.5) / 6
    assert stats.improvement([1.0, 1.0], [1.0]) == 0.5
    assert stats.improvement([2.0], [1.0]) == 1.0
    a, b = np.random.default_rng(0).integers(0, 5, (2, 9)).astype(float)
    assert stats.improvement(a, b) == pytest.approx(reference.mannwhitneyu(a, b).statistic / 81)


# --- several tests


def test_holm_by_hand():
    assert stats.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert stats.holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert stats.holm([0.2]) == pytest.approx([0.2])
    assert stats.holm([]).size == 0
    assert stats.holm([0.04, 0.001, 0.04, 0.02]) == pytest.approx([0.08, 0.004, 0.08, 0.06])


@pytest.mark.parametrize(
    ("pairs", "family", "expected"),
    [(5, 1, 0), (6, 1, 1 / 32), (7, 1, 3 / 64), (6, 2, 0), (7, 2, 1 / 64), (8, 2, 3 / 128), (8, 15, 0), (0, 1, 0)],
)
def test_the_p_that_signs_can_attain(pairs, family, expected):
    assert stats.attainable(pairs, 0.95, family) == expected


def test_pairs_needed():
    """The least p of n pairs is 2^(1 - n), times the family."""
    assert [stats.pairs_needed(0.95, family) for family in (1, 2, 3, 4, 6, 7, 12, 13)] == [6, 7, 7, 8, 8, 9, 9, 10]
    assert stats.pairs_needed(0.9) == 6  # MIN_PAIRS, though five would do
    assert stats.pairs_needed(0.99) == 8


# --- what could have been seen


@pytest.mark.parametrize(("pairs", "family"), [(2, 1), (3, 1), (3, 2), (5, 1)])
def test_detectable_under_the_pairs_is_of_the_noncentral_t(pairs, family):
    mean = stats.standardized(pairs, 0.95, 0.8, family)
    edge = reference.t.ppf(1 - 0.025 / family, pairs - 1)
    assert reference.nct.sf(edge, pairs - 1, mean * sqrt(pairs)) == pytest.approx(0.8, abs=1e-6)


def test_detectable_of_many_pairs_is_near_the_normal():
    normal = (reference.norm.ppf(0.975) + reference.norm.ppf(0.8)) / sqrt(400)
    assert stats.standardized(400) == pytest.approx(normal, rel=0.01)
    assert stats.standardized(6) == pytest.approx(reference.norm.ppf(0.8 ** (1 / 6)))  # all six of one sign


def test_detectable_scales_with_the_spread_alone():
    shift = np.array(D) + 100.0
    assert stats.detectable(shift) == pytest.approx(stats.detectable(D))
    assert stats.detectable(D) == pytest.approx(np.std(D, ddof=1) * stats.standardized(8))
    assert stats.detectable(D, family=2) > stats.detectable(D)
    assert stats.detectable([1.0]) is None
    assert stats.detectable([]) is None
    assert stats.detectable([0.2] * 9) is None


@pytest.mark.parametrize(("pairs", "family"), [(6, 1), (7, 2), (7, 1), (8, 1), (9, 2), (11, 1)])
def test_a_difference_of_that_size_is_found_at_that_rate(pairs, family):
    """The rule itself on 2,000 sets of normal differences: test and interval. Power of 80 %, within ±3.5 points."""
    draws = np.random.default_rng(pairs)
    d_NS = draws.normal(size=(2_000, pairs)) + stats.standardized(pairs, 0.95, 0.8, family)
    low, _ = stats.student_t(d_NS)
    found = sum(stats.sign_flip(d_S) <= 0.05 / family for d_S in d_NS[low > 0])
    assert at_least(found, 2_000, 0.78, 1e-3) and at_most(found, 2_000, 0.82, 1e-3)


# --- coverage, the small form of scripts/compare_coverage.py


def covered(ends: tuple[np.ndarray, np.ndarray], truth: float = 0.0) -> int:
    return int(((ends[0] <= truth) & (truth <= ends[1])).sum())


@pytest.mark.parametrize("pairs", [3, 6, 12])
def test_student_t_covers_what_it_says(pairs):
    draws = np.random.default_rng(pairs)
    held = covered(stats.student_t(draws.normal(size=(20_000, pairs))))
    assert at_least(held, 20_000, 0.945) and at_most(held, 20_000, 0.955)
    assert at_least(covered(stats.student_t(draws.standard_t(3, size=(20_000, pairs)))), 20_000, 0.95)
    tied = (draws.binomial(256, 0.97, (20_000, pairs)) - draws.binomial(256, 0.97, (20_000, pairs))) / 256
    assert at_least(covered(stats.student_t(tied)), 20_000, 0.945)


def test_percentiles_of_three_seeds_do_not_cover():
    """Negative control: 95 % intervals that hold the truth in three of four sets."""
    draws = np.random.default_rng(0)
    d = draws.normal(size=(4_000, 3))
    every = np.array(list(itertools.product(range(3), repeat=3)))  # all 27 resamples: 2.5 % is within the first
    means = np.sort(d[:, every].mean(-1), axis=-1)
    held = covered((means[:, 0], means[:, -1]))
    assert at_least(held, 4_000, 0.75) and at_most(held, 4_000, 0.75)  # unless all three have one sign: 1 - 2/8


def test_bootstrap_t_covers_skew_better_than_student():
    draws = np.random.default_rng(0)
    blocks = draws.lognormal(size=(60, 50, 12)) - np.exp(0.5)
    usual = sum(covered(stats.student_t(d)) for d in blocks)
    ours = sum(covered(stats.bootstrap_t(d, 0.95, draws, 500)) for d in blocks)
    assert at_most(usual, 3_000, 0.87) and at_least(ours, 3_000, 0.90)


# --- questions as a second level


def crossed(draws: np.random.Generator, seeds: int, of_seed: float, of_question: float, rest: float) -> np.ndarray:
    shape = (seeds, 48)
    parts = (of_seed, (seeds, 1)), (of_question, (1, 48)), (rest, shape)
    return sum((size * draws.normal(size=form) for size, form in parts), np.zeros(shape))


def test_two_way_by_hand():
    """2 seeds × 2 questions: variance of seeds' means + of questions' means - of what is left, each over its number."""
    d = np.array([[1.0, 4.0], [2.0, 9.0]])  # seeds' means 2.5, 5.5; questions' 1.5, 6.5; mean 4; rest ±1
    variance = 4.5 / 2 + 12.5 / 2 - (4 * 1.0 / 1) / 4
    freedom = variance**2 / (2.25**2 + 6.25**2)
    half = reference.t.ppf(0.975, freedom) * sqrt(variance)
    assert stats.two_way(d) == pytest.approx((4 - half, 4 + half))


def test_two_way_is_never_surer_than_the_seeds():
    d = np.random.default_rng(0).normal(size=(6, 1)) + np.zeros((6, 40))
    assert stats.two_way(d) == pytest.approx(stats.student_t(d.mean(1)))
    assert stats.two_way(np.zeros((6, 40))) == (0.0, 0.0)


@pytest.mark.parametrize("parts", [(0.05, 0.3, 1.0), (0.3, 0.3, 1.0), (0.0, 0.5, 0.3)])
def test_two_way_covers_new_questions_and_seeds_alone_do_not(parts):
    draws = np.random.default_rng(5)
    sets = [crossed(draws, 8, *parts) for _ in range(1_000)]
    held = sum(low <= 0 <= high for low, high in map(stats.two_way, sets))
    assert at_least(held, 1_000, 0.945)
    alone = covered(stats.student_t(np.array([d.mean(1) for d in sets])))
    assert alone < held and (parts[0] > 0.1 or at_most(alone, 1_000, 0.92))


def test_hierarchical_bootstrap_has_the_variance_of_its_theory():
    """Owen 2007: of the seeds' means, the questions' means and the rest, each with plug-in variance."""
    d = crossed(np.random.default_rng(2), 10, 0.3, 0.6, 1.0)
    rest = d - d.mean(1, keepdims=True) - d.mean(0) + d.mean()
    theory = d.mean(1).var() / 10 + d.mean(0).var() / 48 + (rest**2).mean() / d.size
    low, high = stats.hierarchical(d, 0.95, np.random.default_rng(0), resamples=5_000)
    assert (high - low) / (2 * 1.96) == pytest.approx(sqrt(theory), rel=0.05)
    assert (low + high) / 2 == pytest.approx(d.mean(), abs=0.05 * (high - low))
    assert stats.hierarchical(d) == stats.hierarchical(d)


@pytest.mark.parametrize("pairs", [2, 4, 6, 7, 9])
def test_more_measures_never_see_more(pairs):
    """Six pairs show nothing in two measures: what could not be seen is not less than in one."""
    found = [stats.standardized(pairs, family=family) for family in range(1, 6)]
    assert found == sorted(found)
