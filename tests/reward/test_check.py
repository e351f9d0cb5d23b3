"""The checker: own examples of every kind, the properties that always hold, and the handed rows where they are."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import defaultdict
from pathlib import Path

import pytest

from grpo_runner.reward import check, unreadable
from grpo_runner.types import Status

SHARED = Path(__file__).resolve().parents[3] / "shared"
RIGHT, WRONG = True, False

# (kind, boxed answer, gold, expected)
ROWS = [
    ("int", "1{,}000", "1000", RIGHT),
    ("int", "12346", "12345", WRONG),
    ("int", "1,000", "1", WRONG),
    ("int", "2,3", "23", WRONG),
    ("int", "12 34", "1234", WRONG),
    ("int", "-0", "0", RIGHT),
    ("int", "−5", "-5", RIGHT),
    ("int", "{{{7}}}", "7", RIGHT),
    ("decimal", "0.50", r"\frac12", RIGHT),
    ("decimal", "0.333", r"\frac{1}{3}", WRONG),
    ("decimal", r"0.\overline{27}", r"\frac{3}{11}", RIGHT),
    ("decimal", "5.00001", "5", WRONG),
    ("decimal gold", r"\frac{1}{3}", "0.33", RIGHT),
    ("decimal gold", "0.33", "0.333", WRONG),
    ("decimal gold", "18.904", "18.90", WRONG),
    ("fraction", "12/16", r"\frac34", RIGHT),
    ("fraction", r"\frac{1}{27}", r"\frac{1}{72}", WRONG),
    ("mixed", r"2\frac{1}{2}", "2.5", RIGHT),
    ("mixed", "2 1/2", r"\frac{21}{2}", WRONG),
    ("percent", r"50\%", "0.5", RIGHT),
    ("percent", "50", "0.5", WRONG),
    ("percent", r"33.3\%", r"\frac13", WRONG),
    ("units", r"5\text{ cm}", "5", RIGHT),
    ("units", r"5\text{ cm}", r"5\text{ m}", WRONG),
    ("units", r"1.5\text{ m}", r"150\text{ cm}", RIGHT),
    ("units", r"\$18.90", "18.90", RIGHT),
    ("units", "5x", "5", WRONG),
    ("units", r"45^\circ", "45", RIGHT),
    ("scientific", r"1.5\times10^3", "1500", RIGHT),
    ("scientific", r"\frac{1}{2^{98}}", r"\frac{1}{2^{99}}", WRONG),
    ("radical", r"\frac{1}{1+\sqrt{2}}", r"\sqrt{2}-1", RIGHT),
    ("radical", r"\sqrt2+\sqrt3", r"\sqrt5", WRONG),
    ("radical", "√3", r"\sqrt{3}", RIGHT),
    ("pi", r"\pi\div 8+1\div 2", r"0.5+\frac{\pi}{8}", RIGHT),
    ("pi", "3.14", r"\pi", WRONG),
    ("complex", "4i+3", "3+4i", RIGHT),
    ("complex", "3-4i", "3+4i", WRONG),
    ("expression", "x^2+2x+1", "(x+1)^2", RIGHT),
    ("expression", r"\frac{x^2-1}{x-1}", "x+1", RIGHT),
    ("expression", "|x-1|", "x-1", WRONG),
    ("expression", r"\sin^2x", r"1-\cos^2x", RIGHT),
    ("expression", "X+1", "x+1", WRONG),
    ("equation", "x=5", "5", RIGHT),
    ("equation", "y=5", "x=5", WRONG),
    ("equation", "2x=10", "10", WRONG),
    ("equation", "42=43", "42", WRONG),
    ("equation", "2x+4y=6", "x+2y=3", RIGHT),
    ("equation", "x^2=4", "x=2", WRONG),
    ("inequality", "3<x", "x>3", RIGHT),
    ("inequality", r"(3,\infty)", "x>3", RIGHT),
    ("inequality", r"x\ge3", "x>3", WRONG),
    ("interval", r"(0,1]\cup[1,2)", "(0,2)", RIGHT),
    ("interval", "(2,5)", "[2,5]", WRONG),
    ("interval", r"(-\infty,\infty)", r"\mathbb{R}", RIGHT),
    ("set", "3,2,1", r"\{1,2,3\}", RIGHT),
    ("set", "1,2", "1,2,3", WRONG),
    ("set", r"x=2\text{ or }x=3", "2,3", RIGHT),
    ("tuple", "(1,4.5)", r"(1,\frac{9}{2})", RIGHT),
    ("tuple", "(2,1)", "(1,2)", WRONG),
    ("plus minus", r"1\pm\sqrt2", r"1+\sqrt2,1-\sqrt2", RIGHT),
    ("plus minus", "3", r"\pm3", WRONG),
    ("matrix", r"\begin{bmatrix}0.5\\1\end{bmatrix}", r"\begin{pmatrix}\frac12\\1\end{pmatrix}", RIGHT),
    ("matrix", r"\begin{pmatrix}0&0\\0&0\end{pmatrix}", "0", WRONG),
    ("choice", r"\textbf{(A)}", "A", RIGHT),
    ("choice", r"A\text{ or }B", "A", WRONG),
    ("text", r"\text{monday}", "Monday", RIGHT),
    ("text", "tea", "eat", WRONG),
    ("time", "4:30 PM", r"\text{4:30 p.m.}", RIGHT),
    ("time", "1:00", "12:00", WRONG),
    ("ratio", "2:4", "1:2", RIGHT),
    ("base", "1011_{2}", "1011_2", RIGHT),
    ("base", "120_5", "120_4", WRONG),
    ("infinity", r"\infty-\infty", "0", WRONG),
    ("infinity", r"\frac{0}{0}", "0", WRONG),
    ("undone", "29+22", "51", WRONG),
    ("undone", r"\sum_{k=1}^{100}k", "5050", WRONG),
    ("undone", "5!", "120", WRONG),
    ("undone", "5!", "5!", RIGHT),
    ("undone", r"\sin^2x+\cos^2x", "1", WRONG),
    ("hedge", r"42\text{ or }43", "42", WRONG),
    ("hedge", "[0,100]", "7", WRONG),
    ("hedge", r"x\in\{1,2,3\}", "3", WRONG),
    ("hedge", r"41 \% 42", "42", WRONG),
    ("hedge", r"\text{not }42", "42", WRONG),
    ("hedge", "42_{43}", "42", WRONG),
    ("junk", "?", "7", WRONG),
    ("junk", r"\square", "7", WRONG),
    ("junk", "1==1", "1", WRONG),
    ("look-alike", "O", "0", WRONG),
    ("look-alike", "Ⅴ", "5", WRONG),
    ("look-alike", "А", "A", WRONG),  # a Cyrillic letter
    ("question in box", r"\text{The gcd of }12\text{ and }18\text{ is }6", "6", WRONG),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "answer", "gold", "expected"), ROWS, ids=[f"{r[0]}-{i}" for i, r in enumerate(ROWS)])
def test_own_rows(kind: str, answer: str, gold: str, expected: bool) -> None:
    verdict = check(f"So the result is $\\boxed{{{answer}}}$.", gold)
    assert verdict.correct is expected, verdict
    assert verdict.status in (Status.CORRECT, Status.WRONG, Status.AMBIGUOUS)
    assert check(f"\\boxed{{{gold}}}", gold).correct  # gold = gold, whatever its kind


def test_PB059_checker_in_a_thread() -> None:
    found = []
    thread = threading.Thread(
        target=lambda: found.append(
            [check(r"\boxed{\frac{1}{3}}", r"\frac{1}{3}"), check(r"\boxed{\sqrt{8}}", r"2\sqrt2")]
        )
    )
    thread.start()
    thread.join()
    assert [verdict.correct for verdict in found[0]] == [True, True]


def test_PB062_an_echo_of_the_prompt_is_no_answer() -> None:
    assert check(r"Please put the answer into \boxed{}. I think 7.", "7").status is Status.NO_ANSWER


def test_PB064_several_boxes_and_hedges() -> None:
    assert check(r"\boxed{3} or \boxed{4}", "4").status is Status.AMBIGUOUS
    assert check(r"\boxed{3} or \boxed{4}", "5").status is Status.WRONG
    assert check("The answer is 3 or 4 or 5", "4").status is Status.AMBIGUOUS
    assert check("The answer is 3 or 4 or 5", "6").status is Status.WRONG
    assert check(r"\boxed{0.5}, that is, \boxed{\frac12}", "1/2").correct
    assert check(r"x=\boxed{3} or x=\boxed{4}", "3,4").correct  # the same offer is right where both are asked for


def test_PB065_substring_is_not_equality() -> None:
    assert not check(r"\boxed{21}", "1").correct
    assert not check("The answer is 3.5", "3").correct


def test_PB010_an_unreadable_gold_is_never_right() -> None:
    for gold in (
        "see figure",
        "See the diagram above",
        "",
        "  ",
        "None",
        "nan",
        "?",
        r"\frac{1}{",
        r"\frac{1}{0}",
        r"\text{}",
    ):
        assert unreadable(gold), gold
        verdict = check(f"\\boxed{{{gold or 'x'}}}", gold)
        assert not verdict.correct
    assert check(r"\boxed{see figure}", "see figure").status is Status.ERROR
    for gold in (
        "5",
        "Monday",
        r"\text{(A)}",
        r"\frac{1}{2004!}",
        r"12\text{ and }13",
        "No solution",
        r"\emptyset",
        "0",
    ):
        assert unreadable(gold) is None, gold
        assert check(f"\\boxed{{{gold}}}", gold).correct


INJECTIONS = [
    "__import__('os').system('touch CANARY_FILE')",
    "[5 for _ in [__import__('os').system('touch CANARY_FILE')]][0]",
    "{__import__('os').system('touch CANARY_FILE'),1}",
    "[[len([open('CANARY_FILE','w')])]]",
    "[5][len([open('CANARY_FILE','w')])-1]+0*\\pi",
    "\\write18{touch CANARY_FILE}",
    "\\input{/etc/passwd}",
    "eval('5')",
    "lambda: 5",
    "Integer(5)",
]


def test_nothing_in_a_response_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for code in INJECTIONS:
        for response in (f"\\boxed{{{code}}}", f"The answer is {code}"):
            for gold in ("5", "1", r"\begin{pmatrix}1\end{pmatrix}", r"5+0\pi"):
                assert not check(response, gold).correct, response
    assert list(tmp_path.iterdir()) == []


HOSTILE = [
    "9^{9^{9^9}}", "10^{10^{10}}", "2^{10^9}", "1000000!", "((9!)!)!", r"\binom{1000000000}{500000000}",
    r"\sum_{k=1}^{10^9}k", r"\prod_{k=1}^{10^6}k", r"\int_0^1 e^{x^2}dx", "(x+1)^{1000}", "(a+b+c+d+e)^{60}",
    "{" * 10_000 + "7" + "}" * 10_000, "(" * 10_000 + "7" + ")" * 10_000, r"\sqrt{" * 3000 + "2" + "}" * 3000,
    ",".join(map(str, range(100_000))), "9" * 100_000, r"\tan(\tan(\tan(x)))=1", r"\left(" * 3000, r"\boxed{" * 5000,
    "x=" * 5000 + "5", "1" + "!" * 1000, "2" + "^2" * 500, r"\begin{pmatrix}" * 300, r"\cup" * 5000, r"\pm" * 400,
]  # fmt: skip


@pytest.mark.parametrize("gold", ["5", "x+1"])
def test_hostile_strings_are_refused_before_algebra(gold: str) -> None:
    for text in HOSTILE:
        assert check(f"\\boxed{{{text}}}", gold).status in (Status.WRONG, Status.NO_ANSWER), text[:40]
        assert check(f"The answer is {text}", gold).status in (Status.WRONG, Status.NO_ANSWER), text[:40]
    assert check(r"\boxed{" + "{" * 500 + "5" + "}" * 500 + "}", "5").correct  # braces alone change nothing


def test_importing_the_room_loads_no_heavy_library() -> None:
    code = (
        "import sys; from grpo_runner.reward import check, Grader; assert check('\\\\boxed{0.5}', '\\\\frac12').correct; "
        "print([m for m in ('torch', 'transformers', 'sympy', 'math_verify') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_handed_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = SHARED / "cases" / "math_answers.jsonl"
    if not path.exists():
        pytest.skip(f"the labelled rows are not here ({path.name} lies outside the repository)")
    monkeypatch.chdir(tmp_path)
    disagree: dict[str, list[str]] = defaultdict(list)
    for line in path.open(encoding="utf-8"):
        row = json.loads(line)
        if row.get("policy") == "debatable":
            continue
        if check(row["response"], row["gold"]).correct != row["expected"]:
            disagree[row["kind"]].append(row["id"])
    assert not disagree
    assert list(tmp_path.iterdir()) == []


def test_the_handed_golds_are_readable_and_equal_to_themselves() -> None:
    folder = SHARED / "data"
    if not folder.exists():
        pytest.skip("the data sets are not here (they lie outside the repository)")
    golds = {json.loads(line)["answer"] for path in folder.glob("*.jsonl") for line in path.open(encoding="utf-8")}
    assert [gold for gold in golds if unreadable(gold)] == [""]  # two rows of the MATH training set have no answer
    assert not [gold for gold in golds if gold and not check(f"\\boxed{{{gold}}}", gold).correct]
