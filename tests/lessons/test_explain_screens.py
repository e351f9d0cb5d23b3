"""`explain` as it is typed: what it prints, what it refuses, and what it does not import."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest
from rich.console import Console

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
    assert has(text, "3 0 300 -0.2500 -0.0001667 -0.05 29.6 %")
    one = printed(*words, "--advantage=grpo", "--ddof=1", "--loss-norm", "token_mean")
    assert "+1.7889" in one and "Dr. GRPO" not in one
    assert f"{1.7889 / 654:+.4g}"[:8] in one  # 654 tokens in all


def test_ratios_and_the_kl_term_of_an_own_group():
    text = printed("--rewards=1,0", "--ratio", "1.5,0.5", "--beta", "0.04", "--ref-ratio", "2", "--advantage", "grpo")
    # both clipped: only the KL part is left, 0.04 · (2 - 1) / 2 answers
    assert [line.split()[-1] for line in text.splitlines()[-2:]] == ["+0.02", "+0.02"]
    rewards = printed("--rewards", "-1,1", "--advantage", "reinforce")
    assert "-1.0000" in rewards and "coefficient" not in rewards


def test_methods_and_help():
    text = printed("methods")
    assert "experiment=dr_grpo" in text and "not yet" in text and max(map(len, text.splitlines())) <= 100
    assert "--ref-ratio" in printed("--help") and max(map(len, printed("-h").splitlines())) <= 110


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--rewards 1,0 --lengths 3", "--lengths has 1 entr.* --rewards has 2"),
        ("--rewards 1", "Allowed: 2 to"),
        ("--rewards 1,x", '"x" is not a number'),
        ("--rewards 1,", '"" is not a number'),
        ("--rewards 1,nan", "nan is not allowed"),
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
        "l.explain(['methods']); import grpo_runner.lessons.step;"
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
