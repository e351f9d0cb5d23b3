"""Values by arm and seed -> effects: pairs, families, edges; the error rate and power of made sweeps."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats as reference

from grpo_runner import rng
from grpo_runner.compare import stats
from grpo_runner.compare.effects import effects, needed, pairs_of, shown
from grpo_runner.compare.types import Arm, Comparison, Measure

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import compare_coverage as made

ACCURACY = Measure("accuracy", "accuracy", "accuracy", "points", 100.0)
WRONG = Measure("length/wrong", "length of wrong answers", "wrong answers", "tokens", words=("longer", "shorter"))
KL = Measure("kl", "KL", "KL", "", digits=3)
GRPO, DR, RLOO = (Arm(name, name, {"advantage": name}, {}) for name in ("grpo", "dr_grpo", "rloo"))
TWO = Comparison("two", ("advantage",), (GRPO, DR), {})
BASE = [0.50, 0.52, 0.48, 0.55, 0.51, 0.47, 0.53, 0.50]
DIFF = [0.02, 0.01, 0.03, 0.015, 0.025, 0.02, 0.005, -0.01]


def values(**measures) -> dict:
    """{"grpo": {key: {seed: value}}, "dr_grpo": …} of lists of the baseline and of the arm."""
    found: dict = {"grpo": {}, "dr_grpo": {}}
    for key, (base, arm) in measures.items():
        for name, one in (("grpo", base), ("dr_grpo", arm)):
            found[name][key.replace("_", "/")] = dict(enumerate(one))
    return found


def arm_of(base=BASE, diff=DIFF):
    return base, [a + b for a, b in zip(base, diff, strict=True)]


def test_an_effect_by_hand():
    (effect,) = effects(TWO, [ACCURACY], values(accuracy=arm_of()), ["accuracy"])
    points = 100 * np.array(DIFF)
    assert (effect.arm, effect.baseline, effect.measure) == (DR, GRPO, ACCURACY)
    assert effect.seeds == tuple(range(8))
    assert effect.differences_S == pytest.approx(points)
    assert effect.mean == pytest.approx(1.4375)
    expected = reference.t.interval(0.95, 7, points.mean(), reference.sem(points))
    assert (effect.low, effect.high) == pytest.approx(expected)
    # all plus: 13.5; ours: 11.5. As far from 0 are, with their mirrors, those with a minus at nothing, .5, 1 or the other 1
    assert effect.p == effect.p_holm == 8 / 256
    assert effect.iqm == pytest.approx((1.0 + 1.5 + 2.0 + 2.0) / 4)
    assert effect.improvement == pytest.approx(reference.mannwhitneyu(*reversed(arm_of())).statistic / 64)
    assert effect.detectable == pytest.approx(np.std(points, ddof=1) * stats.standardized(8))
    assert (effect.method, effect.primary, effect.family, effect.level) == ("student_t", True, 1, 0.95)
    assert shown(effect) == 1


def test_a_difference_is_arm_minus_baseline_and_turns_with_them():
    base, arm = arm_of()
    (effect,) = effects(TWO, [ACCURACY], values(accuracy=(arm, base)), ["accuracy"])
    assert effect.mean == pytest.approx(-1.4375)
    assert shown(effect) == -1


def test_rounding_does_not_break_ties():
    """.3 - .2 is not .2 - .1 in binary: without care eight equal differences have a spread, and an interval."""
    base = [0.1 * k for k in range(8)]
    (effect,) = effects(TWO, [ACCURACY], values(accuracy=(base, [a + 0.1 for a in base])), ["accuracy"])
    assert len({0.1 * (k + 1) - 0.1 * k for k in range(8)}) > 1
    assert set(effect.differences_S) == {10.0}
    assert (effect.low, effect.high, effect.detectable) == (None, None, None)
    assert effect.p == 2 / 256
    assert shown(effect) == 1


def test_a_constant_measure_shows_nothing():
    (effect,) = effects(TWO, [KL], values(kl=([0.0] * 8, [0.0] * 8)), ["kl"])
    assert (effect.mean, effect.low, effect.high, effect.p, effect.p_holm) == (0.0, None, None, 1.0, 1.0)
    assert effect.improvement == 0.5
    assert shown(effect) == 0


def test_values_that_are_missing_make_no_pair():
    base, arm = arm_of()
    base, arm = [*base[:5], None, math.nan, 0.5], [None, *arm[1:]]
    arm[4] = math.inf
    (effect,) = effects(TWO, [ACCURACY], values(accuracy=(base, arm)), ["accuracy"])
    assert effect.seeds == (1, 2, 3, 7)
    assert np.isfinite(effect.differences_S).all()
    assert effects(TWO, [ACCURACY], values(accuracy=([None] * 3, [0.1] * 3)), ["accuracy"]) == ()
    assert effects(TWO, [ACCURACY], {}, ["accuracy"]) == ()
    only = {"grpo": {"accuracy": {0: 0.5}}, "dr_grpo": {"accuracy": {1: 0.6}}}
    assert effects(TWO, [ACCURACY], only, ["accuracy"]) == ()


def test_huge_values_count_as_missing_and_large_ones_are_compared():
    base, arm = [1e200 * k for k in range(1, 9)], [1e200 * (k + 1 + k % 2) for k in range(1, 9)]
    (effect,) = effects(TWO, [KL], values(kl=([*base, 1e308], [*arm, 1e308])), ["kl"])
    assert len(effect.seeds) == 8
    assert effect.mean == pytest.approx(1.5e200)
    assert effect.low is not None and 1e200 < effect.low < effect.mean
    assert shown(effect) == 1


def test_one_pair_and_two():
    (one,) = effects(TWO, [ACCURACY], values(accuracy=([0.5], [0.6])), ["accuracy"])
    assert one.mean == pytest.approx(10)
    assert (one.low, one.high, one.p, one.detectable) == (None, None, 1.0, None)
    (two,) = effects(TWO, [ACCURACY], values(accuracy=([0.5, 0.5], [0.6, 0.7])), ["accuracy"])
    assert (two.low, two.high) == pytest.approx((15 - 12.706 * 5, 15 + 12.706 * 5), rel=1e-4)
    assert two.p == 0.5
    assert shown(one) == shown(two) == 0


def test_families_are_the_primary_measures_and_the_others():
    base, arm = arm_of()
    given = values(accuracy=(base, arm), length_wrong=(base, base[::-1]), kl=(base, [a + 0.02 for a in arm]))
    found = {one.measure.key: one for one in effects(TWO, [KL, ACCURACY, WRONG], given, ["accuracy", "length/wrong"])}
    assert {key: one.family for key, one in found.items()} == {"kl": 1, "accuracy": 2, "length/wrong": 2}
    assert found["accuracy"].p_holm == 2 * found["accuracy"].p  # the smaller of two
    assert found["kl"].p_holm == found["kl"].p
    assert found["kl"].p == 2 / 256  # all eight above
    alone = effects(TWO, [KL, ACCURACY, WRONG], given, [])
    assert {one.family for one in alone} == {3} and not any(one.primary for one in alone)


def test_each_arm_is_a_family_of_its_own():
    given = values(accuracy=arm_of()) | {"rloo": {"accuracy": dict(enumerate(arm_of()[1]))}}
    three = Comparison("three", ("advantage",), (GRPO, DR, RLOO), {})
    found = effects(three, [ACCURACY], given, ["accuracy"])
    assert [one.arm.name for one in found] == ["dr_grpo", "rloo"]
    assert [one.family for one in found] == [1, 1]


def test_shown_needs_pairs_the_test_and_the_interval():
    five = effects(TWO, [ACCURACY], values(accuracy=([0.0] * 5, [0.1, 0.11, 0.12, 0.1, 0.1])), ["accuracy"])[0]
    assert five.low > 0 and shown(five) == 0  # the interval alone is no verdict
    diff = [0.1, 0.11, 0.12, 0.1, 0.1, 0.13]
    six = effects(TWO, [ACCURACY], values(accuracy=([0.0] * 6, diff)), ["accuracy"])[0]
    assert (six.p, needed(six), shown(six)) == (2 / 64, 6, 1)
    both = values(accuracy=([0.0] * 6, diff), length_wrong=([0.0] * 6, diff))
    two = effects(TWO, [ACCURACY, WRONG], both, ["accuracy", "length/wrong"])[0]
    assert (two.p_holm, needed(two), shown(two)) == (4 / 64, 7, 0)  # six pairs cannot show one of two
    outlier = effects(TWO, [ACCURACY], values(accuracy=([0.0] * 7, [0.001] * 6 + [5.0])), ["accuracy"])[0]
    assert outlier.p == 2 / 128 and outlier.low < 0 < outlier.high and shown(outlier) == 0


def test_an_interval_by_bootstrap_t_is_the_same_in_each_call():
    one, again = (effects(TWO, [ACCURACY], values(accuracy=arm_of()), [], method="bootstrap_t")[0] for _ in range(2))
    assert one.method == "bootstrap_t"
    assert (one.low, one.high) == (again.low, again.high)
    assert (one.low, one.high) == pytest.approx(stats.bootstrap_t(one.differences_S))


def test_questions_that_all_runs_share_are_a_second_level():
    draws = np.random.default_rng(0)
    scores = draws.random((2, 6, 20))
    names = [f"q{k}" for k in range(20)]
    given = {
        arm: {"accuracy": {seed: dict(zip(names, scores[a, seed], strict=True)) for seed in range(6)}}
        for a, arm in enumerate(("grpo", "dr_grpo"))
    }
    plain = values(accuracy=(scores[0].mean(1).tolist(), scores[1].mean(1).tolist()))
    (effect,) = effects(TWO, [ACCURACY], plain, ["accuracy"], by_question=given)
    assert effect.questions == pytest.approx(stats.two_way(100 * (scores[1] - scores[0])))
    assert effects(TWO, [ACCURACY], plain, ["accuracy"])[0].questions is None
    for seed in range(6):  # each seed's own questions
        for arm in given.values():
            arm["accuracy"][seed] = {f"{seed}{name}": value for name, value in arm["accuracy"][seed].items()}
    assert effects(TWO, [ACCURACY], plain, ["accuracy"], by_question=given)[0].questions is None
    del given["grpo"]["accuracy"][3]
    assert effects(TWO, [ACCURACY], plain, ["accuracy"], by_question=given)[0].questions is None


def test_pairs_of_any_two_arms():
    seeds, mine, other, differences = pairs_of(
        DR, GRPO, ACCURACY, values(accuracy=([0.5, None, 0.25], [0.75, 0.5, 0.5]))
    )
    assert (seeds, mine.tolist(), other.tolist(), differences.tolist()) == ((0, 2), [75, 50], [50, 25], [25, 25])


# --- made sweeps: the small form of scripts/compare_coverage.py, with binomial bounds


@pytest.mark.parametrize(("seeds", "noise"), [(8, "normal"), (7, "accuracy .97"), (12, "t, 3 df")])
def test_sweeps_without_a_difference_keep_their_error_rate(seeds, noise):
    """1,000 sweeps: a primary measure is said to be shown in 5 % at most, one of the others too; uncorrected it is not."""
    g = rng.generator(1, "test", noise, seeds)
    sweeps = [made.sweep(seeds, made.NOISE[noise], g) for _ in range(1_000)]
    primary = sum(any(shown(one) for one in found if one.primary) for found in sweeps)
    others = sum(any(shown(one) for one in found if not one.primary) for found in sweeps)
    uncorrected = sum(any(one.p <= 0.05 for one in found) for found in sweeps)
    assert reference.binom.sf(primary - 1, 1_000, 0.05) > 1e-4
    assert reference.binom.sf(others - 1, 1_000, 0.05) > 1e-4
    assert reference.binom.cdf(uncorrected, 1_000, 0.2) > 1e-4  # the negative control
    if seeds > 7:
        assert primary > 10  # it does go wrong at times: what is held is a rate


@pytest.mark.parametrize(("seeds", "times", "rate"), [(8, 1.0, 0.8), (12, 1.0, 0.8), (12, 1.5, 0.97)])
def test_planted_differences_are_found_at_the_rate_that_detectable_says(seeds, times, rate):
    g = rng.generator(2, "test", seeds, str(times))
    size = times * math.sqrt(2.5) * stats.standardized(seeds, 0.95, 0.8, 2)
    found = [made.sweep(seeds, made.NOISE["normal"], g, size, made.PRIMARY) for _ in range(1_000)]
    count = sum(shown(one) == 1 for one, _ in found)
    assert reference.binom.cdf(count, 1_000, rate - 0.02) > 1e-3
    if times == 1:
        assert reference.binom.sf(count - 1, 1_000, rate + 0.02) > 1e-3
        # and it is what the sweeps themselves say, in the middle of their estimates
        assert np.median([one.detectable for one, _ in found]) == pytest.approx(size, rel=0.08)
