"""A run's answers, graded again: which verdicts change, under the run's own policy and under another."""

from __future__ import annotations

import functools

import pytest

from grpo_runner import cli
from grpo_runner.errors import InputError
from tests.grading.rows import printed
from tests.lessons.folders import answer, write

FAR, NEAR = r"so \boxed{5\text{ m}}", r"so \boxed{5\text{ cm}}"


def recorded(slot: int, sample: int, completion: str, gold: object, status: str) -> dict:
    """A row of a step, as runs write them; the question is q0, q1, …"""
    return answer(slot, sample, 0.0, 3, completion=completion, gold=gold, status=status)


ROWS = [
    recorded(0, 0, NEAR, r"5\text{ cm}", "correct"),
    recorded(0, 1, FAR, r"5\text{ cm}", "wrong"),
    recorded(1, 0, r"\boxed{7}", "7", "wrong"),  # as a checker of another day had it
    recorded(1, 1, "none", "7", "no_answer"),
]


@pytest.fixture
def folder(tmp_path):
    """A run folder with these rows as step 4."""
    return functools.partial(write, tmp_path / "cpu_smoke,beta=0.04")


def rows_of(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_the_verdicts_that_would_change(folder):
    code, text = printed(str(folder(ROWS)), "--step", "4")
    assert code == 1
    assert ["q1", "0", "7", "7", "wrong", "correct", "identical"] in rows_of(text)
    assert not any(line[:1] == ["q0"] for line in rows_of(text))
    assert "3 of 4 verdicts of step 4 stand; 1 would change: 1 not right before and right now" in text
    assert "identical: the two texts are the same" in text


def test_when_every_verdict_stands(folder):
    code, text = printed(str(folder([ROWS[0], ROWS[1], ROWS[3]])), "--step", "4")
    assert (code, text.strip()) == (0, "3 of 3 verdicts of step 4 stand; none would change")


def test_overrides_change_the_runs_policy(folder):
    run = str(folder([*ROWS[:2], ROWS[3]]))
    code, text = printed(run, "reward.units=ignored")
    assert code == 1 and ["q0", "1", r"5\text{", "m}", r"5\text{", "cm}", "wrong", "correct", "value"] in rows_of(text)
    assert "under the run's policy with reward.units=ignored" in text
    code, text = printed(run, "reward=boxed_strict")
    assert code == 0  # the same text is the same text


def test_the_runs_own_policy_counts(folder):
    assert printed(str(folder(ROWS[:2], ["reward.units=ignored"])))[0] == 1
    marked = [recorded(0, 0, "The answer is 7.", "7", "no_answer")]
    assert printed(str(folder(marked, ["reward.extract=box"])))[0] == 0
    assert printed(str(folder(marked, ["reward.extract=box"])), "reward.units=ignored")[0] == 0  # box stays
    assert printed(str(folder(marked, ["reward.extract=box"])), "reward=math_answer")[0] == 1  # and is replaced


def test_several_golds(folder):
    row = recorded(0, 0, r"\boxed{7}", ["5", "7"], "wrong")
    code, text = printed(str(folder([row])))
    assert code == 1 and ["q0", "0", "7", "5", "or", "7", "wrong", "correct", "identical"] in rows_of(text)


def test_all_steps_without_a_number(folder):
    run = folder(ROWS)
    kept = run / "completions" / "step_000004.jsonl.zst"
    (run / "completions" / "step_000012.jsonl.zst").write_bytes(kept.read_bytes())
    code, text = printed(str(run))
    assert code == 1 and "6 of 8 verdicts of 2 steps stand; 2 would change" in text
    assert [line[0] for line in rows_of(text) if "q1" in line] == ["4", "12"]


def test_a_long_list_is_cut_and_all_shows_it(folder):
    run = str(folder([recorded(slot, 0, r"\boxed{7}", "7", "wrong") for slot in range(60)]))
    cut, whole = printed(run)[1], printed(run, "--all")[1]
    assert sum(line[:1] != [] and line[0].startswith("q") for line in rows_of(cut)) == 51  # and the head
    assert "… and 10 more; --all shows them" in cut and "--all" not in whole and "q59" in whole and "q59" not in cut


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_fits(folder, width):
    long = r"\frac{1}{2}+\frac{x^2+3x+17}{\sqrt{29}}" * 3
    row = recorded(0, 0, rf"\boxed{{{long}}}", long, "no_answer") | {"question_id": "a_long_name_of_a_set/123456"}
    _, text = printed(str(folder([row])), width=width)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= width
    assert "no_answer" in text and "correct" in text and "identical" in text  # no verdict is cut


def test_texts_that_could_steer_a_terminal(folder):
    row = recorded(0, 0, "\\boxed{\x1b[31m2}", "2", "correct") | {"question_id": "\x1b[2J"}
    assert "\x1b" not in printed(str(folder([row])))[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--step", "3"], "The texts of step 3 were not kept (tracking.completions_every=4)."),
        (["reward.units=maybe"], "reward.units=maybe is not allowed. It takes optional, ignored or required."),
        (["reward=boxed_strct"], "boxed_strct"),
    ],
)
def test_what_cannot_be_asked(folder, words, said, capsys):
    assert cli.main(["check", str(folder(ROWS)), *words]) == 2
    assert said in capsys.readouterr().err


def test_folders_that_are_no_run_or_keep_no_texts(folder, tmp_path, capsys):
    assert cli.main(["check", str(tmp_path)]) == 2
    assert "no run folder (no config.yaml in it)." in capsys.readouterr().err
    run = folder(ROWS)
    (run / "completions" / "step_000004.jsonl.zst").unlink()
    assert cli.main(["check", str(run)]) == 2
    assert "holds no texts of any step" in capsys.readouterr().err


@pytest.mark.parametrize(
    "rows",
    [[{}], [1], [ROWS[0] | {"gold": None}], [ROWS[0] | {"gold": []}], [ROWS[0] | {"slot": "0"}]],
)
def test_rows_that_are_no_answers(folder, rows):
    with pytest.raises(InputError, match="not readable as the answers of a step"):
        printed(str(folder(rows)))


def test_a_damaged_file(folder):
    with pytest.raises(InputError, match="not readable as the answers of a step"):
        printed(str(folder(data=b"no zstd")))
