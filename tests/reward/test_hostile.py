"""Hostile answers (hostile.py): each is a verdict, none is rewarded, nothing they hold is executed, and the honest rows among
them are graded as if they stood alone. A hang is caught by the time limit of the program that a test starts."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import hostile
import pytest

from grpo_runner.reward import Grader
from grpo_runner.reward.check import decide
from grpo_runner.reward.extract import offer
from grpo_runner.types import Status

LIMIT_S = 300  # of a whole program; on an idle core they take a few seconds
ROOT = Path(__file__).parents[2]


def program(body: str, folder: Path) -> str:
    """The output of a Python program that imports hostile, in a folder of its own; fails when it takes too long."""
    head = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(Path(__file__).parent)!r}]\nimport hostile\n"
    done = subprocess.run(
        [sys.executable, "-B", "-c", head + textwrap.dedent(body)],
        capture_output=True, text=True, timeout=LIMIT_S, cwd=folder, check=True,
    )  # fmt: skip
    assert not list(folder.iterdir()), "a response made the grader write a file"
    return done.stdout


def test_there_are_enough_of_them_and_each_is_another_text() -> None:
    texts = dict(hostile.strings())
    assert len(texts) >= 250
    assert len(set(texts.values())) >= 0.95 * len(texts)


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, 6))])
def test_exact_rules_decide_or_pass_on_every_one(part: int, tmp_path: Path) -> None:
    """The part without a deadline: no exception, no error, nothing slow enough to be noticed (in processor time).

    Every second text in one dressing of three, another in each part.
    """
    said = program(
        f"""
        import time
        from grpo_runner.reward.check import decide
        from grpo_runner.reward.extract import offer
        slow, broken, seen = [], [], 0
        for number, (name, text) in enumerate(hostile.strings()):
            for dressing, response in list(hostile.dressed(text).items())[(number + {part}) % 6 :: 6]:
                since = time.process_time()
                answers = offer(response).answers
                for gold in hostile.GOLDS[number % 5 :: 5] if answers else ():
                    verdict = decide(answers, (gold,))
                    seen += 1
                    if verdict is not None and verdict.status.value == "error":
                        broken.append((name, dressing, gold, verdict.rule))
                if time.process_time() - since > 5:
                    slow.append((name, dressing, len(text)))
        print(seen > 500, slow, broken)
        """,
        tmp_path,
    )
    assert said.strip() == "True [] []"


@pytest.mark.parametrize("part", [0, 1, *(pytest.param(part, marks=pytest.mark.slow) for part in (2, 3))])
def test_a_grader_gives_each_a_verdict_and_knows_the_honest_rows_between_them(part: int, tmp_path: Path) -> None:
    """Every hostile text in one dressing against one gold, an honest row after each; memory is measured at the end."""
    said = program(
        f"""
        import json, resource
        from grpo_runner.reward import Grader
        rows, honest = [], []
        dressings = ("box", "marker", "bare")
        for number, (name, text) in enumerate(hostile.strings()):
            if number % 4 != {part}:
                continue
            gold = hostile.GOLDS[number // 4 % len(hostile.GOLDS)]
            rows.append((hostile.dressed(text)[dressings[number // 4 % 3]], gold))
            response, gold, right = hostile.HONEST[number // 4 % len(hostile.HONEST)]
            honest.append(right)
            rows.append((response, gold))
        with Grader(workers=2, deadline_s=5.0) as grader:
            verdicts = grader.grade(rows)
        wrong = [rows[2 * i + 1] for i, right in enumerate(honest) if verdicts[2 * i + 1].correct is not right]
        late = [verdict.seconds for verdict in verdicts if verdict.seconds > 11]
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
        print(len(verdicts) == len(rows) > 100, wrong, late, peak < 1024)
        """,
        tmp_path,
    )
    assert said.strip() == "True [] [] True"


def test_none_of_the_code_is_rewarded_or_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    texts = [text for family in hostile.CODE.values() for text in family]
    rows = [
        (response, gold) for text in texts for response in hostile.dressed(text).values() for gold in ("7", r"\sqrt7")
    ]
    with Grader(workers=2, deadline_s=10.0) as grader:
        verdicts = grader.grade(rows)
    assert not [row for row, verdict in zip(rows, verdicts, strict=True) if verdict.correct]
    assert not list(tmp_path.iterdir())


def test_a_thousand_rows_of_which_every_fifth_is_hostile() -> None:
    texts = [text for _, text in hostile.strings() if len(text) < 100_000]
    rows, wanted = [], []
    for number in range(1000):
        if number % 5 == 4:
            rows.append((hostile.dressed(texts[number // 5 % len(texts)])["box"], "5"))
            wanted.append(None)
        else:
            response, gold, right = hostile.HONEST[number % len(hostile.HONEST)]
            # other numbers in each, so that hardly any comes from the cache
            rows.append((response, gold) if number % 2 else (rf"\boxed{{x+{number}+\sqrt2}}", rf"\sqrt2+{number}+x"))
            wanted.append(right if number % 2 else True)
    with Grader(workers=2, deadline_s=20.0) as grader:
        verdicts = grader.grade(rows)
    honest = [(row, verdict) for row, verdict, right in zip(rows, verdicts, wanted, strict=True) if right is not None]
    assert len(honest) == 800
    assert [v.correct for _, v in honest] == [right for right in wanted if right is not None]


def test_the_exact_rules_know_the_honest_rows_that_need_no_algebra() -> None:
    """A negative control: the rows between the hostile ones are right and wrong ones, and most need computer algebra."""
    found = [decide(offer(response).answers, (gold,)) for response, gold, _ in hostile.HONEST]
    assert [verdict is None for verdict in found] == [True, True, True, True, False]
    assert found[-1] is not None and found[-1].status is Status.CORRECT
    assert {right for _, _, right in hostile.HONEST} == {True, False}
