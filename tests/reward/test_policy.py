"""The keys of a policy: what each value changes, the presets of others, several golds, and that config and code agree."""

from __future__ import annotations

import typing
from dataclasses import fields
from pathlib import Path

import pytest

from grpo_runner import checks
from grpo_runner.config import compose
from grpo_runner.errors import InputError
from grpo_runner.reward import Grader, Policy, check, policy_of, unreadable
from grpo_runner.reward.policy import CHOICES
from grpo_runner.reward.rules import in_words
from grpo_runner.schema import RewardConfig
from grpo_runner.types import Status
from grpo_runner.validate import LATER

# (what the policy changes, response, gold, right by default, right under the policy)
ROWS = [
    ({"extract": "box"}, "The answer is 7.", "7", True, False),
    ({"extract": "hash"}, "so\n#### 1,800", "1800", True, True),
    ({"extract": "hash"}, r"\boxed{7}", "7", True, False),
    ({"extract": "hash"}, "#### 7" + " and so on" * 40, "7", True, False),  # too far from the end
    ({"extract": "hash"}, "####7", "7", True, False),
    ({"extract": "whole"}, "7", "7", False, True),
    ({"extract": "whole"}, "7 apples", "7", False, True),
    ({"extract": "answer_tag"}, "<think>a</think> <answer>7</answer>", "7", True, True),
    ({"extract": "answer_tag"}, "<think>a</think><answer>7</answer>", "7", True, False),  # one space is wanted
    ({"boxes": "last"}, r"\boxed{3} or \boxed{4}", "4", False, True),
    ({"boxes": "first"}, r"\boxed{3}, then \boxed{4}, so the sum is \boxed{7}", "3", False, True),
    ({"boxes": "only"}, r"First \boxed{3}. Therefore \boxed{4}.", "4", True, False),
    ({"boxes": "only"}, r"First \boxed{4}. Again, \boxed{4}.", "4", True, True),
    ({"equality": "string"}, r"\boxed{0.5}", r"\frac12", True, False),
    ({"equality": "string"}, r"\boxed{ \frac12 }", r"\frac12", True, True),
    ({"units": "ignored"}, r"\boxed{5\text{ cm}}", r"5\text{ m}", False, True),
    ({"units": "required"}, r"\boxed{5}", r"5\text{ m}", True, False),
    ({"units": "required"}, r"\boxed{500\text{ cm}}", r"5\text{ m}", True, True),
    ({"units": "required"}, r"\boxed{5\text{ m}}", "5", True, True),
    ({"percent": "strict"}, r"\boxed{50}", r"50\%", True, False),
    ({"percent": "strict"}, r"\boxed{50\%}", "0.5", True, True),
    ({"percent": "any_scale"}, r"\boxed{50}", "0.5", False, True),
    ({"percent": "any_scale"}, r"\boxed{51}", "0.5", False, False),
    ({"decimal_tolerance": 0.0}, r"\boxed{3.14159}", "3.1416", True, False),
    ({"decimal_tolerance": 0.0}, r"\boxed{3.1416}", "3.1416", True, True),
    ({"decimal_tolerance": 0.01}, r"\boxed{3.144}", "3.14", False, True),
    ({"rounded_golds": False}, r"\boxed{\frac13}", "0.33", True, False),
    ({"rounded_golds": False}, r"\boxed{\sqrt2}", "1.414", True, False),
    ({"numeric_tolerance": 0.01}, r"\boxed{1005}", "1000", False, True),
    ({"numeric_tolerance": 0.01}, r"\boxed{1011}", "1000", False, False),
    ({"numeric_tolerance": 0.01}, r"\boxed{3.14}", r"\pi", False, True),
    ({"numeric_tolerance": 0.01}, r"\boxed{1.01x}", "x", False, False),
    ({"letters": "alone"}, r"\boxed{\text{(B) }12\text{ cm}}", "B", True, False),
    ({"letters": "alone"}, r"\boxed{\text{(B)}}", "B", True, True),
    ({"lists": "ordered"}, r"\boxed{2,1}", "1,2", True, False),
    ({"lists": "ordered"}, r"\boxed{\{1,2\}}", "1,2", True, True),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "response", "gold", "by_default", "under"), ROWS)
def test_what_a_value_changes(
    changes: dict[str, typing.Any], response: str, gold: str, by_default: bool, under: bool
) -> None:
    assert check(response, gold).correct is by_default
    assert check(response, gold, Policy(**changes)).correct is under


def test_every_value_of_every_key_is_seen_to_change_a_verdict() -> None:
    changed = {pair for changes, _, _, before, after in ROWS if before != after for pair in changes.items()}
    others = {(name, value) for name, values in CHOICES.items() for value in values} - {
        (field.name, field.default) for field in fields(Policy)
    }
    elsewhere = {("equality", "math_verify"), ("several_golds", "all")}  # their own tests, below
    assert others - elsewhere <= changed
    assert {"decimal_tolerance", "rounded_golds", "numeric_tolerance"} <= {name for name, _ in changed}


@pytest.mark.parametrize(
    ("response", "golds", "under_any", "under_all"),
    [
        (r"\boxed{2}", ("1", "2"), Status.CORRECT, Status.WRONG),
        (r"\boxed{2,1}", ("1", "2"), Status.AMBIGUOUS, Status.CORRECT),
        (r"\boxed{3}", ("1", "2"), Status.WRONG, Status.WRONG),
        (r"\boxed{(1,2), 1000}", ("1,000", "(1,2)"), Status.AMBIGUOUS, Status.CORRECT),
        (r"\boxed{\sqrt8}", ("1", r"2\sqrt2"), Status.CORRECT, Status.WRONG),
        (r"\boxed{\sqrt8, 1}", ("1", r"2\sqrt2"), Status.AMBIGUOUS, Status.CORRECT),
        (r"\boxed{1}", ("1",), Status.CORRECT, Status.CORRECT),
    ],
)
def test_several_golds(response: str, golds: tuple[str, ...], under_any: Status, under_all: Status) -> None:
    assert check(response, golds).status is under_any
    assert check(response, list(golds), Policy(several_golds="all")).status is under_all


def test_golds_may_be_numbers_and_nothing_else() -> None:
    assert check(r"\boxed{5}", 5).correct and check(r"\boxed{0.5}", [1, 0.5]).correct
    for gold in (None, True, [None], {"5": 1}, b"5"):
        with pytest.raises(TypeError, match="a gold is a text, a number, or a list of those, not"):
            check(r"\boxed{5}", gold)  # type: ignore[arg-type]


def test_unreadable_takes_the_golds_that_check_takes() -> None:
    assert unreadable(4) is None and unreadable(["4", 0.5]) is None
    assert unreadable(["4", "see figure"]) and unreadable([]) and unreadable(None)  # type: ignore[arg-type]


def test_no_gold_or_an_unreadable_one_among_several_is_an_error() -> None:
    assert check(r"\boxed{1}", ()).status is Status.ERROR
    verdict = check(r"\boxed{1}", ("1", "see figure"))
    assert verdict.status is Status.ERROR and "unreadable gold" in verdict.rule


@pytest.mark.parametrize(
    ("response", "gold", "status"),
    [
        (r"\boxed{42\text{ or }43}", "42", Status.AMBIGUOUS),
        (r"\boxed{\{41,42,43\}}", "42", Status.AMBIGUOUS),
        (r"\boxed{[40,50]}", "42", Status.AMBIGUOUS),
        (r"\boxed{x>3}", "5", Status.AMBIGUOUS),
        (r"\boxed{\pm3}", "3", Status.AMBIGUOUS),
        (r"\boxed{3} or \boxed{4}", "3", Status.AMBIGUOUS),
        (r"\boxed{[50,60]}", "42", Status.WRONG),
        (r"\boxed{(50,42)}", "42", Status.WRONG),  # a pair is no offer of two answers
        (r"\boxed{1,2}", "1,2,3", Status.WRONG),
        (r"\boxed{1,000}", "1", Status.WRONG),
    ],
)
def test_ambiguous_is_the_gold_among_others(response: str, gold: str, status: Status) -> None:
    assert check(response, gold).status is status


def test_math_verify_as_it_is() -> None:
    """CHECKER.md's own examples: it takes a hedge, and no degree sign; ours does the contrary."""
    policy = policy_of(compose(["reward=math_verify"]).reward)
    pairs = [(r"$\boxed{\frac12}$", "0.5"), (r"\boxed{41 % 42}", "42"), (r"\boxed{45°}", "45"), (r"\boxed{1}", "2")]
    with Grader(workers=1, deadline_s=20.0, policy=policy) as grader:
        verdicts = grader.grade(pairs)
    assert [verdict.correct for verdict in verdicts] == [True, True, False, False]
    assert [check(*pair).correct for pair in pairs] == [True, False, True, False]
    assert verdicts[0].rule == "math-verify with algebra"


@pytest.mark.parametrize(
    ("preset", "response", "gold", "right"),
    [
        ("boxed_strict", r"so \boxed{\frac12}", r"\frac12", True),
        ("boxed_strict", r"so \boxed{\dfrac12}", r"\frac12", False),
        ("boxed_strict", r"\boxed{1} or \boxed{2}", "2", True),
        ("r1_answer_tag", r"x</think> <answer>\boxed{\dfrac12}</answer>", "0.5", True),
        ("r1_answer_tag", r"x</think>  <answer>\boxed{\dfrac12}</answer>", "0.5", False),
        ("gsm8k_hash", "so\n#### 1,200", "1,200", True),
        ("gsm8k_hash", "so\n#### $18", "18", False),  # verl's pattern stops at the sign
        ("gsm8k_hash", "so\n#### 18.0", "18", False),
        ("gsm8k_hash", "#### 17\nno\n#### 18", "18", True),
        ("math_answer", "so\n#### 18.0", "18", True),
    ],
)
def test_presets(preset: str, response: str, gold: str, right: bool) -> None:
    assert check(response, gold, policy_of(compose([f"reward={preset}"]).reward)).correct is right


def test_config_schema_and_code_have_the_same_keys_values_and_defaults() -> None:
    hints = typing.get_type_hints(RewardConfig)
    for name, values in CHOICES.items():
        assert typing.get_args(hints[name]) == values
    default = compose([]).reward
    assert policy_of(default) == Policy()
    for field in fields(Policy):
        if field.name != "extract":  # older than the others
            assert LATER[f"reward.{field.name}"] == field.default


def test_a_key_that_changes_nothing_is_refused() -> None:
    with pytest.raises(InputError, match=r"reward\.units=ignored changes nothing beside reward\.equality=string"):
        checks.check(compose(["reward=boxed_strict", "reward.units=ignored"]))
    with pytest.raises(InputError, match=r"reward\.boxes=last changes nothing beside reward\.extract=hash"):
        checks.check(compose(["reward=gsm8k_hash", "reward.boxes=last"]))


@pytest.mark.parametrize("bad", [{"boxes": "any"}, {"numeric_tolerance": 1.0}, {"decimal_tolerance": -0.1}])
def test_a_value_that_is_not_allowed_is_named(bad: dict[str, typing.Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        Policy(**bad)


def test_every_rule_has_words(tmp_path: Path) -> None:
    rules = {check(response, gold).rule for _, response, gold, _, _ in ROWS}
    assert all(in_words(rule) != rule for rule in rules), rules
    assert in_words("value with algebra").endswith(", by computer algebra")
    assert in_words("refused: longer than 1500 characters") == "refused: longer than 1500 characters"
