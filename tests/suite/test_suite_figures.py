"""Figures of made answers, worked out by hand: sets, averages, lengths, votes, pairs, graders, published figures."""

from __future__ import annotations

import pytest

from grpo_runner import compose
from grpo_runner.errors import InputError
from grpo_runner.reward import Policy
from grpo_runner.suite import graders, published
from grpo_runner.suite.summary import ks, paired, scores, summarise, votes
from tests.suite.asked import made, record

R, W, N = "correct", "wrong", "no_answer"


def test_one_set_by_hand():
    rows = [
        record(1, sampled=[made(R, "1", 4), made(W, "2", 8), made(W, "2", 8), made(N, None, 16, "length")]),
        record(2, sampled=[made(R, "1", 4), made(R, "1.0", 6), made(W, "3", 2), made("timeout", "x", 2)]),
    ]
    found = summarise(rows)["sampled"]["a"]
    value = {name: one.value for name, one in found.estimates.items()}
    # question 1: one of 4 right; of the 6 pairs 3 have it. Question 2: two of 4; of the 6 pairs 5 have one
    assert value["avg@4"] == pytest.approx((1 / 4 + 2 / 4) / 2)
    assert value["pass@2"] == pytest.approx((3 / 6 + 5 / 6) / 2) and value["pass@4"] == 1.0
    # of 4: question 1 elects "2"; question 2 elects the right answer, which was written in two ways
    assert value["maj@4"] == pytest.approx(1 / 2)
    assert (found.questions, found.samples, found.tokens) == (2, 4, 50)
    assert (found.truncated, found.no_answer, found.ungraded) == (1 / 8, 1 / 8, 1 / 8)
    assert found.length_right == pytest.approx(14 / 3) and found.length_wrong == pytest.approx(36 / 5)


def test_votes_take_all_right_answers_for_one_and_none_for_silence():
    answers = [made(R, "1/2"), made(R, "0.5"), made(W, " 3"), made(W, "3"), made("ambiguous", "1 or 3"), made(N, None)]
    assert votes(answers) == (2, [1, 2], 1)


def test_ks_are_powers_of_two_and_the_number_of_samples():
    assert [ks(n) for n in (1, 2, 3, 8, 12)] == [[], [2], [2, 3], [2, 4, 8], [2, 4, 8, 12]]


def test_the_average_of_sets_has_no_weights_and_lengths_of_nothing_are_left_out():
    rows = [record(1, R), record(2, R), *(record(n, W, name="b") for n in range(6))]
    found = summarise(rows)["greedy"]
    assert list(found) == ["a", "b", "average"]
    assert found["average"].estimates["accuracy"].value == 0.5  # not 2 of 8
    assert (found["a"].length_wrong, found["b"].length_right, found["average"].length_right) == (None, None, 5.0)
    assert (found["average"].questions, found["average"].tokens) == (8, 40)
    assert list(summarise(rows[:2])["greedy"]) == ["a"]  # one set needs no average


def test_pairs_are_of_the_same_question_in_any_order_and_others_are_left_out():
    before = [record(1, R), record(2, W), record(3, W), record(9, R)]
    after = [record(3, R), record(2, R), record(1, R), record(8, W)]
    found = paired(before, after)["greedy"]["a"]["accuracy"]
    assert found.value == pytest.approx(2 / 3)  # questions 2 and 3 of three; 8 and 9 have no partner
    assert paired(after, before)["greedy"]["a"]["accuracy"].value == pytest.approx(-2 / 3)
    unpaired = [record(n, status, name="b") for n, status in ((1, R), (2, R))]
    assert paired(before, unpaired)["greedy"] == {}


def test_scores_of_samples_are_shares():
    assert scores([record(1, sampled=[made(R), made(W, "2")])], "sampled") == {
        "avg@2": [0.5],
        "pass@2": [1.0],
        "maj@2": [0.5],  # a tie
    }


# --- other graders


def test_another_grader_is_seen_as_a_difference_of_the_grader():
    rows = [
        record(1, sampled=[made(R, text=r"\boxed{1}"), made(R, text="#### 1")]),
        record(2, sampled=[made(W, text=r"\boxed{2}"), made(W, text=r"\boxed{1}")]),
    ]
    config = compose(["device=cpu"])
    own = graders.own(rows)
    assert (own.accuracy, own.gained, own.lost) == ({"sampled": {"a": 0.5}}, 0, 0)
    boxes = graders.regrade(rows, Policy(extract="box"), config)
    assert (boxes.accuracy, boxes.gained, boxes.lost) == ({"sampled": {"a": 0.5}}, 1, 1)
    hashes = graders.regrade(rows, graders.policies(["gsm8k_hash"], config)["gsm8k_hash"], config)
    assert (hashes.accuracy["sampled"]["a"], hashes.lost) == (0.25, 1)


def test_a_preset_that_is_not_there_is_named_with_the_nearest():
    with pytest.raises(InputError, match=r'--also reward=boxed_stric: .*Did you mean "boxed_strict"'):
        graders.policies(["boxed_stric"], compose())


# --- published figures


def in_paper(name: str, **percent: float) -> published.Published:
    return published.Published(name, percent, ("paper: greedy",))


def test_a_published_figure_is_inside_or_not():
    rows = [record(n, R if n < 13 else W, name="aime24") for n in range(30)]  # 43.3 [27.4, 60.8]
    figures = [in_paper("paper", aime24=43.3, amc=62.7), in_paper("another", aime24=16.7)]
    first, absent, far = published.compare(figures, "mine", summarise(rows))
    assert (first.set, first.published, first.inside, first.what) == ("aime24", 43.3, True, "greedy accuracy")
    assert first.ours is not None and (first.ours.low, first.ours.high) == pytest.approx((0.274, 0.608), abs=5e-4)
    assert (absent.set, absent.ours, absent.inside) == ("amc", None, None)
    assert far.inside is False


def test_greedy_and_sampled_each_have_a_line_and_only_what_was_measured_alike_is_compared():
    rows = [record(n, R, [made(R), made(W, "2")], name=name) for name in ("a", "b") for n in range(4)]
    figures = [
        in_paper("paper", a=90, a_avg32=50, average=70),
        in_paper("all", a=90, b=80, average=85),
        in_paper("paper.self_consistency_2", a=60),
        in_paper("paper.self_consistency_64", a=60),
    ]
    found = [(one.name, one.set, one.what) for one in published.compare(figures, "mine", summarise(rows))]
    both = ("greedy accuracy", "avg@2")
    assert found == [
        *(("paper", "a", what) for what in both),
        ("paper", "a_avg32", "avg@2"),
        ("paper", "average", "-"),  # over a alone, ours over a and b
        *(("all", name, what) for name in ("a", "b", "average") for what in both),
        ("paper.self_consistency_2", "a", "maj@2"),
        ("paper.self_consistency_64", "a", "-"),
    ]


def test_published_figures_come_with_their_source_and_unknown_ones_with_the_nearest():
    [found] = published.figures(["dr_grpo.table4.oat_zero_7b"] * 2)
    assert found.percent["aime24"] == 43.3 and "3000 tokens" in found.sources[0]
    with pytest.raises(InputError, match=r'Did you mean "dr_grpo\.table4\.oat_zero_7b"'):
        published.figures(["oat_zero_7b"])
