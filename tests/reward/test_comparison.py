r"""The comparison with other graders: each does what it is said to do, hangs end, and the table's figures are right."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import time
from pathlib import Path

import pytest
import yaml

from grpo_runner.reward import Policy

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "checker"))

import bench_rows  # noqa: E402
import compare_checkers  # noqa: E402
from compare_checkers import Score, markdown_table, read_rows, score  # noqa: E402
from killable import Killable, Outcome  # noqa: E402
from other_graders import GRADERS, last_box, minerva_text  # noqa: E402

ALL = list(GRADERS)


def boxed(answer: str) -> str:
    return f"So the result is $\\boxed{{{answer}}}$."


# response, gold, who accepts it by initial (o is the checker, m and t math-verify by default and as in TRL, p prm800k, M
# Minerva, h Hendrycks, s strict), worked out by hand from what each original does
INITIALS = dict(zip("omtpMhs", ALL, strict=True))
TABLE = [
    pytest.param(boxed("42"), "42", "omtpMhs", id="the same text"),
    pytest.param(boxed("43"), "42", "", id="another number"),
    pytest.param(boxed("0.5"), "\\frac{1}{2}", "omtpMh", id="1/2 has a rule of its own in Hendrycks' text"),
    pytest.param(boxed("0.25"), "\\frac{1}{4}", "omtpM", id="1/4 has none"),
    pytest.param(boxed("\\frac12"), "1/2", "ompMh", id="a fraction without braces: TRL asks for correct LaTeX"),
    pytest.param(boxed("\\frac{2}{4}"), "\\frac{1}{2}", "omtM", id="prm800k refuses fractions that are not reduced"),
    pytest.param(boxed("12\\text{ inches}"), "12", "omtpMh", id="all but strict drop a unit"),
    pytest.param(boxed("5\\text{ cm}"), "5\\text{ m}", "mtpMh", id="and do not see that two contradict"),
    pytest.param(boxed("(1, 0.50)"), "(1,\\frac{1}{2})", "omtp", id="prm800k takes tuples apart"),
    pytest.param(boxed("(1,0.5]"), "(1,\\frac{1}{2})", "", id="and looks at their brackets"),
    pytest.param(boxed("1+2x"), "2x+1", "omtpM", id="algebra"),
    pytest.param(boxed("42=43"), "43", "mtpMh", id="a right-hand side taken for the answer"),
    pytest.param(boxed("41\\%42"), "4142", "ph", id="a percent sign dropped wherever it stands"),
]


@pytest.mark.parametrize(("response", "gold", "accepted"), TABLE)
def test_graders_accept_what_the_originals_do(response: str, gold: str, accepted: str) -> None:
    assert "".join(i for i, name in INITIALS.items() if GRADERS[name](response, gold)) == accepted


def test_no_two_columns_of_the_table_are_one_grader() -> None:
    # negative control: graders that all accepted alike would pass a table that does not tell them apart
    assert len({tuple(initial in row.values[2] for row in TABLE) for initial in INITIALS}) == len(INITIALS)


def test_trl_reads_no_plain_text() -> None:
    assert GRADERS["math-verify"]("The answer is 42.", "42")
    assert not GRADERS["math-verify, as in TRL"]("The answer is 42.", "42")
    assert GRADERS["math-verify, as in TRL"]("The answer is $42$.", "42")


def test_math_verify_is_taken_in_by_a_known_hack_and_the_checker_is_not() -> None:
    for response in (boxed("41 \\% 42"), "The answer is not 42"):
        assert GRADERS["math-verify"](response, "42")
        assert not GRADERS["grpo_runner"](response, "42")


def test_minerva_reads_its_own_closing_sentence_first() -> None:
    response = r"\boxed{1} Final Answer: The final answer is $2$. I hope it is correct."
    assert [GRADERS["Minerva style"](response, gold) for gold in "12"] == [False, True]


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        (r"5\text{ cm}^2", "5"),  # "cm" goes first, then the empty text command with its exponent
        (r"12,345\text{ dollars}", "12345"),
        (r"x = 3 \text{ and } 4", "34"),  # a list becomes 3,4, which is then read as a number with separators
        (r"\frac12", r"\frac{1}{2}"),
        (r"$\text{(A)}$.", "(A)"),
    ],
)
def test_minerva_text(text: str, normal: str) -> None:
    assert minerva_text(text) == normal


@pytest.mark.parametrize(
    ("text", "box"),
    [
        (r"\boxed{1} and \boxed{2}", "2"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\fbox{3}", "3"),
        (r"\boxed{1} then \boxed{2", None),
        ("no box", None),
    ],
)
def test_last_box(text: str, box: str | None) -> None:
    assert last_box(text) == box


def odd(response: str, gold: str) -> bool:
    """A grader with every fault: it hangs, raises, exits and writes files, as the response says."""
    if response == "hang":
        time.sleep(60)
    if response == "raise":
        raise BaseException
    if response == "write":
        Path("CANARY_FILE").touch()
    if response == "exit":
        import os

        os._exit(1)
    return response == gold


def test_a_grader_that_hangs_or_dies_is_no_verdict_and_the_next_row_is_graded() -> None:
    with Killable(odd, deadline_s=0.5) as grader:
        assert grader.ask("1", "1")[::2] == (True, "")
        start = time.monotonic()
        hung = grader.ask("hang", "hang")
        assert hung.failed == "timeout" and not hung.accepted and 0.5 <= time.monotonic() - start < 20
        assert [grader.ask(word, word)[::2] for word in ("raise", "exit", "1")] == [
            (False, "BaseException"),
            (False, "died"),
            (True, ""),
        ]
        assert grader.left_behind == []
        grader.ask("write", "")
        assert grader.left_behind == ["CANARY_FILE"]


def broken(response: str, gold: str) -> bool:
    raise ImportError


def test_a_grader_that_cannot_start_is_told() -> None:
    with Killable(broken) as grader, pytest.raises(RuntimeError, match="broken ended instead of starting"):
        grader.ask("1", "1")


# Seven rows: two right ones of which one is accepted, two wrong ones of which one is, two hacks of which none is, and a
# debatable one that counts nowhere. Agreed: 1 + 1 + 2 of 6; accepted wrongly: 1 of 4; 0.5 + 0.1 * 5 = 1 second for 6 rows.
ROWS = [
    {"id": "1", "kind": "pi", "response": "", "gold": "", "expected": True},
    {"id": "2", "kind": "pi", "response": "", "gold": "", "expected": True},
    {"id": "3", "kind": "pi", "response": "", "gold": "", "expected": False},
    {"id": "4", "kind": "unhacked", "response": "", "gold": "", "expected": False},
    {"id": "5", "kind": "hack_hedge", "response": "", "gold": "", "expected": False},
    {"id": "6", "kind": "hack_unicode", "response": "", "gold": "", "expected": False},
    {"id": "7", "kind": "hack_unicode", "response": "", "gold": "", "expected": False, "policy": "debatable"},
]
ACCEPTED = [True, False, True, False, False, False, True]


def outcomes() -> list[Outcome]:
    return [Outcome(yes, 0.5 if i == 1 else 0.1, "timeout" if i == 1 else "") for i, yes in enumerate(ACCEPTED)]


def test_score() -> None:
    made = score(ROWS, outcomes())
    assert made == Score(6, 4, 2, 1, 2, 1, 2, 0, 1, pytest.approx(1.0))
    assert made.cells() == ["66.7 %", "50.0 %", "25.0 %", "1 of 2", "0 of 2", "1", "6"]


def test_score_without_rows_of_a_kind_has_no_rate() -> None:
    assert score(ROWS[:2], outcomes()[:2]).cells()[:5] == ["50.0 %", "50.0 %", "-", "0 of 0", "0 of 0"]


def test_markdown_table_has_a_cell_for_every_column() -> None:
    lines = markdown_table({"one": score(ROWS, outcomes()), "other": score(ROWS, outcomes())}).splitlines()
    assert [line.count("|") for line in lines] == [9] * 4 and lines[3].startswith("| other | 66.7 % | 50.0 %")


def test_the_command_writes_table_and_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"id": "a", "kind": "pi", "response": boxed("1"), "gold": "1", "expected": True},
        {"id": "b", "kind": "pi", "response": boxed("2"), "gold": "1", "expected": True, "note": "mislabelled"},
        {"id": "c", "kind": "pi", "response": boxed("3"), "gold": ["1", "3"], "expected": False, "policy": "debatable"},
    ]
    file, written = tmp_path / "rows.jsonl", tmp_path / "table.json"
    file.write_text("\n".join(map(json.dumps, rows)))
    words = ["compare_checkers.py", str(file), "--graders", "grpo_runner", "strict", "--output", str(written)]
    monkeypatch.setattr(sys, "argv", words)
    compare_checkers.main()
    data = json.loads(written.read_text())
    assert [data["scores"][name]["agreed"] for name in ("grpo_runner", "strict")] == [1, 1]
    assert [(row["id"], row["status"], row["as_labelled"]) for row in data["differing"]] == [("b", "wrong", [])]
    assert [(row["id"], row["status"]) for row in data["differing_debatable"]] == [("c", "correct")]


@pytest.mark.parametrize(
    ("line", "said"), [("{", "rows.jsonl:2: not a JSON"), ('{"id": "a"}', "rows.jsonl:2: without kind, response")]
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(ROWS[0]) + "\n" + line)
    with pytest.raises(SystemExit, match=said):
        read_rows(file)


def test_rows_to_time_are_what_their_labels_say() -> None:
    gsm8k = bench_rows.gsm8k(
        [{"question": "", "solution": f"<<1+{n}={n + 1}>>so\n#### {n}", "answer": str(n)} for n in range(4)]
    )
    assert [row[0] for row in gsm8k] == ["so\nThe answer is 1.", "so\n#### 1", "so\nThe answer is 2.", "so\n#### 4"]
    golds = ["1200", "\\frac{3}{4}", "(x+1)^2", "2x-\\pi", "\\text{no}"]
    made = bench_rows.math([{"question": "", "answer": gold} for gold in golds])
    made += bench_rows.expressions([{"question": "", "answer": gold} for gold in golds]) + bench_rows.integers(20)
    assert [row[2] for row in made[:6]] == [False, True, True, False, True, False]
    assert all(GRADERS["grpo_runner"](response, gold) == expected for response, gold, expected in made)


def test_the_page_names_every_key_of_the_policy_with_its_default() -> None:
    page = (ROOT / "docs" / "checker.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `([a-z_]+)` \| `([^`]+)` \|", page, re.MULTILINE))
    kept = dataclasses.asdict(Policy())
    assert {name: type(kept[name])(yaml.safe_load(value)) for name, value in told.items()} == kept
