"""The critic: its values and gradients by other means, and that it and the policy leave each other alone."""

from __future__ import annotations

import copy

import pytest
import torch

from grpo_runner import algorithm
from grpo_runner.config import compose
from grpo_runner.errors import NonFiniteError
from grpo_runner.policy.batch import Batch
from grpo_runner.policy.critic import Critic, Expected
from grpo_runner.policy.models import attach_lora
from grpo_runner.policy.update import Trainer
from tests.helpers import changed, random_groups, tiny_llama

CPU = torch.device("cpu")
CONFIG = changed(
    compose(["method=ppo", "lora.rank=2", "critic.clip=null", "optim.max_grad_norm=null", "critic.lr=0.01"]),
    run_dir="unused",
)
KINDS = {
    "shared_base": CONFIG,
    "own_model": changed(CONFIG, critic__kind="own_model"),
    "full": changed(CONFIG, critic__kind="own_model", lora__enabled=False),
}
BATCH = Batch.of(random_groups(2, 4))
ROWS = torch.arange(8)


def made(config, packing=True):
    """(trainer, critic) over a policy whose adapter has moved; the critic's adapter and head have, too."""
    config = changed(config, optim__packing=packing)
    model = tiny_llama(0)
    model = (attach_lora(model, config.lora, 0).double() if config.lora.enabled else model.requires_grad_(True)).eval()
    moved(model.named_parameters(), 1)
    trainer = Trainer(model, 0, config, CPU, autocast=False)
    critic = Critic(trainer, config)
    moved(critic.named.items(), 2)
    return trainer, critic


def moved(named, seed):
    draw = torch.Generator().manual_seed(seed)
    for name, parameter in named:
        if "lora_B" in name or "value_head" in name:
            parameter.data = torch.randn(parameter.shape, generator=draw, dtype=torch.float64) * 0.2


def values_by_hand(critic, trainer):
    """Row by row, without padding: the head on transformers' own hidden states of a model with the critic's tensors."""
    model = copy.deepcopy(trainer.model)
    for name, parameter in model.named_parameters():
        if name in critic.tensors:
            parameter.data = critic.tensors[name].detach().clone()
    found = torch.zeros(BATCH.mask_NT.shape, dtype=torch.float64)
    for row in range(8):
        prompt, answer = BATCH.prompts[row], BATCH.completions[row]
        states = model(input_ids=torch.cat([prompt, answer])[None], output_hidden_states=True).hidden_states[-1][0]
        before = states[len(prompt) - 1 : -1]
        found[row, : len(answer)] = before @ critic.head.weight[0] + critic.head.bias
    return found


def expected_of(critic):
    returns = torch.rand(BATCH.mask_NT.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return Expected(critic.values(BATCH, ROWS), returns * BATCH.mask_NT)


def snapshot(named):
    return {name: value.detach().clone() for name, value in named.items()}


def same(one, other):
    return all(one[name].equal(other[name]) for name in one)


@pytest.mark.parametrize("packing", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_values_are_the_head_on_the_state_before_each_token(kind, packing):
    trainer, critic = made(KINDS[kind], packing)
    torch.testing.assert_close(critic.values(BATCH, ROWS), values_by_hand(critic, trainer).detach(), rtol=0, atol=1e-10)
    assert not critic.values(BATCH, ROWS[:3])[3:].any()  # of rows not asked for: nothing


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_that_of_the_mean_value_loss_whatever_the_micro_batches(kind):
    trainer, critic = made(KINDS[kind])
    expected = expected_of(critic)
    found = []
    for tokens in (4096, 8):
        trainer.budget.tokens = tokens
        critic._accumulate(BATCH, BATCH.mask_NT, ROWS, expected, (0, 0))
        found.append({name: value.grad.clone() for name, value in critic.named.items() if value.grad is not None})
        critic.stepper.drop_gradients()

    # by finite differences of the loss written out
    def loss():
        squares = (values_by_hand(critic, trainer).detach() - expected.returns_NT) ** 2
        return float(0.5 * squares[BATCH.mask_NT].mean())

    for name in [name for name in critic.named if "lora_B" in name or "value_head" in name or "q_proj" in name][:6]:
        parameter = critic.named[name]
        place = (0,) * parameter.ndim
        with torch.no_grad():
            parameter[place] += 1e-6
            above = loss()
            parameter[place] -= 2e-6
            below = loss()
            parameter[place] += 1e-6
        assert float(found[0][name][place]) == pytest.approx((above - below) / 2e-6, rel=1e-4, abs=1e-8), name
    assert all(torch.allclose(found[0][name], found[1][name], rtol=0, atol=1e-12) for name in found[0])


@pytest.mark.parametrize("kind", KINDS)
def test_neither_reaches_the_other(kind):
    """The critic's update moves its own tensors alone, the policy's its own alone; no gradient is left behind."""
    trainer, critic = made(KINDS[kind])
    everything = dict(trainer.model.named_parameters())
    policy, own = snapshot(everything), snapshot(critic.named)
    critic.update(BATCH, BATCH.mask_NT, [ROWS, ROWS], expected_of(critic), 0)
    assert same(policy, snapshot(everything)) and all(value.grad is None for value in everything.values())
    after = snapshot(critic.named)
    assert not after["value_head.weight"].equal(own["value_head.weight"])
    assert any(not after[name].equal(own[name]) for name in critic.tensors)

    weights = algorithm.token_weights(
        torch.linspace(-1, 1, 8), BATCH.mask_NT, BATCH.groups_N, [ROWS], "sequence_mean", 16
    )
    trainer.update(BATCH, [ROWS], *weights, step=0)
    assert same(after, snapshot(critic.named)) and not same(policy, snapshot(everything))


def test_a_swap_that_is_not_undone_is_seen(monkeypatch):
    """Negative control."""
    trainer, critic = made(CONFIG)
    policy = snapshot(trainer.named)
    monkeypatch.setattr(Critic, "_swap", lambda self, places: None)  # the critic computes on the policy's tensors
    trainer_values = critic.values(BATCH, ROWS)
    assert not torch.allclose(trainer_values, values_by_hand(critic, trainer).detach())
    assert same(policy, snapshot(trainer.named))


@pytest.mark.parametrize("kind", ["shared_base", "own_model"])
def test_it_learns_the_returns_and_its_state_can_be_had_again(kind):
    """Every token of the first question's answers is worth 1, of the second's 0."""
    _, critic = made(KINDS[kind])
    expected = expected_of(critic)._replace(returns_NT=(BATCH.groups_N == 0).double()[:, None] * BATCH.mask_NT)
    losses = [critic.update(BATCH, BATCH.mask_NT, [ROWS], expected, step)["critic/loss"] for step in range(60)]
    assert losses[-1] < 0.3 * losses[0]
    learnt = expected._replace(values_NT=critic.values(BATCH, ROWS))
    assert critic.update(BATCH, BATCH.mask_NT, [ROWS], learnt, 60)["critic/explained_variance"] > 0.5

    _, other = made(KINDS[kind])
    other.load({name: value.clone() for name, value in critic.state().items()})
    for step in (61, 62):
        for one in (critic, other):
            one.update(BATCH, BATCH.mask_NT, [ROWS], learnt, step)
    assert same(snapshot(critic.named), snapshot(other.named))


def test_a_fresh_head_expects_nothing():
    config = CONFIG
    trainer = Trainer(attach_lora(tiny_llama(0), config.lora, 0).double().eval(), 0, config, CPU, autocast=False)
    assert not Critic(trainer, config).values(BATCH, ROWS).any()


def test_returns_that_are_not_finite_stop_before_the_step():
    _, critic = made(CONFIG)
    expected, before = expected_of(critic), snapshot(critic.named)
    broken = expected._replace(returns_NT=expected.returns_NT.masked_fill(BATCH.mask_NT, torch.inf))
    with pytest.raises(NonFiniteError, match=r"step 5: the critic's loss is not finite\.\nQuestions: q0, q1\."):
        critic.update(BATCH, BATCH.mask_NT, [ROWS], broken, 5)
    assert same(before, snapshot(critic.named)) and all(value.grad is None for value in critic.named.values())


def test_a_lack_of_memory_halves_the_pieces_and_counts_nothing_twice(monkeypatch):
    trainer, critic = made(CONFIG)
    expected = expected_of(critic)
    whole = critic._accumulate(BATCH, BATCH.mask_NT, ROWS, expected, (0, 0))
    gradient = {name: value.grad.clone() for name, value in critic.named.items() if value.grad is not None}
    critic.stepper.drop_gradients()

    real, calls = Critic._backward, []

    def scarce(self, batch, mask_NT, piece, *rest):
        calls.append(len(piece))
        made_of = real(self, batch, mask_NT, piece, *rest)
        if len(calls) == 2:
            raise torch.OutOfMemoryError
        return made_of

    trainer.budget.tokens = 24
    monkeypatch.setattr(Critic, "_backward", scarce)
    assert critic._accumulate(BATCH, BATCH.mask_NT, ROWS, expected, (0, 0)) == pytest.approx(whole, rel=1e-12)
    assert trainer.budget.tokens == 12 and len(calls) > 4
    for name, value in gradient.items():
        torch.testing.assert_close(critic.named[name].grad, value, rtol=0, atol=1e-12)


def test_a_failed_pass_gives_the_policy_its_tensors_back(monkeypatch):
    trainer, critic = made(CONFIG)
    policy = snapshot(trainer.named)

    def fails(*arguments):
        raise RuntimeError

    monkeypatch.setattr("grpo_runner.policy.critic.head_values", fails)
    with pytest.raises(RuntimeError):
        critic.values(BATCH, ROWS)
    assert same(policy, snapshot(trainer.named))
