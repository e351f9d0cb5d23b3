"""Flags that stand twice, hold nothing or go to one file; a closed pipe; arms and columns by the names they have."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest
from made_runs import lines, pair_of_arms, run_folder
from rich.console import Console

from grpo_runner.compare.check import worst
from grpo_runner.compare.command import compare
from grpo_runner.compare.foreign import parse
from grpo_runner.errors import InputError

TRUE, FALSE = "length/wrong: dr_grpo < grpo", "length/wrong: dr_grpo > grpo"


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    return str(pair_of_arms(tmp_path_factory.mktemp("sweeps") / "both", range(6)))


def printed(*words: str, width: int = 400, code: int = 0) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False)
    assert compare(words, console) == code
    return console.file.getvalue()


def test_every_check_counts(sweep):
    said = printed(sweep, "--check", FALSE, "--check", TRUE, "--metric", "length/wrong", code=1).splitlines()
    assert [line.partition(":")[2].split(":")[0].strip() for line in said[-2:]] == [
        "not shown, but the opposite",
        "shown",
    ]
    printed(sweep, "--check", TRUE, "--check", TRUE, "--metric", "length/wrong")
    assert [worst(codes) for codes in ([0, 0], [0, 3], [3, 1, 0], [0, 1])] == [0, 3, 1, 1]


def test_standard_output_holds_a_file_alone_beside_a_check(sweep, tmp_path, capsys):
    words = [sweep, "--metric", "length/wrong", "--check", TRUE, "--json", "-", "--csv", str(tmp_path / "x.csv")]
    assert printed(*words) == ""
    out, err = capsys.readouterr()
    assert json.loads(out)["title"] == "both" and "written: " in err and "check: shown" in err


def test_lists_given_twice_are_one_and_a_measure_stands_once(sweep):
    twice = printed(sweep, "--metric", "entropy", "--metric", "length/wrong,entropy")
    assert [line.split()[0] for line in twice.splitlines() if line.startswith(("entropy", "length/wrong"))] == [
        "entropy",
        "length/wrong",
    ]
    assert "Stated beforehand: entropy, length/wrong." in twice and "Bold" not in twice  # nothing is bold in a pipe


def test_a_logged_key_of_the_catalogue_is_that_measure(sweep, tmp_path):
    path = tmp_path / "x.json"
    printed(sweep, "--metric", "eval/sampled/accuracy,accuracy", "--json", str(path))
    found = json.loads(path.read_text())["effects"]
    assert [one["measure"] for one in found if one["primary"]] == ["accuracy"]
    assert len({one["measure"] for one in found}) == len(found)
    assert found[0]["unit"] == "points" and not any("eval/" in one["measure"] for one in found)
    printed(sweep, "--metric", "accuracy", "--check", "eval/sampled/accuracy: dr_grpo > grpo", code=1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--check", ""], "--check '': nothing is given"),
        (["--metric", ""], "--metric '': nothing"),
        (["--metric", " , "], "--metric '': nothing"),
        (["--by", ""], "--by '': nothing"),
        (["--html", ""], "--html '': nothing"),
        (["--html", "a.html", "--html", "b.html"], "--html is given 2 times"),
        (["--html", "-"], "go into files"),
        (["--html", "x.html", "--csv", "./x.html"], "--csv and --html both go to"),
        (["--json", "x", "--figures", "x"], "both go to"),
        (["--by", "seed"], "seeds make the pairs"),
        (["--baseline", "drgrpo"], 'no arm is named drgrpo. Did you mean "dr_grpo"'),
        (
            ["--baseline", "advantage=dr_gpo"],
            'Did you mean "advantage=dr_grpo".* The arms:\n  Dr. GRPO: advantage=dr_grpo',
        ),
        (["--columns", "accuracy=x"], "--columns accuracy=x: it is for logs of others"),
        (["--seed-from", r"seed=(\d)"], "it is for logs of others"),
    ],
)
def test_words_that_are_refused_before_anything_is_written(sweep, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=said) as refused:
        printed(sweep, *words)
    assert len(str(refused.value).splitlines()) <= 5 and not list(tmp_path.iterdir())


def test_pairs_of_a_key_and_its_value_need_no_blank(sweep):
    printed(sweep, "--metric", "length/wrong", "--check", "length/wrong: advantage=dr_grpo,loss_norm=constant < GRPO")
    with pytest.raises(InputError, match="no arm is named"):  # not both hold of one arm
        printed(sweep, "--check", "length/wrong: advantage=dr_grpo,loss_norm=sequence_mean < GRPO")


def test_a_closed_pipe_changes_neither_the_exit_code_nor_the_files(sweep, tmp_path):
    page = tmp_path / "x.csv"
    words = [sys.executable, "-m", "grpo_runner", "compare", sweep, "--check", FALSE, "--csv", str(page)]
    read, write = os.pipe()
    os.close(read)  # the reader is gone before the first line
    done = subprocess.run(words, stdout=write, stderr=subprocess.PIPE, text=True, timeout=120)
    os.close(write)
    assert done.returncode == 1 and page.read_text().startswith("arm,") and done.stderr == ""


# --- a run of ours that is not whole


def damaged(tmp_path, damage):
    place = pair_of_arms(tmp_path / "both", range(6))
    damage(place / "advantage=grpo,seed=0")
    return printed(str(place)).splitlines()


@pytest.mark.parametrize(
    "damage",
    [
        lambda run: (run / "metrics.jsonl").unlink(),
        lambda run: (run / "metrics.jsonl").write_text(""),
        lambda run: (run / "metrics.jsonl").write_text((run / "metrics.jsonl").read_text().splitlines(True)[0]),
        lambda run: (run / "metrics.jsonl").write_text(
            "".join((run / "metrics.jsonl").read_text().splitlines(True)[:18])
        ),
    ],
)
def test_a_run_without_its_last_steps_is_in_no_difference_and_the_table_says_so(tmp_path, damage):
    found = damaged(tmp_path, damage)
    assert "5 paired seeds" in found[1]
    assert any("advantage=grpo,seed=0 (" in line and "no figures of the window" in line for line in found)
    (arm,) = [line for line in found if line.startswith("GRPO  baseline")]
    assert " 1 to 5 " in arm and " 0 to 5 " not in arm
    assert not any("(5 pairs)" in line for line in found)  # all measures alike


def test_a_run_that_lacks_only_its_mark_counts_and_is_said_to(tmp_path):
    found = damaged(tmp_path, lambda run: (run / "DONE").unlink())
    assert "6 paired seeds" in found[1] and not any("no figures" in line for line in found)
    assert any("with its last step: advantage=grpo,seed=0. They count." in line for line in found)


def test_a_run_without_evaluations_is_named(tmp_path):
    found = damaged(tmp_path, lambda run: (run / "evals.jsonl").unlink())
    assert any("No figure in the window of accuracy" in line and "advantage=grpo,seed=0" in line for line in found)


def test_lengths_that_are_of_training_for_all_name_the_run_that_lacks_its_evaluations(tmp_path):
    for seed in range(2):
        evals = {20: {"sampled/length_wrong": 9.0}} if seed else {}
        run_folder(tmp_path / f"seed={seed}", seed, lambda step: {"length/wrong": 5.0}, evals)
    said = printed(str(tmp_path))
    assert "Without evaluations of it: seed=0. So length/wrong is taken from elsewhere" in said


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("evals.jsonl", '{"step": 0, "greedy/accuracy": "abc"}\n', r'evals.jsonl: greedy/accuracy at step 0 is "abc"'),
        ("data.json", "{}", r'data.json is not as a run leaves it \(no "sha256" in it\)'),
        ("summary.json", "{}", r'summary.json is not as a run leaves it \(no "steps" in it\)'),
    ],
)
def test_what_no_run_wrote_is_named(tmp_path, name, text, said):
    folder = run_folder(tmp_path / "run", 0, lambda step: {"kl": 0.5}, {})
    (folder / name).write_text(text)
    with pytest.raises(InputError, match=said):
        printed(str(folder))


def test_a_folder_in_a_files_place_is_no_crash(tmp_path):
    folder = run_folder(tmp_path / "run", 0, lambda step: {"kl": 0.5}, {})
    (folder / "metrics.jsonl").unlink()
    (folder / "metrics.jsonl").mkdir()
    with pytest.raises(InputError, match="metrics.jsonl cannot be read"):
        printed(str(folder))


# --- logs of others


def logs(folder, rows=30, spoil=lambda name, step: {}):
    folder.mkdir()
    for name in ("a_seed0", "a_seed1", "b_seed0", "b_seed1"):
        made = [{"it": step, "acc": 0.5 + 0.001 * len(name) * step} | spoil(name, step) for step in range(rows)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made))
    return [f"{folder}/*.jsonl", "--seed-from", r"seed(\d+)", "--columns"]


def test_arms_of_others_have_their_plain_names_and_unequal_lengths_are_named(tmp_path):
    words = logs(tmp_path / "logs")
    assert "b against a, 2 paired seeds" in printed(*words, "step=it,accuracy=acc")
    file = tmp_path / "logs/b_seed1.jsonl"
    assert "end at different steps" not in printed(*words, "step=it,accuracy=acc")
    file.write_text("".join(file.read_text().splitlines(True)[:12]))
    said = printed(*words, "step=it,accuracy=acc")
    assert "The logs end at different steps, most at 30: b_seed1 (at 12). Each has its own final window." in said


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "bad"])
def test_values_that_are_no_numbers_are_named_where_they_would_count(tmp_path, value):
    spoil = lambda name, step: {"acc": value} if (name, step) in (("b_seed1", 28), ("a_seed0", 3)) else {}  # noqa: E731
    said = printed(*logs(tmp_path / "logs", spoil=spoil), "step=it,reward=acc")
    assert (
        "reward: values of the window that are no finite numbers are left out: b_seed1 (1, first at step 28)." in said
    )
    assert "a_seed0 (" not in said


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("step=it,acuracy=acc", 'acuracy=acc: "acuracy" is no name of ours. Did you mean "accuracy"'),
        ("step=it,accuracy=acc,accuracy=it", "accuracy is given twice"),
        ("step=it,reward=rew", r'--columns reward=rew: .* has no column "rew"'),  # as it was typed
        ("step=it,reward=note", 'has no number in "note"'),
        ("step=it", "None of these logs has a figure by a name of ours"),
    ],
)
def test_columns_that_cannot_be_meant(tmp_path, columns, said):
    words = logs(tmp_path / "logs", rows=3, spoil=lambda name, step: {"note": "x"})
    with pytest.raises(InputError, match=said) as refused:
        printed(*words, columns)
    assert len(str(refused.value).splitlines()) <= 5


def test_a_name_of_ones_own_is_one_that_metric_states(tmp_path):
    assert parse("score=val/score", None, ["score"]).names == {"score": "val/score"}
    assert "score" in printed(*logs(tmp_path / "logs", rows=3), "step=it,score=acc", "--metric", "score")


def test_a_ragged_csv_is_refused_by_its_row_and_a_step_that_is_no_number_too(tmp_path):
    file = tmp_path / "a_seed0.csv"
    file.write_text("step,accuracy\n0,0.5\n1,0.5,7\n")
    with pytest.raises(InputError, match="row 2 has 3 cells, and the head 2"):
        printed(str(file), "--seed-from", r"seed(\d)")
    file.write_text("step,accuracy\n0,0.5\nnan,0.5\n")
    with pytest.raises(InputError, match="row 2 has the step nan"):
        printed(str(file), "--seed-from", r"seed(\d)")
    file.write_text("step,reward/mean\n0,0.5\n1")  # still being written
    assert "0.500" in printed(str(file), "--seed-from", r"seed(\d)")


def test_hints_lead_to_what_is_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pair_of_arms(tmp_path / "outputs/sweeps/wk", [0])
    (tmp_path / "logs").mkdir()
    lines(tmp_path / "logs/a_seed0.jsonl", [{"step": 0}])
    (tmp_path / "sl").symlink_to("nowhere")
    for word, said in (
        ("wk", 'Did you mean "outputs/sweeps/wk"'),
        ("logs", r"no run in it, but logs. Name the files: logs/\*.jsonl"),
        ("sl", "It is a link to nowhere, which is not there"),
    ):
        with pytest.raises(InputError, match=said):
            printed(word)
    with pytest.raises(InputError, match='"a" is no whole number in logs/a_seed0.jsonl'):
        printed("logs/a_seed0.jsonl", "--seed-from", "(a)_seed")


def test_no_pair_says_what_is_missing_the_seed_or_the_figure(tmp_path):
    for arm, key in (("grpo", "reward/mean"), ("rloo", "kl")):
        run_folder(tmp_path / arm, 0, lambda step, key=key: {key: 0.5}, {}, f"advantage={arm}")
    assert "No verdict: no arm shares a figure of the window with the baseline" in printed(str(tmp_path))
