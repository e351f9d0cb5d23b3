"""PB085: adapters are merged into a copy of the weights, never in place, so that the base stays what it was."""

from __future__ import annotations

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from grpo_runner.config import compose
from grpo_runner.policy.decoder import Decoder
from grpo_runner.policy.models import attach_lora


@pytest.mark.parametrize("item", [torch.bfloat16, torch.float32], ids=str)
def test_pb085_fifty_merges_leave_every_weight_as_it_was(item):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        sizes = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
        model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=48, **sizes)).to(item)
        model = attach_lora(model.eval(), compose([]).lora, 0).eval()
        for name, value in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(value)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    decoder = Decoder(model)
    with torch.no_grad():
        for _ in range(50):
            merged = decoder.merged()
    assert merged[0].qkv[0].A is None  # it was merged, into
    own = torch.cat([part.weight for part in decoder.layers()[0].qkv])
    assert not torch.equal(merged[0].qkv[0].weight, own)  # another matrix
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_adding_and_taking_away_in_bfloat16_does_not_come_back():
    """Negative control: what the behaviour is about."""
    generator = torch.Generator().manual_seed(0)
    weight, added = (torch.randn(64, 64, generator=generator).bfloat16() for _ in range(2))
    kept = weight.clone()
    for _ in range(50):
        weight.add_(added).sub_(added)
    assert not torch.equal(weight, kept)
