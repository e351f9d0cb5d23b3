"""Words of the command line -> runs: which folders are found, what is read of them, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from made_runs import STEPS, add_evaluation, lines, pair_of_arms, run_folder

from grpo_runner.compare.foreign import parse
from grpo_runner.compare.read import question_rows, read
from grpo_runner.errors import InputError


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    return pair_of_arms(tmp_path_factory.mktemp("sweeps") / "both", [0, 1])


def test_a_sweep_a_glob_and_its_folders_are_the_same_runs(sweep):
    names = [run.name for run in read([str(sweep)])]
    assert names == [f"advantage={arm},seed={seed}" for arm in ("dr_grpo", "grpo") for seed in (0, 1)]
    assert [run.name for run in read([f"{sweep}/*"])] == names
    assert [run.name for run in read([f"{sweep}/*grpo,seed=1", str(sweep / "advantage=grpo,seed=1")])] == [
        "advantage=dr_grpo,seed=1",
        "advantage=grpo,seed=1",
    ]


def test_what_is_read_of_a_run(sweep):
    (run,) = read([str(sweep / "advantage=dr_grpo,seed=1")])
    assert (run.seed, run.method, run.steps, run.finished, run.source) == (1, "Dr. GRPO", STEPS, True, "folder")
    assert (run.commit, run.data) == ("a" * 40, "d" * 64)
    assert run.settings["advantage.scale"] == "none" and run.settings["optim.betas"] == (0.9, 0.999)
    assert run.series["entropy"].steps_N.tolist() == list(range(STEPS))
    np.testing.assert_allclose(run.series["eval/sampled/accuracy"].values_N, [0.01, 0.16, 0.31, 0.46, 0.61])


def test_an_unfinished_run_names_its_method_and_a_torn_line_is_left_out(tmp_path):
    folder = run_folder(tmp_path / "run", 0, lambda step: {"kl": None if step else 0.5}, {}, made=3)
    with open(folder / "metrics.jsonl", "a") as file:
        file.write('{"step": 3, "kl": 0.')
    (run,) = read([str(folder)])
    assert (run.method, run.finished, run.commit) == ("GRPO", False, None)
    assert run.series["kl"].steps_N.tolist() == [0]  # what could not be computed is no point, and no 0


def test_a_key_that_came_later_is_as_runs_without_it_were(tmp_path):
    folder = run_folder(tmp_path / "run", 0, lambda step: {}, {})
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text("".join(line for line in text.splitlines(True) if "entropy_bonus" not in line))
    assert read([str(folder)])[0].settings["entropy_bonus"] == 0.0


def test_the_questions_of_an_evaluation(sweep, tmp_path):
    folder = run_folder(tmp_path / "run", 0, lambda step: {}, {})
    (run,) = read([str(folder)])
    assert question_rows(run) == []
    add_evaluation(folder, 10, {"a": 1})
    add_evaluation(folder, 20, {"a": 3, "b": 4})
    assert [row["sampled/right"] for row in question_rows(run)] == [3, 4]
    assert [row["sampled/right"] for row in question_rows(run, 10)] == [1]
    assert question_rows(run, 15) == []
    (folder / "evaluations" / "step_000020.jsonl.zst").write_bytes(b"torn")
    with pytest.raises(InputError, match="step_000020.jsonl.zst: not readable"):
        question_rows(run)


@pytest.mark.parametrize(
    ("name", "said"),
    [("bothe", 'no such folder.*Did you mean "both"'), ("both/*seed=7", "nothing that fits it"), (".", "no run in it")],
)
def test_words_that_name_no_run(sweep, tmp_path, name, said):
    where = tmp_path if name == "." else sweep.parent
    with pytest.raises(InputError, match=said):
        read([str(where / name)])


def test_a_conf_folder_is_no_run_and_runs_beside_it_are(tmp_path):
    (tmp_path / "conf").mkdir()
    config = tmp_path / "conf" / "config.yaml"
    config.write_text("# what composes a run\ndefaults:\n  - model: embedded\n  - _self_\nseed: 0\n")
    for word in (tmp_path, config.parent):
        with pytest.raises(InputError, match="no run in it") as caught:
            read([str(word)])
        assert "\n" not in str(caught.value)
    run_folder(tmp_path / "outputs" / "one", 0, lambda step: {}, {})
    assert [run.name for run in read([str(tmp_path)])] == ["one"]
    config.write_text("seed: 0\nsteps: 1\n")  # as a run writes it: then the folder is one
    assert [run.name for run in read([str(tmp_path)])] == ["conf", "one"]


def test_damaged_files_are_named(tmp_path):
    folder = run_folder(tmp_path / "run", 0, lambda step: {}, {})
    (folder / "metrics.jsonl").write_text('{"step": 0}\nnot JSON\n')
    with pytest.raises(InputError, match="metrics.jsonl, line 2"):
        read([str(folder)])
    (folder / "config.yaml").write_text("steps: [")
    with pytest.raises(InputError, match=r"config.yaml: not a readable config.yaml"):
        read([str(folder)])


# --- other people's logs


def rows(*values):
    return [{"global_step": 10 * i, "train/reward": value, "loss": float("nan")} for i, value in enumerate(values)]


def test_logs_of_others_by_columns_and_seed(tmp_path):
    for arm in ("ppo", "grpo"):
        for seed in (3, 4):
            folder = tmp_path / f"{arm}_seed{seed}"
            folder.mkdir()
            lines(folder / "metrics.jsonl", rows(0.25, 0.5 + seed))
    found = read([str(tmp_path)], parse("step=global_step,reward=train/reward", r"seed(\d+)"))
    assert [(run.settings["name"], run.seed) for run in found] == [("grpo", 3), ("grpo", 4), ("ppo", 3), ("ppo", 4)]
    assert found[0].series["reward/mean"].values_N.tolist() == [0.25, 3.5]
    assert found[0].series["reward/mean"].steps_N.tolist() == [0, 10]
    assert "loss" not in found[0].series and "train/reward" not in found[0].series
    assert (found[0].steps, found[0].source) == (11, "columns")


def test_csv_and_a_seed_in_a_column(tmp_path):
    (tmp_path / "mine.csv").write_text("it,seed,acc,note\n0,5,0.5,a\n1,5,,b\n")
    (run,) = read([str(tmp_path / "mine.csv")], parse("step=it,accuracy=acc", None))
    assert (run.seed, run.name) == (5, "mine")
    assert run.series["eval/sampled/accuracy"].values_N.tolist() == [0.5]


@pytest.mark.parametrize(
    ("columns", "seed_from", "said"),
    [
        (None, r"seed(\d+)", "row 1 has no step. Name its column"),
        ("step=global_stp", r"seed(\d+)", 'no column "global_stp". Did you mean "global_step"'),
        ("step=global_step", None, "no seed is known"),
        ("step=global_step", r"sed(\d+)", "fits nothing in"),
        ("step=global_step", r"(s)eed", '"s" is no whole number'),
        ("step=train/reward", r"seed(\d+)", "row 1 has the step 0.25"),
    ],
)
def test_logs_that_cannot_be_taken(tmp_path, columns, seed_from, said):
    folder = tmp_path / "a_seed1"
    folder.mkdir()
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows(0.25)))
    with pytest.raises(InputError, match=said):
        read([str(folder)], parse(columns, seed_from))


@pytest.mark.parametrize(
    ("columns", "seed_from", "said"),
    [("step", None, "OURS=THEIRS"), (None, "seed(", "no regular expression"), (None, r"\d+", "it needs one group")],
)
def test_flags_that_cannot_be_taken(columns, seed_from, said):
    with pytest.raises(InputError, match=said):
        parse(columns, seed_from)
