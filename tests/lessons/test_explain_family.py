"""`explain family`: each method's coefficients against closed forms of the made group, and the page that shows them."""

from __future__ import annotations

import io
import math
import re

import pytest
import torch
from rich.console import Console

from grpo_runner.errors import InputError
from grpo_runner.lessons import explain, family, family_view
from grpo_runner.lessons.family import MADE, MEMBERS, weigh
from grpo_runner.lessons.methods import METHODS

LENGTHS = (12, 12, 2, 12)
LOG_RATIOS = (0.1, 0.0, 0.2, -0.1)
FOUND = weigh(MADE)


def said(*words):
    console = Console(record=True, width=120, file=io.StringIO())
    explain(["family", *words], console)
    return console.export_text()


def each_token(name):
    """Rows of coefficients, without what lies past an answer's end."""
    made = FOUND[name].coefficient_NT
    made = made.expand(4, 12)
    return [made[row, :length].tolist() for row, length in enumerate(LENGTHS)]


def test_the_made_group_is_what_it_says():
    assert tuple(map(len, MADE.texts)) == LENGTHS and MADE.texts[0][-1] == ""
    assert "".join(MADE.texts[0]) == "7 × 2 = 14\n12 + 14 = 26"
    for texts, steps in zip(MADE.texts, MADE.steps, strict=True):
        assert steps[-1][0] == len(texts) - 1 and all(texts[end] == "\n" for end, _ in steps[:-1])
    assert all(len(some) == n for of in (MADE.values, MADE.log_ratios) for some, n in zip(of, LENGTHS, strict=True))


IN_TIME = {"GRPO, iterative"}  # GRPO's weights at any one step: what differs is when the reference is renewed


def test_every_method_of_the_template_is_there():
    assert set(MEMBERS) == {method.name for method in METHODS} - IN_TIME and None not in FOUND.values()


@pytest.mark.parametrize(
    "name, expected",
    [
        ("SFT", (1, 0, 0, 0)),
        ("RFT", (1, 0, 0, 0)),
        ("Online RFT", (1, 0, 0, 0)),
        ("REINFORCE", (1, 0, 0, 0)),
        ("Dr. GRPO", (0.75, -0.25, -0.25, -0.25)),
        ("MaxRL", (3, -1, -1, -1)),
        ("DAPO", (math.sqrt(3), *[-1 / math.sqrt(3)] * 3)),
        ("GSPO", (math.sqrt(3), *[-1 / math.sqrt(3)] * 3)),
        ("CISPO", (math.sqrt(3), *[-1 / math.sqrt(3)] * 3)),
    ],
)
def test_one_coefficient_an_answer(name, expected):
    for row, value in zip(each_token(name), expected, strict=True):
        assert row == pytest.approx([value] * len(row))


def test_grpo_has_the_kl_part_of_each_token():
    """β(π_ref/π - 1) on top; none where the policy is its reference."""
    for row, advantage, ratio in zip(each_token("GRPO, outcome"), (3, -1, -1, -1), LOG_RATIOS, strict=True):
        assert row == pytest.approx([advantage / math.sqrt(3) + 0.04 * (math.exp(-ratio) - 1)] * len(row))


def test_rloo_has_the_kl_of_the_answer_in_its_reward():
    rewards = [r - 0.03 * n * d for r, n, d in zip((1, 0, 0, 0), LENGTHS, LOG_RATIOS, strict=True)]
    for number, row in enumerate(each_token("RLOO")):
        others = [reward for place, reward in enumerate(rewards) if place != number]
        assert row == pytest.approx([rewards[number] - sum(others) / 3] * len(row))


def test_dpo_is_plus_and_minus_on_the_one_pair():
    push = 0.1 / (1 + math.exp(0.1 * (12 * 0.1 - 12 * 0.0)))
    assert [row[0] for row in each_token("DPO")] == pytest.approx([push, -push, 0, 0])
    assert FOUND["DPO"].counted_N.tolist() == [True, True, False, False]


def test_ppo_is_what_is_still_to_come_less_what_was_expected():
    for number, row in enumerate(each_token("PPO")):
        n, values = LENGTHS[number], MADE.values[number]
        reward, each = (1.0, 0.0, 0.0, 0.0)[number], -0.03 * LOG_RATIOS[number]
        assert row == pytest.approx([reward + each * (n - t) - values[t] for t in range(n)])


def test_process_sums_the_steps_that_are_still_to_end():
    rewards = [1.0, 1, 1, 0, 0, 1, 0]  # of all steps of the group
    mean = sum(rewards) / 7
    std = math.sqrt(sum((r - mean) ** 2 for r in rewards) / 7)
    for row, steps, ratio in zip(each_token("GRPO, process"), MADE.steps, LOG_RATIOS, strict=True):
        for t, value in enumerate(row):
            wanted = sum((r - mean) / std for end, r in steps if end >= t) + 0.04 * (math.exp(-ratio) - 1)
            assert value == pytest.approx(wanted)


@pytest.mark.parametrize(
    "name, divisors",
    [
        ("GRPO, outcome", [4 * n for n in LENGTHS]),
        ("Dr. GRPO", [4 * 12] * 4),
        ("REINFORCE", [4] * 4),
        ("DAPO", [38] * 4),
        ("RFT", [12, None, None, None]),  # the others are not in the batch
        ("DPO", [2, 2, None, None]),
    ],
)
def test_weights_have_the_divisor_in_them(name, divisors):
    for row, divisor in enumerate(divisors):
        n = LENGTHS[row]
        coefficient = torch.tensor(each_token(name)[row])
        expected = coefficient / divisor if divisor else torch.zeros(n)
        assert FOUND[name].weights_NT[row, :n].tolist() == pytest.approx(expected.tolist())


def test_a_group_that_lacks_what_a_method_needs_says_so():
    bare = family.Case("q", "1", (("a",), ("b", "")), (False, False), (0.0, 0.0))
    found = weigh(bare)
    assert [name for name, made in found.items() if made is None] == ["SFT", "DPO", "GRPO, process"]
    assert set(family_view.LACKS) == {"SFT", "DPO", "GRPO, process"}
    assert all(not made.weights_NT.any() for name, made in found.items() if made is not None)
    # without a critic's values PPO is REINFORCE against the group's mean
    some = family.Case("q", "1", (("a",), ("b", "")), (True, False), (1.0, 0.0))
    assert weigh(some)["PPO"].coefficient_NT.tolist() == [[0.5, 0.0], [-0.5, -0.5]]


def test_the_screen_and_the_page(tmp_path):
    file = tmp_path / "family.html"
    screen = said("--html", str(file))
    assert re.search(r"Dr\. GRPO +\+0\.7500 +-0\.2500 +-0\.2500 +-0\.2500 +L\n", screen)
    assert re.search(r"MaxRL +58\.1 % +19\.4 % +3\.2 % +19\.4 %", screen)
    page = file.read_text()
    for name in MEMBERS:
        assert f"<h2>{name}</h2>" in page
    assert page.count('<span class="u20" title="coefficient +3\nweight +0.07895">7</span>') == 1  # MaxRL, 3/38
    assert "<script" not in page and "http" not in page.replace("http-equiv", "")


def test_hostile_text_stays_text(tmp_path):
    nasty = "<script>alert(1)</script>\x1b[31m"
    case = family.Case(nasty, nasty, ((nasty, ""), ("b",)), (True, False), (1.0, 0.0))
    page = "\n".join(family_view._lines(case, [nasty], weigh(case)))
    assert "<script" not in page and "\x1b" not in page and "&lt;script&gt;" in page


@pytest.mark.parametrize(
    "words, told",
    [
        (["--step", "1"], "--step goes with a run's folder"),
        (["nowhere"], '"nowhere" is no run folder'),
        (["--htm", "x"], 'no "--htm"'),
        (["--html", "/nowhere/at/all.html"], "not a place for a file"),
        (["--rewards", "1,0"], "--rewards goes with a group of your own"),
    ],
)
def test_words_that_cannot_be(words, told):
    with pytest.raises(InputError, match=re.escape(told)):
        explain(["family", *words])
