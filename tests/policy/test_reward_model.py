"""A learned reward model in a run: what it says of each answer, and what is told of it beside correctness."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from grpo_runner.config import compose
from grpo_runner.errors import InputError
from grpo_runner.policy import reward_model
from grpo_runner.policy.models import EMBEDDED
from grpo_runner.policy.reward_model import RewardModel
from tests.train.test_process_run import completions
from tests.train.test_run import go, rows

PAIRS = [("1+2=?", "\\boxed{3}"), ("12+19=?", "12+19=31\n\\boxed{31}"), ("1+2=?", ""), ("9-4=?", "\\boxed{5}")] * 9


def classifier(folder: Path, labels: int, seed: int = 0) -> Path:
    """The embedded model's body with a head drawn at random, as transformers saves it."""
    from transformers import AutoTokenizer, LlamaForSequenceClassification

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForSequenceClassification.from_pretrained(EMBEDDED, num_labels=labels)
        torch.nn.init.normal_(model.score.weight, std=0.5)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(EMBEDDED).save_pretrained(folder)
    return folder


def loaded(folder: Path) -> RewardModel:
    model = RewardModel(str(folder), torch.device("cpu"), torch.float32)
    model.load()
    return model


def test_the_revision_that_was_asked_for_is_fetched(monkeypatch):
    def fetched(cls, source, *_, **__):
        raise InputError(f"{source.path} at {source.revision}")

    monkeypatch.setattr(reward_model, "from_pretrained", fetched)
    config = compose(["reward=model", "reward.model=a/b", "reward.model_revision=v1"])
    with pytest.raises(InputError, match="a/b at v1"):
        reward_model.reward_model(config, torch.device("cpu")).load()


@pytest.fixture(scope="module", params=[1, 2])
def saved(request, tmp_path_factory) -> tuple[Path, int]:
    return classifier(tmp_path_factory.mktemp("classifier") / "model", request.param), request.param


def test_scores_are_the_models_one_by_one(saved):
    """Batches of unlike lengths, padded, against transformers' own forward pass of each pair alone."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder, labels = saved
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    expected = []
    for question, answer in PAIRS:
        with torch.no_grad():
            logits = model(**tokenizer(question, answer, return_tensors="pt")).logits[0]
        expected.append(float(logits[0]) if labels == 1 else 1 / (1 + float(torch.exp(logits[0] - logits[1]))))
    found = loaded(folder)(PAIRS)
    assert found == pytest.approx(expected, abs=1e-5)
    assert len({round(score, 4) for score in found[:4]}) == 4  # negative control: it tells them apart
    assert loaded(folder)([]) == []


def test_a_chat_template_is_used_and_what_is_too_long_loses_its_beginning(tmp_path):
    folder = classifier(tmp_path / "model", 1)
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m['content'] }}+{% endfor %}")
    model = loaded(folder)
    assert model.tokenizer.decode(model._encode("1+2=?", "3")["input_ids"]) == "1+2=?+3+"
    model.model.config.max_position_embeddings = 4
    assert model.tokenizer.decode(model._encode("1+2=?", "33")["input_ids"]) == "+33+"


def test_what_is_no_classifier_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"reward.model=.* no sequence classifier: score.weight"):
        loaded(EMBEDDED)
    three = classifier(tmp_path / "three", 3)
    with pytest.raises(InputError, match=r"has 3 labels. Allowed: one, or two."):
        loaded(three)
    broken = shutil.copytree(three, tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"junk")
    with pytest.raises(InputError, match=r"reward.model=.* cannot be loaded"):
        loaded(broken)


@pytest.mark.parametrize("path", ["/no/such/folder", "embedded/x/y"])
def test_a_folder_that_is_not_there_is_told_before_anything_is_loaded(tmp_path, path):
    with pytest.raises(InputError, match=f"reward.model={path}: no such folder"):
        go(tmp_path / "run", "reward=model", f"reward.model={path}")


def test_a_run_is_trained_on_its_scores_and_measured_by_the_checker(tmp_path):
    folder = classifier(tmp_path / "model", 2)
    words = ["reward=model", f"reward.model={folder}", "questions_per_step=4", "tracking.completions_every=1"]
    go(tmp_path / "run", *words)
    model = loaded(folder)
    for row in rows(tmp_path / "run"):
        answers = completions(tmp_path / "run", row["step"])
        scores = model([(answer["question"], answer["completion"]) for answer in answers])
        assert [answer["reward"] for answer in answers] == pytest.approx(scores, abs=1e-5)
        right = [score for score, answer in zip(scores, answers, strict=True) if answer["status"] == "correct"]
        wrong = [score for score, answer in zip(scores, answers, strict=True) if answer["status"] != "correct"]
        assert row["reward/model"] == pytest.approx(sum(scores) / len(scores), abs=1e-5)
        assert row["accuracy"] == len(right) / len(scores) != pytest.approx(row["reward/model"])
        gap = sum(right) / len(right) - sum(wrong) / len(wrong)
        assert row["reward/model_gap"] == pytest.approx(gap, abs=1e-5)
    assert json.loads((tmp_path / "run" / "summary.json").read_text())
