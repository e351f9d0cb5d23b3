"""What is said of which figures, at the edges of each rule; and `--check`."""

from __future__ import annotations

import numpy as np
import pytest

from grpo_runner.compare.check import check
from grpo_runner.compare.effects import effects
from grpo_runner.compare.types import Arm, Comparison, Effect, Measure
from grpo_runner.compare.verdict import number, verdict
from grpo_runner.errors import InputError

ACCURACY = Measure("accuracy", "accuracy", "accuracy", "points", 100.0)
WRONG = Measure("length/wrong", "length of wrong answers", "wrong answers", "tokens", words=("longer", "shorter"))
ENTROPY = Measure("entropy", "entropy", "entropy", "", digits=2)
WHOLE = Measure("tokens_to", "tokens to an accuracy", "tokens to 90 %", "tokens", digits=0, words=("more", "fewer"))
GRPO = Arm("advantage=grpo", "GRPO", {"advantage": "grpo", "beta": 0.0}, {})
DR = Arm("advantage=dr_grpo", "Dr. GRPO", {"advantage": "dr_grpo", "beta": 0.0}, {})
RLOO = Arm("advantage=rloo", "RLOO", {"advantage": "rloo", "beta": 0.04}, {})
SEEDS = tuple(range(12))


def effect(measure=ACCURACY, mean=0.2, ends=(-0.9, 1.3), p=0.6, p_holm=None, pairs=12, **more) -> Effect:
    """An effect as it would be printed; the figures need not come from one set of differences."""
    more = {"detectable": 1.4, "primary": True, "family": 2, "arm": DR, "baseline": GRPO} | more
    low, high = ends or (None, None)
    return Effect(
        measure=measure,
        seeds=tuple(range(pairs)),
        differences_S=np.full(pairs, mean),
        mean=mean,
        low=low,
        high=high,
        p=p,
        p_holm=p if p_holm is None else p_holm,
        improvement=None,
        iqm=None,
        method="student_t",
        **more,
    )


SHORTER = effect(WRONG, -3.1, (-5.8, -0.4), 0.01, 0.02, detectable=3.4)


def test_the_sentence_of_the_issue():
    (sentence,) = verdict([effect(), SHORTER])
    assert sentence == (
        "Dr. GRPO against GRPO, 12 paired seeds: wrong answers 3.1 tokens shorter [0.4, 5.8]; accuracy +0.2 points "
        "[−0.9, 1.3], no difference shown; differences under 1.4 points could not have been seen"
    )


def test_a_longer_one_and_two_that_are_not_shown():
    longer = effect(WRONG, 3.1, (0.4, 5.8), 0.01, 0.02)
    assert "wrong answers 3.1 tokens longer [0.4, 5.8]" in verdict([longer])[0]
    assert "could not" not in verdict([longer])[0]
    both = [effect(), effect(WRONG, -1.2, (-2.9, 0.5), detectable=2.1)]
    assert verdict(both)[0].endswith(
        "accuracy +0.2 points [−0.9, 1.3], no difference shown; wrong answers −1.2 tokens [−2.9, 0.5], no difference "
        "shown; differences under 1.4 points (accuracy) or 2.1 tokens (wrong answers) could not have been seen"
    )


def test_under_six_pairs_there_is_no_verdict_but_the_detectable_difference():
    few = effect(mean=9.0, ends=(7.0, 11.0), p=2 / 32, pairs=5, family=1, detectable=3.3)
    (sentence,) = verdict([few])
    assert sentence == (
        "Dr. GRPO against GRPO, 5 paired seeds, no verdict (it needs 6 pairs): accuracy +9.0 points [7.0, 11.0]; "
        "differences under 3.3 points could not have been seen"
    )
    one = effect(mean=-9.0, ends=None, p=1.0, pairs=1, family=1, detectable=None)
    assert verdict([one]) == [
        "Dr. GRPO against GRPO, 1 paired seed, no verdict (it needs 6 pairs): accuracy −9.0 points"
    ]
    assert "no verdict (it needs 7 pairs for 2 measures)" in verdict([effect(pairs=6), effect(WRONG, pairs=6)])[0]
    assert "no verdict" not in verdict([effect(pairs=6, family=1)])[0]
    assert verdict([]) == ["No verdict: no arm has a seed in common with the baseline, so there is no pair to compare."]


def test_a_measure_with_fewer_pairs_says_so():
    said = verdict([effect(), effect(WRONG, -3.1, (-5.8, -0.4), 0.01, 0.02, pairs=11)])[0]
    assert "12 paired seeds: wrong answers 3.1 tokens shorter [0.4, 5.8] (11 pairs); accuracy" in said
    said = verdict([effect(), effect(WRONG, -3.1, (-5.8, -0.4), 0.25, 0.5, pairs=3)])[0]
    assert "wrong answers −3.1 tokens [−5.8, −0.4] (3 pairs), no verdict (it needs 7 pairs for 2 measures)" in said


@pytest.mark.parametrize(
    ("ends", "p", "p_holm", "said"),
    [
        (
            (0.0, 1.3),
            0.01,
            0.02,
            "+0.2 points [0.0, 1.3], no difference shown: the interval holds 0, though the sign-flip test has p .020",
        ),
        ((-0.1, 1.3), 0.01, 0.02, "no difference shown: the interval holds 0, though the sign-flip test has p .020"),
        ((0.1, 1.3), 0.03, 0.06, "no difference shown after the correction for 2 measures: p .030, corrected .060"),
        ((0.1, 1.3), 0.06, 0.12, "no difference shown by the sign-flip test (p .060)"),
        ((0.1, 1.3), 0.025, 0.05, "accuracy 0.2 points higher [0.1, 1.3]"),
        ((0.1, 1.3), 0.026, 0.051, "no difference shown after the correction for 2 measures: p .026, corrected .051"),
        ((-1.3, 0.1), 0.6, 0.6, "no difference shown; differences"),
    ],
)
def test_where_test_and_interval_disagree_nothing_is_shown(ends, p, p_holm, said):
    assert said in verdict([effect(ends=ends, p=p, p_holm=p_holm)])[0]


def test_no_spread_no_interval():
    same = effect(mean=0.0, ends=None, p=1.0, detectable=None)
    assert verdict([same]) == ["Dr. GRPO against GRPO, 12 paired seeds: accuracy the same in all 12 pairs"]
    each = effect(mean=0.4, ends=None, p=0.001, detectable=None)
    assert verdict([each])[0].endswith("accuracy 0.4 points higher in each of 12 pairs")
    few = effect(mean=0.4, ends=None, p=0.25, pairs=3, detectable=None)
    assert verdict([few])[0].endswith(
        "no verdict (it needs 7 pairs for 2 measures): accuracy +0.4 points in each of 3 pairs"
    )


@pytest.mark.parametrize(
    ("measure", "mean", "ends", "said"),
    [
        (WRONG, 0.03, (0.01, 0.05), "wrong answers 0.03 tokens longer [0.01, 0.05]"),  # not "0.0 tokens longer"
        (WRONG, 2.0, (0.004, 3.996), "wrong answers 2.000 tokens longer [0.004, 3.996]"),  # nor [0.0, 4.0]
        (WRONG, -0.049, (-0.09, -0.008), "wrong answers 0.049 tokens shorter [0.008, 0.090]"),
        (WRONG, 1e-12, (1e-13, 2e-12), "wrong answers 1e−12 tokens longer [1e−13, 2e−12]"),
        (ENTROPY, -0.12, (-0.2, -0.05), "entropy 0.12 lower [0.05, 0.20]"),
        (WHOLE, 1.0, (0.6, 1.4), "tokens to 90 % 1 token more [1, 1]"),
        (WHOLE, -1234567.0, (-2e6, -1e5), "tokens to 90 % 1,234,567 tokens fewer [100,000, 2,000,000]"),
        (ACCURACY, 1.0, (0.6, 1.4), "accuracy 1.0 points higher [0.6, 1.4]"),
    ],
)
def test_figures_of_a_shown_difference_are_never_printed_as_0(measure, mean, ends, said):
    assert said in verdict([effect(measure, mean, ends, 0.001)])[0]


def test_figures_of_one_that_is_not_shown():
    assert "accuracy 0.0 points [−0.9, 1.3], no" in verdict([effect(mean=0.02)])[0]
    assert "accuracy 0.0 points [−0.9, 1.3], no" in verdict([effect(mean=-0.02)])[0]
    assert "accuracy +0.002 points [−0.001, 0.005], no" in verdict([effect(mean=0.002, ends=(-0.001, 0.005))])[0]
    assert "accuracy +0.030 points [0.004, 0.056], no" in verdict([effect(mean=0.03, ends=(0.004, 0.056))])[0]
    assert "accuracy 0.0 points [−0.9, 1.3], no" in verdict([effect(mean=0.0)])[0]
    assert "differences under 0.003 points" in verdict([effect(detectable=0.003)])[0]
    assert number(-0.0, 1) == number(0.0, 1) == "0.0"
    assert number(-1e20, 1) == "−1e+20"


def test_other_measures_are_for_fresh_seeds():
    calm = effect(ENTROPY, -0.12, (-0.2, -0.05), 0.001, 0.009, primary=False, family=9)
    rest = [effect(Measure(f"m{k}", "", "other", ""), primary=False, family=9) for k in range(8)]
    said = verdict([SHORTER, calm, *rest])
    assert said[1] == (
        "Not stated beforehand, 9 other measures: entropy 0.12 lower [0.05, 0.20], no difference shown in the others; "
        "to be tested on fresh seeds."
    )
    assert verdict([SHORTER, *rest])[1] == "Not stated beforehand, 8 other measures: no difference shown."
    assert verdict([SHORTER, effect(ENTROPY, 0.1, (0.05, 0.2), 0.001, primary=False, family=1)])[1] == (
        "Not stated beforehand, 1 other measure: entropy 0.10 higher [0.05, 0.20]; to be tested on fresh seeds."
    )
    few = [effect(ENTROPY, primary=False, family=9, pairs=8), effect(WRONG, pairs=8)]
    assert verdict(few)[1] == "Not stated beforehand, 1 other measure: no verdict (it needs 9 pairs for 9 measures)."


def test_without_a_primary_measure_all_are_said():
    said = verdict([effect(primary=False), effect(WRONG, primary=False)])
    assert len(said) == 1 and "accuracy" in said[0] and "wrong answers" in said[0]


def test_many_arms_have_a_sentence_each_and_the_caveat():
    said = verdict([effect(), effect(arm=RLOO)])
    assert said[0].startswith("Dr. GRPO against GRPO") and said[1].startswith("RLOO against GRPO")
    assert said[2] == (
        '2 arms were compared with GRPO, each held to a chance of 5 % of a false "shown"; over all of them it can reach 10 %.'
    )
    assert len(verdict([effect(pairs=3), effect(arm=RLOO, pairs=3)])) == 2
    others = [effect(arm=arm, primary=chosen) for arm in (DR, RLOO) for chosen in (True, False)]
    assert [sentence for sentence in verdict(others) if "1 other" in sentence] == [
        f"Not stated beforehand, 1 other measure of {name}: no difference shown." for name in ("Dr. GRPO", "RLOO")
    ]


def test_other_questions_are_said_where_they_are_known():
    said = verdict([effect(questions=(-1.6, 2.0))])[0]
    assert "accuracy +0.2 points [−0.9, 1.3] (other questions too: [−1.6, 2.0]), no difference shown" in said
    said = verdict([effect(WRONG, -3.1, (-5.8, -0.4), 0.01, 0.02, questions=(-6.5, 0.3))])[0]
    assert "wrong answers 3.1 tokens shorter [0.4, 5.8] (other questions too: [−0.3, 6.5])" in said


# --- --check

COMPARED = Comparison("three", ("advantage", "beta"), (GRPO, DR, RLOO), {})
MEASURES = [ACCURACY, WRONG]


def table(pairs: int = 8) -> dict:
    """Wrong answers 2 to 3 tokens shorter under Dr. GRPO; RLOO as GRPO."""
    base = [20.0 + 0.3 * (k % 3) for k in range(pairs)]
    return {
        GRPO.name: {"length/wrong": dict(enumerate(base))},
        DR.name: {"length/wrong": {k: value - 2 - 0.1 * (k % 5) for k, value in enumerate(base)}},
        RLOO.name: {"length/wrong": {k: value + 0.1 * (-1) ** k for k, value in enumerate(base)}},
    }


@pytest.mark.parametrize(
    ("text", "pairs", "code", "said"),
    [
        (
            "length/wrong: dr_grpo < grpo",
            8,
            0,
            "shown: Dr. GRPO against GRPO, 8 paired seeds: wrong answers 2.2 tokens shorter",
        ),
        (
            "length/wrong: grpo > dr_grpo",
            8,
            0,
            "shown: GRPO against Dr. GRPO, 8 paired seeds: wrong answers 2.2 tokens longer",
        ),
        ("length/wrong:dr_grpo<grpo", 6, 0, "shown: "),
        ("length/wrong: dr_grpo > grpo", 8, 1, "not shown, but the opposite: Dr. GRPO"),
        ("length/wrong: rloo < grpo", 8, 1, "not shown: RLOO against GRPO, 8 paired seeds: wrong answers 0.0 tokens"),
        ("length/wrong: dr_grpo < grpo", 5, 3, "too few pairs: Dr. GRPO against GRPO, 5 paired seeds, no verdict"),
        ("length/wrong: dr_grpo < grpo", 1, 3, "too few pairs: "),
        (
            "length/wrong: dr_grpo < grpo",
            0,
            3,
            "too few pairs: Dr. GRPO and GRPO have no seed with length of wrong answers",
        ),
        ("accuracy: dr_grpo > grpo", 8, 3, "too few pairs: Dr. GRPO and GRPO have no seed with accuracy in common"),
        ("length/wrong: rloo > Dr. GRPO", 8, 0, "shown: RLOO against Dr. GRPO"),  # neither is the baseline
        ("length/wrong: advantage=DR_GRPO < beta=0.04", 8, 0, "shown: Dr. GRPO against RLOO"),
        ("length/wrong: dr. grpo < 0.04", 8, 0, "shown: Dr. GRPO against RLOO"),
    ],
)
def test_check_exits_0_1_3(text, pairs, code, said):
    found, sentence = check(text, COMPARED, MEASURES, table(pairs))
    assert (found, sentence[: len(said)]) == (code, said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dr_grpo < grpo", "cannot be read. Write MEASURE: ARM < ARM"),
        ("length/wrong: dr_grpo = grpo", "cannot be read"),
        ("length/wrong: dr_grpo < grpo < rloo", "cannot be read"),
        ("length/wrong: < grpo", "cannot be read"),
        ("length/wrng: dr_grpo < grpo", 'no measure is named length/wrng. Did you mean "length/wrong"?'),
        ("length/wrong: dr_gpro < grpo", 'no arm is named dr_gpro. Did you mean "dr_grpo"?'),
        (
            "length/wrong: 0.0 < rloo",
            "0.0 names 2 arms. Name one by what no other has:\n  GRPO: advantage=grpo\n  Dr. GRPO: advantage=dr_grpo",
        ),
        ("length/wrong: grpo < GRPO", "both sides name the arm advantage=grpo"),
    ],
)
def test_a_check_that_cannot_be_read(text, said):
    with pytest.raises(InputError) as error:
        check(text, COMPARED, MEASURES, table())
    assert said in str(error.value)
    assert str(error.value).startswith(f"--check '{text}': ")
    assert len(str(error.value).splitlines()) <= 5


def test_a_check_of_many_arms_names_a_few_and_of_yaml_values():
    many = tuple(Arm(f"beta={k}", f"beta={k}", {"beta": None if k == 0 else float(k)}, {}) for k in range(9))
    found = Comparison("many", ("beta",), many, {})
    with pytest.raises(InputError, match="… and 6 more") as error:
        check("length/wrong: x < 1", found, MEASURES, {})
    assert len(str(error.value).splitlines()) == 5
    assert check("length/wrong: null < 2", found, MEASURES, {})[0] == 3
    assert check("length/wrong: beta=2.0 < 3", found, MEASURES, {})[0] == 3


def test_the_verdict_of_real_figures_is_that_of_the_effects():
    """Differences 2 to 2.4: mean 2.1625, SD .1408, so ± 2.3646 × .0498 = .1177."""
    said = verdict(effects(COMPARED, MEASURES, table(8), ["length/wrong"]))
    assert said[0] == "Dr. GRPO against GRPO, 8 paired seeds: wrong answers 2.2 tokens shorter [2.0, 2.3]"
    assert said[1].startswith(
        "RLOO against GRPO, 8 paired seeds: wrong answers 0.0 tokens [−0.1, 0.1], no difference shown;"
    )
    assert said[1].endswith("; differences under 0.1 tokens could not have been seen")
    assert len(said) == 3
