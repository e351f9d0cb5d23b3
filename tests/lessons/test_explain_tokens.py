"""`explain RUN_FOLDER --step N` where the run recorded tokens, and where answers were excluded."""

from __future__ import annotations

import json
import re

import pytest
import torch

from grpo_runner import compose, run
from grpo_runner.errors import InputError
from grpo_runner.lessons import explain
from grpo_runner.lessons.step import read, weigh_all
from grpo_runner.lessons.step_table import LEVELS, level, trained
from grpo_runner.lessons.tokens import Tokens
from grpo_runner.lessons.tokens import read as read_tokens
from tests.helpers import changed
from tests.lessons.folders import ROWS, answer, has, printed, recorded, with_tokens

ON_TERMINAL = {"force_terminal": True, "color_system": "truecolor", "width": 200}
UP, DOWN = (70, 140, 255), (255, 140, 40)
STYLED = re.compile(r"\x1b\[([\d;]*)m([^\x1b]*)\x1b\[0m")


def test_ratio_kl_part_and_clipped_tokens_of_each_answer(folder):
    """Means of 1, 1.5, .5 and of .01, 0, -.04; what was not computed is a dash and not a 0."""
    text = printed(str(folder(rows=recorded())), "--step", "4", "--all", width=200)
    rows = [line.split() for line in text.splitlines()]
    assert [row[9:] for row in rows if row[:2] == ["1", "1"]] == [["1", "(0.5–1.5)", "-0.01", "1"]]
    assert [row[9:] for row in rows if row[:3] == ["2", "0", "2"]] == [["1", "-", "0"], ["-", "-", "-"]]
    assert "did not record tokens" not in text and "mean (range)" in text
    assert "answer 1, wrong, coefficient -0.1 to +0.2" in text and "answer 2, wrong, coefficient -0.05\n" in text
    assert "answer 1, wrong, 0 a token, not computed" in text
    assert "a b<eos>" in text and "text 0.0" not in text


def test_a_run_of_before_says_that_it_recorded_none(folder):
    text = printed(str(folder(rows=ROWS)), "--step", "4", "--all")
    assert "note: this run did not record tokens" in text
    assert "mean (range)" not in text and "coefficient" not in text and "text 0.0" in text
    whole = with_tokens(ROWS[0], ["x"] * 10, None)
    assert "did not record" not in printed(str(folder(rows=[whole, *ROWS[1:]])), "--step", "4", "--all")


def styles(folder, rows) -> dict[str, tuple[bool, tuple[int, ...] | None]]:
    """Text of a token -> (underlined, background), as the terminal gets it."""
    found = {}
    for codes, text in STYLED.findall(printed(str(folder(rows=rows)), "--step", "4", "--all", **ON_TERMINAL)):
        colour = re.search(r"48;2;(\d+);(\d+);(\d+)", codes)
        found[text] = "4" in codes.split(";")[:2], tuple(map(int, colour.groups())) if colour else None
    return found


def test_each_token_has_the_colour_of_its_own_coefficient(folder):
    found = styles(folder, recorded())
    assert found["a"] == (False, UP)  # the largest: the full colour
    assert found[" b"] == (True, None)  # clipped, and so without a coefficient
    mixed = [round(245 + (channel - 245) * (0.15 + 0.85 * 0.5)) for channel in DOWN]
    assert "\x1b[2;4mclipped" in printed(
        str(folder(rows=recorded())), "--step", "4", "--all", **ON_TERMINAL
    )  # the legend's
    rows = recorded()
    rows[0]["token_texts"][2] = "half"
    assert styles(folder, rows)["half"] == (False, tuple(mixed))
    # negative control: turned round, the colours are
    rows[0]["coefficient"] = [-value for value in rows[0]["coefficient"]]
    rows[0]["clipped"] = [False] * 3
    found = styles(folder, rows)
    assert found["a"] == (False, DOWN) and found["half"][1][2] > found["half"][1][0] and " b" not in found


def test_colours_by_size():
    assert [level(value, 2.0) for value in (2, 1, 1e-9, 0, -1e-9, -1, -2)] == [20, 10, 1, 0, -1, -10, -20]
    assert level(5.0, 2.0) == LEVELS and level(1.0, 0.0) == 0


def test_a_missing_list_is_a_dash():
    tokens = Tokens(("a", "b"), (0.1, 0.2), (1.0, 1.0), None, None, (True, True))
    assert trained(tokens) == ("1", "-", "2") and trained(None) == ("-",) * 3
    assert read_tokens(with_tokens(answer(0, 0, 1, 1), ["a"], [0.1], kl=[None], kl_coefficient=[None])).kl is None
    assert read_tokens(ROWS[0]) is None


# --- excluded answers


def test_excluded_answers_are_said_to_be_so_and_leave_the_loss(folder):
    """1, none, 0 and a truncated 1, 0, 1: N is 4. GRPO of pairs is ±1, over 4·|o|; Dr. GRPO ±½ over 4·50; RLOO ±1 over 4."""
    rows = [answer(0, 0, 1, 10), answer(0, 1, None, 30, included=False), answer(0, 2, 0, 40)]
    rows += [answer(1, 0, 1, 50, included=False), answer(1, 1, 0, 20), answer(1, 2, 1, 5)]
    text = printed(str(folder(rows=rows, overrides=["max_new_tokens=50"])), "--step", "4", "--all", width=120)
    assert has(text, "1 1 10 +1.0000 +0.025 +0.5000 +0.0025 +1.0000 +0.25")
    assert has(text, "2 - 30 excluded - excluded - excluded -")
    assert has(text, "3 0 40 -1.0000 -0.00625 -0.5000 -0.0025 -1.0000 -0.25")
    assert has(text, "1 1 50 excluded - excluded - excluded -")
    assert has(text, "3 1 5 +1.0000 +0.05 +0.5000 +0.0025 +1.0000 +0.25")
    assert "excluded: no reward" in text and "excluded: left out of baseline and loss" in text
    # negative control: were they counted, the two groups of three would weigh otherwise
    counted = [{key: value for key, value in row.items() if key != "included"} | {"reward": 1} for row in rows]
    assert (
        "+1.0000"
        not in printed(str(folder(rows=counted)), "--step", "4", "--all", width=120).partition("question q1")[0]
    )


def test_a_group_or_a_step_that_is_excluded_weighs_nothing(folder):
    config = compose(["optim.updates_per_rollout=2", "optim.minibatch=group", "group_size=2"])
    rewards_QG = torch.tensor([[1.0, 0], [torch.nan, torch.nan], [1, 0]])
    lengths_N = torch.tensor([10, 40, 99, 99, 20, 5])
    own = weigh_all(config, 0, rewards_QG, lengths_N)[0]
    # each optimizer step has one of the two groups left: 1 / (2·|o|)
    assert own.token_N.tolist() == pytest.approx([1 / 20, -1 / 80, 0, 0, 1 / 40, -1 / 10])
    nothing = [row | {"included": False} for row in ROWS]
    text = printed(str(folder(rows=nothing)), "--step", "4", "--all")
    assert text.count("excluded: left out") == 4 and "nan" not in text


# --- rows that no run writes


@pytest.mark.parametrize(
    "broken",
    [
        {"coefficient": [0.1]},
        {"coefficient": [0.1, "0.2", 0.3]},
        {"coefficient": [0.1, None, 0.3]},
        {"coefficient": [0.1, True, 0.3]},
        {"coefficient": [0.1, float("nan"), 0.3]},
        {"coefficient": [0.1, 10**400, 0.3]},
        {"coefficient": "abc"},
        {"ratio": {"a": 1, "b": 2, "c": 3}},
        {"clipped": [0, 1, 0]},
        {"token_texts": ["a", "b", 3]},
        {"token_texts": None},
        {"included": 1},
        {"included": None},
        {"reward": None},
        {"reward": float("nan")},
        {"reward": "1"},
        {"reward": 10**400, "included": False},
        {"tokens": 3.0},
        {"tokens": "3"},
    ],
)
def test_damaged_tokens_are_named_in_one_line(folder, broken):
    rows = recorded()
    rows[0] |= broken
    assert json.dumps(rows)
    with pytest.raises(InputError, match="damaged") as error:
        explain([str(folder(rows=rows)), "--step", "4", "--all"])
    assert "\n" not in str(error.value)


# --- real runs

BASE = [
    "debug=cpu_smoke", "tracking=off", "tracking.completions_every=1", "steps=1", "questions_per_step=4",
    "evaluation.every=0", "data.train_size=64", "data.eval_size=16", "optim.updates_per_rollout=2", "optim.lr=0.01",
]  # fmt: skip


@pytest.mark.parametrize(
    ("overrides", "kl"),
    [
        (["advantage=rloo", "loss_norm=group_token_mean", "beta=0.04"], True),
        (["advantage=grpo", "beta.value=0.04", "beta.placement=reward", "beta.estimator=k1"], False),
        (["advantage=dr_grpo", "loss_norm=constant", "beta=0", "reward.truncated=mask", "max_new_tokens=6"], False),
    ],
)
def test_a_real_runs_coefficients_are_weight_times_ratio_and_the_kl_part(tmp_path, capsys, overrides, kl):
    """coefficient = weight · ratio + KL part, or the KL part alone where the token was clipped; recorded to 6 digits."""
    run(changed(compose([*BASE, *overrides]), run_dir=str(tmp_path / "run")))
    capsys.readouterr()
    step = read(tmp_path / "run", 0)
    assert list(step.notes) == [] and step.has_tokens
    assert all(step.included) == ("max_new_tokens=6" not in overrides)
    seen = {"clipped": 0, "moved": 0}
    for row, tokens in enumerate(step.tokens):
        if tokens is None or tokens.coefficient is None:
            assert float(step.columns[0].token_N[row]) == 0
            continue
        weight = float(step.columns[0].token_N[row])
        parts = tokens.kl_coefficient or (0.0,) * len(tokens.texts)
        assert (tokens.kl_coefficient is not None) == kl and step.included[row]
        wanted = [
            part + (0 if clipped else weight * ratio)
            for part, ratio, clipped in zip(parts, tokens.ratio, tokens.clipped, strict=True)
        ]
        assert list(tokens.coefficient) == pytest.approx(wanted, rel=1e-4, abs=1e-8)
        seen["clipped"] += sum(tokens.clipped)
        seen["moved"] += sum(abs(ratio - 1) > 0.01 for ratio in tokens.ratio)
    assert seen["moved"] > 0 and seen["clipped"] > 0, "nothing moved: the comparison would be empty"
    text = printed(str(tmp_path / "run"), "--step", "0")
    assert "mean (range)" in text and text.splitlines()[-1].startswith("page: ")
