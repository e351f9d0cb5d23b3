"""`explain` as it is typed: what it prints, what it refuses, and what it does not import."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest
from rich.console import Console

from grpo_runner.algorithm import LOSS_NORMS
from grpo_runner.errors import InputError
from grpo_runner.lessons import explain


def printed(*words: str, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False)
    assert explain(words, console) == 0
    return console.file.getvalue()


def has(text: str, row: str) -> bool:
    """Whether the text has this line, blanks aside."""
    return row.split() in [line.split() for line in text.splitlines()]


@pytest.mark.parametrize("width", [80, 100])
def test_the_worked_numbers_fit_one_screen_and_are_the_papers(width):
    text = printed(width=width)
    lines = text.splitlines()
    assert len(lines) <= 55 and max(map(len, lines)) <= width and "…" not in text
    assert has(text, "1,0,0,1 +1.0000 -1.0000 +0.5000 -0.5000 +0.6667 -0.6667")
    assert has(text, "1,0,0,0 +1.7321 -0.5774 +0.7500 -0.2500 +1.0000 -0.3333")
    assert has(text, "1,1,1,0 +0.5774 -1.7321 +0.2500 -0.7500 +0.3333 -1.0000")
    assert has(text, "0.5 0.1931 -0.02 0.98") and has(text, "2 0.3069 +0.04 1.04")
    assert has(text, "right, 400 tokens +0.0025 +1 +0.001 +0.4")
    assert has(text, "wrong, 100 tokens -0.01 -1 -0.001 -0.1")
    assert has(text, "0.01 0.1990 0.0198 10.0504") and has(text, "0.1 0.6000 0.1800 3.3333")
    assert has(text, "-1 10 -10 -10 -3 0") and has(text, "-1 0.5 -0.8 0 -0.8 0")
    assert has(text, "4 0.7500 1.0000 1.6346")


def test_no_figure_of_the_screen_is_typed_in(monkeypatch):
    """Negative control: with another advantage function, the screen shows its numbers."""
    from grpo_runner.lessons import figures

    monkeypatch.setattr(figures, "advantages", lambda rewards_QG, *_: rewards_QG * 7)
    text = printed()
    assert "+7.0000" in text and "1.7321" not in text and "10.0504" not in text


def test_an_own_group_under_three_methods_and_under_one():
    words = ["--rewards", "1,0,0,0,0", "--lengths", "120,80,300,64,90"]
    text = printed(*words)
    assert [text.count(f"\n{name}:") for name in ("GRPO", "Dr. GRPO", "RLOO")] == [1, 1, 1]
    assert has(text, "1 1 120 +2.0000 +0.003333 +0.4 50.0 %")
    assert has(text, "1 1 120 +0.8000 +0.0005333 +0.064 47.3 %")
    assert has(text, "3 0 300 -0.2500 -0.05 -15 29.6 %")
    one = printed(*words, "--advantage=grpo", "--ddof=1", "--loss-norm", "token_mean")
    assert "+1.7889" in one and "Dr. GRPO" not in one
    assert f"{1.7889 / 654:+.4g}"[:8] in one  # 654 tokens in all


def test_ratios_and_the_kl_term_of_an_own_group():
    text = printed("--rewards=1,0", "--ratio", "1.5,0.5", "--beta", "0.04", "--ref-ratio", "2", "--advantage", "grpo")
    # both clipped: only the KL part is left, 0.04 · (2 - 1) / 2 answers
    assert [line.split()[-1] for line in text.splitlines()[-2:]] == ["+0.02", "+0.02"]
    rewards = printed("--rewards", "-1,1", "--advantage", "reinforce")
    assert "-1.0000" in rewards and "coefficient" not in rewards


@pytest.mark.parametrize(
    "extra", ["", "--lengths 12000,8000,30000,6400,9000", "--rewards=-0.333333,2.5e8,-1.234e8,0,1"]
)
def test_every_figure_of_an_own_group_is_whole_at_80_columns(extra):
    words = ["--rewards", "1,0,0,0,0", "--lengths", "120,80,300,64,90", "--beta", "0.04"]
    words = words[2:] if "--rewards" in extra else words[:2] + words[4:] if "--lengths" in extra else words
    narrow, wide = (printed(*words, *extra.split(), width=width) for width in (80, 200))
    assert max(map(len, narrow.splitlines())) <= 80 and "…" not in narrow
    rows = [line for line in wide.splitlines() if line[:1].isdecimal()]
    assert len(rows) == 15 and all(len(row.split()) == 9 and has(narrow, row) for row in rows)
    if not extra:
        assert has(narrow, "1 1 120 +2.0000 +0.003333 +0.4 50.0 % +0.003333")
        assert has(narrow, "answer reward tokens advantage a token the answer share of a token")
        assert "L=300" in narrow


def test_narrower_than_a_table_nothing_is_cut():
    text = printed("--rewards", "1,0", "--lengths", "120,80", "--beta", "0.04", width=40)
    assert has(text, "1 1 120 +1.0000 +0.004167 +0.5 50.0 % +0.004167")


@pytest.mark.parametrize(
    ("extra", "coefficient", "note"),
    [
        ("--beta 0.04", "with the KL term", True),
        ("--beta 0.04 --ref-ratio 0.5", "with the KL term at the ratios given", False),
        ("--ratio 1.5", "with the clip at the ratios given", False),
        ("--ratio 1.5 --beta 0.04", "with the clip and the KL term at the ratios given", True),
    ],
)
def test_what_the_coefficient_has_in_it_is_said(extra, coefficient, note):
    lines = printed("--rewards", "1,0", *extra.split()).splitlines()
    assert f"coefficient: autograd's, {coefficient}" in lines
    said = "reference = policy: the KL part is 0; give --ref-ratio, for example 0.5"
    assert (said in lines) == note


def test_advantages_over_the_whole_step_are_there_too():
    """A group as the whole step: its std is the group's, its mean the group's."""
    assert has(printed("--rewards", "1,0", "--advantage", "batch_std"), "1 1 1 +1.0000 +0.5 +0.5 50.0 %")
    assert has(printed("--rewards", "1,0", "--advantage", "reinforce_baseline"), "1 1 1 +0.5000 +0.25 +0.25 50.0 %")


def test_an_excluded_answer_is_in_neither_baseline_nor_loss():
    """1, 0, 1 without the second: mean 2/3, std √2/3; GRPO's A is 1/√2, -√2, 1/√2, over 3·|o|."""
    words = ["--lengths", "10,20,30,40", "--advantage", "grpo", "--beta", "0.04", "--ref-ratio", "2"]
    text = printed("--rewards", "1,none,0,1", *words)
    assert "divides by 3." in text and "excluded: 1;" in text
    assert has(text, "1 1 10 +0.7071 +0.02357 +0.2357 25.0 % +0.0249")  # and 0.04 · (2 - 1) / 30
    assert has(text, "2 excluded 20 - - - - -")
    assert has(text, "3 0 30 -1.4142 -0.01571 -0.4714 50.0 % -0.01527")
    assert text == printed("--rewards", "1,NaN,0,1", *words)
    # negative control: a reward of 0 in its place is another group
    assert "+0.7071" not in printed("--rewards", "1,0,0,1", *words)
    assert has(printed("--rewards", "1,none", "--advantage", "rloo"), "1 1 1 0 0 0 -")


def test_the_tokens_of_a_group_count_the_same():
    text = printed("--rewards", "1,0", "--lengths", "30,10", "--advantage", "grpo", "--loss-norm", "group_token_mean")
    assert has(text, "1 1 30 +1.0000 +0.025 +0.75 75.0 %") and has(text, "2 0 10 -1.0000 -0.025 -0.25 25.0 %")
    assert "every token of its group the same" in text


def test_methods_and_help():
    text = printed("methods")
    assert (
        "method=dr_grpo" in text
        and "method=sft" in text
        and "experiment=" not in text
        and max(map(len, text.splitlines())) <= 100
    )
    assert "--ref-ratio" in printed("--help") and max(map(len, printed("-h").splitlines())) <= 110
    assert set(LOSS_NORMS) <= set(printed("--help").replace(",", " ").replace(";", " ").split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--rewards 1,0 --lengths 3", "--lengths has 1 entr.* --rewards has 2"),
        ("--rewards 1", "Allowed: 2 to"),
        ("--rewards 1,x", '"x" is not a number'),
        ("--rewards 1,", '"" is not a number'),
        ("--rewards 1,inf", "inf is not allowed"),
        ("--rewards 1,0 --lengths 1,nan", "nan is not allowed"),
        ("--rewards none,nan", "every answer is excluded"),
        ("--rewards 1,non", '"non" is not a number'),
        ("--rewards 1,1e400", "not allowed"),
        ("--rewards 1,0 --lengths 0,4", "whole number from 1"),
        ("--rewards 1,0 --lengths 2.5,4", "whole number from 1"),
        ("--rewards 1,0 --advantage drgrpo", 'Did you mean "dr_grpo"'),
        ("--rewards 1,0 --loss-norm sequence_men", 'Did you mean "sequence_mean"'),
        ("--reward 1,0", 'Did you mean "--rewards"'),
        ("--rewards", "needs a value"),
        ("--rewards 1,0 --rewards 1,0", "given twice"),
        ("--lengths 1,0", "--rewards is missing"),
        ("--rewards 1,0 --ddof 2", "from 0 to 1"),
        ("--rewards 1,0 --ddof 1 --advantage rloo", "--ddof changes nothing"),
        ("--rewards 1,0 --budget 9 --advantage grpo", "--budget changes nothing"),
        ("--rewards 1,0 --budget 0", "above 0"),
        ("--rewards 1,0 --ref-ratio 2", "without --beta"),
        ("--rewards 1,0 --clip 0.1", "without --ratio"),
        ("--rewards 1,0 --beta 1,2", "one number"),
        ("--rewards 1,0 --beta 1 --ref-ratio 1,2,3", "3 entries"),
        ("--rewards 1,0 --step 3", "RUN_FOLDER --step"),
        ("--rewards 1,0 --html x", "RUN_FOLDER --step"),
        ("methods now", '"now"'),
        ("method", 'Did you mean "methods"'),
        ("nowhere --step 3", "no run folder"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(words, said):
    with pytest.raises(InputError, match=said) as error:
        explain(words.split())
    assert "\n" not in str(error.value) and error.value.exit_code == 2


def test_it_imports_no_transformers_and_the_package_no_torch():
    code = (
        "import sys, grpo_runner.lessons as l; assert 'torch' not in sys.modules, 'torch'; l.explain([]);"
        "l.explain(['methods']); import grpo_runner.lessons.step_view, grpo_runner.lessons.page;"
        "sys.exit(any(name in sys.modules for name in ('transformers', 'hydra', 'matplotlib', 'wandb', 'sympy')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_reader_that_goes_away_is_handed_on(monkeypatch):
    from grpo_runner.lessons.show import Screen

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    with pytest.raises(BrokenPipeError):
        explain([], Screen())
