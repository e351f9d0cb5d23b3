"""pass@k and evaluation metrics, worked out by counting."""

from __future__ import annotations

from itertools import combinations

import pytest

from grpo_runner.evaluation import pass_at_k
from grpo_runner.evaluation.evaluate import summarise
from grpo_runner.types import Completion, Finish, Group, Question, Status, Verdict


@pytest.mark.parametrize("samples", [1, 4, 7])
def test_pass_at_k_is_the_share_of_subsets_with_a_right_answer(samples):
    for successes in range(samples + 1):
        answers = [True] * successes + [False] * (samples - successes)
        for k in range(1, samples + 1):
            subsets = list(combinations(answers, k))
            assert pass_at_k(successes, samples, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


def test_pb073_groups_of_two_questions_scored_once_each():
    def group(name, *lengths):
        completions = tuple(
            Completion(tuple(range(n)), "", (), Finish.LENGTH if n == 9 else Finish.EOS) for n in lengths
        )
        return Group(Question(name, name, "1"), (1,), completions)

    right, wrong, none = Verdict(Status.CORRECT), Verdict(Status.WRONG), Verdict(Status.NO_ANSWER)
    found = summarise(
        [group("a", 3, 5), group("b", 9, 3), group("c", 1, 1)], [[right, wrong], [right, right], [wrong, none]]
    )
    assert found["accuracy"] == pytest.approx(3 / 6)
    assert found["pass@2"] == pytest.approx(2 / 3)
    assert found["length_mean"] == pytest.approx(22 / 6)
    assert found["truncated"] == pytest.approx(1 / 6) and found["no_answer"] == pytest.approx(1 / 6)
    assert "pass@1" not in summarise([group("a", 3)], [[right]])
