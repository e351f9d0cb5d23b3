"""The update against gradients worked out by other means, and what it must leave alone."""

from __future__ import annotations

import copy
import dataclasses
import math
import types

import pytest
import torch

from grpo_runner.algorithm import LOSS_NORMS, loss_norm, token_weights
from grpo_runner.config import compose
from grpo_runner.errors import NonFiniteError
from grpo_runner.parallel import Ranks
from grpo_runner.policy.batch import Batch, minibatches
from grpo_runner.policy.logprobs import completion_logprobs, logprobs_and_entropy
from grpo_runner.policy.models import attach_lora
from grpo_runner.policy.optimizer import learning_rate
from grpo_runner.policy.scorer import Scorer, differentiated
from grpo_runner.policy.update import Trainer
from grpo_runner.train import ahead, loop
from tests.helpers import changed, random_groups, tiny_llama

CPU = torch.device("cpu")
ALL = torch.ones(24, dtype=torch.bool)
CONFIG = changed(
    compose(["beta=0.04", "lora.rank=2", "optim.max_grad_norm=null", "temperature=0.7", "max_new_tokens=16"]),
    run_dir="unused",
)


def lora_model(seed=0, moved=True):
    """A policy with an adapter; `moved` gives B values, so that the policy is not its reference."""
    model = attach_lora(tiny_llama(seed), CONFIG.lora, seed).double().eval()
    if moved:
        draw = torch.Generator().manual_seed(seed + 1)
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.data = torch.randn(parameter.shape, generator=draw, dtype=torch.float64) * 0.2
    return model


def gradients(config, model, batch, advantages_N, kind, parts=None):
    """Gradients of one optimizer step, caught before it is made, by parameter name."""
    trainer = Trainer(model, 0, config, CPU, autocast=False)
    caught = {}

    def catch():
        caught.update(
            {name: parameter.grad.clone() for name, parameter in trainer.named.items() if parameter.grad is not None}
        )

    trainer.optimizer.step = catch
    parts = parts or [torch.arange(len(batch.completions))]
    weights_NT, norm_NT = token_weights(advantages_N, batch.mask_NT, batch.groups_N, parts, kind, 16)
    return caught, trainer.update(batch, parts, weights_NT, norm_NT, step=0)


def row_logprobs(model, batch, row, temperature):
    """Log-probabilities of one row by itself: no padding, no batching, log_softmax over every position."""
    prompt, completion = batch.prompts[row], batch.completions[row]
    logits = model(input_ids=torch.cat([prompt, completion])[None]).logits[0, len(prompt) - 1 : -1] / temperature
    return torch.log_softmax(logits, 1).gather(1, completion[:, None]).squeeze(1)


@pytest.mark.parametrize("kind", ["sequence_mean", "constant", "token_mean"])
@pytest.mark.parametrize("beta", [0.0, 0.04])
def test_the_gradient_is_the_coefficient_times_grad_logprob(kind, beta):
    """DeepSeekMath eq. 21: Σ norm · (Â + β(π_ref/π - 1)) · ∇log π, row by row, sharing no code with the loss."""
    model, batch = lora_model(), Batch.of(random_groups(3, 4))
    advantages_N = torch.linspace(-1.5, 2.0, 12, dtype=torch.float64)
    found, _ = gradients(changed(CONFIG, beta__value=beta), model, batch, advantages_N, kind)

    total = sum(len(completion) for completion in batch.completions)
    expected = {
        name: torch.zeros_like(parameter) for name, parameter in model.named_parameters() if parameter.requires_grad
    }
    for row in range(12):
        logprobs = row_logprobs(model, batch, row, 0.7)
        with torch.no_grad(), model.disable_adapter():
            rho = (row_logprobs(model, batch, row, 0.7) - logprobs).exp()
        norm = {"sequence_mean": 1 / (12 * len(logprobs)), "constant": 1 / (12 * 16), "token_mean": 1 / total}[kind]
        coefficient = norm * (advantages_N[row] + beta * (rho - 1)).detach()
        for (name, _), gradient in zip(
            expected.items(),
            torch.autograd.grad((coefficient * logprobs).sum(), [dict(model.named_parameters())[n] for n in expected]),
            strict=True,
        ):
            expected[name] -= gradient  # the optimizer minimises
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-8, atol=1e-12)


def test_a_wrong_sign_of_the_kl_would_be_seen():
    """Negative control: β and -β differ by far more than the tolerance above."""
    batch, advantages_N = Batch.of(random_groups(3, 4)), torch.zeros(12, dtype=torch.float64)
    found, _ = gradients(CONFIG, lora_model(), batch, advantages_N, "sequence_mean")
    assert max(value.abs().max() for value in found.values()) > 1e-4


@pytest.mark.parametrize("kind", list(LOSS_NORMS))
def test_pb023_gradients_do_not_depend_on_micro_batches(kind):
    batch, advantages_N = Batch.of(random_groups(2, 4)), torch.linspace(-1, 1.3, 8, dtype=torch.float64)
    whole, stats = gradients(changed(CONFIG, optim__microbatch_tokens=10_000), lora_model(), batch, advantages_N, kind)
    for tokens in (1, 20, 45):
        cut, cut_stats = gradients(
            changed(CONFIG, optim__microbatch_tokens=tokens), lora_model(), batch, advantages_N, kind
        )
        for name in whole:
            torch.testing.assert_close(cut[name], whole[name], rtol=1e-9, atol=1e-12)
        assert cut_stats.kl == pytest.approx(stats.kl, rel=1e-9)  # PB094: metrics neither
        torch.testing.assert_close(cut_stats.kl_N, stats.kl_N)


def test_pb023_nor_do_they_with_entropy_bonus_and_importance_weights():
    """What is averaged over tokens, and what is made of a whole response, by micro-batches of any size."""
    batch = Batch.of(random_groups(2, 4))
    noise = torch.randn(batch.mask_NT.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    batch = dataclasses.replace(batch, sampled_NT=(noise * 0.3 - 2.5) * batch.mask_NT)
    config = changed(CONFIG, entropy_bonus=0.2, rollout__importance="sequence", rollout__importance_cap=1.5)
    cuts = [changed(config, optim__microbatch_tokens=tokens) for tokens in (10_000, 1, 20, 45)]
    found = [gradients(cut, lora_model(), batch, torch.linspace(-1, 1.3, 8), "constant") for cut in cuts]
    (whole, stats), others = found[0], found[1:]
    assert 0 < stats.importance_capped < 1 and stats.importance_mean < 1.5 and stats.mismatch > 0.1
    for cut, cut_stats in others:
        for name in whole:
            torch.testing.assert_close(cut[name], whole[name], rtol=1e-9, atol=1e-12)
        for name in ("importance_mean", "importance_capped", "mismatch"):
            assert getattr(cut_stats, name) == pytest.approx(getattr(stats, name), rel=1e-9)


def test_micro_batches_hold_the_budget_and_every_row_once():
    batch = Batch.of(random_groups(4, 4))
    pieces = list(batch.microbatches(torch.arange(16), 40))
    assert sorted(torch.cat(pieces).tolist()) == list(range(16)) and len(pieces) > 1
    for piece in pieces:
        padded = batch.pad(piece, 0, CPU)
        assert padded.input_ids.numel() <= 40 or len(piece) == 1


def test_pb035_one_update_a_rollout_has_ratio_one_and_no_clipping():
    batch = Batch.of(random_groups(2, 4))
    _, update = gradients(CONFIG, lora_model(), batch, torch.linspace(-1, 1, 8), "sequence_mean")
    assert update.ratio_mean == 1.0 and update.clip_fraction == 0.0


def test_several_updates_move_the_ratio_and_clip():
    config = changed(CONFIG, optim__updates_per_rollout=4, optim__lr=0.05, beta__value=0.0)
    model, batch = lora_model(), Batch.of(random_groups(2, 4))
    trainer = Trainer(model, 0, config, CPU, autocast=False)
    parts = minibatches(torch.ones(8, dtype=torch.bool), 4, 4, "whole", 0, 0)
    weights_NT, norm_NT = token_weights(
        torch.linspace(-1, 1, 8), batch.mask_NT, batch.groups_N, parts, "sequence_mean", 16
    )
    update = trainer.update(batch, parts, weights_NT, norm_NT, 0)
    assert update.updates == 4 and update.clip_fraction > 0 and update.ratio_mean != 1.0


def test_pb094_ratio_clip_fraction_and_kl_do_not_depend_on_micro_batches():
    """Means over the tokens of all optimizer steps, whose answers have unequal lengths; the largest ratio with them."""

    def made(tokens):
        config = changed(CONFIG, optim__updates_per_rollout=3, optim__lr=0.05, optim__microbatch_tokens=tokens)
        batch, parts = Batch.of(random_groups(2, 4)), [torch.arange(8)] * 3
        weights_NT, norm_NT = token_weights(
            torch.linspace(-1, 1.3, 8), batch.mask_NT, batch.groups_N, parts, "sequence_mean", 16
        )
        found = Trainer(lora_model(), 0, config, CPU, autocast=False).update(batch, parts, weights_NT, norm_NT, 0)
        return [found.clip_fraction, found.ratio_mean, found.ratio_max, found.kl, found.grad_norm]

    whole = made(10_000)
    assert 0 < whole[0] < 1
    for tokens in (1, 20, 45):
        assert made(tokens) == pytest.approx(whole, rel=1e-7)


@pytest.mark.parametrize("lora", [True, False])
def test_pb043_pb044_the_reference_is_the_adapter_off_model(lora):
    """KL is 0 at the start, and positive once the policy moved; beta 0 keeps no reference."""
    config = changed(CONFIG, lora__enabled=lora)
    model = lora_model(moved=False) if lora else tiny_llama()
    batch = Batch.of(random_groups(2, 4))
    trainer = Trainer(model, 0, config, CPU, autocast=False)
    parts = [torch.arange(8)]
    weights_NT, norm_NT = token_weights(
        torch.linspace(-1, 1, 8), batch.mask_NT, batch.groups_N, parts, "sequence_mean", 16
    )
    assert trainer.update(batch, parts, weights_NT, norm_NT, 0).kl == pytest.approx(0, abs=1e-12)
    assert trainer.update(batch, parts, weights_NT, norm_NT, 1).kl > 0
    assert Trainer(model, 0, changed(config, beta__value=0.0), CPU, False).reference is None


def test_pb032_without_weight_nothing_moves_not_even_moments():
    config = changed(CONFIG, beta__value=0.0, optim__weight_decay=0.1)
    model, batch = lora_model(), Batch.of(random_groups(2, 4))
    trainer, parts = Trainer(model, 0, config, CPU, autocast=False), [torch.arange(8)]
    live, norm_NT = token_weights(torch.linspace(-1, 1, 8), batch.mask_NT, batch.groups_N, parts, "sequence_mean", 16)
    trainer.update(batch, parts, live, norm_NT, 0)
    before = (
        copy.deepcopy({name: value.detach() for name, value in trainer.named.items()}),
        copy.deepcopy(trainer.state()),
    )
    update = trainer.update(batch, parts, torch.zeros_like(live), norm_NT, 1)
    assert update.updates == 0 and update.grad_norm is None and update.kl is None
    assert update.ratio_mean is None and update.ratio_max is None
    assert all(torch.equal(before[0][name], value) for name, value in trainer.named.items())
    assert all(torch.equal(before[1][name], value) for name, value in trainer.state().items())
    trainer.update(batch, parts, live, norm_NT, 2)  # negative control: with weight they do move
    assert not all(torch.equal(before[0][name], value) for name, value in trainer.named.items())


def test_rows_of_zero_weight_are_not_computed_when_beta_is_zero(monkeypatch):
    seen, call = [], Scorer.__call__
    monkeypatch.setattr(
        Scorer, "__call__", lambda self, b, rows, *rest: seen.append(rows) or call(self, b, rows, *rest)
    )
    batch = Batch.of(random_groups(2, 4))
    advantages_N = torch.tensor([1.0, -1, 1, -1, 0, 0, 0, 0])
    gradients(changed(CONFIG, beta__value=0.0), lora_model(), batch, advantages_N, "sequence_mean")
    assert sorted(torch.cat(seen).tolist()) == [0, 1, 2, 3]
    seen.clear()
    gradients(CONFIG, lora_model(), batch, advantages_N, "sequence_mean")
    assert set(torch.cat(seen).tolist()) == set(range(8))  # with a KL every row has a gradient


@pytest.mark.parametrize("config", [CONFIG, changed(CONFIG, beta__value=0.0, entropy_bonus=0.1)], ids=["kl", "entropy"])
def test_excluded_rows_are_never_computed(monkeypatch, config):
    """Not with a KL or an entropy in the loss either, where rows without advantage have a gradient."""
    seen, call = [], Scorer.__call__
    monkeypatch.setattr(
        Scorer, "__call__", lambda self, b, rows, *rest: seen.append(rows) or call(self, b, rows, *rest)
    )
    batch, parts = Batch.of(random_groups(2, 4)), [torch.arange(8)]
    mask = batch.mask_NT.clone()
    mask[[1, 6]] = False
    made = token_weights(torch.tensor([1.0, 1, 0, 0, -1, 1, 1, 0]), mask, batch.groups_N, parts, "constant", 16)
    update = Trainer(lora_model(), 0, config, CPU, autocast=False).update(batch, parts, *made, 0, record=True)
    assert set(torch.cat(seen).tolist()) == {0, 2, 3, 4, 5, 7}
    assert update.tokens.computed_N.tolist() == [True, False, True, True, True, True, False, True]
    assert not update.tokens.coefficient_NT[[1, 6]].any() and not update.tokens.ratio_NT[[1, 6]].any()


def test_excluded_rows_are_in_no_minibatch():
    included = torch.ones(12, dtype=torch.bool)
    included[[0, 5, 8, 9, 10, 11]] = False  # the third group has none left
    for kind in ("response", "group", "whole"):
        parts = minibatches(included, 4, 2, kind, seed=0, step=1)
        rows = [row for part in (parts[:1] if kind == "whole" else parts) for row in part.tolist()]
        assert sorted(rows) == [1, 2, 3, 4, 6, 7] and len(parts) == 2
        assert [len(part) for part in minibatches(torch.zeros(12, dtype=torch.bool), 4, 2, kind, 0, 1)] == [0, 0]


def test_where_everything_is_excluded_nothing_moves():
    model, batch, parts = lora_model(), Batch.of(random_groups(2, 4)), [torch.arange(0)]
    trainer = Trainer(model, 0, CONFIG, CPU, autocast=False)
    before = {name: value.detach().clone() for name, value in trainer.named.items()}
    made = token_weights(torch.zeros(8), torch.zeros_like(batch.mask_NT), batch.groups_N, parts, "sequence_mean", 16)
    update = trainer.update(batch, parts, *made, 0)
    assert update.updates == 0 and update.kl is None and update.mismatch is None and update.grad_norm is None
    assert all(torch.equal(before[name], value) for name, value in trainer.named.items())


def test_tokens_are_recorded_where_they_are_asked_for():
    batch, parts = Batch.of(random_groups(2, 4)), [torch.arange(8)]
    made = token_weights(torch.linspace(-1, 1, 8), batch.mask_NT, batch.groups_N, parts, "constant", 16)
    runs = [Trainer(lora_model(), 0, CONFIG, CPU, False).update(batch, parts, *made, 0, record) for record in (0, 1)]
    assert runs[0].tokens is None and runs[1].tokens.computed_N.all()
    assert runs[0].grad_norm == runs[1].grad_norm  # looking on changes nothing
    record = runs[1].tokens
    expected = made[0].float() + record.kl_coefficient_NT  # at ratio 1, with the KL's part
    torch.testing.assert_close(record.coefficient_NT, expected, rtol=1e-5, atol=1e-8)
    assert (record.ratio_NT[batch.mask_NT] == 1).all() and not record.clipped_NT.any()
    assert record.kl_coefficient_NT[batch.mask_NT].abs().max() > 1e-4


def test_the_entropy_bonus_alone_makes_the_policy_more_even():
    """No advantage, no KL: a step climbs the mean entropy; it is that of every position, in nats."""
    config = changed(CONFIG, beta__value=0.0, entropy_bonus=0.5, optim__lr=0.001)
    model, batch = lora_model(), Batch.of(random_groups(2, 4))
    trainer, parts = Trainer(model, 0, config, CPU, autocast=False), [torch.arange(8)]
    made = token_weights(torch.zeros(8), batch.mask_NT, batch.groups_N, parts, "token_mean", 16)

    def mean_entropy():
        found = []
        for row in range(8):
            prompt, completion = batch.prompts[row], batch.completions[row]
            with torch.no_grad():
                logits = model(input_ids=torch.cat([prompt, completion])[None]).logits[0, len(prompt) - 1 : -1] / 0.7
            found.append(torch.distributions.Categorical(logits=logits).entropy())
        return float(torch.cat(found).mean())

    before = mean_entropy()
    padded = batch.pad(torch.arange(8), 0, CPU)
    with torch.no_grad():
        logprobs, entropy = logprobs_and_entropy(model, padded, 0.7)
        torch.testing.assert_close(logprobs, completion_logprobs(model, padded, 0.7), rtol=0, atol=0)
    assert float(entropy[padded.completion_mask].mean()) == pytest.approx(before, rel=1e-9)
    assert trainer.update(batch, parts, *made, 0).updates == 1
    assert mean_entropy() > before + 0.02


def test_an_entry_that_a_model_rules_out_has_no_entropy_and_no_gradient_that_is_not_a_number():
    class Fixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = torch.nn.Parameter(torch.tensor([0.3, -0.2, 0.5, -torch.inf], dtype=torch.float64))

        def forward(self, input_ids, attention_mask, use_cache):
            return types.SimpleNamespace(logits=self.bias.expand(*input_ids.shape, 4))

    batch = Batch.of(random_groups(1, 2, vocab=4))
    model = Fixed()
    _, entropy = logprobs_and_entropy(model, batch.pad(torch.arange(2), 0, CPU), 1.0)
    chances = torch.softmax(torch.tensor([0.3, -0.2, 0.5], dtype=torch.float64), 0)
    assert entropy[0, 0].item() == pytest.approx(-float((chances * chances.log()).sum()))
    entropy.sum().backward()
    assert torch.isfinite(model.bias.grad[:3]).all() and not model.bias.grad.isnan().any()


def test_pb026_the_constant_is_the_completions_budget_without_the_prompt(monkeypatch):
    """max_new_tokens 512 beside prompts of up to 256: the loop divides by 512, or by what loss_norm.divisor says."""

    class Reached(Exception):
        pass

    def caught(advantages_N, mask_NT, groups_N, parts, kind, budget):
        raise Reached(kind, budget)

    widths = ["max_new_tokens=512", "data.max_prompt_tokens=256"]
    for overrides, budget in (([], 512), (["loss_norm.divisor=3000"], 3000)):
        config = compose(["loss_norm=constant", "evaluation=never", *widths, *overrides])
        trainer = types.SimpleNamespace(refresh_reference=lambda step: None, penalty=lambda *given: None)
        made = types.SimpleNamespace(groups=random_groups(2, 4))
        monkeypatch.setattr(ahead, "collect", lambda run, step, made=made: (made, torch.eye(2, 4)))
        monkeypatch.setattr(loop, "token_weights", caught)
        with pytest.raises(Reached) as reached:
            run = types.SimpleNamespace(config=config, trainer=trainer, sampler={}, rounds=None, ranks=Ranks())
            loop.train(run, 0, lambda: False)
        assert reached.value.args == ("constant", budget)
    # prompts of other lengths leave the weights alone: the mask is of completions
    short, long = Batch.of(random_groups(2, 4)), random_groups(2, 4)
    long = Batch.of([dataclasses.replace(group, prompt_ids=group.prompt_ids * 9) for group in long])
    assert torch.equal(*(loss_norm(b.mask_NT, b.groups_N, "constant", 512) for b in (short, long)))


def test_a_number_that_is_not_finite_stops_before_the_step():
    model, batch = lora_model(), Batch.of(random_groups(2, 4))
    trainer, parts = Trainer(model, 0, CONFIG, CPU, autocast=False), [torch.arange(8)]
    weights_NT, norm_NT = token_weights(
        torch.linspace(-1, 1, 8), batch.mask_NT, batch.groups_N, parts, "sequence_mean", 16
    )
    spoiled = weights_NT.clone()
    spoiled[5, 0] = torch.nan
    before = {name: value.detach().clone() for name, value in trainer.named.items()}
    with pytest.raises(NonFiniteError, match=r"step 7[\s\S]*q1"):
        trainer.update(batch, parts, spoiled, norm_NT, 7)
    assert all(torch.equal(before[name], value) for name, value in trainer.named.items())


def test_an_infinite_gradient_stops_before_the_step():
    model, batch = lora_model(), Batch.of(random_groups(2, 4))
    trainer, parts = Trainer(model, 0, CONFIG, CPU, autocast=False), [torch.arange(8)]
    next(iter(trainer.named.values())).register_hook(lambda gradient: gradient * torch.inf)
    weights_NT, norm_NT = token_weights(
        torch.linspace(-1, 1, 8), batch.mask_NT, batch.groups_N, parts, "sequence_mean", 16
    )
    with pytest.raises(NonFiniteError, match="gradient is not finite"):
        trainer.update(batch, parts, weights_NT, norm_NT, 3)


@pytest.mark.parametrize("kind", ["response", "group"])
def test_minibatches_are_a_partition(kind):
    parts = minibatches(ALL, 4, 3, kind, seed=0, step=5)
    assert sorted(torch.cat(parts).tolist()) == list(range(24)) and [len(part) for part in parts] == [8, 8, 8]
    whole_groups = all(
        set(part.tolist()) == {4 * (row // 4) + i for row in part.tolist() for i in range(4)} for part in parts
    )
    assert whole_groups == (kind == "group")  # Oat-Zero splits groups over its eight steps
    assert not all(torch.equal(a, b) for a, b in zip(parts, minibatches(ALL, 4, 3, kind, seed=0, step=6), strict=True))


def test_whole_minibatches_repeat_all_rows():
    assert [part.tolist() for part in minibatches(torch.ones(4, dtype=torch.bool), 2, 3, "whole", 0, 0)] == [
        [0, 1, 2, 3]
    ] * 3


def test_pb058_dropout_acts_in_the_differentiated_pass_alone():
    config = changed(CONFIG, lora__dropout=0.5)
    model = attach_lora(tiny_llama(), config.lora, 0).double().eval()
    dropouts = [module for name, module in model.named_modules() if name.endswith("lora_dropout.default")]
    assert dropouts and not any(module.training for module in dropouts)
    with differentiated(model):
        assert all(module.training for module in dropouts)
        assert not model.base_model.model.model.training
    assert not any(module.training for module in dropouts)


def test_gradient_checkpointing_gives_the_same_gradient():
    """TRL #3089: LoRA with checkpointing once gave none at all."""
    batch, advantages_N = Batch.of(random_groups(2, 4)), torch.linspace(-1, 1, 8, dtype=torch.float64)
    plain, _ = gradients(CONFIG, lora_model(), batch, advantages_N, "sequence_mean")
    model = lora_model()
    getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)({"use_reentrant": False})
    checkpointed, _ = gradients(CONFIG, model, batch, advantages_N, "sequence_mean")
    for name in plain:
        torch.testing.assert_close(checkpointed[name], plain[name], rtol=1e-9, atol=1e-12)
    assert not any(module.training for module in model.modules())


def test_an_adapter_stays_float32_on_a_bfloat16_base():
    model = attach_lora(tiny_llama(dtype=torch.bfloat16), CONFIG.lora, 0)
    kinds = {(parameter.requires_grad, parameter.dtype) for parameter in model.parameters()}
    assert kinds == {(True, torch.float32), (False, torch.bfloat16)}
    batch = Batch.of(random_groups(2, 4))
    found, update = gradients(CONFIG, model, batch, torch.linspace(-1, 1, 8), "sequence_mean")
    assert all(torch.isfinite(value).all() for value in found.values()) and update.grad_norm > 0


def test_learning_rate_shapes():
    optim = changed(CONFIG, optim__lr=1.0, optim__warmup_steps=4, optim__schedule="cosine").optim
    rates = [learning_rate(optim, update, 12) for update in range(12)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0] and rates[4] == 1.0
    assert rates[8] == pytest.approx(0.5 * (1 + math.cos(math.pi / 2))) and rates[11] < 0.05
    assert learning_rate(changed(CONFIG, optim__lr=2.0).optim, 99, 100) == 2.0


def test_optimizer_state_goes_through_tensors_unchanged():
    batch, parts = Batch.of(random_groups(2, 4)), [torch.arange(8)]
    weights_NT, norm_NT = token_weights(
        torch.linspace(-1, 1, 8), batch.mask_NT, batch.groups_N, parts, "sequence_mean", 16
    )
    first = Trainer(lora_model(), 0, CONFIG, CPU, autocast=False)
    first.update(batch, parts, weights_NT, norm_NT, 0)
    other = Trainer(lora_model(), 0, CONFIG, CPU, autocast=False)
    for name, value in first.named.items():
        other.named[name].data.copy_(value.data)
    other.load_state(copy.deepcopy(first.state()))
    for trainer in (first, other):
        trainer.update(batch, parts, weights_NT, norm_NT, 1)
    assert all(torch.equal(first.named[name], other.named[name]) for name in first.named)


def test_loss_norm_of_the_loop_is_the_rollouts():
    """`norm_NT` weighs the KL: with `sequence_mean` it sums to 1 over the rows."""
    assert loss_norm(
        Batch.of(random_groups(2, 4)).mask_NT, torch.arange(8) // 4, "sequence_mean", 16
    ).sum() == pytest.approx(1.0)


def test_a_step_that_overflows_the_parameters_stops_before_a_checkpoint():
    model, batch = lora_model(), Batch.of(random_groups(2, 4))
    trainer, parts = Trainer(model, 0, CONFIG, CPU, autocast=False), [torch.arange(8)]
    weights_NT, norm_NT = token_weights(
        torch.linspace(-1, 1, 8), batch.mask_NT, batch.groups_N, parts, "sequence_mean", 16
    )
    step = trainer.optimizer.step

    def overflow():
        step()
        next(iter(trainer.named.values())).data[0] = torch.inf

    trainer.update(batch, parts, weights_NT, norm_NT, 2)  # negative control
    trainer.optimizer.step = overflow
    with pytest.raises(NonFiniteError, match="step 3: the policy after the optimizer step"):
        trainer.update(batch, parts, weights_NT, norm_NT, 3)
