"""What a text is read as, in plain words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_runner.grading.describe import describe


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("42", "the integer 42"),
        (r"\frac{6}{2}", "the integer 3"),
        (r"\dfrac{2}{4}", "the fraction 1/2"),
        (r"2\frac{1}{2}", "the fraction 5/2"),
        ("0.5", "the decimal 0.5, which is 1/2"),
        ("-0.050", "the decimal -0.050, which is -1/20"),
        (r"50\%", "50 percent, which is 1/2"),
        ("three", "the integer 3"),
        ("29+22", "arithmetic that is left to do, worth 51"),
        ("1e400", "an integer of about 401 digits"),
        ("A", "the letter A"),
        ("(B)", "the letter B"),
        ("x", "the letter x"),
        ("yes", 'the words "yes"'),
        ("12:30", "a time, a ratio or a numeral of a base: 12:30"),
        (r"5\text{ cm}", "5 centimetres"),
        (r"5\text{ cm}^2", "5 square centimetres"),
        (r"\$18.90", "18.90 dollars"),
        (r"45^\circ", "45 degrees"),
        ("5 apples", '5 with the unit "apples"'),
        ("1,2,3", "a list of 3: 1, 2, 3"),
        (r"\{1,2\}", "a set of 2: 1, 2"),
        (r"\emptyset", "the empty set"),
        ("1,2,3,4,5,6,7,8", "a list of 8: 1, 2, 3, 4, 5, 6, …"),
        ("(1,2)", "an ordered pair or an open interval: 1, 2"),
        ("(1,2,3)", "an ordered tuple of 3: 1, 2, 3"),
        ("[1,2)", "an interval without its upper end: 1, 2"),
        (r"(-\infty,3)\cup(5,\infty)", "a union of 2 sets"),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", "a 2 × 2 matrix"),
        ("x=5", "the integer 5, as the value of x"),
        ("2x=10", "an equation"),
        ("x>3", "an inequality"),
        (r"\mathbb{R}", "all real numbers"),
        (r"\sqrt{2}", r"the expression \sqrt{2}"),
        ("1/0", "nothing: it divides by zero"),
        ("", "nothing: it is empty"),
        ("10^{10^{10}}", "nothing: a tower of powers"),
        ("a" * 100_000, "nothing: a text of more than 1500 characters is not read"),
    ],
)
def test_what_it_is(text, words):
    assert describe(text) == words


@given(st.text(alphabet=st.sampled_from(list(r"0123456789+-*/^(){}[],.;:=<>%$!x \|&~_'")), max_size=40))
def test_it_never_raises(text):
    assert describe(text)


@given(st.text(max_size=60))
def test_nor_of_anything_else(text):
    assert describe(text)
