"""Lines of answers, labelled by hand: what they state is so, is not so, or cannot be told."""

from __future__ import annotations

import pytest

from grpo_runner.reward.statements import holds

RIGHT = [
    # the embedded task's
    "29+22=51", "51+6=57", "57-20=37", "12-12=0", "0+7=7",
    # spacing, signs, types of numbers
    "2 + 3 = 5", "7 × 6 = 42", "84 ÷ 2 = 42", "3 x 4 = 12", "3x4=12", "1.5 + 2.25 = 3.75", ".5 * 4 = 2",
    "1,200 + 300 = 1,500", "-3 + 5 = 2", "5 - (-3) = 8", "5 − 3 = 2", "5 + -3 = 2", "2^3 = 8", "5² = 25", "2**3 = 8",
    # precedence, brackets, chains
    "2 + 3 * 4 = 14", "(2 + 3) * 4 = 20", "2(3+4) = 14", "2 + 3 + 4 = 9", "2 + 3 + 4 = 5 + 4 = 9", "10 - 2 - 3 = 5",
    "100 / 10 / 2 = 5", "14 = 2 * 7", "-2^2 = -4",
    # GSM8K's marks and prose
    "Natalia sold 48/2 = <<48/2=24>>24 clips in May.", "<<20*.5=10>>", "He pays 3 * $12 = $<<3*12=36>>36.",
    "Altogether: 48+24 = <<48+24=72>>72 clips.", "The total is 3 + 4 = 7.", "Total = 3 + 4 = 7", "x = 3 + 4 = 7",
    "$12 × 3 = $36", "20% of 50 = 10", "3 / 4 * 100 = 75%", "20% * 50 = 10", "3 times 4 = 12", "10 divided by 4 = 2.5",
    "1. 3 + 4 = 7", "- 3 + 4 = 7", "(1) 3 + 4 = 7", "Step 1: 3 + 4 = 7", "**3 + 4 = 7**", "| 3 + 4 = 7 |",
    "So (3 + 4 = 7) he has 7.", "5 (3 + 2 = 5) pens", "3 + 4 = 7, and 7 - 2 = 5", "4 * 5 = 20cm",
    # LaTeX
    r"$3 + 4 = 7$", r"\(3 \times 4 = 12\)", r"\[12 \div 4 = 3\]", r"\frac{1}{2} + 1 = 1.5", r"3 + 4 = 7 \text{ cm}",
    "3 x -3 = -9", "8/2=4 and 9/3=3", "24 / 2 / 3 = 4", "24/2/3=4", "Weeks: 35 + 35 = 70", "0.5 + 0 = .50",
    # no decimal is exact: rounded to two places or more; after ≈ to any
    "1 / 3 * 100% = 33.333%", "$9 / $27 * 100% = 33.33%", "10 / 3 = 3.33", "2/3 = 0.667", "10 / 3 ≈ 3", r"10 / 3 \approx 3.3",
]  # fmt: skip
WRONG = [
    "29+22=41", "51+6=58", "57-20=36", "2 + 3 = 6", "7 × 6 = 41", "3x4=13", "1.5 + 2.25 = 3.7", "1,200 + 300 = 1,400",
    "2 + 3 * 4 = 20", "2 + 3 + 4 = 6 + 4 = 9", "3 + 4 = 7 + 2 = 9", "<<48/2=23>>23", "48/2 = <<48/2=24>>23 clips",
    "He pays 3 * $12 = $35.", "The total is 3 + 4 = 8.", "x = 3 + 4 = 8", "20% of 50 = 12", "1. 3 + 4 = 8",
    "3 + 4 = 7, and 7 - 2 = 4", "10 / 3 = 3.34", "10 / 3 = 3.3", "1 / 4 = 0.26", "2/3 = 0.66", "10 / 3 ≈ 3.4",
    "1 / 3 * 100% = 33.34%", "3 x -3 = 9", "8/2=4 and 9/3=2", "8/2=5 and 9/3=3", "24/2/3=36", "17/3 = 5 and more",
    "5 / 0 = 0", "5 / 0 = 5", r"\frac{1}{2} + 1 = 2", "(3 + 4 = 8)", "2^3 = 6", "0.1 + 0.2 = 0.30000000000000004",
]  # fmt: skip
UNCLEAR = [
    "", "so he has 5 left", r"\boxed{37}", "#### 72", "x = 7", "-3 = -3", "7 = 8", "3 + 4", "3 + 4 =", "= 7", "57-20=",
    # variables, and words that belong to what stands there
    "x - 3 * 2 = 5", "2x + 3 = 7", "x + 3 = 5", "3 + 4 = 7x", "y = 2 * x + 1 = 5", "3 + 4 = 7 + y", "x_1 + 3 = 5",
    "half of 10 + 2 = 7", "3 apples + 4 apples = 7 apples", "She has 3 + 4 apples = 7", "7 / 2 = 3 R 1",
    "17 ÷ 5 = 3 remainder 2", "2 * 500 = 1 thousand", "√16 + 1 = 5", "sqrt(16) + 1 = 5", r"\sqrt{16} + 1 = 5",
    "f(3) + 1 = 5", "|−3| + 1 = 4", "2 + 3! = 8", "3,5 + 1 = 4,5", "1 1/2 + 1 = 2.5", "8/2(2+2) = 16",
    "3:00 + 2 = 5", "3 + 4 ≠ 8", "3 + 4 > 6", "(3 apples + 2) * 4 = 20", "7 % 3 = 1", "2^3^2 = 512",
    # as GSM8K's solutions write variables, mixed numbers, labels, hours, and a fraction behind another sign
    "3x-3=63", "6x – 30 = 30", "70=(3/2)x-5", "17/3 = 5 and 2/3 loads", "100 / 6= 16 and (2/3)",
    "Day 1 + Day 2 = 35 + 35 = 70", "9 men x 2/3 = 6", "0900-0130 = 0730 hours", "25 / 1/3 = 75", "3/ 1/4 = 12",
    # and what is only long
    "9" * 40 + " + 1 = 2", "(" * 30 + "1 + 1" + ")" * 30 + " = 2", "9^9999 = 1", "((9^99)^99)^99 = 1", "1 + 1 = 3 " + "a" * 3000,
]  # fmt: skip


def test_there_are_enough_of_each():
    assert len(RIGHT) >= 20 and len(WRONG) >= 20 and len(UNCLEAR) >= 20
    assert len({*RIGHT, *WRONG, *UNCLEAR}) == len(RIGHT) + len(WRONG) + len(UNCLEAR) >= 60


@pytest.mark.parametrize(
    ("line", "label"),
    [*((line, True) for line in RIGHT), *((line, False) for line in WRONG), *((line, None) for line in UNCLEAR)],
)
def test_a_line_of_the_table(line, label):
    assert holds(line) is label
