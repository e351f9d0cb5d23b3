"""What is on this machine is looked at before the hub is asked for anything, in every verb that would ask."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from grpo_runner import compose, contamination, local_paths, preview, suite
from grpo_runner.errors import InputError
from grpo_runner.planning import plan
from grpo_runner.train import run

HUB = ["model.path=nobody/nothing", "data=gsm8k", "prompt=none"]  # neither is ever asked for here


@pytest.fixture(autouse=True)
def no_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever asks the hub fails the test: with another error than those that are looked for."""
    monkeypatch.chdir(tmp_path)

    def asked(*_: object, **__: object) -> None:
        raise AssertionError("the hub was asked")

    monkeypatch.setattr("grpo_runner.data.table._hub", asked)
    monkeypatch.setattr("grpo_runner.policy.models.from_pretrained", asked)


def questions(path: Path) -> Path:
    path.write_text(json.dumps({"question": "1+1=?", "answer": "2"}) + "\n")
    return path


def adapter(folder: Path, rank: int = 16) -> Path:
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({"r": rank, "lora_alpha": 32}))
    (folder / "adapter_model.safetensors").write_bytes(b"")
    return folder


FAULTS = {
    "training questions": (["data.train.path=no.jsonl"], 'data.train.path: there is no file "no.jsonl"'),
    "held-out questions": (["data.eval.path=no.jsonl"], 'data.eval.path: there is no file "no.jsonl"'),
    "a set": (["+evaluation.sets.own.path=no.jsonl"], 'evaluation.sets.own.path: there is no file "no.jsonl"'),
    "adapter": (["lora.adapter=no/adapter"], "lora.adapter=no/adapter: not the folder of a LoRA adapter (no such"),
    "model": (["model.path=./no_model"], "model.path=./no_model: no such folder"),
    "template": (["prompt.template='{{ question'"], "prompt.template is not a jinja2 template"),
}


@pytest.mark.parametrize(("words", "said"), FAULTS.values(), ids=FAULTS)
def test_a_run_says_it_first(words, said, tmp_path):
    with pytest.raises(InputError) as told:
        run(compose([*HUB, *words, f"hydra.run.dir={tmp_path}/run"]))
    assert str(told.value).startswith(said)


@pytest.mark.parametrize(("words", "said"), FAULTS.values(), ids=FAULTS)
def test_prompt_says_it_first(words, said):
    with pytest.raises(InputError) as told:
        preview.prompt([*HUB, *words], Console(file=io.StringIO()))
    assert str(told.value).startswith(said)


@pytest.mark.parametrize("name", [name for name in FAULTS if name != "training questions"])
def test_evaluate_says_it_first(name):
    words, said = FAULTS[name]
    with pytest.raises(InputError) as told:
        suite.evaluate([*HUB, *words], Console(file=io.StringIO()))
    assert str(told.value).startswith(said)


def test_contamination_says_of_both_files():
    for key in ("data.train", "data.eval"):
        with pytest.raises(InputError, match=f"^{key}.path: there is no file"):
            contamination.data(["contamination", "data=gsm8k", f"{key}.path=no.jsonl"], Console(file=io.StringIO()))


def test_plan_lists_them_and_goes_on():
    shown = io.StringIO()
    console = Console(file=shown, width=400)
    assert plan([*HUB, "data.train.path=no.jsonl", "lora.adapter=no/adapter"], console) == 0
    assert "data.train.path: there is no file" in shown.getvalue()
    assert "lora.adapter=no/adapter: not the folder of a LoRA adapter" in shown.getvalue()


def test_what_is_there_is_accepted_and_what_is_not_read_is_not_looked_at(tmp_path):
    """Negative controls."""
    there = [f"data.{name}.path={questions(tmp_path / f'{name}.jsonl')}" for name in ("train", "eval")]
    local_paths.check(compose([*HUB, *there, f"lora.adapter={adapter(tmp_path / 'adapter')}"]))
    local_paths.check(compose([*HUB, there[0], "data.eval.path=no.jsonl", "evaluation=never"]))
    local_paths.check(compose([*HUB, "data.train.path=no.jsonl"]), training=False)


def test_an_adapter_of_another_rank_is_told_before_loading(tmp_path):
    with pytest.raises(InputError, match="the adapter has lora.rank=4, the run 16"):
        local_paths.check(compose([*HUB, f"lora.adapter={adapter(tmp_path / 'adapter', rank=4)}"]))


def test_a_folder_of_nearly_that_name_is_named(tmp_path):
    adapter(tmp_path / "adapter")
    with pytest.raises(InputError, match='Did you mean "adapter"'):
        local_paths.check(compose([*HUB, f"lora.adapter={tmp_path}/adaptr"]))
