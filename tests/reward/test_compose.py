"""The reward: named parts, weights, truncation, and a user's own function with everything that it can do wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grpo_runner.errors import InputError, NonFiniteError
from grpo_runner.reward import check
from grpo_runner.reward.compose import RewardOf, build
from grpo_runner.types import Completion, Finish, Group, Question, Reward
from tests.helpers import reward_config as config

BUDGET = 16


def group(name: str, gold: str, *texts: str, finish: Finish = Finish.EOS) -> Group:
    completions = tuple(Completion((1,), text, (-0.5,), finish) for text in texts)
    return Group(Question(name, f"question {name}", gold), (1, 2), completions)


GROUPS = [
    group("q1", "4", r"\boxed{4}", "The answer is 4.", r"\boxed{5}"),
    group("q2", "7", r"\boxed{7}", "no", finish=Finish.LENGTH),
]


def rewards(reward_of: RewardOf, groups: list[Group] = GROUPS) -> list[list[Reward]]:
    return reward_of(groups, [[check(c.text, one.question.gold) for c in one.completions] for one in groups])


def totals(found: list[list[Reward]]) -> list[list[float | None]]:
    return [[reward.total for reward in row] for row in found]


def test_correct_is_the_verdict_and_a_truncated_answer_has_none() -> None:
    assert totals(rewards(build(config(), BUDGET))) == [[1.0, 1.0, 0.0], [0.0, 0.0]]
    assert totals(rewards(build(config(truncated="keep"), BUDGET))) == [[1.0, 1.0, 0.0], [1.0, 0.0]]


def of_lengths(*lengths: int) -> Group:
    """Right answers of so many tokens; those that fill a budget of 10 are cut off."""
    answers = tuple(
        Completion((1,) * n, r"\boxed{4}", (-0.5,) * n, Finish.LENGTH if n == 10 else Finish.EOS) for n in lengths
    )
    return Group(Question("q", "question", "4"), (1, 2), answers)


def test_soft_takes_off_what_dapo_takes_off() -> None:
    """Eq. 13 by hand, budget 10, buffer 4: nothing up to 6 tokens, then a quarter a token, 1 at the budget."""
    reward_of = build(config(parts={"correct": 2.0}, truncated="soft", overlong_buffer=4), 10)
    [found] = rewards(reward_of, [of_lengths(1, 6, 7, 8, 9, 10)])
    assert [reward.parts["overlong"] for reward in found] == [0.0, 0.0, -0.25, -0.5, -0.75, -1.0]
    assert [reward.parts["correct"] for reward in found] == [1.0] * 6  # apart, and kept by the one that is cut off
    assert [reward.total for reward in found] == [2.0, 2.0, 1.75, 1.5, 1.25, 1.0]


def test_soft_over_the_whole_budget_and_over_its_last_token() -> None:
    for buffer, expected in ((10, [-0.1, -0.5, -1.0]), (1, [0.0, 0.0, -1.0]), (None, [0.0, 0.0, -1.0])):
        [found] = rewards(build(config(truncated="soft", overlong_buffer=buffer), 10), [of_lengths(1, 5, 10)])
        assert [reward.parts["overlong"] for reward in found] == pytest.approx(expected)
    # left to the budget: a fifth of it, DAPO's 4096 of 20480
    [found] = rewards(build(config(truncated="soft"), 20480), [of_lengths(16384, 18432, 20480)])
    assert [reward.parts["overlong"] for reward in found] == [0.0, -0.5, -1.0]


@pytest.mark.parametrize(("truncated", "last"), [("zero", 0.0), ("keep", 1.0), ("mask", 1.0)])
def test_without_soft_there_is_no_penalty(truncated: str, last: float) -> None:
    """mask keeps the reward: what it leaves out is the update."""
    [found] = rewards(build(config(truncated=truncated), 10), [of_lengths(9, 10)])
    assert [reward.total for reward in found] == [1.0, last]
    assert all(set(reward.parts) == {"correct"} for reward in found)


def test_the_penalty_is_for_wrong_and_unscored_answers_too(own: str) -> None:
    reward_of = build(config(parts={"function": 1.0}, function=f"{own}:mixed", truncated="soft", overlong_buffer=4), 10)
    [found] = rewards(reward_of, [of_lengths(10, 10, 8)])
    assert [reward.parts["overlong"] for reward in found] == [-1.0, -1.0, -0.5]
    assert [reward.total for reward in found] == [-0.5, None, 0.5]


def test_parts_are_weighted_and_kept_apart() -> None:
    found = rewards(build(config(parts={"correct": 1.0, "format": 0.1}), BUDGET))
    assert [dict(reward.parts) for reward in found[0]] == [
        {"correct": 1.0, "format": 1.0}, {"correct": 1.0, "format": 0.0}, {"correct": 0.0, "format": 1.0},
    ]  # fmt: skip
    assert totals(found)[0] == pytest.approx([1.1, 1.0, 0.1])
    assert totals(found)[1] == pytest.approx([0.1, 0.0])


def test_format_under_answer_tag_wants_the_tags() -> None:
    groups = [group("q", "4", "so</think> <answer>4</answer>", r"\boxed{4}", "so</think><answer>4</answer>")]
    found = rewards(build(config(parts={"format": 1.0}, extract="answer_tag"), BUDGET), groups)
    assert totals(found) == [[1.0, 0.0, 0.0]]


def test_PB068_correctness_is_apart_from_the_reward() -> None:
    reward_of = build(config(parts={"correct": 2.0, "format": -0.5}), BUDGET)
    verdicts = [[check(c.text, one.question.gold) for c in one.completions] for one in GROUPS]
    found = reward_of(GROUPS, verdicts)
    assert totals(found) == [[1.5, 2.0, -0.5], [-0.5, 0.0]]
    assert [[v.correct for v in row] for row in verdicts] == [[True, True, False], [True, False]]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A user's module in the folder where the run starts."""
    (tmp_path / "own_rewards.py").write_text(
        "calls = []\n"
        "def short(questions, golds, completions):\n"
        "    calls.append((questions, golds, completions))\n"
        "    return [1 / (1 + len(text)) for text in completions]\n"
        "def too_few(**rows): return [0.0] * (len(rows['golds']) - 1)\n"
        "def none(**rows): return [None] * len(rows['golds'])\n"
        "def mixed(**rows): return [0.5, None, 1.0, None, 0][: len(rows['golds'])]\n"
        "def mixed_nan(**rows): return [None, float('nan')] + [0.0] * (len(rows['golds']) - 2)\n"
        "def nan(**rows): return [0.0] * (len(rows['golds']) - 1) + [float('nan')]\n"
        "def infinite(**rows): return [float('inf')] * len(rows['golds'])\n"
        "def nothing(**rows): return None\n"
        "def raises(**rows): return 1 / 0\n"
        "import sys\n"
        "def exits(**rows): sys.exit(0)\n"
        "def interrupted(**rows): raise KeyboardInterrupt\n"
        "def generated(**rows): yield from range(len(rows['golds']))\n"
        "def breaks(**rows):\n"
        "    yield 1.0\n"
        "    raise TypeError('halfway')\n"
        "def huge_int(**rows): return [0.0] * 3 + [10**400] * 2\n"
        "def huge(**rows): return [0.0] * 3 + [-1e101] * 2\n"
        "def large(**rows): return [0.0] * 3 + [1e12] * 2\n"
        "def mapping(**rows): return dict.fromkeys(range(len(rows['golds'])), 1.0)\n"
        "def text(**rows): return '1' * len(rows['golds'])\n"
        "number = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield "own_rewards"
    sys.modules.pop("own_rewards", None)


def with_function(name: str) -> RewardOf:
    return build(config(parts={"function": 1.0}, function=name), BUDGET)


def test_a_users_function_is_called_once_with_every_completion(own: str) -> None:
    found = rewards(with_function(f"{own}:short"))
    questions, golds, completions = sys.modules[own].calls[0]
    assert len(sys.modules[own].calls) == 1
    assert golds == ["4", "4", "4", "7", "7"]
    assert questions == ["question q1"] * 3 + ["question q2"] * 2
    assert completions[4] == "no"
    assert found[1][1].parts == {"function": pytest.approx(1 / 3)}


def test_PB067_wrong_count_names_the_function_and_both_counts(own: str) -> None:
    with pytest.raises(InputError, match=r"own_rewards:too_few returned 4 values for 5 completions"):
        rewards(with_function(f"{own}:too_few"))


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("mixed_nan", NonFiniteError, 'own_rewards:mixed_nan returned nan for question "q1"'),
        ("nan", NonFiniteError, 'own_rewards:nan returned nan for question "q2"'),
        ("infinite", NonFiniteError, 'own_rewards:infinite returned inf for question "q1"'),
        ("nothing", InputError, "own_rewards:nothing must return"),
        ("mapping", InputError, "own_rewards:mapping must return"),
        ("text", InputError, "own_rewards:text must return"),
        ("raises", InputError, r"own_rewards:raises raised ZeroDivisionError[\s\S]*own_rewards.py, line 12"),
        ("exits", InputError, r"own_rewards:exits raised SystemExit: 0\n\(.*own_rewards.py, line 14"),
        ("breaks", InputError, r"own_rewards:breaks raised TypeError: halfway\n\(.*own_rewards.py, line 19"),
        ("huge_int", NonFiniteError, 'own_rewards:huge_int returned inf for question "q2"'),
        ("huge", NonFiniteError, r'own_rewards:huge returned -1e\+101 for question "q2"; a reward is at most 1e\+15'),
    ],
)
def test_bad_values(own: str, name: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        rewards(with_function(f"{own}:{name}"))


def test_none_is_no_reward_and_no_zero(own: str) -> None:
    assert totals(rewards(with_function(f"{own}:none"))) == [[None] * 3, [None] * 2]
    found = rewards(with_function(f"{own}:mixed"))
    assert totals(found) == [[0.5, None, 1.0], [None, 0.0]]
    assert found[0][1].parts == {"function": None}


def test_a_part_without_a_value_leaves_the_whole_without_one(own: str) -> None:
    reward_of = build(config(parts={"correct": 1.0, "function": 0.1}, function=f"{own}:mixed"), BUDGET)
    found = rewards(reward_of)
    assert totals(found) == [[1.05, None, pytest.approx(0.1)], [None, 0.0]]
    assert found[0][1].parts == {"correct": 1.0, "function": None}  # what is known is kept


def test_ctrl_c_in_a_users_function_passes_through(own: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        rewards(with_function(f"{own}:interrupted"))


def test_a_generator_is_listed(own: str) -> None:
    assert totals(rewards(with_function(f"{own}:generated"))) == [[0.0, 1.0, 2.0], [3.0, 4.0]]


def test_an_exit_at_import_is_an_error(own: str, tmp_path: Path) -> None:
    (tmp_path / "own_exit.py").write_text("raise SystemExit(0)\n")
    with pytest.raises(InputError, match="cannot import own_exit: SystemExit: 0"):
        with_function("own_exit:f")


@pytest.mark.parametrize(
    "parts",
    [
        {"correct": 1e308, "format": 1e308},  # the sum overflows
        {"correct": 1e308, "format": -1e308, "function": 1e308},  # so does a product, to inf
        {"format": -1e101},
    ],
)
def test_a_sum_too_large_names_the_question(own: str, parts: dict[str, float]) -> None:
    function = f"{own}:large" if "function" in parts else None
    groups = [group("fine", "4", "no", "no", "no"), group("bad", "4", r"\boxed{4}", r"\boxed{4}")]
    with pytest.raises(NonFiniteError, match=r'parts for question "bad" is .*; a reward is at most 1e\+15'):
        rewards(build(config(parts=parts, function=function), BUDGET), groups)


def test_large_rewards_within_the_limit_are_kept(own: str) -> None:
    assert totals(rewards(with_function(f"{own}:large")))[1] == [1e12, 1e12]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("own_rewards:shrt", 'has no "shrt". Did you mean "short"'),
        ("own_rewards:number", "is int, not a function"),
        ("no_such_module:f", "cannot import no_such_module"),
        ("own_rewards.short", "Write it as package.module:name"),
    ],
)
def test_what_cannot_be_imported_is_said_when_the_run_is_built(own: str, path: str, message: str) -> None:
    with pytest.raises(InputError, match=r"reward\.function") as caught:
        with_function(path)
    assert message in str(caught.value)


def test_an_unknown_part_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r'no part "corect". Did you mean "correct"'):
        build(config(parts={"corect": 1.0}), BUDGET)
