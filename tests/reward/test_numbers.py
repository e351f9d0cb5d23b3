"""Exact values of written numbers."""

from __future__ import annotations

from fractions import Fraction

import pytest

from grpo_runner.reward.normalize import tidy
from grpo_runner.reward.numbers import exact

VALUES = [
    ("5", "5"),
    ("-12", "-12"),
    ("+5", "5"),
    ("1,000", "1000"),
    (r"1\,000", "1000"),
    ("1 000 000", "1000000"),
    ("0.50", "1/2"),
    (".5", "1/2"),
    ("1.5e3", "1500"),
    (r"2\times10^{-3}", "1/500"),
    (r"\dfrac{3}{4}", "3/4"),
    (r"\frac34", "3/4"),
    (r"-\frac{1}{2}", "-1/2"),
    ("12/16", "3/4"),
    (r"2\frac{1}{2}", "5/2"),
    ("2 1/2", "5/2"),
    (r"-1\frac12", "-3/2"),
    (r"0.\overline{3}", "1/3"),
    (r"0.1\overline{6}", "1/6"),
    (r"12.5\%", "1/8"),
    (r"\frac{1}{2^{98}}", f"1/{2**98}"),
    ("½", "1/2"),
]


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_value(text: str, value: str) -> None:
    found = exact(tidy(text))
    assert found is not None
    assert found.value == Fraction(value)
    assert found.plain


@pytest.mark.parametrize("text", ["29+22", "3-1", r"6\cdot7", "(2)(3)", r"\frac{1}{2}+\frac{1}{3}"])
def test_arithmetic_left_undone_is_not_plain(text: str) -> None:
    found = exact(tidy(text))
    assert found is not None
    assert not found.plain


@pytest.mark.parametrize(
    "text", ["", "x", "5x", "1 2", "5 5/", "٥", "Ⅴ", "O", "--5", "1,2", "9^{9^{9}}", "2^{1000000}", "1..2", "3!"]
)
def test_no_number(text: str) -> None:
    assert exact(tidy(text)) is None


def test_division_by_zero_is_said() -> None:
    with pytest.raises(ZeroDivisionError):
        exact(r"\frac{1}{0}")
