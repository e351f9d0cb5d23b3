"""`explain length`: the stop-only model on the screen, and what it refuses."""

from __future__ import annotations

import pytest

from grpo_runner.errors import InputError
from grpo_runner.lessons import length, words
from tests.lessons.test_explain_screens import has, printed


@pytest.mark.parametrize("width", [80, 120])
def test_the_figures_of_the_screen(width):
    text = printed("length", width=width)
    assert max(map(len, text.splitlines())) <= width and "…" not in text
    assert has(text, "GRPO +0.0111 -0.0111 0") and has(text, "GRPO without its std +0.0050 -0.0050 0")
    assert has(text, "Dr. GRPO 0 0 0") and has(text, "GRPO without its 1/|o| 0 0 0")
    assert "bodies of equal length cancel" in text


def test_bodies_of_different_length_do_not_cancel():
    text = " ".join(printed("length", "--wrong-body", "12").split())
    assert "GRPO +0.0111 -0.0051 +0.0061" in text and "it stops sooner: all answers shrink" in text
    text = " ".join(printed("length", "--body=12", "--wrong-body=6").split())
    assert "-0.0061" in text and "it stops later: all answers grow" in text


def test_every_word_changes_the_figures():
    """Each flag at another value gives another screen; --wrong-body at --body's gives the same one."""
    plain = printed("length")
    for flag, value in (
        ("--right", "0.5"),
        ("--group", "4"),
        ("--stop", "0.3"),
        ("--body", "2"),
        ("--wrong-body", "5"),
    ):
        assert printed("length", flag, value) != plain, flag
    assert printed("length", "--wrong-body", "6") == plain


def test_no_figure_of_the_screen_is_typed_in(monkeypatch):
    from grpo_runner.algorithm import Push

    monkeypatch.setattr(length, "stop_push", lambda *_: Push(0.5, -0.25))
    text = printed("length")
    assert "+0.5000" in text and "0.0111" not in text


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("--stop 1", "--stop: 1 is not allowed. Allowed: a chance above 0.005 and below 1."),
        ("--right 0", "--right: 0 is not allowed. Allowed: a chance above 0 and below 1."),
        ("--group 1", "--group: 1 is not allowed. Allowed: a whole number from 2 to 64."),
        ("--group 2,3", "--group takes one number."),
        ("--body 1.5", "--body: 1.5 is not allowed"),
        ("--boddy 3", 'Did you mean "--body"?'),
        ("--rewards 1,0", "--rewards goes with a group of your own."),
        ("--step 3", "--step goes with a run's folder: explain RUN_FOLDER --step N."),
        ("--stop", "--stop needs a value."),
        ("more", 'explain has no "more".'),
    ],
)
def test_what_it_refuses(typed, said):
    with pytest.raises(InputError) as caught:
        words.read(["length", *typed.split()])
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_its_flags_go_with_nothing_else_and_a_slip_of_its_name_is_seen():
    with pytest.raises(InputError, match="--body goes with explain length"):
        words.read(["--rewards", "1,0", "--body", "3"])
    with pytest.raises(InputError, match='Did you mean "length"'):
        words.read(["lenght"])
    assert "explain length" in printed("--help")
