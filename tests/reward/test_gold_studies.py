r"""The studies of scripts/checker/study_golds.py on golds of every kind that are written here, and on the real sets where they are.

The oracle that says which pairs differ is held to values worked out by hand; the studies then hold the checker.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from grpo_runner.reward import Grader, check
from grpo_runner.types import Status

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data"
sys.path.insert(0, str(ROOT / "scripts" / "checker"))

import gold_oracle as oracle  # noqa: E402
from gold_pairs import different, kind_of, wrong_pairs  # noqa: E402
from gold_rewrites import RULES, rewrites  # noqa: E402
from study_golds import Trial, by_group, others, read_golds, spellings, themselves  # noqa: E402

KINDS = {
    "integer": ("7", "-45", "1234", "20500", r"31,\!250", "2{,}016{,}532", "987654321"),
    "decimal": ("0.25", ".75", "-13.5", "2.718"),
    "fraction": (r"\frac{3}{8}", r"-\dfrac{7}{3}", r"\frac59", "5/12", r"2\frac{1}{3}"),
    "percent": (r"35\%", r"7.5\%"),
    "money": (r"\$40", r"\$12.75"),
    "quantity": (r"12\text{ cm}", r"9 \text{ square units}", r"150 \mbox{ miles}", r"15\text{ cm}^2"),
    "angle": (r"36^\circ", r"22.5^{\circ}"),
    "radical": (r"3\sqrt{5}", r"\frac{\sqrt{7}}{4}", r"2 + \sqrt{3}", r"\sqrt[3]{4}"),
    "pi": (r"6\pi", r"\frac{5\pi}{6}", r"24 - 4\pi"),
    "complex": ("3 + 4i", "-2-5i"),
    "expression": ("2x^2 - 3x + 5", "(x+4)(x-7)", r"\frac{x+2}{5}", "3a + 2b", r"\sin x"),
    "tuple": ("(3,-2)", r"\left( \frac{1}{2}, 5 \right)", "(1,2,3)"),
    "list": ("-3, 8", "1, 4, 9", r"1 + \sqrt{2}, 1 - \sqrt{2}"),
    "interval": ("[2,7)", r"(-\infty,4]", r"(-\infty,-1) \cup (3,\infty)"),
    "matrix": (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\begin{pmatrix} -1/3 \\ 2 \end{pmatrix}"),
    "relation": ("x = 4", "y = 2x + 3", "3x - 4y + 7 = 0", r"x^2 \le 9"),
    "base": ("1202_3", "57_8"),
    "ratio or time": ("3:4", r"\text{4:30 p.m.}"),
    "text": (r"\text{Tuesday}", r"\text{(C)}", r"\text{east}"),
    "other": ("2^{2005}", r"\pm 3"),
}
GOLDS = [gold for golds in KINDS.values() for gold in golds]


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (r"\frac12", "0.5", True),
        (r"\frac{2}{3}", "0.667", False),
        (r"1\frac{1}{2}", "1.5", True),
        (r"50\%", "0.5", True),
        (r"14,\!400", "14400", True),
        ("(1,2)", "(2,1)", False),
        ("1,2", "2,1", True),
        ("[1,2)", "[1,2]", False),
        (r"\sqrt{12}", r"2\sqrt3", True),
        (r"\sqrt{2}+\sqrt{3}", r"\sqrt{5}", False),
        (r"\cos 58^\circ", r"\sin 32^{\circ}", True),
        ("(x+1)^2", "x^2+2x+1", True),
        ("(x+1)^2", "y^2+2y+1", False),
        ("2x+y=4", "4x+2y-8=0", True),
        ("2x+y=4", "2x+y=5", False),
        ("x=5", "5", True),
        (r"5\text{ cm}", r"5\text{ m}", False),
        (r"1 \pm \sqrt2", r"1-\sqrt{2}, 1+\sqrt{2}", True),
        (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\begin{pmatrix} 1 & 3 \\ 2 & 4 \end{pmatrix}", False),
        (r"\text{Monday}", r"\text{Dymano}", False),
        (r"\triangle ABC", "7", None),
    ],
)
def test_the_oracle_knows_values_worked_out_by_hand(one: str, other: str, equal: bool | None) -> None:
    assert oracle.same(one, other) is equal


def test_every_kind_is_told_from_its_text() -> None:
    assert {gold: kind_of(gold) for gold in GOLDS if gold != r"\pm 3"} == {
        gold: kind for kind, golds in KINDS.items() for gold in golds if gold != r"\pm 3"
    }


def test_every_gold_is_equal_to_itself() -> None:
    wrong = [trial for trial in themselves(GOLDS) if not check(trial.answer, trial.gold).correct]
    assert wrong == []


def test_no_gold_is_another() -> None:
    """Each gold changed in many ways, and its neighbours; graded as training does."""
    trials = list(others(GOLDS, seed=1))
    assert len(trials) > 800
    with Grader(workers=1) as grader:
        verdicts = grader.grade([(trial.answer, trial.gold) for trial in trials])
    hits = [(t.way, t.answer, t.gold, v.rule) for t, v in zip(trials, verdicts, strict=True) if v.correct]
    assert hits == []
    assert not [verdict for verdict in verdicts if verdict.status in (Status.ERROR, Status.TIMEOUT)]


def test_every_other_spelling_is_accepted() -> None:
    trials = list(spellings(GOLDS, seed=1, twice=3))
    assert len(trials) > 2000
    with Grader(workers=1) as grader:
        verdicts = grader.grade([(trial.answer, trial.gold) for trial in trials])
    missed = [(t.way, t.answer, t.gold, v.rule) for t, v in zip(trials, verdicts, strict=True) if not v.correct]
    assert len(missed) <= 0.005 * len(trials), missed[:20]


def test_rewrites_keep_the_meaning_and_changes_do_not() -> None:
    """By the oracle, where it can read both: a rule that changes a value would blame the checker."""
    kinds = set(KINDS) - {"angle", "text"}
    golds = [gold for kind in kinds for gold in KINDS[kind]]
    read = Counter(oracle.same(answer, gold) for gold in golds for _, answer in rewrites(gold) if plain(answer))
    assert read[False] == 0 and read[True] > 300
    assert all(different(answer, gold) for _, answer, gold in wrong_pairs(GOLDS))


def plain(answer: str) -> bool:
    """Is this a spelling that the oracle's small grammar is meant for: no words, names or decorations around it?"""
    return not any(
        mark in answer for mark in (r"\text", "=", r"\mathrm", "sqrt(", " ", r"\{", "x", "{{", "e", "pi", "°")
    )


def test_a_checker_that_accepts_everything_would_be_seen() -> None:
    trials = [Trial(way, answer, gold, "correct") for way, answer, gold in wrong_pairs(["12", r"\frac{3}{4}", "(1,2)"])]
    accepted, total = by_group(trials, {"all": ["12", r"\frac{3}{4}", "(1,2)"]})["all"]
    assert accepted == total > 20


def test_every_rule_applies_to_some_gold() -> None:
    """Over the golds above and a few that single rules are for."""
    special = (r"\frac{1}{2}", "2, -2", "x^{2}", r"\frac{4}{3}\pi", r"s^2 \leq 8", r"\frac{25}{3}", "30000", "4000", "70000",
               r"12\text{ degrees}", "1212_{3}", r"\frac12", "0.5", "2.5", r"(\tfrac{1}{2}, \tfrac{3}{4})", "3", "2 + 3i",
               r"\begin{pmatrix} \frac{1}{2} \\ 3 \end{pmatrix}", r"(-\infty,2) \cup (2,\infty)", "D", "x^2+2x", "2^{9}",
               r"\frac{\sqrt{6}}{4}", r"\frac{3\sqrt{6}}{4}", r"12,\!500", "5x^{12} + x", r"8 + \sqrt3")  # fmt: skip
    used = {rule for gold in (*GOLDS, *special) for rule, _ in rewrites(gold)}
    assert set(RULES) - used == set()


def test_the_script_prints_its_tables_and_keeps_the_hits(tmp_path: Path) -> None:
    rows = [{"answer": gold} for gold in ("12", r"\frac{3}{4}", r"2\sqrt{3}", "(1,2)", "")]
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [
        sys.executable,
        str(ROOT / "scripts" / "checker" / "study_golds.py"),
        "own.jsonl",
        "--output",
        "found.json",
        "--workers",
        "1",
    ]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=dict(os.environ, PYTHONPATH=str(ROOT))
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 rows, 5 different golds looked at, 1 refused" in done.stdout
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["refused"] == {"": "it is empty"}
    assert found["another"]["to look at"] == [] and found["another"]["pairs"] > 30


def test_a_file_that_is_no_set_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text('{"answer": "1"}\n{"question": "2"}\n')
    with pytest.raises(SystemExit, match=r"own.jsonl, line 2: no JSON object with the key answer."):
        read_golds([str(tmp_path / "own.jsonl")])


@pytest.mark.skipif(not SHARED.is_dir(), reason="the real question sets lie in ../shared, which is not here")
def test_a_slice_of_the_real_golds() -> None:
    sets = read_golds([str(SHARED / name) for name in ("gsm8k_test.jsonl", "math500.jsonl")])
    golds = list(dict.fromkeys(gold for rows in sets.values() for gold in rows if gold.strip()))[::12]
    assert len(golds) > 40
    with Grader(workers=1) as grader:
        for trials, wanted in ((themselves(golds), True), (others(golds, seed=2), False)):
            listed = list(trials)
            verdicts = grader.grade([(trial.answer, trial.gold) for trial in listed])
            odd = [t for t, v in zip(listed, verdicts, strict=True) if v.correct is not wanted]
            assert odd == []
