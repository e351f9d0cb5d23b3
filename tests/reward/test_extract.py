"""Which part of a completion is the answer."""

from __future__ import annotations

import pytest

from grpo_runner.reward.extract import Offer, offer

BOXES = [
    (r"so \boxed{7}.", ("7",)),
    (r"\fbox{7}", ("7",)),
    (r"\boxed {7}", ("7",)),
    (r"\boxed{\frac{1}{2}}", (r"\frac{1}{2}",)),
    (r"\boxed{\{1,2\}}", (r"\{1,2\}",)),
    (r"\boxed{\boxed{7}}", ("7",)),
    (r"The side is \boxed{3}. The area is then \boxed{9}.", ("9",)),
    (r"\boxed{5} Wait, checking again, it should be \boxed{6}.", ("6",)),
    (r"\boxed{4} and later \boxed{5", ("4",)),
    (r"Put it into \boxed{}. Here: \boxed{8}", ("8",)),
    (r"<think>\boxed{3}</think>\boxed{7}", ("7",)),
    (r"thinking \boxed{3}</think> \boxed{7}", ("7",)),
    # alternatives are all kept: the checker reads them as a list
    (r"\boxed{3} or \boxed{4}", ("3", "4")),
    (r"either $\boxed{3}$ or perhaps $\boxed{4}$", ("3", "4")),
    (r"\boxed{1} \boxed{2} \boxed{3}", ("1", "2", "3")),
    (r"Option 1: \boxed{41}. Option 2: \boxed{42}.", ("41", "42")),
    (r"x=\boxed{1} or x=\boxed{2}", ("1", "2")),
    (r"\boxed{\boxed{41}\boxed{42}}", ("41", "42")),
    # nothing
    (r"\boxed{7", ()),
    (r"\boxed{}", ()),
    (r"\boxed{7} \boxed{}", ()),
    (r"<think>\boxed{7}</think>", ()),
    (r"<think>\boxed{7} and so on", ()),
    ("boxed", ()),
    ("", ()),
]


@pytest.mark.parametrize(("text", "answers"), BOXES)
def test_boxes(text: str, answers: tuple[str, ...]) -> None:
    found = offer(text)
    assert found.answers == answers
    assert found.in_form == bool(answers)
    assert offer(text, "box") == found


MARKERS = [
    ("The answer is 42.", "42"),
    ("#### 42", "42"),
    ("Answer: 7\n\nThat was wrong.\n\nAnswer: 3", "3"),
    ("**Final Answer:** **73**", "73"),
    ("The final answer is $x=4$.", "$x=4$"),
    ("The answer is 3.5", "3.5"),
    ("The answer is 42, not 41.", "42"),
    ("The answer is 41 or 42.", "41 or 42"),
    ("The answer is:\n\n$$42$$", "42"),
    ("The answer to the question is 42, since 6*7=42.", "42"),
]


@pytest.mark.parametrize(("text", "answer"), MARKERS)
def test_markers(text: str, answer: str) -> None:
    assert offer(text).answers == (answer,)
    assert not offer(text).in_form  # right or wrong, it is not the required form
    assert offer(text, "box").answers == ()


@pytest.mark.parametrize("text", ["<answer>4</answer>", "<think>\n5\n</think>\n<answer>\n4\n</answer>"])
def test_closed_answer_tags_are_a_form(text: str) -> None:
    """Prompts of open-r1, TinyZero and others ask for them without the one space that "answer_tag" wants."""
    assert offer(text) == Offer(("4",), in_form=True)
    assert not offer(text.removesuffix("</answer>")).in_form
    assert not offer(text + "\nThe answer is 5.").in_form  # it is not what counts


@pytest.mark.parametrize(
    "text",
    [
        "42",
        "it must be 42",
        "the answer is not 42",
        "The answer is",
        r"the answer is \boxed{4",
        "42 is the answer",
        "<answer>4",
    ],
)
def test_a_number_in_the_text_is_no_answer(text: str) -> None:
    assert offer(text).answers == ()


ANSWER_TAGS = [
    ("so 4</think> <answer>4</answer>", ("4",)),
    (r"so 4</think> <answer>The area is \boxed{4}</answer>", ("4",)),
    ("so 4</think><answer>4</answer>", ()),  # Oat wants exactly one space
    ("so 4</think>  <answer>4</answer>", ()),
    ("so 4</think> <answer>4", ()),
    (r"so 4</think> <answer>\boxed{4</answer>", ()),
    (r"\boxed{4}", ()),
    ("<answer>4</answer>", ()),
]


@pytest.mark.parametrize(("text", "answers"), ANSWER_TAGS)
def test_oats_answer_tag_rule(text: str, answers: tuple[str, ...]) -> None:
    found = offer(text, "answer_tag")
    assert found.answers == answers
    assert found.in_form == bool(answers)
