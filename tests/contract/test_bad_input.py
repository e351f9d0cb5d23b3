"""What a user can get wrong, from the command line to the message: exit 2, one to five lines, no traceback, nothing lost.

Overrides that the configuration refuses are in tests/test_cli.py; here is what only turns out when the run is built.
"""

from __future__ import annotations

import errno
import importlib
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo_runner import cli
from grpo_runner.policy.models import EMBEDDED

SMALL = [
    "debug=cpu_smoke",
    "tracking=off",
    "data.train_size=16",
    "data.eval_size=8",
    "max_new_tokens=4",
    "evaluation.every=0",
]
GOOD = {"question": "2+3=?", "answer": "5"}


def refused(capsys, folder: Path, *overrides: str) -> str:
    """Run a command line that must be refused; gives its message."""
    code = cli.main([*SMALL, *overrides, f"hydra.run.dir={folder}"])
    error = capsys.readouterr().err.strip()
    assert code == 2, error
    assert 1 <= len(error.splitlines()) <= 5 and "Traceback" not in error
    return error


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Callable[[Path], Path]:
    """finished(folder): a finished run in the folder, a copy of one that is made once."""
    made = tmp_path_factory.mktemp("finished") / "run"
    assert cli.main([*SMALL, f"hydra.run.dir={made}"]) == 0

    def copy(folder: Path) -> Path:
        shutil.copytree(made, folder)
        return folder

    return copy


def data(path: Path, *lines: object) -> list[str]:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    sizes = ["data.train_size=null", "data.eval_size=null", "data.small_set=wrap"]
    return ["data=jsonl", f"data.train.path={path}", f"data.eval.path={path}", *sizes]


def test_good_input_is_not_refused(tmp_path):
    """Negative control of everything below."""
    assert cli.main([*SMALL, *data(tmp_path / "q.jsonl", GOOD, GOOD), f"hydra.run.dir={tmp_path / 'run'}"]) == 0
    assert (tmp_path / "run" / "DONE").exists()


def test_unknown_model_folder(capsys, tmp_path):
    assert "model.path" in refused(capsys, tmp_path / "run", f"model.path={tmp_path / 'nowhere'}")


def test_model_folder_without_weights(capsys, tmp_path):
    shutil.copytree(EMBEDDED, tmp_path / "model", ignore=shutil.ignore_patterns("*.safetensors"))
    assert "no weights" in refused(capsys, tmp_path / "run", f"model.path={tmp_path / 'model'}")


def test_model_folder_without_config(capsys, tmp_path):
    (tmp_path / "model").mkdir()
    assert "config.json" in refused(capsys, tmp_path / "run", f"model.path={tmp_path / 'model'}")


def test_model_folder_with_torn_weights(capsys, tmp_path):
    shutil.copytree(EMBEDDED, tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    assert "model.path" in refused(capsys, tmp_path / "run", f"model.path={tmp_path / 'model'}")


@pytest.mark.parametrize("automatic", ["AutoConfig", "AutoTokenizer"])
def test_code_in_a_model_folder_is_not_run_nor_asked_about(capsys, tmp_path, monkeypatch, automatic):
    def asked(*words):
        raise AssertionError("asked on the terminal")

    monkeypatch.setattr("builtins.input", asked)
    folder, ran = tmp_path / "model", tmp_path / "ran"
    shutil.copytree(EMBEDDED, folder)
    (folder / "own.py").write_text(f"open({str(ran)!r}, 'w')\nraise RuntimeError('enough')\n")
    name = "config.json" if automatic == "AutoConfig" else "tokenizer_config.json"
    told = json.loads((folder / name).read_text())
    told |= {"auto_map": {automatic: "own.Own" if automatic == "AutoConfig" else ["own.Own", None]}}
    told |= {"model_type": "own"} if automatic == "AutoConfig" else {"tokenizer_class": "Own"}
    (folder / name).write_text(json.dumps(told))
    assert "none is run here" in refused(capsys, tmp_path / "run", f"model.path={folder}")
    assert not ran.exists()
    # negative control: what is refused would have run; it ends before transformers makes its class known to all tests
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    from transformers import AutoConfig, AutoTokenizer

    with pytest.raises(RuntimeError, match="enough"):
        {"AutoConfig": AutoConfig, "AutoTokenizer": AutoTokenizer}[automatic].from_pretrained(
            folder, trust_remote_code=True
        )
    assert ran.exists()


def test_model_folder_with_missing_tensors(capsys, tmp_path):
    """transformers would fill them with random numbers and say so in a warning."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(EMBEDDED, tmp_path / "model")
    tensors = load_file(EMBEDDED / "model.safetensors")
    lost = next(name for name in tensors if "q_proj" in name)
    save_file(
        {name: value for name, value in tensors.items() if name != lost}, tmp_path / "model" / "model.safetensors"
    )
    assert lost in refused(capsys, tmp_path / "run", f"model.path={tmp_path / 'model'}")


def test_answers_past_learned_positions(capsys, tmp_path):
    from transformers import GPT2Config, GPT2LMHeadModel

    shutil.copytree(EMBEDDED, tmp_path / "model")
    config = GPT2Config(vocab_size=22, n_positions=24, n_embd=8, n_layer=1, n_head=1, bos_token_id=1, eos_token_id=2)
    GPT2LMHeadModel(config).save_pretrained(tmp_path / "model")
    model = f"model.path={tmp_path / 'model'}"
    assert "24" in refused(capsys, tmp_path / "run", model, "max_new_tokens=40")
    assert cli.main([*SMALL, model, f"hydra.run.dir={tmp_path / 'run'}"]) == 0  # four tokens fit


def test_a_policy_that_breaks_without_weight_stops_with_4(capsys, tmp_path, monkeypatch):
    """With beta 0 a broken policy answers nothing right, nothing has weight, and no loss would ever be computed."""
    from grpo_runner.policy.update import Trainer

    update = Trainer.update

    def spoiling(self, *arguments):
        made = update(self, *arguments)
        next(iter(self.named.values())).data.fill_(float("nan"))
        return made

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", spoiling)
        code = cli.main([*SMALL, "beta=0", "steps=3", "checkpoint.every=0", f"hydra.run.dir={tmp_path / 'run'}"])
    message = capsys.readouterr().err
    assert code == 4 and "step 1" in message and "Traceback" not in message
    assert not (tmp_path / "run" / "DONE").exists() and not list((tmp_path / "run").glob("checkpoints/*"))
    assert cli.main([*SMALL, "beta=0", "steps=3", "checkpoint.every=0", f"hydra.run.dir={tmp_path / 'run'}"]) == 0


def test_unknown_lora_targets(capsys, tmp_path):
    assert "lora.targets" in refused(capsys, tmp_path / "run", "lora.targets=[qproj]")


@pytest.mark.parametrize("key", ["lora.adapter", "beta.reference"])
def test_an_adapter_that_is_not_there_or_does_not_fit(finished, capsys, tmp_path, key):
    nowhere = refused(capsys, tmp_path / "run", f"{key}={tmp_path / 'nowhere'}")
    assert nowhere.startswith(f"{key}={tmp_path / 'nowhere'}: not the folder of a LoRA adapter")
    made = finished(tmp_path / "made") / "adapter"
    assert f"{key}={made}: the adapter has lora.rank=16, the run 8" in refused(
        capsys, tmp_path / "run", f"{key}={made}", "lora.rank=8"
    )
    assert "lora.targets" in refused(capsys, tmp_path / "run", f"{key}={made}", "lora.targets=[q_proj]")
    assert not (tmp_path / "run").exists()
    assert cli.main([*SMALL, f"{key}={made}", f"hydra.run.dir={tmp_path / 'run'}"]) == 0


def test_a_reference_without_weight_is_not_read(capsys, tmp_path):
    overrides = [f"beta.reference={tmp_path / 'nowhere'}", "beta=0"]
    assert cli.main([*SMALL, *overrides, f"hydra.run.dir={tmp_path / 'run'}"]) == 0
    assert "beta.reference changes nothing with beta=0" in capsys.readouterr().out


def test_missing_data_file(capsys, tmp_path):
    message = refused(
        capsys,
        tmp_path / "run",
        "data=jsonl",
        f"data.train.path={tmp_path / 'no.jsonl'}",
        f"data.eval.path={tmp_path / 'no.jsonl'}",
    )
    assert "data.train.path" in message


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("{not json", "q.jsonl:2"),
        ({"question": "2+2=?"}, "answer"),
        ({"question": "2+2=?", "answer": ""}, "q.jsonl:2"),
        ({"question": "", "answer": "4"}, "q.jsonl:2"),
        ({"question": "2+2=?", "answer": ["1", ""]}, "q.jsonl:2"),
    ],
)
def test_bad_rows_are_named_by_file_and_line(capsys, tmp_path, line, names):
    assert names in refused(capsys, tmp_path / "run", *data(tmp_path / "q.jsonl", GOOD, line))


def test_empty_set(capsys, tmp_path):
    assert "q.jsonl" in refused(capsys, tmp_path / "run", *data(tmp_path / "q.jsonl"))


def test_pb070_a_set_smaller_than_a_step(capsys, tmp_path):
    overrides = [*data(tmp_path / "q.jsonl", GOOD), "data.small_set=error"]
    assert "questions_per_step" in refused(capsys, tmp_path / "run", *overrides)


def test_pb010_an_unreadable_gold(capsys, tmp_path):
    message = refused(
        capsys, tmp_path / "run", *data(tmp_path / "q.jsonl", GOOD, {"question": "2+2=?", "answer": "\\boxed{"})
    )
    assert "q.jsonl:2" in message


def test_pb055_prompts_over_the_limit_as_an_error(capsys, tmp_path):
    message = refused(capsys, tmp_path / "run", "data.max_prompt_tokens=5", "data.long_prompt=error")
    assert "max_prompt_tokens" in message


def test_chat_template_on_a_model_without_one(capsys, tmp_path):
    assert "prompt" in refused(capsys, tmp_path / "run", "prompt=chat_boxed")


def test_too_few_groups_that_differ(capsys, tmp_path, monkeypatch):
    """rollout.when_short=error; with `smaller` the same run goes on, and its steps make no update."""
    (tmp_path / "alike.py").write_text("def f(questions, golds, completions):\n    return [1.0] * len(golds)\n")
    monkeypatch.syspath_prepend(tmp_path)
    own = ["reward=custom", "reward.function=alike:f", "beta=0", "rollout.dynamic_sampling=2"]
    message = refused(capsys, tmp_path / "run", *own, "rollout.when_short=error")
    assert "step 0: after 2 further rounds, only 0 of 2 groups" in message and "rollout.dynamic_sampling" in message
    assert cli.main([*SMALL, *own, f"hydra.run.dir={tmp_path / 'smaller'}"]) == 0
    lines = (tmp_path / "smaller" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["updates"] for line in lines] == [0, 0]


def test_cuda_asked_for_and_absent(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert "device=cuda" in refused(capsys, tmp_path / "run", "device=cuda")


def test_output_folder_that_cannot_be_made(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert "file" in refused(capsys, tmp_path / "file" / "run")


def test_output_folder_without_permission(capsys, tmp_path, monkeypatch):
    make = Path.mkdir

    def forbidden(self, *arguments, **keywords):
        if self == tmp_path / "run":
            raise PermissionError(errno.EACCES, "Permission denied")
        return make(self, *arguments, **keywords)

    monkeypatch.setattr(Path, "mkdir", forbidden)
    assert "Permission denied" in refused(capsys, tmp_path / "run")


@pytest.mark.parametrize("place", ["grpo_runner.tracking.jsonl.os.fsync", "grpo_runner.train.checkpoint.save_file"])
def test_full_disk_in_the_middle_keeps_what_was_saved_and_goes_on(capsys, tmp_path, monkeypatch, place):
    """The disk fills up after the first step, in a log or in a checkpoint; with room again the same command finishes."""
    folder = tmp_path / "run"
    module, _, name = place.rpartition(".")
    import importlib

    target = importlib.import_module("os") if module.endswith(".os") else importlib.import_module(module)
    real = getattr(target, name)

    def full(*arguments, **keywords):
        if (folder / "checkpoints" / "step_000001").exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*arguments, **keywords)

    with monkeypatch.context() as patch:
        patch.setattr(target, name, full)
        assert "No space left on device" in refused(capsys, folder, "steps=3")
    assert not (folder / "DONE").exists()
    assert cli.main([*SMALL, "steps=3", f"hydra.run.dir={folder}"]) == 0
    assert [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()] == [0, 1, 2]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file() and file.name != ".lock"}


def test_a_finished_run_is_left_as_it_is_also_with_other_tracking(finished, tmp_path):
    before = contents(finished(tmp_path / "run"))
    assert cli.main([*SMALL, "tracking.project=other", f"hydra.run.dir={tmp_path / 'run'}"]) == 0
    assert contents(tmp_path / "run") == before


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.yaml", "{{{"),
        ("config.yaml", "[]"),
        ("config.yaml", "steps: 2"),
        ("summary.json", ""),
        ("metrics.jsonl", "x\n"),
    ],
)
def test_a_damaged_run_folder_is_said_by_file(finished, capsys, tmp_path, name, content):
    folder = finished(tmp_path / "run")
    (folder / name).write_text(content)
    assert name in refused(capsys, folder, "steps=2" if name != "metrics.jsonl" else "steps=3")


def test_a_damaged_questions_file(finished, capsys, tmp_path):
    (finished(tmp_path / "run") / "questions.parquet").write_bytes(b"PAR1 and no more")
    assert "questions.parquet" in refused(capsys, tmp_path / "run", "steps=3")


@pytest.mark.parametrize("name", ["metrics.jsonl", "questions.parquet"])
def test_a_record_that_was_taken_away(finished, capsys, tmp_path, name):
    (finished(tmp_path / "run") / name).unlink()
    assert name in refused(capsys, tmp_path / "run", "steps=3")
    assert "optim.lr" in refused(capsys, tmp_path / "run", "steps=3", "optim.lr=1e-5")  # the guard stays on


def test_what_was_in_the_folder_before_stays(capsys, tmp_path):
    """A run pointed at a folder with somebody's own files neither overwrites nor removes them."""
    mine = tmp_path / "mine"
    mine.mkdir()
    for name in ("config.yaml", "code.diff", "notes.txt"):
        (mine / name).write_text("my: precious")
    before = contents(mine)
    refused(capsys, mine)
    assert contents(mine) == before
    (mine / "config.yaml").unlink()
    (mine / "metrics.jsonl").write_text('{"step": 0}\n')
    assert "config.yaml" in refused(capsys, mine)
    empty = tmp_path / "empty"
    empty.mkdir()
    refused(capsys, empty, f"model.path={tmp_path / 'nowhere'}")
    assert (mine / "metrics.jsonl").exists() and (mine / "notes.txt").exists()


def test_steps_without_their_configuration_are_not_adopted(finished, capsys, tmp_path):
    (finished(tmp_path / "run") / "config.yaml").unlink()
    assert "config.yaml" in refused(capsys, tmp_path / "run", "steps=4", "seed=7", "advantage=dr_grpo")


def test_a_refused_longer_run_leaves_the_finished_one_finished(capsys, tmp_path, monkeypatch):
    (tmp_path / "mine_too.py").write_text("def f(questions, golds, completions):\n    return [1.0] * len(golds)\n")
    monkeypatch.syspath_prepend(tmp_path)
    own = ["reward=custom", "reward.function=mine_too:f"]
    assert cli.main([*SMALL, *own, f"hydra.run.dir={tmp_path / 'run'}"]) == 0
    before = contents(tmp_path / "run")
    (tmp_path / "mine_too.py").rename(tmp_path / "gone.py")
    sys.modules.pop("mine_too")
    refused(capsys, tmp_path / "run", *own, "steps=4")
    assert contents(tmp_path / "run") == before
    (tmp_path / "gone.py").rename(tmp_path / "mine_too.py")
    importlib.invalidate_caches()
    assert cli.main([*SMALL, *own, f"hydra.run.dir={tmp_path / 'run'}"]) == 0


def test_a_run_that_fails_in_its_first_step_keeps_its_configuration(capsys, tmp_path, monkeypatch):
    (tmp_path / "boom.py").write_text("def f(questions, golds, completions):\n    raise ValueError\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "ValueError" in refused(capsys, tmp_path / "run", "reward=custom", "reward.function=boom:f")
    assert (tmp_path / "run" / "config.yaml").exists()
    assert cli.main([*SMALL, f"hydra.run.dir={tmp_path / 'run'}"]) == 0  # and may still be corrected


def test_code_diff_does_not_swallow_the_run(finished, tmp_path):
    folder = finished(tmp_path / "run")
    for steps in (3, 4):
        assert cli.main([*SMALL, f"steps={steps}", f"hydra.run.dir={folder}"]) == 0
    assert [file.name for file in folder.glob("code*.diff")] == ["code.diff"]


def test_a_refused_run_leaves_no_folder(capsys, tmp_path):
    refused(capsys, tmp_path / "run", f"model.path={tmp_path / 'nowhere'}")
    assert not (tmp_path / "run").exists()


def test_without_evaluation_no_held_out_set_is_asked_for(tmp_path):
    overrides = data(tmp_path / "q.jsonl", GOOD, GOOD)
    overrides = [text for text in overrides if not text.startswith("data.eval.path")]
    assert cli.main([*SMALL, *overrides, f"hydra.run.dir={tmp_path / 'run'}"]) == 0


def test_the_plan_counts_the_held_out_questions_there_are(capsys, tmp_path):
    overrides = [*data(tmp_path / "q.jsonl", GOOD, GOOD), "evaluation.every=2", "evaluation.questions=50"]
    assert cli.main([*SMALL, *overrides, f"hydra.run.dir={tmp_path / 'run'}"]) == 0
    assert "on 2 held-out questions" in capsys.readouterr().out


def test_a_verb_that_is_none(capsys):
    assert cli.main(["trian"]) == 2
    assert 'Did you mean "train"' in capsys.readouterr().err


def test_merge_of_what_is_no_run(capsys, tmp_path):
    assert cli.main(["merge", str(tmp_path), str(tmp_path / "out")]) == 2
    assert "no run folder" in capsys.readouterr().err
