"""Packed log-probabilities and gradients against transformers' own forward pass, model by model and switch by switch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from grpo_runner.config import compose
from grpo_runner.policy import decoder as decoder_module
from grpo_runner.policy import packed as packed_module
from grpo_runner.policy.batch import Batch
from grpo_runner.policy.decoder import unsupported
from grpo_runner.policy.models import trainable
from grpo_runner.policy.packed import pack
from grpo_runner.policy.scorer import Scorer
from grpo_runner.policy.update import Trainer, differentiated
from grpo_runner.rollout import ENGINES, NativeEngine, TransformersEngine
from tests.helpers import changed, in_double, random_groups, tiny_llama
from tests.policy.families import MODELS, build, with_lora

CPU = torch.device("cpu")
CONFIG = changed(
    compose(
        ["beta=0.04", "lora.rank=2", "lora.alpha=3", "optim.max_grad_norm=null", "temperature=0.7", "max_new_tokens=16"]
    ),
    run_dir="unused",
)


def batch_of(questions=3, group_size=4):
    return Batch.of(random_groups(questions, group_size))


def compared(model, packing, batch=None, entropy=True):
    """(log-probabilities, entropies, gradients by name) of all rows, of random weights of both."""
    batch = batch or batch_of()
    scorer = Scorer(model, 0, CPU, 0.7, packing)
    rows = torch.arange(len(batch.completions))
    logprobs, entropies = scorer(batch, rows, entropy)
    draw = torch.Generator().manual_seed(2)
    weights, more = (torch.randn(logprobs.shape, generator=draw, dtype=torch.float64).to(logprobs) for _ in range(2))
    loss = (weights * logprobs).sum() + ((more * entropies).sum() if entropy else 0)
    model.zero_grad()
    loss.backward()
    found = {name: parameter.grad.clone() for name, parameter in trainable(model).items() if parameter.grad is not None}
    return logprobs.detach(), entropies.detach() if entropy else None, found


def apart(found, expected):
    """The largest distance of a tensor of `found`, relative to the size of the expected one."""
    assert found.keys() == expected.keys()
    whole = max(value.norm() for value in expected.values())
    return max(
        float((found[name].to(value) - value).norm() / max(value.norm(), 1e-3 * whole))
        for name, value in expected.items()
    )


def assert_as_transformers(model, scale=1.0, dtype=torch.float64, **more):
    near = {torch.float64: 1e-9, torch.float32: 1e-5}[dtype]
    assert unsupported(model) is None
    ours, plain = compared(model, True, **more), compared(model, False, **more)
    for mine, other in zip(ours[:2], plain[:2], strict=True):
        if other is not None:
            torch.testing.assert_close(mine, other, rtol=near, atol=near)
    assert apart(ours[2], plain[2]) <= near
    return ours


@pytest.mark.parametrize("name", MODELS)
def test_models_in_float64(name):
    model = with_lora(build(name))
    logprobs, _, found = assert_as_transformers(model)
    assert logprobs.dtype is torch.float64 and len(found) == 28  # A and B of seven maps in two layers
    with model.disable_adapter():
        off = compared_without_gradient(model)
    assert (off - logprobs).abs().max() > 1e-2  # negative control: the adapter counts


def compared_without_gradient(model, packing=True):
    batch = batch_of()
    with torch.no_grad():
        return Scorer(model, 0, CPU, 0.7, packing)(batch, torch.arange(len(batch.completions)))[0]


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3"])
def test_models_in_float32(name):
    assert_as_transformers(with_lora(build(name, torch.float32)), dtype=torch.float32)


def test_a_wrong_angle_would_be_seen(monkeypatch):
    """Negative control of all of the above: positions that are off by one from a completion's second token on."""
    model = with_lora(build("llama"))
    plain = compared(model, False)

    def shifted(*args):
        made = pack(*args)
        return packed_module.Packed(**vars(made) | {"positions": (made.positions - 1).clamp(min=0)})

    monkeypatch.setattr(packed_module, "pack", shifted)
    assert apart(compared(model, True)[2], plain[2]) > 1e-3


def test_the_adapter_off_is_the_base():
    model = with_lora(build("qwen2"))
    base = build("qwen2")
    with model.disable_adapter():
        torch.testing.assert_close(compared_without_gradient(model), compared_without_gradient(base, False))
    assert (compared_without_gradient(model) - compared_without_gradient(base)).abs().max() > 1e-2


def test_an_adapter_on_some_maps_alone():
    found = assert_as_transformers(with_lora(build("qwen2"), targets=("q_proj", "v_proj")))[2]
    assert len(found) == 8 and all("q_proj" in name or "v_proj" in name for name in found)
    assert_as_transformers(with_lora(build("llama"), targets=("down_proj", "o_proj")))


def test_full_fine_tuning():
    """The weights themselves are trained: their own modules are called, and the tied head has both of its gradients."""
    found = assert_as_transformers(build("llama"))[2]
    assert len(found) == 21 and {"lm_head.weight", "model.norm.weight", "model.embed_tokens.weight"} <= found.keys()
    assert_as_transformers(build("tied"))
    assert_as_transformers(build("qwen3", torch.float32), dtype=torch.float32)


@pytest.mark.parametrize("how", ["adapter", "full"])
def test_gradient_checkpointing_gives_the_same_gradient(how):
    model = with_lora(build("qwen3")) if how == "adapter" else build("qwen3")
    plain = compared(model, True)
    base = model.get_base_model() if how == "adapter" else model
    base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if how == "adapter":
        model.enable_input_require_grads()
    with differentiated(model):
        again, transformers = compared(model, True), compared(model, False)
    assert again[2].keys() == plain[2].keys() and apart(again[2], plain[2]) < 1e-12
    assert apart(transformers[2], plain[2]) < 1e-9


def test_gradient_checkpointing_does_compute_layers_again(monkeypatch):
    """Negative control of the one above: each layer runs once more in the backward pass."""
    calls, counted = [], packed_module.swiglu_down
    monkeypatch.setattr(packed_module, "swiglu_down", lambda *args: calls.append(1) or counted(*args))
    model = with_lora(build("llama"))
    compared(model, True)
    assert len(calls) == 2
    model.get_base_model().gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    with differentiated(model):
        compared(model, True)
    assert len(calls) == 2 + 4


def test_dropout_acts_where_it_is_on():
    """In the differentiated pass PEFT's own modules drop out; elsewhere the policy is the one that sampled."""
    model = with_lora(build("llama"), dropout=0.5)
    assert_as_transformers(model)
    still = compared_without_gradient(model)
    with differentiated(model):
        torch.manual_seed(0)
        dropped = compared_without_gradient(model)
        torch.manual_seed(0)
        again = compared_without_gradient(model)
        torch.manual_seed(1)
        other = compared_without_gradient(model)
    assert torch.equal(dropped, again) and not torch.equal(dropped, other)
    assert (dropped - still).abs().max() > 1e-3
    assert torch.equal(compared_without_gradient(model), still)


def test_the_mean_over_dropouts_draws_is_that_of_transformers():
    """Gradients of the last layer's down_proj.B, whose own mean is linear in what is dropped before it."""
    model = with_lora(build("llama", num_hidden_layers=1), targets=("down_proj",), dropout=0.5)
    batch = batch_of(1, 2)
    with differentiated(model):
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.forward = lambda x: x * 2.0  # what is kept is scaled by 1 / (1 - p): here, everything
        ours, plain = (compared(model, packing, batch) for packing in (True, False))
    assert apart(ours[2], plain[2]) < 1e-9
    model.eval()
    assert apart(compared(model, True, batch)[2], ours[2]) > 1e-3


@pytest.mark.parametrize("adapter", [torch.bfloat16, torch.float32], ids=["all in bfloat16", "the adapter in float32"])
def test_bfloat16_is_as_near_to_the_truth_as_transformers_is(adapter):
    narrow = with_lora(build("llama", torch.bfloat16, initializer_range=0.1))
    wide = in_double(with_lora(build("llama"))).eval()
    with torch.no_grad():
        for (name, a), (_, b) in zip(narrow.named_parameters(), wide.named_parameters(), strict=True):
            a.data = a.to(adapter) if "lora_" in name else a.data
            b.copy_(a)
    ours, plain, truth = (compared(*which)[2] for which in ((narrow, True), (narrow, False), (wide, False)))
    assert {value.dtype for value in ours.values()} == {adapter}
    assert apart(ours, truth) < 1.5 * apart(plain, truth) + 0.01 < 0.2
    assert apart({name: 1.1 * value for name, value in ours.items()}, truth) > 0.08  # negative control


@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_full_fine_tuning_in_bfloat16_arithmetic_is_as_near_to_the_truth(name):
    """autocast over float32 weights, as the trainer has it: norms give float32 beside values in bfloat16."""
    model, wide = build(name, torch.float32, initializer_range=0.1), build(name)
    wide.load_state_dict(model.state_dict())
    truth = compared(wide, False)[2]
    with torch.autocast("cpu", torch.bfloat16):
        ours, plain = (compared(model, packing)[2] for packing in (True, False))
    assert {value.dtype for value in ours.values()} == {torch.float32}
    assert 1e-4 < apart(ours, truth) < 1.5 * apart(plain, truth) + 0.005 < 0.1


# ---- what is packed


def test_a_pack_has_each_prompt_once_and_no_token_that_predicts_nothing():
    batch = batch_of(2, 3)
    rows = torch.tensor([0, 2, 3, 4, 5])
    made = pack(batch, rows, CPU)
    expected, positions, predicted = [], [], []
    for group in ([0, 2], [3, 4, 5]):
        prompt = batch.prompts[group[0]].tolist()
        expected += prompt
        positions += range(len(prompt))
        for row in group:
            own = batch.completions[row].tolist()
            expected += own[:-1]
            positions += range(len(prompt), len(prompt) + len(own) - 1)
            predicted += [(prompt + own)[: len(prompt) + n] for n in range(len(own))]  # what each token comes after
    assert made.ids.tolist() == expected and made.positions.tolist() == positions
    assert made.targets.tolist() == [token for row in rows for token in batch.completions[row].tolist()]
    for source, before in zip(made.kept[made.use].tolist(), predicted, strict=True):
        assert int(made.ids[source]) == before[-1] and int(made.positions[source]) == len(before) - 1
    assert made.shape == (5, max(len(batch.completions[row]) for row in rows))


def test_rows_in_any_order_and_in_any_pieces_have_the_same_log_probabilities():
    model, batch = with_lora(build("qwen3")), batch_of()
    scorer = Scorer(model, 0, CPU, 0.7, True)
    whole, _ = scorer(batch, torch.arange(12))
    for rows in (torch.tensor([7, 0, 11, 1, 4]), torch.tensor([5]), torch.arange(11, -1, -1)):
        values, _ = scorer(batch, rows)
        torch.testing.assert_close(values, whole[rows, : values.shape[1]], rtol=1e-10, atol=1e-12)
    for tokens in (1, 17, 40):
        for piece in scorer.cut(batch, torch.arange(12), tokens):
            values, _ = scorer(batch, piece)
            torch.testing.assert_close(values, whole[piece, : values.shape[1]], rtol=1e-10, atol=1e-12)


# ---- what our own forward pass does not know


def peft_model(kind):
    from peft import LoraConfig, get_peft_model

    targets = ["q_proj", "embed_tokens"] if kind == "embed_tokens" else ["q_proj"]
    targets = ["q_proj", "lm_head"] if kind == "lm_head" else targets
    options = {"use_dora": True} if kind == "dora" else {"lora_bias": True} if kind == "lora_bias" else {}
    options |= {"modules_to_save": ["lm_head"]} if kind == "modules_to_save" else {}
    model = get_peft_model(build("qwen2"), LoraConfig(r=2, target_modules=targets, task_type="CAUSAL_LM", **options))
    if kind == "two":
        model.add_adapter("other", LoraConfig(r=2, target_modules=targets, task_type="CAUSAL_LM"))
    return model.double().eval()


def gemma():
    return build("Gemma", torch.float32, head_dim=8)


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=13, n_positions=64, n_embd=16, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2)
    ).eval()


UNKNOWN = {
    "sliding window": (lambda: build("Mistral", sliding_window=4), "sliding window"),
    "gemma": (gemma, "its type is gemma"),
    "gpt2": (gpt2, "its type is gpt2"),
    "dynamic rope": (
        lambda: build("Llama", rope_parameters={"rope_type": "dynamic", "rope_theta": 100.0, "factor": 4.0}),
        "rotary embedding is dynamic",
    ),
    "activation": (lambda: build("Llama", hidden_act="gelu"), "activation is gelu"),
    "embed_tokens": (lambda: peft_model("embed_tokens"), "embed_tokens"),
    "lm_head": (lambda: peft_model("lm_head"), "head"),
    "modules_to_save": (lambda: peft_model("modules_to_save"), "head"),
    "dora": (lambda: peft_model("dora"), "not plain LoRA"),
    "lora_bias": (lambda: peft_model("lora_bias"), "not plain LoRA"),
    "two": (lambda: peft_model("two"), "not plain LoRA"),
}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_models_that_are_not_known_go_through_their_own_forward_pass(kind):
    make, why = UNKNOWN[kind]
    model = make()
    assert why in unsupported(model)
    with pytest.raises(ValueError, match="."):
        decoder_module.Decoder(model)
    scorer = Scorer(model, 0, CPU, 0.7, True)
    assert scorer.decoder is None and why in scorer.why_padded
    assert torch.equal(compared_without_gradient(model), compared_without_gradient(model, False))
    # alone, row by row, without padding
    batch, padded = batch_of(), compared_without_gradient(model)
    for row in (1, 5, 11):
        prompt, own = batch.prompts[row], batch.completions[row]
        with torch.no_grad():
            logits = model(input_ids=torch.cat([prompt, own])[None]).logits[0, len(prompt) - 1 : -1] / 0.7
        expected = torch.log_softmax(logits, 1).gather(1, own[:, None]).squeeze(1)
        torch.testing.assert_close(padded[row, : len(own)], expected, rtol=1e-5, atol=1e-5)


def test_a_window_wider_than_any_sequence_is_no_window():
    assert unsupported(build("Mistral", sliding_window=128)) is None
    assert unsupported(build("Qwen2", sliding_window=4, use_sliding_window=False)) is None


@pytest.mark.parametrize("make", [gpt2, UNKNOWN["sliding window"][0]])
def test_the_native_engine_says_in_one_line_that_it_falls_back(make):
    said = []
    engine = ENGINES["native"](make(), None, frozenset({2}), CONFIG.rollout, said.append)
    assert isinstance(engine, TransformersEngine) and len(said) == 1 and "\n" not in said[0]
    assert "its type is gpt2" in said[0] or "sliding window" in said[0]
    known = ENGINES["native"](tiny_llama(), None, frozenset({2}), CONFIG.rollout, said.append)
    assert isinstance(known, NativeEngine) and len(said) == 1  # negative control


@pytest.mark.parametrize("make", [gpt2, gemma, UNKNOWN["sliding window"][0]])
def test_the_trainer_trains_a_model_that_is_not_known(make):
    config = changed(CONFIG, lora__enabled=False, beta__value=0.0, optim__lr=0.01)
    model = make()
    before = {name: parameter.detach().clone() for name, parameter in trainable(model).items()}
    batch, trainer = batch_of(), Trainer(model, 0, config, CPU, autocast=False)
    weights_NT = batch.mask_NT.double() / 12
    update = trainer.update(batch, [torch.arange(12)], weights_NT, weights_NT, 0)
    assert trainer.score.decoder is None and update.updates == 1 and update.grad_norm > 0
    assert any(not torch.equal(before[name], parameter) for name, parameter in trainable(model).items())
