"""Answers that do not change: sampled once, kept in the folder, the same in a resumed run; worked solutions."""

from __future__ import annotations

import json
import shutil

import pyarrow.parquet as pq
import pytest

from grpo_runner import compose
from grpo_runner.data import arithmetic
from grpo_runner.errors import InputError, MachineError
from grpo_runner.tracking import texts
from grpo_runner.train import run
from grpo_runner.train.fixed import FILE

SMALL = (
    *("debug=cpu_smoke", "tracking=off", "evaluation=never", "steps=3", "data.train_size=10", "max_new_tokens=32"),
    *("checkpoint.keep=9", "tracking.completions_every=1", "optim.lr=0.003"),
)
RFT, SFT = ("method=rft", *SMALL), ("method=sft", *SMALL)


def go(folder, *words):
    run(compose([*words, f"hydra.run.dir={folder}"]))
    return rows(folder)


def rows(folder):
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if not key.startswith("time/")} for row in found]


def completions(folder):
    return [row for step in sorted(texts.files(folder)) for row in texts.read_texts(folder, step, dict)]


def weights(folder):
    return (folder / "adapter" / "adapter_model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def rejected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rft") / "run"
    return folder, go(folder, *RFT)


def cut_back(whole, folder, to):
    """A copy of a run as it was when it was ended before step `to`."""
    shutil.copytree(whole, folder)
    (folder / "DONE").unlink()
    for checkpoint in (folder / "checkpoints").iterdir():
        if int(checkpoint.name.removeprefix("step_")) > to:
            shutil.rmtree(checkpoint)
    return folder


def test_the_base_answers_once_and_its_answers_stay_in_the_folder(rejected):
    folder, steps = rejected
    table = pq.read_table(folder / FILE).to_pylist()
    assert len(table) == 10 * 4  # each question, group_size answers
    drawn = sum(len(row["token_ids"]) for row in table)
    assert [row["tokens/sampled"] for row in steps] == [drawn, 0, 0]
    there = {(row["question_id"], row["text"]) for row in table}
    assert {(row["question_id"], row["completion"]) for row in completions(folder)} <= there


def test_right_answers_alone_are_trained_on_and_equal_ones_once(rejected):
    folder, steps = rejected
    made = completions(folder)
    taken = [row for row in made if row["included"]]
    assert taken and all(row["status"] == "correct" for row in taken)
    for step in range(3):
        texts = [(row["slot"], row["completion"]) for row in taken if row["step"] == step]
        assert len(texts) == len(set(texts))
    assert [row["excluded"] for row in steps] == [
        sum(row["step"] == step and not row["included"] for row in made) for step in range(3)
    ]


def test_a_question_of_which_nothing_is_kept_is_never_taken(rejected):
    folder, _ = rejected
    answers = pq.read_table(folder / FILE).to_pylist()
    gold = {question.id: question.gold for question in arithmetic.questions("train", 0, 10)}
    hopeless = {
        q for q in gold if not any(f"boxed{{{gold[q]}}}" in row["text"] for row in answers if row["question_id"] == q)
    }
    taken = {row["question_id"] for row in completions(folder)}
    assert hopeless and not hopeless & taken
    assert all(row["groups/kept"] == 2 for row in rows(folder) if "groups/kept" in row)


@pytest.mark.parametrize("to", [0, 2])
def test_a_resumed_run_trains_on_the_same_answers(rejected, tmp_path, to, monkeypatch):
    """Without asking the model again, and to the same bytes as the run that was not interrupted."""
    whole, steps = rejected
    folder = cut_back(whole, tmp_path / "run", to)
    monkeypatch.setattr("grpo_runner.train.fixed.sample", lambda *given: pytest.fail("sampled again"))
    assert go(folder, *RFT) == steps
    assert weights(folder) == weights(whole)


def test_another_seeds_run_trains_on_other_answers(rejected, tmp_path):
    """Negative control of the two above."""
    whole, steps = rejected
    assert go(tmp_path / "run", *RFT, "seed=1") != steps and weights(tmp_path / "run") != weights(whole)


def test_answers_that_are_missing_damaged_or_of_other_questions_are_refused(rejected, tmp_path):
    folder = cut_back(rejected[0], tmp_path / "run", 1)
    table = pq.read_table(folder / FILE)
    pq.write_table(table.slice(4), folder / FILE)
    with pytest.raises(InputError, match="has answers to other questions than this run's. Give another run_name"):
        go(folder, *RFT)
    (folder / FILE).write_bytes(b"junk")
    with pytest.raises(MachineError, match="base_answers.parquet cannot be read"):
        go(folder, *RFT)
    (folder / FILE).unlink()
    with pytest.raises(InputError, match="base_answers.parquet is missing: .* cannot be sampled again after step 1"):
        go(folder, *RFT)


def test_a_base_that_is_never_right_leaves_nothing_to_train_on(tmp_path):
    with pytest.raises(InputError, match="samples.source=base: no answer to 3 questions is kept") as caught:
        go(tmp_path / "run", *RFT, "data.train_size=3", "max_new_tokens=1")
    assert len(str(caught.value).splitlines()) == 2


@pytest.fixture(scope="module")
def supervised(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sft") / "run"
    return folder, go(folder, *SFT)


def test_worked_solutions_are_trained_on_as_they_stand_with_the_eos_and_the_coefficient_1(supervised):
    folder, steps = supervised
    solution = {question.id: question.solution for question in arithmetic.questions("train", 0, 10)}
    made = completions(folder)
    assert len(made) == 3 * 2
    for row in made:
        assert row["completion"] == solution[row["question_id"]] == arithmetic.worked_solution(row["question"])
        assert (row["reward"], row["advantage"], row["finish"], row["included"]) == (1.0, 1.0, "eos", True)
        assert "".join(row["token_texts"][:-1]) == row["completion"] and row["token_texts"][-1] not in row["completion"]
        # 1/|o| of each token, over the two answers of the step
        assert row["coefficient"] == pytest.approx([1 / (2 * row["tokens"])] * row["tokens"], rel=1e-5)
    assert {row["tokens/sampled"] for row in steps} == {0}
    assert {row["zero_variance_fraction"] for row in steps} == {None}  # nothing is compared: nothing to be warned of
    assert all(row["mismatch"] is None and row["updates"] == 1 for row in steps)


def test_a_resumed_sft_run_is_the_whole_one(supervised, tmp_path):
    whole, steps = supervised
    folder = cut_back(whole, tmp_path / "run", 1)
    assert go(folder, *SFT) == steps and weights(folder) == weights(whole)


def test_a_solution_that_does_not_fit_is_refused_with_what_would(tmp_path):
    with pytest.raises(InputError, match=r"max_new_tokens=9: the solution of arithmetic/.* have too many") as caught:
        go(tmp_path / "run", *SFT, "max_new_tokens=9")
    longest = int(str(caught.value).split("max_new_tokens=")[2].split(",")[0])
    assert len(go(tmp_path / "fits", *SFT, "steps=1", f"max_new_tokens={longest}")) == 1
    with pytest.raises(InputError, match=f"max_new_tokens={longest}"):
        go(tmp_path / "short", *SFT, f"max_new_tokens={longest - 1}")


def test_what_there_is_to_train_on_is_told(tmp_path, capsys):
    from grpo_runner import cli

    assert cli.main([*SFT, "steps=1", f"hydra.run.dir={tmp_path / 'run'}"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "10 worked solutions to 10 questions, of which the checker takes 10 for right; trained on: 10" in said
    assert "0 tokens/s" not in said and "clip range cannot act" not in said
