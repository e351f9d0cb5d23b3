"""The optimizer step against AdamW written out, dropout's draws, and one precision for every pass."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from grpo_runner.algorithm import token_weights
from grpo_runner.config import compose
from grpo_runner.policy.batch import Batch
from grpo_runner.policy.models import attach_lora
from grpo_runner.policy.optimizer import NotFinite, Stepper
from grpo_runner.policy.update import Trainer
from tests.helpers import changed, random_groups, tiny_llama

CPU = torch.device("cpu")
CONFIG = changed(
    compose(["beta=0", "temperature=0.7", "optim.max_grad_norm=null", "lora.rank=2"]),
    run_dir="unused",
    optim__updates_per_rollout=2,
    optim__minibatch="whole",
)
ROWS = torch.arange(8)


def rollout(updates):
    """(batch, minibatches, weights, norm) of two questions with four answers."""
    batch, parts = Batch.of(random_groups(2, 4)), [ROWS] * updates
    return (
        batch,
        parts,
        *token_weights(torch.linspace(-1, 1.3, 8), batch.mask_NT, batch.groups_N, parts, "token_mean", 16),
    )


RATES = {  # of 3 steps with 2 optimizer steps each, 2 of the 6 being warm-up
    "constant": (0.5, 1, 1, 1, 1, 1),
    "linear": (0.5, 1, 1, 0.75, 0.5, 0.25),
    "cosine": (0.5, 1, 1, 0.5 + math.sqrt(0.125), 0.5, 0.5 - math.sqrt(0.125)),
}


@pytest.mark.parametrize("schedule, limit", [("constant", None), ("linear", 2.0), ("cosine", 2.0)])
def test_the_policy_moves_as_adamw_says(schedule, limit):
    """Every key of `optim`: rate, schedule, betas, eps, weight decay and the clipped norm, at values of no default."""
    lr, betas, eps, decay = 0.01, (0.7, 0.95), 0.01, 0.3
    config = changed(
        CONFIG,
        steps=3,
        lora__enabled=False,
        optim=replace(
            CONFIG.optim, lr=lr, betas=betas, eps=eps, weight_decay=decay, max_grad_norm=limit,
            schedule=schedule, warmup_steps=2,
        ),
    )  # fmt: skip
    model = tiny_llama(3)
    trainer = Trainer(model, 0, config, CPU, autocast=False)
    expected = {name: parameter.detach().numpy().copy() for name, parameter in trainer.named.items()}
    gradients, seen = {}, []  # as they are before the clip: the last of each parameter; those of each optimizer step
    for name, parameter in trainer.named.items():
        parameter.register_post_accumulate_grad_hook(
            lambda p, name=name: gradients.update({name: p.grad.numpy().copy()})
        )
    step = trainer.optimizer.step
    trainer.optimizer.step = lambda: (seen.append(dict(gradients)), step())
    updates = [trainer.update(*rollout(2), number) for number in range(3)]

    first, second = ({name: np.zeros_like(value) for name, value in expected.items()} for _ in range(2))
    norms = [math.sqrt(sum((value**2).sum() for value in made.values())) for made in seen]
    for time, (made, norm, share) in enumerate(zip(seen, norms, RATES[schedule], strict=True), 1):
        assert set(made) == set(expected)
        factor = 1.0 if limit is None else min(1.0, limit / (norm + 1e-6))
        for name, gradient in made.items():
            first[name] = betas[0] * first[name] + (1 - betas[0]) * factor * gradient
            second[name] = betas[1] * second[name] + (1 - betas[1]) * (factor * gradient) ** 2
            corrected = np.sqrt(second[name] / (1 - betas[1] ** time)) + eps
            direction = first[name] / (1 - betas[0] ** time) / corrected
            expected[name] = expected[name] * (1 - share * lr * decay) - share * lr * direction
    for name, parameter in trainer.named.items():
        np.testing.assert_allclose(parameter.detach().numpy(), expected[name], rtol=1e-9, atol=1e-12)
    assert [update.lr for update in updates] == pytest.approx([lr * share for share in RATES[schedule][1::2]])
    assert [update.grad_norm for update in updates] == pytest.approx([sum(norms[i : i + 2]) / 2 for i in (0, 2, 4)])
    assert limit is None or min(norms) < limit < max(norms)  # it acts on some steps and leaves others


def dropping(seed=0):
    """A policy whose adapter has dropout, with values in B."""
    model = attach_lora(tiny_llama(0), changed(CONFIG, lora__dropout=0.3).lora, 0).double().eval()
    draw = torch.Generator().manual_seed(1)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data = torch.randn(parameter.shape, generator=draw, dtype=torch.float64) * 0.2
    return model, changed(CONFIG, lora__dropout=0.3, seed=seed)


def two_gradients(model, config, step):
    """Flat gradients of the two optimizer steps of one rollout; the policy does not move between them."""
    trainer, caught = Trainer(model, 0, config, CPU, autocast=False), []
    trainer.optimizer.step = lambda: caught.append(torch.cat([p.grad.flatten() for p in trainer.named.values()]))
    trainer.update(*rollout(2), step)
    return caught


def test_dropout_is_a_function_of_seed_step_and_update():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = two_gradients(*dropping(), step=3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert all(map(torch.equal, first, two_gradients(*dropping(), step=3)))
    others = [*first, *two_gradients(*dropping(), step=4), *two_gradients(*dropping(seed=1), step=3)]
    for number, one in enumerate(others):
        for other in others[:number]:
            assert (one - other).norm() > 0.01 * one.norm()


def test_without_dropout_both_steps_have_one_gradient():
    """Negative control: what differs above is dropout alone."""
    model, config = dropping()
    for name, module in model.named_modules():
        if name.endswith("lora_dropout.default"):
            module.p = 0.0
    assert torch.equal(*two_gradients(model, config, step=3))


def halves(autocast, **parts):
    """(update, batch) of two optimizer steps that leave the policy in place, computing in bfloat16 under autocast.

    The sampler's log-probabilities are the policy's in float32.
    """
    batch, *rest = rollout(2)
    model = tiny_llama(0, dtype=torch.float32)
    sampled_NT = torch.zeros(batch.mask_NT.shape, dtype=torch.float64)
    for row in range(8):
        prompt, completion = batch.prompts[row], batch.completions[row]
        with torch.no_grad():
            logits = model(input_ids=torch.cat([prompt, completion])[None]).logits[0, len(prompt) - 1 : -1] / 0.7
        sampled_NT[row, : len(completion)] = logits.log_softmax(1).gather(1, completion[:, None]).squeeze(1)
    config = changed(CONFIG, lora__enabled=False, dtype="bfloat16", **parts)
    trainer = Trainer(model, 0, config, CPU, autocast=autocast)
    trainer.optimizer.step = lambda: None
    return trainer.update(replace(batch, sampled_NT=sampled_NT), *rest, 0, record=True), batch


def test_old_reference_and_new_are_scored_in_one_precision():
    """Where the policy has not moved its ratio is 1 and its KL 0, exactly, in bfloat16 as well."""
    for autocast in (True, False):
        update, batch = halves(autocast, beta__value=0.1)
        assert (update.tokens.ratio_NT[batch.mask_NT] == 1).all() and update.ratio_mean == 1
        assert update.kl == 0 and not update.kl_N.any() and update.updates == 2
        # what the sampler had in float32 shows that bfloat16 was at work
        assert (update.mismatch > 1e-3) == autocast and (autocast or update.mismatch < 1e-5)


LARGEST = torch.finfo(torch.float32).max


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda stepper, weight: None, None),  # negative control: the step that is made otherwise
        (lambda stepper, weight: weight.grad.fill_(torch.nan), "gradient"),
        (lambda stepper, weight: weight.data[1].fill_(torch.inf), "policy"),
        (lambda stepper, weight: weight.data[1].fill_(LARGEST), "policy that the optimizer step would give"),
        (lambda stepper, weight: stepper.adamw.state[weight]["exp_avg"][0].fill_(torch.nan), "optimizer's state"),
        (lambda stepper, weight: stepper.adamw.state[weight]["exp_avg_sq"][0].fill_(torch.inf), "optimizer's state"),
    ],
)
@pytest.mark.parametrize("fused", [True, False])
def test_what_would_spoil_the_policy_is_found_before_the_step(spoil, what, fused):
    weight = torch.nn.Parameter(torch.ones(3))
    config = replace(CONFIG.optim, weight_decay=0.1, lr=0.5, fused=fused)
    stepper = Stepper({"weight": weight}, config, 9, CPU)
    weight.grad = torch.full((3,), 0.5)
    stepper.step()
    weight.grad = torch.full((3,), 0.5)
    spoil(stepper, weight)
    before = {name: value.clone() for name, value in {"weight": weight.detach(), **stepper.state()}.items()}
    if what is None:
        stepper.step()
    else:
        with pytest.raises(NotFinite, match=f"^{what}$"):
            stepper.step()
    after = {"weight": weight.detach(), **stepper.state()}
    same = all(torch.equal(before[name].nan_to_num(), after[name].nan_to_num()) for name in before)
    assert same == (what is not None) and weight.grad is None
