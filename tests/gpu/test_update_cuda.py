"""The update on a GPU: packed against padded rows, fused attention against plain products, autocast, checkpointing."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from grpo_runner import compose
from grpo_runner.algorithm import token_weights
from grpo_runner.policy import packed
from grpo_runner.policy.attention import blocks
from grpo_runner.policy.batch import Batch
from grpo_runner.policy.models import attach_lora
from grpo_runner.policy.update import Trainer
from tests.helpers import changed, random_groups, tiny_llama

DEVICE = torch.device("cuda")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]
CONFIG = dataclasses.replace(
    compose(["beta=no_kl", "lora.rank=4", "optim.max_grad_norm=null", "temperature=0.7"]), run_dir="unused"
)
# Of the gradient's norm. In bf16 this model of large random weights is 0.15 off, whichever way it is computed.
BOUND = {torch.float32: 1e-5, torch.bfloat16: 0.3}


def policy(dtype, seed=0):
    """A random Llama with an adapter that is not 0; full fine-tuning takes its base."""
    model = attach_lora(tiny_llama(seed, dtype=dtype).to(DEVICE), CONFIG.lora, seed).eval()
    draw = torch.Generator().manual_seed(seed + 1)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data = (torch.randn(parameter.shape, generator=draw) * 0.2).to(DEVICE)
    return model


def gradient(model, config=CONFIG, autocast=False, scale=1.0):
    """(parameters,) of one optimizer step that is not made. scale: of the advantages."""
    trainer, batch = Trainer(model, 0, config, DEVICE, autocast), Batch.of(random_groups(4, 4, longest=30))
    found = []
    trainer.optimizer.step = lambda: found.extend(p.grad.float().flatten() for p in trainer.named.values())
    rows = [torch.arange(len(batch.completions))]
    advantages_N = torch.linspace(-1.5, 2.0, len(batch.completions), dtype=torch.float64) * scale
    weights_NT, norm_NT = token_weights(advantages_N, batch.mask_NT, batch.groups_N, rows, "sequence_mean", 30)
    trainer.update(batch, rows, weights_NT, norm_NT, step=0)
    return torch.cat(found)


def apart(a, b):
    return float((a - b).norm() / b.norm())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("extra", [{}, {"entropy_bonus": 0.1}, {"beta__value": 0.04}])
def test_packed_rows_give_the_gradient_of_padded_ones(dtype, extra):
    config = changed(CONFIG, **extra)
    made = gradient(policy(dtype), config)
    padded = gradient(policy(dtype), changed(config, optim__packing=False))
    assert apart(made, padded) < BOUND[dtype]
    assert apart(gradient(policy(dtype, seed=1), config), padded) > 0.5  # negative control: another model


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fused_attention_gives_the_gradient_of_plain_products(dtype, monkeypatch):
    made = gradient(policy(dtype))
    calls = []

    def plain(*arguments):
        calls.append(1)
        return blocks(*arguments)

    monkeypatch.setattr(packed, "fused", plain)
    assert apart(made, gradient(policy(dtype))) < BOUND[dtype]
    assert calls  # else the fused one would have been compared with itself


def test_bf16_is_as_near_to_fp32_as_the_padded_path_is():
    """The adapter's gradient over a bf16 base against fp32 over the same, rounded, base."""
    wide, coarse = policy(torch.float32), policy(torch.bfloat16)
    wide.load_state_dict(coarse.state_dict())
    exact = gradient(wide)
    padded = apart(gradient(coarse, changed(CONFIG, optim__packing=False)), exact)
    assert 1e-4 < apart(gradient(coarse), exact) < 2 * padded


@pytest.mark.parametrize("packing", [True, False])
def test_full_fine_tuning_under_autocast(packing):
    """bf16 arithmetic over fp32 parameters: near the gradient in fp32, and gradients and parameters stay fp32."""
    config = changed(CONFIG, lora__enabled=False, optim__packing=packing)
    whole = tiny_llama(dtype=torch.float32).to(DEVICE).requires_grad_(True)
    exact = gradient(whole, config)
    whole.zero_grad()
    fast = gradient(whole, config, autocast=True)
    assert 1e-4 < apart(fast, exact) < BOUND[torch.bfloat16]  # with less it was not autocast
    assert {parameter.dtype for parameter in whole.parameters()} == {torch.float32}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradient_checkpointing_changes_nothing(dtype):
    plain, saving = policy(dtype), policy(dtype)
    base = saving.get_base_model()
    enable = getattr(base, "activation_checkpointing_enable", None) or base.gradient_checkpointing_enable
    enable({"use_reentrant": False})
    assert apart(gradient(saving), gradient(plain)) < BOUND[dtype]


def test_micro_batches_change_nothing():
    whole = gradient(policy(torch.float32), changed(CONFIG, optim__microbatch_tokens=10_000))
    pieces = gradient(policy(torch.float32), changed(CONFIG, optim__microbatch_tokens=20))
    assert apart(pieces, whole) < 1e-5
    # negative control: a gradient that differs is seen
    assert apart(gradient(policy(torch.float32), scale=2.0), whole) > 0.5


def test_a_micro_batch_that_does_not_fit_is_halved():
    """A real lack of memory: the process may have little more than what the model holds."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 8, "vocab_size": 64}
    torch.manual_seed(0)
    base = LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=8, num_key_value_heads=4)).eval().to(DEVICE)
    model = attach_lora(base, CONFIG.lora, 0).eval()
    batch = Batch.of(random_groups(8, 8, vocab=64, longest=512))
    told = []
    trainer = Trainer(model, 0, changed(CONFIG, optim__microbatch_tokens=100_000), DEVICE, False, told.append)
    rows = [torch.arange(64)]
    weights_NT, norm_NT = token_weights(
        torch.ones(64).double(), batch.mask_NT, batch.groups_N, rows, "sequence_mean", 1
    )
    tokens = int(batch.mask_NT.sum())
    torch.cuda.empty_cache()
    # at 140 kB a token in fp32, half of what all of them would keep
    allowed = torch.cuda.memory_allocated() + tokens * 70_000
    torch.cuda.set_per_process_memory_fraction(allowed / torch.cuda.get_device_properties(0).total_memory)
    try:
        update = trainer.update(batch, rows, weights_NT, norm_NT, step=0)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert update.updates == 1 and trainer.budget.tokens < 100_000
    assert told and all("out of memory" in line for line in told)
