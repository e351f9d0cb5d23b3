"""`evaluate adapter=RUN`: steps as a curve, the base beside them, other settings, two runs, full fine-tuning."""

from __future__ import annotations

import json
import shutil

import pytest

from grpo_runner import compose, run
from grpo_runner.errors import InputError, no_run
from grpo_runner.suite import runner
from grpo_runner.suite.targets import Target
from tests.helpers import changed
from tests.suite.asked import SMALL, journal, printed, set_file

TRAINED = (
    "debug=cpu_smoke", "tracking=off", "data.train_size=16", "data.eval_size=8", "max_new_tokens=16", "steps=2",
    "questions_per_step=4", "optim.lr=0.02", "evaluation.every=2", "evaluation.questions=5", "evaluation.samples=2",
    "checkpoint.every=1", "checkpoint.keep=5",
)  # fmt: skip


def test_questions_of_the_runs_own_training_set_are_told(tmp_path, capsys):
    rows = [(f"{n}+{n + 1}=?", str(2 * n + 1)) for n in range(11, 19)]
    train = set_file(tmp_path / "train.jsonl", rows)
    words = ["data=jsonl", f"data.train.path={train}", f"data.eval.path={train}", "data.train_size=8"]
    config = changed(compose([*TRAINED, *words, "evaluation=never", "steps=1"]), run_dir=str(tmp_path / "run"))
    run(config)
    capsys.readouterr()
    few = set_file(tmp_path / "asked.jsonl", [rows[0], ("1+1=?", "2")])
    record = (tmp_path / "run" / "questions.parquet").read_bytes()
    with pytest.raises(InputError, match="there is a run in this folder"):  # whose record it would overwrite
        printed(f"adapter={tmp_path / 'run'}", "--output", str(tmp_path / "run"))
    assert (tmp_path / "run" / "questions.parquet").read_bytes() == record
    words = [f"adapter={tmp_path / 'run'}", f"+evaluation.sets.mine.path={few}", "evaluation.samples=0"]
    printed(*words, "--output", str(tmp_path / "out"))
    assert "1 of the 2 questions of mine are also trained on" in capsys.readouterr().err
    train.unlink()  # the figures do not need it
    printed(*words, "--output", str(tmp_path / "out"))
    assert (
        "Not checked whether run was trained on these questions: data.train.path: there is no"
        in capsys.readouterr().err
    )


def trained(folder, *overrides):
    run(changed(compose([*TRAINED, *overrides]), run_dir=str(folder)))
    return folder


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("runs") / "first")


@pytest.fixture(scope="module")
def steps(first, tmp_path_factory):
    """All steps of the run: the folder of the evaluation, what was printed, the policies of results.json."""
    out = tmp_path_factory.mktemp("steps") / "out"
    text = printed(f"adapter={first}", "--steps", "all", "--output", str(out))
    return out, text, json.loads((out / "results.json").read_text())["policies"]


def accuracy(policy: dict, mode: str) -> float:
    name = "accuracy" if mode == "greedy" else "avg@2"
    return policy["figures"][mode]["eval"]["estimates"][name]["value"]


def test_every_step_is_what_training_itself_measured(first, steps):
    """Steps 0 and 2 of evals.jsonl: the same questions, draws and checker give the same figures."""
    policies = {policy["step"]: policy for policy in steps[2]}
    assert list(policies) == [0, 1, 2]
    rows = [json.loads(line) for line in (first / "evals.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [0, 2]
    for row in rows:
        for mode in ("greedy", "sampled"):
            assert accuracy(policies[row["step"]], mode) == pytest.approx(row[f"{mode}/accuracy"])
            figures = policies[row["step"]]["figures"][mode]["eval"]
            count = figures["questions"] * figures["samples"]
            assert figures["tokens"] / count == pytest.approx(row[f"{mode}/length_mean"])
    assert policies[0]["settings"]["policy"] != policies[2]["settings"]["policy"]


def test_steps_make_a_curve_and_differences_from_the_first(steps):
    out, text, policies = steps
    assert (out / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert "difference from step 0" in text and "eval (5 of 8)" in text
    assert policies[0]["minus_first"] is None
    for policy in policies[1:]:
        found = policy["minus_first"]["greedy"]["eval"]["accuracy"]
        assert found["value"] == pytest.approx(accuracy(policy, "greedy") - accuracy(policies[0], "greedy"))
        assert found["low"] <= found["value"] <= found["high"]


def test_the_base_beside_the_last_step_answers_as_the_model_alone(first, tmp_path):
    text = printed(f"adapter={first}", "--base", "--output", str(tmp_path / "both"))
    assert "difference from base" in text and "step 2" in text and "first, step 2" not in text
    printed(*SMALL, "rollout.batch_rows=256", "--output", str(tmp_path / "alone"))
    lines = (tmp_path / "both" / "answers" / "base.jsonl").read_text().splitlines()[1:]
    assert [json.loads(line) for line in lines] == journal(tmp_path / "alone")
    assert not (tmp_path / "alone" / "curve.png").exists()


def test_an_adapter_by_itself_is_beside_its_model(first, steps, tmp_path):
    printed(*SMALL, f"lora.adapter={first / 'adapter'}", "--base", "--output", str(tmp_path / "out"))
    bare, adapted = json.loads((tmp_path / "out" / "results.json").read_text())["policies"]
    assert (bare["name"], adapted["name"]) == ("embedded", f"embedded with {first / 'adapter'}")
    assert bare["figures"] == steps[2][0]["figures"] and adapted["figures"] == steps[2][-1]["figures"]
    with pytest.raises(InputError, match=r"--base goes with adapter=RUN_FOLDER or lora\.adapter=FOLDER"):
        printed(*SMALL, "--base")


def test_an_adapter_without_checkpoints_is_the_last_step(first, steps, tmp_path):
    copy = tmp_path / "first"
    shutil.copytree(first, copy, ignore=shutil.ignore_patterns("checkpoints"))
    printed(str(copy), "--output", str(tmp_path / "out"))
    [policy] = json.loads((tmp_path / "out" / "results.json").read_text())["policies"]
    assert policy["step"] == 2 and policy["figures"] == steps[2][-1]["figures"]


def test_settings_of_ones_own_come_before_the_runs(first, tmp_path):
    words = ["evaluation.samples=0", "+evaluation.sets.mine.path=", "evaluation=default", "evaluation.questions=2"]
    file = tmp_path / "mine.jsonl"
    file.write_text('{"question": "1+1=?", "answer": "2"}\n')
    words[1] += str(file)
    printed(f"adapter={first}", *words, "--output", str(tmp_path / "out"))
    [row] = journal(tmp_path / "out")
    assert row["set"] == "mine" and "sampled" not in row


def test_two_runs_are_compared_on_the_questions_and_draws_of_the_first(first, tmp_path):
    second = trained(tmp_path / "second", "seed=1")
    text = printed(f"adapter={first}", f"adapter={second}", "--output", str(tmp_path / "out"))
    policies = json.loads((tmp_path / "out" / "results.json").read_text())["policies"]
    assert [policy["name"] for policy in policies] == ["first, step 2", "second, step 2"]
    assert policies[0]["settings"]["questions of eval"] == policies[1]["settings"]["questions of eval"]
    assert policies[1]["settings"]["seed"] == 0 and "difference from first, step 2" in text
    other = trained(tmp_path / "other", "evaluation.samples=1")
    with pytest.raises(InputError, match=r"cannot be compared[\s\S]*evaluation\.samples: there 2, here 1"):
        printed(f"adapter={first}", f"adapter={other}", "--output", str(tmp_path / "none"))


def test_all_weights_of_a_run_are_evaluated(tmp_path):
    full = trained(tmp_path / "full", "lora=off", "optim.lr=1e-3")
    printed(f"adapter={full}", "--base", "--output", str(tmp_path / "out"))
    policies = json.loads((tmp_path / "out" / "results.json").read_text())["policies"]
    rows = [json.loads(line) for line in (full / "evals.jsonl").read_text().splitlines()]
    for policy, row in zip(policies, rows, strict=True):
        assert accuracy(policy, "sampled") == pytest.approx(row["sampled/accuracy"])


def test_steps_and_folders_that_are_not_there_are_named(first, tmp_path):
    with pytest.raises(InputError, match=r"--steps 7: .* no checkpoint of that step\. There are: 0, 1, 2\."):
        printed(f"adapter={first}", "--steps", "7")
    with pytest.raises(InputError, match=r"adapter=.*: no run folder"):
        printed(f"adapter={tmp_path}")
    with pytest.raises(InputError, match=r"experiment=grpo: a run has its settings already"):
        printed(f"adapter={first}", "experiment=grpo")
    file = first / "checkpoints" / "step_000001" / "adapter.safetensors"
    data = file.read_bytes()
    try:
        file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(InputError, match=r"step_000001 is damaged: adapter\.safetensors differs"):
            printed(f"adapter={first}", "--steps", "1", "--output", str(tmp_path / "out"))
    finally:
        file.write_bytes(data)


def test_policies_of_other_names_have_files_of_their_own():
    config = compose([])
    names = ["a b, step 5", "a,b, step 5", "a/b, step 5", "a_b, step 5", "ä, step 5"]
    files = {runner.file_name(Target(name, config)) for name in names}
    assert len(files) == len(names) and not any("/" in name for name in files)


def test_a_folder_that_is_no_run_is_told_why_and_the_nearest_that_is_one(tmp_path):
    for name in ("quickstart,steps=20", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text("")
    (tmp_path / "quickstart").mkdir()
    assert no_run(tmp_path / "quickstar,steps=20") == (
        'no run folder (it does not exist). Did you mean "quickstart,steps=20"?'
    )
    assert no_run(tmp_path / "quickstart").startswith("no run folder (no config.yaml in it).")
    assert no_run(tmp_path / "nowhere" / "x") == "no run folder (it does not exist)."
