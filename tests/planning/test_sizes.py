"""The sizes of models: against the published counts, another library's model, and the embedded weights themselves."""

from __future__ import annotations

import dataclasses
import json

import pytest
import yaml

from grpo_runner import sizes
from grpo_runner.config import find as conf
from grpo_runner.planning import models

PUBLISHED = {  # numbers in the hub's safetensors
    "HuggingFaceTB/SmolLM2-135M": 134_515_008,
    "Qwen/Qwen2.5-0.5B-Instruct": 494_032_768,
    "Qwen/Qwen2.5-1.5B": 1_543_714_304,
    "Qwen/Qwen2.5-3B": 3_085_938_688,
    "Qwen/Qwen2.5-7B": 7_615_616_512,
    "Qwen/Qwen2.5-14B": 14_770_033_664,
    "Qwen/Qwen2.5-32B": 32_763_876_352,
    "Qwen/Qwen2.5-Math-7B": 7_615_616_512,
    "Qwen/Qwen3-0.6B": 596_049_920,
    "Qwen/Qwen3-8B": 8_190_735_360,
    "meta-llama/Llama-3.2-1B": 1_235_814_400,
    "meta-llama/Llama-3.2-3B": 3_212_749_824,
    "meta-llama/Llama-3.1-8B": 8_030_261_248,
    "meta-llama/Llama-3.1-70B": 70_553_706_496,
    "deepseek-ai/deepseek-math-7b-instruct": 6_910_365_696,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": 1_777_088_000,
}


@pytest.mark.parametrize("path", PUBLISHED)
def test_parameters_are_the_published_ones(path):
    assert models.find(path).parameters == PUBLISHED[path]


def test_the_embedded_model_has_the_numbers_of_its_weights():
    with (models.EMBEDDED / "model.safetensors").open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    count = 0
    for name, tensor in header.items():
        if name != "__metadata__":
            rows, columns = [*tensor["shape"], 1][:2]
            count += rows * columns
    assert models.find("embedded").parameters == count


@pytest.mark.parametrize("path", ["HuggingFaceTB/SmolLM2-135M", "Qwen/Qwen2.5-0.5B", "Qwen/Qwen3-0.6B"])
def test_each_family_has_the_parameters_and_linear_layers_that_transformers_makes(path):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("meta"):
        made = AutoModelForCausalLM.from_config(AutoConfig.for_model(**models.table()[path]))
    own = models.find(path).sizes
    assert sum(parameter.numel() for parameter in made.parameters()) == own.parameters
    linear = [m for name, m in made.named_modules() if isinstance(m, torch.nn.Linear) and "lm_head" not in name]
    assert sum(m.weight.numel() for m in linear) == own.base
    assert sum(16 * (m.in_features + m.out_features) for m in linear) == own.lora(16)
    q_and_v = [m for name, m in made.named_modules() if name.endswith(("q_proj", "v_proj"))]
    assert sum(4 * (m.in_features + m.out_features) for m in q_and_v) == own.lora(4, ("q_proj", "v_proj"))


def test_a_size_that_is_wrong_would_be_seen():
    """Negative control: Qwen2.5-7B with a head tied to its embedding, and without its biases."""
    right = models.find("Qwen/Qwen2.5-7B").sizes
    for wrong in (dataclasses.replace(right, tie_word_embeddings=True), dataclasses.replace(right, biases=0)):
        assert wrong.parameters != PUBLISHED["Qwen/Qwen2.5-7B"]


def test_every_model_of_conf_is_known():
    paths = [yaml.safe_load(file.read_text())["path"] for file in (conf() / "model").glob("*.yaml")]
    # and every model that a preset names itself
    presets = [yaml.safe_load(file.read_text()) or {} for file in (conf() / "experiment").glob("*.yaml")]
    paths += [preset["model"]["path"] for preset in presets if "path" in preset.get("model", {})]
    paths.remove("build/length_bias/base")  # a folder that scripts/length_bias makes: read there, as any other folder
    assert len(paths) >= 18
    assert [path for path in paths if models.find(path).parameters is None] == []


def test_a_folder_is_read_and_what_is_unknown_says_why(tmp_path):
    values = models.table()["Qwen/Qwen3-8B"]
    (tmp_path / "config.json").write_text(json.dumps(values))
    assert models.find(str(tmp_path)).parameters == PUBLISHED["Qwen/Qwen3-8B"]
    (tmp_path / "config.json").write_text(json.dumps({**values, "model_type": "gpt2"}))
    other = models.find(str(tmp_path))
    assert other.sizes is None and "family" in other.why
    (tmp_path / "config.json").write_text("{")
    assert models.find(str(tmp_path)).sizes is None
    nobody = models.find("nobody/knows-this")
    assert nobody.parameters is None and "models.json" in nobody.why
    large = models.find("deepseek-ai/DeepSeek-V3-Base")
    assert large.parameters == 671_000_000_000 and large.sizes is None and "experts" in large.why


def test_incomplete_sizes_are_none():
    assert sizes.read({"model_type": "llama", "hidden_size": 64}) is None
    assert sizes.read({}) is None
