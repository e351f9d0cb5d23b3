"""The reward: named parts, weights, truncation, and a user's own function with everything that it can do wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grpo_runner.errors import InputError, NonFiniteError
from grpo_runner.reward import check
from grpo_runner.reward.compose import RewardOf, build
from grpo_runner.schema import RewardConfig
from grpo_runner.types import Completion, Finish, Group, Question, Reward


BUDGET = 16


def config(**changes: object) -> RewardConfig:
    values: dict[str, object] = {
        "parts": {"correct": 1.0}, "function": None, "extract": "box_or_marker", "truncated": "zero", "deadline_s": 5.0,
        "workers": 1, "overlong_buffer": None,
    }  # fmt: skip
    return RewardConfig(**(values | changes))  # type: ignore[arg-type]


def group(name: str, gold: str, *texts: str, finish: Finish = Finish.EOS) -> Group:
    completions = tuple(Completion((1,), text, (-0.5,), finish) for text in texts)
    return Group(Question(name, f"question {name}", gold), (1, 2), completions)


GROUPS = [
    group("q1", "4", r"\boxed{4}", "The answer is 4.", r"\boxed{5}"),
    group("q2", "7", r"\boxed{7}", "no", finish=Finish.LENGTH),
]


def rewards(reward_of: RewardOf, groups: list[Group] = GROUPS) -> list[list[Reward]]:
    return reward_of(groups, [[check(c.text, one.question.gold) for c in one.completions] for one in groups])


def totals(found: list[list[Reward]]) -> list[list[float]]:
    return [[reward.total for reward in row] for row in found]


def test_correct_is_the_verdict_and_a_truncated_answer_has_none() -> None:
    assert totals(rewards(build(config(), BUDGET))) == [[1.0, 1.0, 0.0], [0.0, 0.0]]
    assert totals(rewards(build(config(truncated="keep"), BUDGET))) == [[1.0, 1.0, 0.0], [1.0, 0.0]]


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
        "def large(**rows): return [0.0] * 3 + [1e20] * 2\n"
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
        ("none", InputError, 'own_rewards:none returned None for question "q1"'),
        ("nan", NonFiniteError, 'own_rewards:nan returned nan for question "q2"'),
        ("infinite", NonFiniteError, 'own_rewards:infinite returned inf for question "q1"'),
        ("nothing", InputError, "own_rewards:nothing must return"),
        ("mapping", InputError, "own_rewards:mapping must return"),
        ("text", InputError, "own_rewards:text must return"),
        ("raises", InputError, r"own_rewards:raises raised ZeroDivisionError[\s\S]*own_rewards.py, line 10"),
        ("exits", InputError, r"own_rewards:exits raised SystemExit: 0\n\(.*own_rewards.py, line 12"),
        ("breaks", InputError, r"own_rewards:breaks raised TypeError: halfway\n\(.*own_rewards.py, line 17"),
        ("huge_int", NonFiniteError, 'own_rewards:huge_int returned inf for question "q2"'),
        ("huge", NonFiniteError, r'own_rewards:huge returned -1e\+101 for question "q2"; a reward is at most 1e\+30'),
    ],
)
def test_bad_values(own: str, name: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        rewards(with_function(f"{own}:{name}"))


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
    with pytest.raises(NonFiniteError, match=r'parts for question "bad" is .*; a reward is at most 1e\+30'):
        rewards(build(config(parts=parts, function=function), BUDGET), groups)


def test_large_rewards_within_the_limit_are_kept(own: str) -> None:
    assert totals(rewards(with_function(f"{own}:large")))[1] == [1e20, 1e20]


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
