"""Made-up Countdown tasks: solvable, in range, disjoint splits, and the same ones for the same seed."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import combinations

import pytest

from grpo_runner.data import countdown
from grpo_runner.errors import InputError
from grpo_runner.reward.countdown import is_task

TEXT = re.compile(r"Using the numbers \[(\d+(?:, \d+){2,3})\], create an equation that equals (\d+)\.")


def read(question) -> tuple[list[int], int]:
    """Numbers and target from the question's text alone."""
    found = TEXT.fullmatch(question.text)
    assert found, question.text
    return [int(number) for number in found[1].split(", ")], int(found[2])


def reachable(values: list[Fraction], target: int) -> bool:
    """Whether some order of joining two values at a time gives the target: all of them, by brute force."""
    if len(values) == 1:
        return values[0] == target
    for i, j in combinations(range(len(values)), 2):
        rest = [value for place, value in enumerate(values) if place not in (i, j)]
        a, b = values[i], values[j]
        joined = [a + b, a - b, b - a, a * b, *([a / b] if b else []), *([b / a] if a else [])]
        if any(reachable([*rest, value], target) for value in joined):
            return True
    return False


@pytest.mark.parametrize("split", ["train", "eval"])
def test_every_task_can_be_solved(split):
    for question in countdown.questions(split, 3, 40):
        numbers, target = read(question)
        assert all(1 <= number <= 99 for number in numbers) and 10 <= target <= 99
        assert reachable([Fraction(number) for number in numbers], target), question.text


def test_the_brute_force_finds_what_cannot_be_solved():
    """Negative control: 1, 1 and 1 reach 3 at most."""
    assert not reachable([Fraction(1)] * 3, 50) and reachable([Fraction(1)] * 3, 3)


def test_text_gold_and_id_say_the_same():
    question = countdown.question([19, 36, 55, 7], 65)
    assert question.text == "Using the numbers [19, 36, 55, 7], create an equation that equals 65."
    assert (question.gold, question.id) == ("65 from 19 36 55 7", "countdown/19-36-55-7-to-65")
    for question in countdown.questions("train", 0, 200):
        numbers, target = read(question)
        assert question.gold == f"{target} from {' '.join(map(str, numbers))}" and is_task(question.gold)


def test_splits_are_disjoint_whatever_the_seed_and_the_order():
    def told(split):
        tasks = [read(question) for seed in range(4) for question in countdown.questions(split, seed, 1500)]
        return {(target, *sorted(numbers)) for numbers, target in tasks}

    train, held_out = told("train"), told("eval")
    assert not train & held_out
    assert len(train) > 5900 and len(held_out) > 5900  # hardly a task twice in 6,000
    assert countdown.split_of([1, 2, 3], 10) == countdown.split_of([3, 1, 2], 10)


def test_one_task_in_eight_is_held_out():
    tasks = [(a, b, c) for a in range(1, 30) for b in range(a, 30) for c in range(b, 30)]
    share = sum(countdown.split_of(task, 24) == "eval" for task in tasks) / len(tasks)
    assert share == pytest.approx(1 / 8, abs=0.02)


def test_a_function_of_the_seed():
    first = countdown.questions("train", 0, 3000)
    assert first == countdown.questions("train", 0, 3000)
    assert first[:50] == countdown.questions("train", 0, 50)
    assert not set(first[:500]) & set(countdown.questions("train", 1, 500))
    assert len({question.id for question in first}) == len({question.text for question in first}) == 3000


def test_three_and_four_numbers_all_operations_and_targets_come_up():
    tasks = [read(question) for question in countdown.questions("train", 0, 3000)]
    three = sum(len(numbers) == 3 for numbers, _ in tasks) / len(tasks)
    assert 0.45 < three < 0.55
    assert {target for _, target in tasks} == set(range(10, 100))
    assert {number for numbers, _ in tasks for number in numbers} == set(range(1, 100))


@pytest.mark.parametrize(("split", "count"), [("train", 400_001), ("eval", 10_001), ("train", -1), ("tain", 1)])
def test_what_cannot_be_made(split, count):
    with pytest.raises(InputError):
        countdown.questions(split, 0, count)
