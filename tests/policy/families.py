"""Random small models of the families that our own forward passes know, made by transformers' own classes."""

from __future__ import annotations

import torch

from grpo_runner.policy.models import attach_lora
from grpo_runner.schema import LoraConfig
from tests.helpers import in_double

SIZES = {
    "vocab_size": 13,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.3,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 100.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
YARN = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 8.0, "original_max_position_embeddings": 16}
MODELS = {
    "llama": ("Llama", {}),
    "llama with biases": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "tied": ("Llama", {"tie_word_embeddings": True}),
    "wide heads": ("Llama", {"head_dim": 10}),
    "llama3 rope": ("Llama", {"rope_parameters": LLAMA3}),
    "yarn rope": ("Llama", {"rope_parameters": YARN}),
    "linear rope": ("Llama", {"rope_parameters": {"rope_type": "linear", "rope_theta": 100.0, "factor": 4.0}}),
    "mistral": ("Mistral", {"sliding_window": None}),
    "qwen2": ("Qwen2", {}),
    "qwen3": ("Qwen3", {"head_dim": 8}),
}


def build(name, dtype=torch.float64, **more):
    """A random model of transformers' own class; norms and biases away from their initial 1 and 0."""
    import transformers

    family, options = MODELS.get(name, (name, {}))
    config = getattr(transformers, f"{family}Config")(**SIZES | options | more)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = getattr(transformers, f"{family}ForCausalLM")(config)
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.data += 0.3 * torch.randn_like(parameter)
    return (in_double(model) if dtype is torch.float64 else model.to(dtype)).eval()


def with_lora(model, **lora):
    """The model with an adapter that is not 0, in the model's own type."""
    settings = {"rank": 2, "alpha": 3.0, "dropout": 0.0, "targets": "all-linear", "adapter": None} | lora
    policy = attach_lora(model, LoraConfig(enabled=True, **settings), 0)
    draw = torch.Generator().manual_seed(1)
    for name, parameter in policy.named_parameters():
        if "lora_" in name:
            parameter.data = parameter.data.to(model.dtype)
        if "lora_B" in name:
            parameter.data = (torch.randn(parameter.shape, generator=draw) * 0.2).to(model.dtype)
    return policy.eval()
