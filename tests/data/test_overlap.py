"""Questions that are trained on and evaluated on: the counts against a brute force, the rule at its edges, real sets."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from grpo_runner.data import overlap
from grpo_runner.data.overlap import overlaps, plain, warnings
from grpo_runner.types import Question

SHARED = Path(__file__).parents[3] / "shared" / "data"
TWELVE = "one two three four five six seven eight nine ten eleven twelve"


def made(*texts: str, name: str = "q") -> tuple[Question, ...]:
    return tuple(Question(f"{name}/{i}", text, "1") for i, text in enumerate(texts))


def counts(train, held_out) -> tuple[int, int, int]:
    (found,) = overlaps(train, {"set": held_out})
    return len(found.same), len(found.close), len(found.some)


def eights(text: str) -> set[tuple[str, ...]]:
    words = text.split()
    return {tuple(words[start : start + 8]) for start in range(len(words) - 7)}


def by_hand(train, held_out) -> dict[str, tuple[str, float]]:
    """{id: (kind, share)} from all pairs, for texts of plain words."""
    found = {}
    for question in held_out:
        own = eights(question.text)
        share = max((len(own & eights(other.text)) / len(own) for other in train if own), default=0.0)
        if question.text in {other.text for other in train}:
            found[question.id] = ("same", 1.0)
        elif share:
            found[question.id] = ("close" if share >= 0.5 else "some", share)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_as_a_brute_force_over_all_pairs(seed):
    draw = np.random.default_rng(seed)
    words = [f"w{i}" for i in range(400)]
    texts = [" ".join(draw.choice(words, size=draw.integers(3, 30))) for _ in range(60)]
    train = made(*texts[:40], name="t")
    mixed = []
    for text in texts[20:]:  # half from training: whole, cut, or with other words at one end
        pieces = text.split()
        cut = int(draw.integers(0, len(pieces) + 1))
        mixed.append(" ".join(pieces[:cut] + list(draw.choice(words, size=draw.integers(0, 9)))) or "w0")
    held_out = made(*mixed, *texts[30:34], name="e")
    (found,) = overlaps(train, {"set": held_out})
    kinds = {"same": found.same, "close": found.close, "some": found.some}
    told = {match.question.id: (kind, match.share) for kind, matches in kinds.items() for match in matches}
    assert told == by_hand(train, held_out)
    assert {kind for kind, _ in told.values()} >= {"same"} and found.questions == len(held_out)


def test_the_same_text_but_for_space_case_and_marks():
    train = made("What is  $1+1$?", "“Tom’s” cats")
    assert counts(train, made("what is 1+1")) == (1, 0, 0)
    assert counts(train, made('"Tom\'s" CATS.', "What is\n1+1 ?")) == (2, 0, 0)
    assert counts(train, made("What is 1-1?", "What is 1+12?", "Tom's bats")) == (0, 0, 0)
    assert plain("f'(2)") != plain("f(2)") and plain("−1") == plain("-1") and plain("(x)") != plain("x")


def test_half_of_the_8_grams_is_close_and_less_is_some():
    """Of 12 words there are five: two of them are 40 %, three are 60 %. Of 9 words there are two: one is half."""
    nine = " ".join(TWELVE.split()[:9])
    assert counts(made("x " + nine), made(TWELVE)) == (0, 0, 1)
    ten = " ".join(TWELVE.split()[:10])
    assert counts(made(ten + " y"), made(TWELVE)) == (0, 1, 0)
    eight = " ".join(TWELVE.split()[:8])
    assert counts(made(eight + " other"), made(nine)) == (0, 1, 0)
    seven = " ".join(TWELVE.split()[:7])
    assert counts(made(seven + " other"), made(TWELVE, seven + " different")) == (0, 0, 0)


def test_the_share_is_of_one_training_question_not_of_all_together():
    first, second = " ".join(TWELVE.split()[:9]), " ".join(TWELVE.split()[3:])
    (found,) = overlaps(made(first, second), {"set": made(TWELVE)})
    (match,) = found.some
    assert match.share == pytest.approx(0.4) and match.trained.text in (first, second)


def test_a_question_of_fewer_than_eight_words_counts_when_it_is_the_same():
    assert counts(made("Find the sum of 2 and 3 now please"), made("the sum of 2 and 3")) == (0, 0, 0)
    assert counts(made("the sum of 2 and 3"), made("The sum of 2 and 3?")) == (1, 0, 0)


def test_an_instruction_that_many_questions_carry_is_left_out():
    ending = " think step by step and write the answer in a box"
    held_out = made(*(f"{i} + 1" + ending for i in range(21)))
    assert counts(made("5 * 7" + ending), held_out) == (0, 0, 0)
    assert counts(made("5 * 7" + ending), held_out[:20]) == (0, 20, 0)  # of so few it could be the question itself
    assert counts(made("3 + 1" + ending), held_out) == (1, 0, 0)


def test_a_question_that_comes_again_counts_again():
    again = made(*[TWELVE] * 30, name="again")
    first, second = overlaps(made(TWELVE + " more"), {"a": again, "b": made(TWELVE), "none": ()})[:2]
    assert (len(first.close), len(second.close)) == (30, 1)


def test_the_warning_has_the_counts_of_each_set():
    train = made("what is 1+1?", TWELVE + " more")
    found = overlaps(train, {"data.eval": made("What is 1+1?", "new"), "aime24": made(TWELVE), "amc": made("other")})
    first, second = warnings(found)
    assert first == "Warning: 1 of the 2 questions of data.eval are also trained on, so they are not held out."
    assert second.startswith("Warning: 1 of the 1 questions of aime24 are close to one that is trained on")
    assert second.endswith("The verb `data contamination` shows them.")
    assert warnings(overlaps(train, {"data.eval": made("new")})) == ()


def test_a_close_one_is_told_beside_the_same():
    (said,) = warnings(overlaps(made(TWELVE, "a"), {"data.eval": made("a", TWELVE + " more")}))
    assert "1 of the 2 questions of data.eval are also trained on" in said and "and 1 more are close to one" in said


def test_training_questions_are_gone_through_once():
    """So that memory is that of the evaluation sets: any iterable will do."""
    train = (
        Question(str(i), f"number {i} of very many questions that nobody will keep in mind", "1") for i in range(3000)
    )
    assert counts(train, made("number 7 of very many questions that nobody will keep in mind")) == (1, 0, 0)
    assert overlap.grams("too short") == set()


# real sets


def shared(name: str) -> list[Question]:
    if not (SHARED / name).is_file():
        pytest.skip(f"{name} is not in the project's shared folder beside this checkout")
    with (SHARED / name).open(encoding="utf-8") as lines:  # not splitlines: U+2028 within a question ends no line
        rows = [json.loads(line) for line in lines]
    return [Question(f"{name}/{i}", row["question"], str(row["answer"])) for i, row in enumerate(rows, start=1)]


def test_oats_gsm_8k_holds_the_whole_test_set():
    assert counts(shared("oatzero_gsm_8k_train.jsonl"), shared("gsm8k_test.jsonl"))[0] == 1319


def test_train_and_test_together_hold_the_whole_test_set():
    """What oat's 8,792 rows are: 7,473 and 1,319."""
    train, held_out = shared("gsm8k_train.jsonl"), shared("gsm8k_test.jsonl")
    assert len(train + held_out) == 8792
    assert counts(train + held_out, held_out) == (1319, 0, 0)
    (said,) = warnings(overlaps(train + held_out, {"data.eval": held_out}))
    assert "1,319 of the 1,319 questions of data.eval" in said


def test_gsm8k_is_clean_but_for_a_few():
    """No test question stands in the training set; how many are close is bounded here at one in twenty."""
    held_out = shared("gsm8k_test.jsonl")
    same, close, _ = counts(shared("gsm8k_train.jsonl"), held_out)
    assert same == 0 and close < len(held_out) / 20
