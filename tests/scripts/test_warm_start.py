"""scripts/warm_start.py: worked answers in a line, and an adapter that makes them more likely."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import warm_start  # noqa: E402

from grpo_runner.config import compose  # noqa: E402
from grpo_runner.errors import InputError  # noqa: E402
from grpo_runner.policy.models import load_tokenizer  # noqa: E402
from grpo_runner.prompts import Prompter  # noqa: E402
from grpo_runner.train.loading import load_policy  # noqa: E402

ROWS = [{"question": f"{n}+1=?", "answer": f"{n}+1=<<{n}+1={n + 1}>>{n + 1}\n#### {n + 1}"} for n in range(8)]


@pytest.mark.parametrize(
    ("worked", "expected"),
    [
        (
            "Natalia sold 48/2 = <<48/2=24>>24 clips in May.\nShe sold 48+24 = <<48+24=72>>72 in all\n#### 72",
            " Natalia sold 48/2 = 24 clips in May. She sold 48+24 = 72 in all. The answer is 72.",
        ),
        ("Is it 5? \n\n  Yes!\n#### 5 ", " Is it 5? Yes! The answer is 5."),
        ("#### 5", None),
        ("It is 5.", None),
        ("", None),
    ],
)
def test_a_worked_answer_in_a_line(worked: str, expected: str | None) -> None:
    assert warm_start.one_line(worked) == expected


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    file = tmp_path / "worked.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    table = [f"data.{name}.path={file}" for name in ("train", "eval")]
    return ["data=gsm8k", *table, "model=tiny", "prompt=tiny", "dtype=float32", "device=cpu"]


def test_the_first_loss_is_the_cross_entropy_of_the_answers_and_the_last_is_below_it(words, tmp_path) -> None:
    output = tmp_path / "made"
    warm_start.main([*words, "--output", str(output), "--epochs", "10", "--rows", "8", "--lr", "3e-3"])
    told = json.loads((output / "warm_start.json").read_text())
    assert (told["answers"], told["steps"]) == (8, 10)

    config = compose(words)
    tokenizer, (model, _) = load_tokenizer(config.model), load_policy(config, torch.device("cpu"))
    prompter, total, count = Prompter(config.prompt, tokenizer), 0.0, 0
    for prompt, answer in warm_start.examples(config, prompter):
        ids = tokenizer(answer, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1]
        total, count = (
            total + float(cross_entropy(logits.double(), torch.tensor(ids), reduction="sum")),
            count + len(ids),
        )
    assert told["loss_first"] == pytest.approx(total / count, rel=1e-4)
    assert told["loss_last"] < 0.9 * told["loss_first"]

    # the adapter is one that a run begins from: it is what the run's policy then has
    started, _ = load_policy(replace(config, lora=replace(config.lora, adapter=str(output / "adapter"))), model.device)
    saved = load_file(output / "adapter" / "adapter_model.safetensors")
    name = next(name for name in saved if "lora_B" in name)
    assert saved[name].abs().sum() > 0
    assert torch.equal(dict(started.named_parameters())[name.replace(".weight", ".default.weight")], saved[name])


def test_bare_answers_are_refused(words, tmp_path) -> None:
    (tmp_path / "worked.jsonl").write_text('{"question": "1+1=?", "answer": "2"}\n')
    with pytest.raises(InputError, match="none of the 1 answers is a worked one"):
        warm_start.main([*words, "--output", str(tmp_path / "made")])
    assert not (tmp_path / "made").exists()


def test_the_rows_are_the_run_s_own(words) -> None:
    config = compose([*words, "data.train_size=3", "data.max_question_characters=5"])
    prompter = Prompter(config.prompt, load_tokenizer(config.model))
    assert len(warm_start.examples(config, prompter)) == 3
    few = compose([*words, "data.max_question_characters=4"])
    with pytest.raises(InputError, match=r"data\.max_question_characters"):
        warm_start.examples(few, prompter)


@pytest.mark.parametrize("wrong", ["--rows=0", "--epochs=-1", "--lr=nan"])
def test_numbers_that_make_no_step_are_refused(words, tmp_path, wrong: str) -> None:
    with pytest.raises(InputError, match="above 0"):
        warm_start.main([*words, "--output", str(tmp_path / "made"), wrong])


def test_a_generator_has_no_worked_answers(tmp_path) -> None:
    with pytest.raises(InputError, match="data.kind=arithmetic"):
        warm_start.main(["model=tiny", "--output", str(tmp_path / "made")])


def test_nothing_but_the_likelihood_is_in_the_loss(words) -> None:
    """A run's KL, entropy, dual clip and importance weights would all be in the gradient otherwise."""
    run = [*words, "beta=0.04", "entropy_bonus=0.1", "rollout.importance=token", "clip=cispo", "temperature=0.5"]
    told = warm_start.supervised(compose(run), 3, 1e-3)
    assert (told.beta.value, told.entropy_bonus, told.rollout.importance, told.clip.kind) == (0.0, 0.0, "none", "token")
    assert (told.temperature, told.steps, told.optim.lr) == (1.0, 3, 1e-3)
