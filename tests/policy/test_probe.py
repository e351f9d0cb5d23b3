"""The probe's norms and cosines against gradients taken one objective at a time, and that it leaves training alone."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from grpo_runner.algorithm import weigh
from grpo_runner.objectives import NAMED, preset
from grpo_runner.policy.batch import Batch
from grpo_runner.policy.models import attach_lora
from grpo_runner.policy.probe import probe
from grpo_runner.policy.update import Trainer
from tests.helpers import changed, random_groups, tiny_llama
from tests.policy.test_update import CONFIG, CPU, lora_model, row_logprobs

NAMES = ("grpo", "dr_grpo", "no_std", "no_length_norm", "rloo")
RELATIVE = 1e-6  # the model normalises in float32 whatever it computes in, and a shared pass is scaled after it
REWARDS = torch.tensor([[1.0, 0, 0, 1], [1, 1, 1, 1], [0, 0, 1, 0.5]], dtype=torch.float64)


def weights_of(batch, rewards=REWARDS, names=NAMES):
    parts = [torch.arange(rewards.numel())]
    return {name: weigh(rewards, batch.mask_NT, parts, preset(name, 0, 0.0, 16.0)).weights_NT for name in names}


def by_hand(model, batch, weights, rows):
    """One flat gradient an objective: Σ w · ∇log π, row by row, without padding."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    vectors = {}
    for name, weights_NT in weights.items():
        total = sum(
            (weights_NT[row, : len(batch.completions[row])] * row_logprobs(model, batch, row, 0.7)).sum()
            for row in rows
        )
        vectors[name] = torch.cat([part.flatten() for part in torch.autograd.grad(total, parameters)])
    return vectors


def cosine(a, b):
    return float(a @ b / (a.norm() * b.norm())) if a.norm() > 0 and b.norm() > 0 else None


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("tokens", [1, 30, 10_000])
def test_norms_and_cosines_are_those_of_each_gradient_by_itself(tokens, full):
    model = tiny_llama(2) if full else lora_model()
    batch = Batch.of(random_groups(3, 4))
    config = changed(CONFIG, optim__microbatch_tokens=tokens, beta__value=0.0, lora__enabled=not full)
    weights = weights_of(batch)
    found = probe(Trainer(model, 0, config, CPU, autocast=False), batch, weights, 0)
    vectors = by_hand(model, batch, weights, range(12))
    for name in NAMES:
        assert found.norm[name] == pytest.approx(float(vectors[name].norm()), rel=RELATIVE)
    for a, b in itertools.combinations(NAMES, 2):
        assert found.cosine[f"{a}~{b}"] == pytest.approx(cosine(vectors[a], vectors[b]), rel=RELATIVE)
    for slot, group in enumerate(found.groups):
        vectors = by_hand(model, batch, weights, range(4 * slot, 4 * slot + 4))
        for a, b in itertools.combinations(NAMES, 2):
            assert group[f"{a}~{b}"] == (
                None if slot == 1 else pytest.approx(cosine(vectors[a], vectors[b]), rel=RELATIVE)
            )


def test_within_a_question_the_std_is_a_factor_and_the_length_norm_is_not():
    batch = Batch.of(random_groups(3, 4))
    found = probe(Trainer(lora_model(), 0, CONFIG, CPU, autocast=False), batch, weights_of(batch), 0)
    for group in (found.groups[0], found.groups[2]):
        assert group["grpo~no_std"] == pytest.approx(1, abs=1e-12)
        assert group["dr_grpo~no_length_norm"] == pytest.approx(1, abs=1e-12)
        assert group["grpo~dr_grpo"] < 1 - 1e-4  # unequal lengths
    assert found.cosine["grpo~no_std"] < 1 - 1e-6  # over questions it is no constant factor


def test_objectives_that_differ_by_a_factor_share_a_backward_pass(monkeypatch):
    batch, passes = Batch.of(random_groups(3, 4)), []
    grad = torch.autograd.grad
    monkeypatch.setattr(torch.autograd, "grad", lambda *a, **k: passes.append(1) or grad(*a, **k))
    probe(Trainer(lora_model(), 0, CONFIG, CPU, autocast=False), batch, weights_of(batch), 0)
    assert len(passes) == 2 * 2  # two questions with weight, two directions each, of five objectives


def dropping(**parts):
    """A trainer of a policy whose adapter has dropout, with values in B."""
    config = changed(CONFIG, lora__dropout=0.3, beta__value=0.0, **parts)
    model = attach_lora(tiny_llama(0), config.lora, 0).double().eval()
    draw = torch.Generator().manual_seed(1)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data = torch.randn(parameter.shape, generator=draw, dtype=torch.float64) * 0.2
    return Trainer(model, 0, config, CPU, autocast=False)


def test_nothing_is_left_behind():
    """No gradient, no moved generator, the same parameters, and the update that follows is the same to the last bit."""
    batch, parts = Batch.of(random_groups(3, 4)), [torch.arange(12)]
    results = []
    for probed in (True, False):
        trainer = dropping()
        made = weigh(REWARDS, batch.mask_NT, parts, preset("grpo", 0, 0.0, 16.0))
        torch.manual_seed(5)
        if probed:
            before = {name: parameter.detach().clone() for name, parameter in trainer.model.named_parameters()}
            probe(trainer, batch, weights_of(batch), 0)
            assert all(parameter.grad is None for parameter in trainer.named.values())
            assert all(torch.equal(before[name], value) for name, value in trainer.model.named_parameters())
            assert not any(module.training for module in trainer.model.modules())
        drawn = torch.rand(3)
        trainer.update(batch, parts, made.weights_NT, made.norm_NT, 0)
        results.append(({name: p.detach().clone() for name, p in trainer.named.items()}, drawn, torch.rand(3)))
    assert all(torch.equal(results[0][0][name], results[1][0][name]) for name in results[0][0])
    assert torch.equal(results[0][1], results[1][1]) and torch.equal(results[0][2], results[1][2])


def test_dropout_in_the_probe_is_a_function_of_seed_step_and_slot():
    """Other draws give another gradient; whatever stands before, the same ones come again."""
    batch = Batch.of(random_groups(3, 4))

    def norms(step, **parts):
        return probe(dropping(**parts), batch, weights_of(batch), step).norm

    first = norms(0)
    torch.manual_seed(17)  # whatever the generator stands at
    assert norms(0) == first
    plain = probe(Trainer(lora_model(), 0, CONFIG, CPU, autocast=False), batch, weights_of(batch), 0).norm
    for other in (norms(1), norms(0, seed=CONFIG.seed + 1), plain):
        assert abs(other["grpo"] / first["grpo"] - 1) > 1e-3
    twice = Batch.of(random_groups(1, 4) * 2)  # one question in two slots, with the same answers
    weights = weights_of(twice, REWARDS[[0, 0]], ("grpo", "dr_grpo"))
    for trainer, differ in ((dropping(), True), (Trainer(lora_model(), 0, CONFIG, CPU, autocast=False), False)):
        one, other = (group["grpo~dr_grpo"] for group in probe(trainer, twice, weights, 0).groups)
        assert (abs(one - other) > 1e-5) == differ


def test_the_probe_computes_in_the_updates_precision():
    """bfloat16 under autocast, as in full fine-tuning: its gradient is the one that the update then takes."""
    batch, parts, norms = Batch.of(random_groups(1, 4)), [torch.arange(4)], {}
    rewards = REWARDS[:1]
    made = weigh(rewards, batch.mask_NT, parts, preset("grpo", 0, 0.0, 16.0))
    config = changed(CONFIG, beta__value=0.0, lora__enabled=False, optim__microbatch_tokens=1)
    for autocast in (True, False):
        trainer = Trainer(tiny_llama(2, dtype=torch.float32), 0, config, CPU, autocast=autocast)
        norms[autocast] = probe(trainer, batch, weights_of(batch, rewards, ("grpo",)), 0).norm["grpo"]
        update = trainer.update(batch, parts, made.weights_NT, made.norm_NT, 0)
        assert norms[autocast] == pytest.approx(update.grad_norm, rel=1e-5)
    assert abs(norms[True] / norms[False] - 1) > 1e-4  # negative control: bfloat16 is seen


def test_gradient_checkpointing_gives_the_same_probe():
    batch = Batch.of(random_groups(3, 4))
    plain = probe(Trainer(lora_model(), 0, CONFIG, CPU, autocast=False), batch, weights_of(batch), 0)
    model = lora_model()
    getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)({"use_reentrant": False})
    found = probe(Trainer(model, 0, CONFIG, CPU, autocast=False), batch, weights_of(batch), 0)
    assert found.norm == pytest.approx(plain.norm, rel=RELATIVE) and found.cosine == pytest.approx(
        plain.cosine, rel=1e-9
    )


def test_a_step_in_which_nothing_weighs_has_no_cosine():
    batch = Batch.of(random_groups(3, 4))
    found = probe(
        Trainer(lora_model(), 0, CONFIG, CPU, autocast=False), batch, weights_of(batch, torch.ones(3, 4).double()), 0
    )
    assert set(found.norm.values()) == {0.0} and set(found.cosine.values()) == {None}


def test_weights_of_another_objective_are_seen():
    """Negative control: REINFORCE's gradient is far from GRPO's."""
    batch = Batch.of(random_groups(3, 4))
    weights = weights_of(batch, names=("grpo", "reinforce"))
    found = probe(Trainer(lora_model(), 0, CONFIG, CPU, autocast=False), batch, weights, 0)
    assert found.cosine["grpo~reinforce"] < 0.9 and not math.isclose(*found.norm.values(), rel_tol=0.05)


def test_every_named_objective_can_be_probed():
    batch = Batch.of(random_groups(3, 4))
    weights = weights_of(batch, names=tuple(NAMED))
    assert set(probe(Trainer(lora_model(), 0, CONFIG, CPU, autocast=False), batch, weights, 0).norm) == set(NAMED)
