"""Each rule on made series: one with the fault, one without, and both sides of its threshold; and on recorded runs."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_runner import validate
from grpo_runner.health import RULES, firing
from grpo_runner.health.series import WINDOW, mean, middle, of
from tests.health.record import recorded

HEALTHY = {
    "reward/mean": 0.5, "reward/batch_std": 0.5, "accuracy": 0.5, "length/correct": 100.0, "length/wrong": 110.0,
    "truncated": 0.02, "no_answer": 0.05, "timeout": 0.0, "error": 0.0, "kl": 0.02, "entropy": 0.3,
    "clip_fraction": 0.002, "ratio/max": 1.6, "grad_norm": 0.3, "zero_variance_fraction": 0.3,
}  # fmt: skip


def series(steps: int, **changes) -> list[dict]:
    """Healthy rows with some figures changed: a value, or a function of the step. `length__wrong` is length/wrong."""
    named = {key.replace("__", "/"): value for key, value in changes.items()}
    return [
        {"step": step, **HEALTHY, **{key: value(step) if callable(value) else value for key, value in named.items()}}
        for step in range(steps)
    ]


def at(*places: int, high: float, low: float):
    return lambda step: high if step in places else low


def then(step: int, before: float, after: float):
    return lambda now: before if now < step else after


def collapsed(level: float):
    return lambda step: 0.3 if step < 10 else level


CASES = [  # rule, steps, what differs from a healthy series, whether the rule holds at the last step
    ("truncation", 20, {"truncated": 0.5}, True),
    ("truncation", 20, {"truncated": 0.21}, True),
    ("truncation", 20, {"truncated": 0.2}, False),
    ("truncation", 19, {"truncated": 0.5}, False),  # a trend needs two windows
    ("truncation", 20, {"truncated": at(15, high=1.0, low=0.1)}, False),  # one noisy step: mean .19
    ("truncation", 20, {"truncated": then(10, 0.05, 0.25)}, True),  # rising
    ("truncation", 20, {"truncated": then(10, 0.6, 0.49)}, True),  # 0.8 · 0.6 = 0.48
    ("truncation", 20, {"truncated": then(10, 0.6, 0.47)}, False),  # on its way down
    ("truncation", 20, {"truncated": None}, False),
    ("no_answer", 20, {"no_answer": 0.6}, True),
    ("no_answer", 20, {"no_answer": 0.34}, True),  # 0.34 - 0.02 cut off
    ("no_answer", 20, {"no_answer": 0.31}, False),
    ("no_answer", 20, {"no_answer": 0.31, "truncated": 0.0}, True),
    ("no_answer", 20, {"no_answer": 0.45, "truncated": 0.16}, False),  # half of them have no room, no answer beside
    ("no_answer", 20, {"no_answer": then(10, 0.9, 0.5)}, False),  # learns to answer
    ("no_answer", 19, {"no_answer": 0.6}, False),
    ("zero_variance", 20, {"zero_variance_fraction": 0.95}, True),
    ("zero_variance", 20, {"zero_variance_fraction": 0.81}, True),
    ("zero_variance", 20, {"zero_variance_fraction": 0.79}, False),
    ("zero_variance", 19, {"zero_variance_fraction": 0.95}, False),
    ("zero_variance", 20, {"zero_variance_fraction": lambda step: 1.0 if step % 2 else 0.5}, False),  # mean .75
    ("zero_variance", 20, {"zero_variance_fraction": 0.95, "refills": 3}, False),  # dynamic sampling replaces them
    ("entropy_collapse", 60, {"entropy": collapsed(0.01)}, True),
    ("entropy_collapse", 60, {"entropy": collapsed(0.0299)}, True),
    ("entropy_collapse", 60, {"entropy": collapsed(0.0301)}, False),
    ("entropy_collapse", 60, {"entropy": collapsed(0.01), "accuracy": 0.74}, True),
    ("entropy_collapse", 60, {"entropy": collapsed(0.01), "accuracy": 0.76}, False),  # most is solved
    ("entropy_collapse", 60, {"entropy": collapsed(0.01), "accuracy": lambda step: 0.3 + 0.0011 * step}, False),
    ("entropy_collapse", 60, {"entropy": collapsed(0.01), "accuracy": lambda step: 0.3 + 0.0009 * step}, True),
    ("entropy_collapse", 39, {"entropy": collapsed(0.01)}, False),
    ("entropy_collapse", 60, {"entropy": 0.01}, False),  # began so
    ("kl_runaway", 10, {"kl": 5.0}, True),
    ("kl_runaway", 10, {"kl": 0.51}, True),
    ("kl_runaway", 10, {"kl": 0.5}, False),
    ("kl_runaway", 9, {"kl": 5.0}, False),
    ("kl_runaway", 10, {"kl": at(0, 3, 5, 9, high=1e6, low=0.02)}, False),  # four spikes of ten
    ("kl_runaway", 10, {"kl": at(0, 3, 5, 7, 9, high=1e6, low=0.02)}, True),
    ("kl_runaway", 10, {"kl": None}, False),  # beta 0
    ("ratio", 10, {"clip_fraction": 0.4, "ratio__max": 4.0}, True),
    ("ratio", 10, {"clip_fraction": 0.21, "ratio__max": 2.1}, True),
    ("ratio", 10, {"clip_fraction": 0.19, "ratio__max": 2.1}, False),
    ("ratio", 10, {"clip_fraction": 0.21, "ratio__max": 1.9}, False),
    ("ratio", 10, {"clip_fraction": 0.7, "ratio__max": 1.01}, False),  # GSPO's way
    ("ratio", 10, {"ratio__max": 10.5}, True),
    ("ratio", 10, {"ratio__max": 9.5}, False),
    ("ratio", 10, {"ratio__max": at(2, 5, high=1e8, low=1.5)}, False),
    ("ratio", 9, {"ratio__max": 1e8}, False),
    ("ratio", 10, {"clip_fraction": 0.4, "ratio__max": None}, False),  # rows of a run from before it was logged
    ("wrong_longer", 70, {"length__wrong": then(20, 130.0, 160.0)}, True),
    ("wrong_longer", 70, {"length__wrong": then(20, 130.0, 144.0)}, True),  # 1.108 times
    ("wrong_longer", 70, {"length__wrong": then(20, 130.0, 142.0)}, False),  # 1.092 times
    ("wrong_longer", 70, {"length__wrong": then(20, 105.0, 121.0)}, True),
    ("wrong_longer", 70, {"length__wrong": then(20, 105.0, 119.0)}, False),  # 1.19 times the right ones
    ("wrong_longer", 70, {"length__wrong": then(20, 130.0, 160.0), "length__correct": 140.0}, False),
    ("wrong_longer", 70, {"length__wrong": then(20, 130.0, 160.0), "accuracy": then(20, 0.5, 0.521)}, False),
    ("wrong_longer", 70, {"length__wrong": then(20, 130.0, 160.0), "accuracy": then(20, 0.5, 0.519)}, True),
    ("wrong_longer", 70, {"length__wrong": then(20, 130.0, 160.0), "accuracy": then(20, 0.5, 0.4)}, True),
    ("wrong_longer", 69, {"length__wrong": then(20, 130.0, 160.0)}, False),
    ("zero_reward", 10, {"reward__mean": 0.0, "reward__batch_std": 0.0}, True),
    ("zero_reward", 50, {"reward__mean": 0.0, "reward__batch_std": 0.0}, True),
    ("zero_reward", 9, {"reward__mean": 0.0, "reward__batch_std": 0.0}, False),
    ("zero_reward", 50, {"reward__mean": at(3, high=0.01, low=0.0), "reward__batch_std": 0.0}, False),
    ("zero_reward", 10, {"reward__mean": 0.0, "reward__batch_std": 1.0}, False),  # rewards of 1 and -1
    ("zero_reward", 10, {"reward__mean": None, "reward__batch_std": None}, False),
    ("grader", 10, {"timeout": 0.05}, True),
    ("grader", 10, {"timeout": 0.011}, True),
    ("grader", 10, {"timeout": 0.009}, False),
    ("grader", 10, {"timeout": 0.006, "error": 0.006}, True),
    ("grader", 10, {"timeout": at(4, high=0.09, low=0.0)}, False),
    ("grader", 9, {"timeout": 0.05}, False),
    ("grad_spikes", 60, {"grad_norm": at(52, 55, 59, high=30.0, low=0.3)}, True),
    ("grad_spikes", 60, {"grad_norm": at(52, 55, 59, high=3.01, low=0.3)}, True),
    ("grad_spikes", 60, {"grad_norm": at(52, 55, 59, high=2.99, low=0.3)}, False),
    ("grad_spikes", 60, {"grad_norm": at(52, 59, high=1e9, low=0.3)}, False),  # two
    ("grad_spikes", 60, {"grad_norm": at(49, 52, 59, high=30.0, low=0.3)}, False),  # one of three is past
    ("grad_spikes", 30, {"grad_norm": at(22, 25, 29, high=30.0, low=0.3)}, True),
    ("grad_spikes", 29, {"grad_norm": at(22, 25, 28, high=30.0, low=0.3)}, False),  # 19 steps tell nothing of the usual
    ("grad_spikes", 60, {"grad_norm": then(50, 0.0, 30.0)}, False),  # steps without a gradient are no measure
    ("grad_spikes", 60, {"grad_norm": None}, False),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "steps", "changes", "holds"), CASES)
def test_a_rule_holds_where_its_fault_is_and_no_other_does(rule, steps, changes, holds):
    assert set(firing(series(steps, **changes))) == ({rule} if holds else set())


def test_every_rule_has_cases_of_both_kinds():
    assert {(rule, True) for rule in RULES} | {(rule, False) for rule in RULES} == {case[::3] for case in CASES}
    assert tuple(RULES) == validate.RULES


def test_what_is_said_has_the_figures():
    said = {rule: firing(series(steps, **changes))[rule] for rule, steps, changes, holds in reversed(CASES) if holds}
    assert said["truncation"] == "50 % of the answers of the last 10 steps were cut off at the token budget"
    assert said["no_answer"].startswith("58 % of the answers")
    assert "in 95 % of the groups" in said["zero_variance"] and "(accuracy 50 %)" in said["zero_variance"]
    assert "is 3.3 % of that of the first 10, and accuracy stands at 50 %" in said["entropy_collapse"]
    assert "the reference is 5 nats a token" in said["kl_runaway"]
    assert "grows up to 4 times, and 40 % of the tokens" in said["ratio"]
    assert "from 130 to 160 tokens in 50 steps (right ones have 100)" in said["wrong_longer"]
    assert "of the 10 steps so far" in said["zero_reward"]
    assert said["grader"].startswith("5 % of the answers")
    assert "in 3 of the last 10 steps" in said["grad_spikes"] and "100 times the usual" in said["grad_spikes"]


def test_a_healthy_series_and_none_at_all():
    rows = series(200)
    assert not any(firing(rows[:count]) for count in range(201))
    assert firing([{"step": step} for step in range(100)]) == {}  # figures of nothing
    assert firing([{"step": step, **dict.fromkeys(HEALTHY, "x")} for step in range(100)]) == {}


values = st.one_of(st.none(), st.floats(0, 1), st.floats(0, 1e6))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.fixed_dictionaries(dict.fromkeys(HEALTHY, values)), min_size=1, max_size=75), st.data())
def test_rules_are_functions_of_the_rows_up_to_a_step(rows, data):
    """What comes later changes nothing, nothing is changed, and rows that were written and read say the same."""
    count = data.draw(st.integers(1, len(rows)))
    untouched, found = copy.deepcopy(rows), firing(rows[:count])
    assert rows == untouched
    for row in rows[count:]:
        row.clear()
    assert firing(rows[:count]) == found
    assert firing([json.loads(json.dumps(row)) for row in rows[:count]]) == found


def test_a_window_with_under_half_of_its_figures_tells_nothing():
    rows = series(WINDOW, kl=lambda step: 4.0 if step < 5 else None)
    assert mean(rows, of("kl")) == middle(rows, of("kl")) == 4.0
    rows[0]["kl"] = None
    assert mean(rows, of("kl")) is None and middle(rows, of("kl")) is None
    assert mean(rows, of("kl"), WINDOW, back=1) is None  # nine rows


# --- runs of the embedded model that learn as they should: 100 steps each, the figures that the rules look at

RECORDED = recorded()


@pytest.mark.parametrize("name", RECORDED)
def test_no_rule_holds_in_a_run_that_learns(name):
    rows = RECORDED[name]
    assert len(rows) == 100 and rows[-1]["accuracy"] > 0.8 > 0.5 > rows[0]["accuracy"]
    assert not any(firing(rows[:count]) for count in range(101))


def test_several_methods_are_recorded():
    assert {"grpo", "dr_grpo", "rloo", "dapo", "gspo", "cispo"} <= set(RECORDED)
