r"""Countdown answers: what solves a task and what does not, with the ways in which a checker that evaluates is fooled."""

from __future__ import annotations

import pytest

from grpo_runner.errors import InputError
from grpo_runner.reward import Policy, check, countdown, unreadable
from grpo_runner.reward.compose import build
from grpo_runner.reward.rules import in_words
from grpo_runner.schema import RewardConfig
from grpo_runner.types import Completion, Finish, Group, Question, Status
from tests.helpers import reward_config

TASK = "65 from 19 36 55 7"
SOLVED = [
    (TASK, "55+36-19-7"),
    (TASK, " ( 55 + 36 ) - (19 + 7) "),
    (TASK, "55 + 36 - 19 - 7 = 65"),
    (TASK, "$55+36-19-7=65$"),
    (TASK, "-7-19+55+36"),
    (TASK, "(-7)+55+36-19"),
    (TASK, r"\left(55+36\right) - 19 - 7"),
    (TASK, "55 + 36 − 19 − 7"),
    (TASK, "((((55))))+36-(19+(7))"),
    ("24 from 8 3 8 3", "8/(3-8/3)"),  # through a fraction
    ("2 from 8 4 3 3", r"8 \div 4 \times 3 / 3"),
    ("2 from 8 4 3 3", "8÷4×3/3"),
    ("49 from 7 7", r"7 \cdot 7"),
    ("5 from 5 0", "5+0"),
    ("0 from 5 5", "5-5"),
]
WRONG = {
    countdown.OTHER_NUMBERS: [
        (TASK, "65"),  # the target alone
        (TASK, "55+36-26"),  # 19+7 joined beforehand
        (TASK, "55+36-19-7+7-7"),  # a number used again
        (TASK, "55+36-19"),  # one left out
        (TASK, "55+36-19-07"),  # 07 is not 7
        (TASK, "55+36-19-7+0"),  # one that was not given
        (TASK, "5+5+36-19-7"),  # digits of a number apart
        ("14 from 7 7", "7+(8-1)"),
        ("6 from 3 3 3", "3+3"),
    ],
    countdown.OTHER_VALUE: [
        (TASK, "19+36+55+7"),
        (TASK, "55+36-19+7"),
        (TASK, "55+36-19-7 = 66"),  # another target behind it
        (TASK, "55+36-19-7 = 065"),
        ("3 from 7 2", "7/2"),  # no rounding
        ("4 from 7 2", "7/2"),
        ("33 from 99 3 1", "99/3*1=32"),
    ],
    countdown.NO_EXPRESSION: [
        (TASK, ""),
        (TASK, "()"),
        (TASK, "(55+36-19-7"),
        (TASK, "55+36-19-7)"),
        (TASK, "55+36-19-7=65=65"),
        (TASK, "65=55+36-19-7"),
        (TASK, "55+36-19-7="),
        (TASK, "55+36-19-7.0"),
        (TASK, "5 5+36-19-7"),
        (TASK, "55 36 19 7"),
        (TASK, "55+36-19--7"),
        (TASK, "+55+36-19-7"),
        (TASK, "٥٥+36-19-7"),  # other digits, which int() reads
        (TASK, "５５+36-19-7"),
        (TASK, "55+36-19-7²"),
        (TASK, "55,36,19,7"),
        (TASK, "55+36-19-7;print(1)"),
        (TASK, "__import__('os').system('true')"),
        (TASK, "(lambda: 65)()"),
        (TASK, "65 from 19 36 55 7"),  # the gold is a task, no answer
        ("3 from 7 2", "7//2"),  # Python's operators
        ("8 from 2 3", "2**3"),
        ("8 from 2 3", "2^3"),
        ("14 from 7 2", "7(2)"),
        ("14 from 7 2", "(7)(2)"),
        ("1 from 7 2", "7%2"),
        ("1 from 2 1", "2>1"),
        (TASK, "9" * 5000),
        (TASK, "(" * 5000),
        (TASK, "(" * 90 + "55+36-19-7" + ")" * 90),
        (TASK, "55+36-19-7" + " " * 5000),
        (TASK, "9**9**9**9"),
    ],
    countdown.ZERO: [("5 from 5 0", "5/0"), ("5 from 5 3 3", "5/(3-3)"), ("0 from 0 0", "0/0")],
}


@pytest.mark.parametrize(("task", "answer"), SOLVED)
def test_solved(task, answer):
    assert countdown.solves(answer, task) == (True, countdown.RULE)


@pytest.mark.parametrize(("rule", "task", "answer"), [(rule, *pair) for rule, pairs in WRONG.items() for pair in pairs])
def test_not_solved(rule, task, answer):
    assert countdown.solves(answer, task) == (False, rule)


@pytest.mark.parametrize("gold", ["65", "65 from", "65 from 19", "x from 1 2", "65 from 1, 2", "٦٥ from 1 2", "1 2"])
def test_another_gold_is_no_task(gold):
    assert not countdown.is_task(gold)
    assert countdown.is_task(TASK) and countdown.is_task(" 65 from 1 2 ")


@pytest.mark.parametrize("equality", ["value", "string", "math_verify"])
@pytest.mark.parametrize("form", [r"So \boxed{%s}.", "<think>36 …</think>\n<answer> %s </answer>", "The answer is: %s"])
def test_the_checker_hands_tasks_over(equality, form):
    policy = Policy(equality=equality)
    right, wrong = check(form % "55+36-19-7", TASK, policy), check(form % "55+36-19+7", TASK, policy)
    assert (right.status, right.rule) == (Status.CORRECT, countdown.RULE)
    assert (wrong.status, wrong.rule) == (Status.WRONG, countdown.OTHER_VALUE)
    assert check(form % TASK, TASK, policy).status is Status.WRONG
    assert check("no answer", TASK, policy).status is Status.NO_ANSWER


def test_several_boxes_are_judged_as_ever():
    assert check(r"\boxed{55+36-19-7} or \boxed{1+1}", TASK).status is Status.AMBIGUOUS
    assert check(r"\boxed{1+1} no, \boxed{55+36-19-7}", TASK).correct


def test_words_and_readability():
    assert in_words(countdown.RULE) == "each given number is used exactly once, and the value is the target"
    assert unreadable(TASK) is None
    assert unreadable("notfound") is not None and unreadable("not found") is not None


# the part of the reward


def config(**changes: object) -> RewardConfig:
    return reward_config(**{"parts": {"countdown": 0.9, "format": 0.1}, **changes})


def group(gold: str, *texts: str, finish: Finish = Finish.EOS) -> Group:
    answers = tuple(Completion((1,), text, (-0.5,), finish) for text in texts)
    return Group(Question("q", "question", gold), (1, 2), answers)


def totals(groups: list[Group], settings: RewardConfig) -> list[list[float | None]]:
    verdicts = [[check(answer.text, one.question.gold) for answer in one.completions] for one in groups]
    return [[reward.total for reward in row] for row in build(settings, 16)(groups, verdicts)]


def test_the_part_is_1_for_a_solution_and_format_is_apart():
    """TinyZero's 1, 0.1 and 0."""
    groups = [group(TASK, r"\boxed{55+36-19-7}", r"\boxed{55+36}", "nothing")]
    assert totals(groups, config()) == [[1.0, 0.1, 0.0]]


def test_a_truncated_solution_is_treated_as_a_truncated_right_answer():
    cut = [group(TASK, r"\boxed{55+36-19-7}", finish=Finish.LENGTH)]
    only = {"parts": {"countdown": 1.0}}
    assert totals(cut, config(**only)) == [[0.0]] and totals(cut, config(**only, truncated="keep")) == [[1.0]]


def test_the_part_refuses_other_golds():
    with pytest.raises(InputError, match='question "q" is no Countdown task') as error:
        totals([group("65", r"\boxed{65}")], config())
    assert len(str(error.value).splitlines()) <= 5
