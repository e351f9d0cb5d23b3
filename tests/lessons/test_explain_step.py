"""`explain RUN_FOLDER --step N` on folders written here, and on a real run's."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import zstandard

from grpo_runner import compose, run
from grpo_runner.errors import InputError
from grpo_runner.lessons import explain
from grpo_runner.lessons.show import clean, compact, signed
from grpo_runner.lessons.step import read, weigh_all
from grpo_runner.lessons.step_view import shade
from tests.helpers import changed
from tests.lessons.folders import ROWS, answer, has, printed, recorded


def test_each_answer_under_the_runs_objective_and_the_three(folder):
    """Two questions of two answers: N = 4. GRPO: ±1 over 4·|o|. Dr. GRPO: ±½ over 4·L; RLOO: ±1 over 4."""
    text = printed(str(folder(overrides=["max_new_tokens=50"])), "--step", "4", "--all")
    assert has(text, "1 1 10 +1.0000 +0.025 +0.5000 +0.0025 +1.0000 +0.25")
    assert has(text, "2 0 40 -1.0000 -0.00625 -0.5000 -0.0025 -1.0000 -0.25")
    assert has(text, "1 0 20 0 0 0 0 0 0")
    assert "= this run" in text and "text 0.1" in text and "questions.parquet has no row" in text
    only = printed(str(folder()), "--step", "4", "--question", "q1")
    assert "text 1.0" in only and "text 0.0" not in only


@pytest.mark.parametrize("width", [80, 48])
@pytest.mark.parametrize("overrides", [[], ["loss_norm=token_mean"]])
def test_every_figure_of_a_step_is_whole_at_80_columns(folder, overrides, width):
    rows = [answer(0, 0, 1, 1210), answer(0, 1, 0, 1640), answer(1, 0, 0.333333, 1999), answer(1, 1, 0, 1333)]
    path = str(folder(rows=rows, overrides=["max_new_tokens=2000", *overrides]))
    text = printed(path, "--step", "4", "--all", width=width)
    screen = text.rpartition("\npage: ")[0]  # a path stays whole
    assert max(map(len, screen.splitlines())) <= width and "…" not in text
    columns = read(Path(path), 4).columns
    assert len(columns) == (4 if overrides else 3)
    for place, row in enumerate(rows):
        pairs = [f"{signed(float(c.advantages_N[place]))} {compact(float(c.token_N[place]), 3)}" for c in columns]
        start = f"{place % 2 + 1} {row['reward']:g} {row['tokens']}"
        # four objectives: two tables of two at 80, one each at 48
        each = len(pairs) if width == 80 and not overrides else 2 if width == 80 else 1
        for at in range(0, len(pairs), each):
            assert has(text, " ".join([start, *pairs[at : at + each]]))


def test_the_head_of_a_step_is_a_sentence_and_speaks_of_colour_on_a_terminal_only(folder):
    path, wide = str(folder()), {"width": 200}
    plain = printed(path, "--step", "4", "--all", **wide)
    assert plain.startswith("step 4 (counted from 0) · GRPO") and "the advantage A of an answer" in plain
    assert "colour" not in plain and "up … down" not in plain
    assert "Each text is coloured" in printed(
        path, "--step", "4", "--all", **wide, force_terminal=True, color_system="truecolor"
    )
    assert "colour" not in printed(path, "--step", "4", "--all", **wide, force_terminal=True, no_color=True)


def test_optimizer_batches_are_those_that_trained():
    """Four rows over two optimizer steps: N is 2, not 4; token_mean divides by that half's tokens."""
    config = compose(
        [
            "loss_norm=token_mean",
            "questions_per_step=2",
            "group_size=2",
            "optim.updates_per_rollout=2",
            "optim.minibatch=group",
        ]
    )
    rewards_QG, lengths_N = torch.tensor([[1.0, 0], [1, 0]]), torch.tensor([10, 40, 20, 5])
    own = weigh_all(config, 0, rewards_QG, lengths_N)[0]
    assert own.objective.label == "this run"
    assert own.token_N.tolist() == pytest.approx([1 / 50, -1 / 50, 1 / 25, -1 / 25])
    whole = weigh_all(changed(config, optim__updates_per_rollout=1, optim__minibatch="whole"), 0, rewards_QG, lengths_N)
    assert whole[0].token_N.tolist() == pytest.approx([1 / 75, -1 / 75] * 2)


def test_a_real_run_is_recomputed_to_the_weights_that_trained(tmp_path, capsys):
    config = compose([
        "debug=cpu_smoke", "tracking=off", "tracking.completions_every=2", "steps=1", "questions_per_step=4", "evaluation.every=0",
        "data.train_size=64", "data.eval_size=16",
        "optim.updates_per_rollout=3", "optim.minibatch=response", "advantage=rloo", "loss_norm=token_mean",
    ])  # fmt: skip
    run(changed(config, run_dir=str(tmp_path / "run")))
    capsys.readouterr()
    record = read(tmp_path / "run", 0)
    assert list(record.notes) == []
    assert any(record.question_weights.values()), "nothing had weight: the comparison would be empty"
    per_question = record.columns[0].total_N.abs().view(-1, record.group_size).sum(dim=1).tolist()
    assert per_question == pytest.approx([record.question_weights[slot] for slot in range(4)])
    # negative control: a changed config.yaml is seen
    path = tmp_path / "run" / "config.yaml"
    path.write_text(path.read_text().replace("kind: token_mean", "kind: sequence_mean"))
    assert "not those of questions.parquet" in printed(str(tmp_path / "run"), "--step", "0")
    with pytest.raises(InputError, match=r"step 1 were not kept .*every=2\)\. .*: 0\.$"):
        explain([str(tmp_path / "run"), "--step", "1"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--step 3", r"step 3 were not kept .* with texts: 4\."),
        ("", r"--step is missing .* with texts: 4\."),
        ("--step x", "whole number"),
        ("--step 4 --question q", 'no question "q"'),
        ("--step 4 --beta 1", "--beta goes with"),
    ],
)
def test_a_step_that_is_not_there_is_refused_in_one_line(folder, words, said):
    with pytest.raises(InputError, match=said) as error:
        explain([str(folder()), *words.split()])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "broken",
    [
        {"rows": ROWS[:-1]},
        {"rows": ROWS[1:]},
        {"rows": []},
        {"rows": [{**row, "tokens": 0} for row in ROWS]},
        {"rows": [{**row, "completion": None} for row in ROWS]},
        {"rows": [[1]]},
        {"rows": [{**row, "reward": 1e308} for row in ROWS]},
        {"rows": [{**row, "reward": "1"} for row in ROWS]},
        {"rows": [{**row, "advantage": "1"} for row in ROWS]},
        *(
            {"rows": [{**recorded()[0], key: [1e308] * 3}, *recorded()[1:]]}
            for key in ("coefficient", "ratio", "kl", "kl_coefficient")
        ),
        {"rows": [{**recorded()[0], "coefficient": [-1.1e30] * 3}, *recorded()[1:]]},
        {"data": zstandard.ZstdCompressor().compress(b"[" * 100_000)},
        {"data": b"no zstd"},
        {"data": zstandard.ZstdCompressor().compress(b"x" * 10_000 + b"\n")[:-3]},
    ],
)
def test_damaged_texts_are_named(folder, broken):
    with pytest.raises(InputError, match="damaged|missing"):
        explain([str(folder(**broken)), "--step", "4", "--all"])


def test_large_figures_that_a_run_can_leave_are_shown(folder):
    rows = [{**recorded()[0], "coefficient": [1e30] * 3, "ratio": [1e30] * 3, "kl": [1e30] * 3}, *recorded()[1:]]
    assert "coefficient +1e+30" in printed(str(folder(rows=rows)), "--step", "4", "--all")


def test_texts_cannot_steer_the_terminal(folder):
    evil = "\x1b[2J\x1b]0;owned\x07\r\x9b31m\u202egnp.exe\u2028\ud800 ∇ 数\tend\nline two"
    rows = [{**row, "completion": evil, "question": evil, "question_id": evil, "status": evil} for row in ROWS]
    text = printed(str(folder(rows=rows)), "--step", "4", "--all")
    assert not set(text) & set("\x1b\x07\r\x9b\u202e\u2028\ud800")
    assert "\\x1b[2J" in text and "\\u202e" in text and "∇ 数" in text and "line two" in text
    assert clean("a\x00b\n\tc") == "a\\x00b\n\tc"
    with pytest.raises(InputError) as error:
        explain([str(folder(rows=rows)), "--step", "4", "--question", "other"])
    assert "\x1b" not in str(error.value)


def test_the_colour_says_sign_and_size():
    def saturation(weight: float) -> int:
        colour = shade(weight, 1.0).bgcolor.triplet
        return max(colour) - min(colour)

    assert saturation(1.0) > saturation(0.5) > saturation(0.1) > 0
    up, down = shade(0.5, 1.0).bgcolor.triplet, shade(-0.5, 1.0).bgcolor.triplet
    assert up.blue > up.red and down.red > down.blue
    assert shade(0.0, 1.0).bgcolor is None and shade(0.0, 0.0).bgcolor is None
