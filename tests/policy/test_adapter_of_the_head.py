"""An adapter on the head or the embedding: all that samples, stores, merges and goes on has the trained one (pb086)."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from grpo_runner.config import compose
from grpo_runner.errors import InputError
from grpo_runner.policy.batch import Batch
from grpo_runner.policy.logprobs import completion_logprobs
from grpo_runner.policy.merge import merge
from grpo_runner.policy.models import EMBEDDED, attach_lora, eos_ids, load_model, load_tokenizer, trainable
from grpo_runner.rollout import ENGINES, Sampling
from grpo_runner.train.build import save_model
from grpo_runner.types import Question
from grpo_runner.validate import to_yaml
from tests.helpers import changed

CPU = torch.device("cpu")
PROMPT = (1, 5, 6, 7, 8)


@pytest.fixture(scope="module", params=["own head", "tied head"])
def base(request, tmp_path_factory) -> Path:
    """The embedded model; tied: the head is the embedding's weight, as in the small Qwen2.5 and SmolLM2."""
    folder = tmp_path_factory.mktemp("model") / "model"
    shutil.copytree(EMBEDDED, folder)
    if request.param == "tied head":
        settings = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**settings, "tie_word_embeddings": True}))
        tensors = load_file(folder / "model.safetensors")
        del tensors["lm_head.weight"]
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def moved(base: Path, target: str):
    """(config, policy, tokenizer) with an adapter on that module whose B is no longer 0."""
    config = compose([f"model.path={base}", f"lora.targets=[{target}]"])
    policy = attach_lora(load_model(config.model, CPU, torch.float32), config.lora, 0).eval()
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in trainable(policy).values():
            parameter.copy_(torch.randn(parameter.shape, generator=draw) * 0.3)
    return config, policy, load_tokenizer(config.model)


def logits(model) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.tensor([PROMPT])).logits


@pytest.mark.parametrize("target", ["lm_head", "embed_tokens"])
def test_it_is_stored_merged_and_gone_on_from(base, target, tmp_path):
    config, policy, tokenizer = moved(base, target)
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text(to_yaml(changed(config, run_dir=str(run))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PEFT's, of an adapter on a tied weight
        save_model(policy, tokenizer, run, config)
        found = AutoModelForCausalLM.from_pretrained(merge(str(run), str(tmp_path / "full")))
    assert all(
        "lora" in name for name in load_file(run / "adapter" / "adapter_model.safetensors")
    )  # nothing of the base
    torch.testing.assert_close(logits(found), logits(policy), rtol=1e-4, atol=1e-4)
    assert (logits(policy) - logits(load_model(config.model, CPU, torch.float32))).abs().max() > 0.1  # not the base
    again = attach_lora(
        load_model(config.model, CPU, torch.float32), changed(config.lora, adapter=str(run / "adapter")), 1
    )
    assert torch.equal(logits(again), logits(policy))


def test_a_file_that_holds_the_bases_head_too_is_read(base, tmp_path):
    """As PEFT writes it by itself; another head than the base's is another policy, and refused."""
    config, policy, _ = moved(base, "lm_head")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        policy.save_pretrained(str(tmp_path))
    file = tmp_path / "adapter_model.safetensors"
    tensors = load_file(file)
    (head,) = (name for name in tensors if "lora" not in name)
    settings = changed(config.lora, adapter=str(tmp_path))
    assert torch.equal(logits(attach_lora(load_model(config.model, CPU, torch.float32), settings, 1)), logits(policy))
    save_file({**tensors, head: tensors[head] + 1}, file)
    with pytest.raises(InputError, match="for other modules than lora.targets"):
        attach_lora(load_model(config.model, CPU, torch.float32), settings, 1)


def test_modules_that_are_trained_whole_are_refused(tmp_path):
    config, policy, _ = moved(EMBEDDED, "q_proj")
    policy.save_pretrained(str(tmp_path))
    file = tmp_path / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "modules_to_save": ["lm_head"]}))
    with pytest.raises(InputError, match="adapters with modules_to_save are not supported"):
        attach_lora(load_model(config.model, CPU, torch.float32), changed(config.lora, adapter=str(tmp_path)), 1)


@pytest.mark.parametrize("engine", list(ENGINES))
def test_the_engine_samples_from_it(base, engine):
    config, policy, tokenizer = moved(base, "lm_head")
    sampler = ENGINES[engine](policy, tokenizer, eos_ids(policy, tokenizer), config.rollout, lambda _: None)
    sampling = Sampling(1.0, 1.0, 0, 6, (), seed=0, purpose="rollout", step=0)
    groups = sampler.sample([Question("q", "", "")], [PROMPT], 8, sampling)
    batch = Batch.of(groups)
    padded = batch.pad(torch.arange(8), 0, CPU)
    with torch.no_grad():
        own = completion_logprobs(policy, padded, 1.0)
        with policy.disable_adapter():
            of_base = completion_logprobs(policy, padded, 1.0)
    assert (own - batch.sampled_NT)[batch.mask_NT].abs().max() < 1e-4
    assert (of_base - batch.sampled_NT)[batch.mask_NT].abs().max() > 1e-2  # the base's head would be seen
