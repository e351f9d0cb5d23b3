"""The reference policy: which one it is, that it moves when it should, and that looking at it leaves the policy alone."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from grpo_runner.algorithm import token_weights
from grpo_runner.config import compose
from grpo_runner.errors import InputError
from grpo_runner.policy.batch import Batch
from grpo_runner.policy.models import attach_lora, trainable
from grpo_runner.policy.reference import Reference
from grpo_runner.policy.update import Trainer
from tests.helpers import changed, random_groups, tiny_llama

CPU = torch.device("cpu")
EVERYTHING = torch.ones(8, dtype=torch.bool)
CONFIG = changed(compose(["beta=0.1", "lora.rank=2", "temperature=0.7"]), run_dir="unused")
FULL = changed(CONFIG, lora__enabled=False)
IDS = torch.tensor([[1, 5, 7, 3, 9]])


def adapted(seed=0, config=CONFIG, moved=0.2):
    """A policy of tiny_llama(0) with an adapter whose B has values (0: a fresh one)."""
    model = attach_lora(tiny_llama(0), config.lora, seed).double().eval()
    draw = torch.Generator().manual_seed(seed + 1)
    for name, parameter in model.named_parameters():
        if "lora_B" in name and moved:
            parameter.data = torch.randn(parameter.shape, generator=draw, dtype=torch.float64) * moved
    return model


@pytest.fixture(scope="module")
def sft(tmp_path_factory):
    """(folder of an adapter as peft saves it, what its model computes)."""
    folder, model = tmp_path_factory.mktemp("sft"), adapted(seed=5)
    model.save_pretrained(folder)
    return folder, scores(model)


@torch.no_grad()
def scores(model):
    """Its log-probabilities on one text. `lora.adapter` is read into float32, so that two ways may differ by rounding."""
    return model(input_ids=IDS).logits.log_softmax(2)


def of_reference(reference):
    with reference.active():
        return scores(reference.model)


def as_started(config):
    """The policy as a run makes it: the base with the adapter that the configuration names."""
    return attach_lora(tiny_llama(0), config.lora, 3).double().eval()


def step_zero_kl(config):
    """(KL that an update saw, the penalty of each row) of a policy that has made no step."""
    batch = Batch.of(random_groups(2, 4))
    trainer = Trainer(as_started(config), 0, config, CPU, autocast=False)
    in_reward = Trainer(trainer.model, 0, changed(config, beta__placement="reward"), CPU, autocast=False)
    penalty = in_reward.penalty(batch, EVERYTHING, 0)
    return one_update(trainer, batch).kl, penalty.sum(dim=1)


def one_update(trainer, batch=None, step=0):
    batch = batch or Batch.of(random_groups(2, 4))
    parts = [torch.arange(8)]
    made = token_weights(torch.linspace(-1, 1, 8), batch.mask_NT, batch.groups_N, parts, "sequence_mean", 16)
    return trainer.update(batch, parts, *made, step)


def test_a_fresh_adapter_is_off_in_the_reference():
    policy = adapted()
    for kind in ("initial", "base"):
        reference = Reference(policy, changed(CONFIG, beta__reference=kind))
        torch.testing.assert_close(of_reference(reference), scores(tiny_llama(0)), rtol=0, atol=0)
        assert reference.model is policy and not reference.state()  # no second model, nothing to save
    assert (scores(policy) - scores(tiny_llama(0))).abs().max() > 0.01  # negative control


def test_pb044_step_zero_kl_is_zero_with_a_fresh_adapter_and_with_an_sft_adapter(sft):
    """The reference of a run that goes on from an adapter includes it; the model without it is another one."""
    started = changed(CONFIG, lora__adapter=str(sft[0]))
    torch.testing.assert_close(scores(as_started(started)), sft[1], rtol=1e-5, atol=1e-5)
    for config in (CONFIG, started):
        kl, penalty = step_zero_kl(config)
        assert kl == pytest.approx(0, abs=1e-12) and penalty.abs().max() < 1e-9
    kl, penalty = step_zero_kl(changed(started, beta__reference="base"))
    assert kl > 1e-3 and penalty.abs().max() > 1e-2


def test_pb044_the_reference_of_a_continued_run_stays_while_the_policy_moves(sft):
    config = changed(CONFIG, lora__adapter=str(sft[0]), optim__lr=0.05)
    trainer = Trainer(as_started(config), 0, config, CPU, autocast=False)
    one_update(trainer)
    assert one_update(trainer, step=1).kl > 1e-4
    torch.testing.assert_close(of_reference(trainer.reference), sft[1], rtol=1e-5, atol=1e-5)


def test_an_adapter_from_a_folder_is_the_reference_and_does_not_move(sft):
    config = changed(CONFIG, beta__reference=str(sft[0]), optim__lr=0.05)
    trainer = Trainer(adapted(moved=0), 0, config, CPU, autocast=False)
    before = of_reference(trainer.reference)
    torch.testing.assert_close(before, sft[1], rtol=1e-5, atol=1e-5)
    assert one_update(trainer).kl > 1e-3  # of a fresh policy: the base is not that adapter
    torch.testing.assert_close(of_reference(trainer.reference), before, rtol=0, atol=0)
    assert not trainer.reference_state()  # the configuration gives it again


def test_full_fine_tuning_holds_a_copy():
    policy = tiny_llama(0)
    before = scores(policy)
    trainer = Trainer(policy, 0, changed(FULL, optim__lr=0.05), CPU, autocast=False)
    assert one_update(trainer).kl == pytest.approx(0, abs=1e-12)
    assert (scores(policy) - before).abs().max() > 0.01
    torch.testing.assert_close(of_reference(trainer.reference), before, rtol=0, atol=0)
    assert all(parameter.grad is None for parameter in trainer.reference.model.parameters())


def test_the_penalty_in_the_reward_is_the_sum_of_k_over_each_response():
    """Row by row, without padding; NaN where a row is not included."""
    config = changed(CONFIG, beta__placement="reward", beta__estimator="k1")
    policy, batch = adapted(), Batch.of(random_groups(2, 4))
    included = EVERYTHING.clone()
    included[5] = False
    found = Trainer(policy, 0, config, CPU, autocast=False).penalty(batch, included, 0).sum(dim=1)
    base = tiny_llama(0)
    for row in range(8):
        ids = torch.cat([batch.prompts[row], batch.completions[row]])[None]
        start = len(batch.prompts[row]) - 1
        with torch.no_grad():
            now, then = (
                (model(input_ids=ids).logits[0, start:-1] / 0.7)
                .log_softmax(1)
                .gather(1, batch.completions[row][:, None])
                .sum()
                for model in (policy, base)
            )
        if row == 5:
            assert found[row].isnan()
        else:
            assert found[row].item() == pytest.approx(float(now - then), rel=1e-9)
    assert Trainer(policy, 0, CONFIG, CPU, autocast=False).penalty(batch, included, 0) is None  # it is in the loss


@pytest.mark.parametrize("config", [CONFIG, FULL], ids=["lora", "full"])
def test_a_refreshed_reference_is_the_policy_as_it_stands(config):
    config = changed(config, beta__refresh_every=2, optim__lr=0.05)
    trainer = Trainer(adapted(moved=0) if config.lora.enabled else tiny_llama(0), 0, config, CPU, autocast=False)
    kl = []
    for step in range(5):
        trainer.refresh_reference(step)
        kl.append(one_update(trainer, step=step).kl)
    assert [value < 1e-12 for value in kl] == [True, False, True, False, True]
    assert min(kl[1], kl[3]) > 1e-4
    assert trainer.reference_state()  # a checkpoint needs it


def test_a_refresh_that_does_nothing_is_seen(monkeypatch):
    """Negative control of the test above."""
    monkeypatch.setattr(Reference, "refresh", lambda self: None)
    config = changed(CONFIG, beta__refresh_every=1, optim__lr=0.05)
    trainer = Trainer(adapted(moved=0), 0, config, CPU, autocast=False)
    one_update(trainer)
    trainer.refresh_reference(1)
    assert one_update(trainer, step=1).kl > 1e-4


def test_the_policy_moves_on_from_a_refreshed_reference():
    """The reference is a copy and not the policy's own tensors."""
    policy = adapted()
    reference = Reference(policy, CONFIG)
    reference.refresh()
    before = of_reference(reference)
    for parameter in trainable(policy).values():
        parameter.data += 0.1
    torch.testing.assert_close(of_reference(reference), before, rtol=0, atol=0)
    assert (scores(policy) - before).abs().max() > 0.01


@pytest.mark.parametrize("config", [CONFIG, FULL], ids=["lora", "full"])
def test_state_and_load_give_the_same_reference_again(config):
    make = (lambda: adapted(seed=2)) if config.lora.enabled else (lambda: tiny_llama(2))
    first = Reference(make(), config)
    first.refresh()
    with torch.no_grad():
        for parameter in trainable(first.policy).values():
            parameter += 0.1
    saved = {name: value.detach().clone() for name, value in first.state().items()}
    other = Reference(adapted(seed=7) if config.lora.enabled else tiny_llama(7), config)
    assert (of_reference(other) - of_reference(first)).abs().max() > 0.01  # negative control
    other.load(saved)
    assert saved.keys() == trainable(first.policy).keys() == other.state().keys()
    assert all(torch.equal(value, saved[name]) for name, value in other.state().items())
    torch.testing.assert_close(of_reference(other), of_reference(first), rtol=0, atol=0)
    if config.lora.enabled:
        other.load({})  # of a checkpoint without any
        torch.testing.assert_close(of_reference(other), scores(tiny_llama(0)), rtol=0, atol=0)


def test_looking_at_the_reference_leaves_policy_and_optimizer_bit_identical(sft):
    config = changed(CONFIG, beta__reference=str(sft[0]))
    trainer = Trainer(adapted(), 0, config, CPU, autocast=False)
    one_update(trainer)
    before = {name: value.detach().clone() for name, value in trainer.named.items()}
    moments, held = copy.deepcopy(trainer.state()), {n: v.clone() for n, v in trainer.reference.held.items()}
    for _ in range(3):
        of_reference(trainer.reference)
    with pytest.raises(KeyboardInterrupt), trainer.reference.active():
        raise KeyboardInterrupt
    assert all(torch.equal(before[name], value) for name, value in trainer.named.items())
    assert all(torch.equal(moments[name], value) for name, value in trainer.state().items())
    assert all(torch.equal(held[name], value) for name, value in trainer.reference.held.items())
    assert trainer.named.keys() == trainable(trainer.model).keys()
    # negative control: within the context they are the reference's
    with trainer.reference.active():
        assert not all(torch.equal(before[name], value) for name, value in trainer.named.items())


def test_the_update_is_the_same_however_the_reference_is_held(sft):
    """An adapter that stands in for the policy's, and a model of its own, give one and the same step."""
    by_folder = Trainer(adapted(), 0, changed(CONFIG, beta__reference=str(sft[0])), CPU, autocast=False)
    by_model = Trainer(adapted(), 0, CONFIG, CPU, autocast=False)
    by_model.reference.lora = False  # from here on its model is called as it is
    by_model.reference.model = as_started(changed(CONFIG, lora__adapter=str(sft[0])))
    by_model.score_reference = by_model.scorer(by_model.reference.model)
    found, expected = one_update(by_folder), one_update(by_model)
    assert found.kl == pytest.approx(expected.kl, rel=1e-9)
    for name, value in by_folder.named.items():
        torch.testing.assert_close(value, by_model.named[name], rtol=1e-9, atol=1e-12)


def edited(folder, to, **settings):
    """A copy of an adapter's folder with other settings in its configuration."""
    for file in folder.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    known = json.loads((to / "adapter_config.json").read_text())
    (to / "adapter_config.json").write_text(json.dumps({**known, **settings}))
    return to


def wrong_rank(sft, tmp_path):
    adapted(config=changed(CONFIG, lora__rank=3)).save_pretrained(tmp_path)
    return tmp_path


def wrong_modules(sft, tmp_path):
    adapted(config=changed(CONFIG, lora__targets=("q_proj",))).save_pretrained(tmp_path)
    return tmp_path


def wider_model(sft, tmp_path):
    """Every B twice as high."""
    folder = edited(sft, tmp_path)
    tensors = load_file(folder / "adapter_model.safetensors")
    wide = {name: value.repeat(2, 1) if "lora_B" in name else value for name, value in tensors.items()}
    save_file(wide, folder / "adapter_model.safetensors")
    return folder


def no_weights(sft, tmp_path):
    folder = edited(sft, tmp_path)
    (folder / "adapter_model.safetensors").unlink()
    return folder


def torn_weights(sft, tmp_path):
    folder = edited(sft, tmp_path)
    whole = (folder / "adapter_model.safetensors").read_bytes()
    (folder / "adapter_model.safetensors").write_bytes(whole[: len(whole) // 2])
    return folder


FAULTS = {
    "wrong rank": (wrong_rank, "rank"),
    "other modules": (wrong_modules, "lora.targets"),
    "other shapes": (wider_model, "lora.targets"),
    "no folder": (lambda sft, tmp_path: tmp_path / "nowhere", "adapter_config.json"),
    "an empty folder": (lambda sft, tmp_path: tmp_path, "adapter_config.json"),
    "no weights": (no_weights, "adapter_model.safetensors"),
    "torn weights": (torn_weights, "adapter_model.safetensors"),
    "other alpha": (lambda sft, tmp_path: edited(sft, tmp_path, lora_alpha=7), "alpha"),
    "DoRA": (lambda sft, tmp_path: edited(sft, tmp_path, use_dora=True), "use_dora"),
    "rsLoRA": (lambda sft, tmp_path: edited(sft, tmp_path, use_rslora=True), "use_rslora"),
    "ranks by pattern": (lambda sft, tmp_path: edited(sft, tmp_path, rank_pattern={"q_proj": 4}), "rank_pattern"),
    "alphas by pattern": (lambda sft, tmp_path: edited(sft, tmp_path, alpha_pattern={"q_proj": 9}), "alpha_pattern"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_adapter_that_does_not_fit_is_named_by_its_key(sft, tmp_path, fault):
    spoil, named = FAULTS[fault]
    folder = spoil(sft[0], tmp_path)
    policy = adapted()
    before = scores(policy)
    for key, read in (
        ("beta.reference", lambda: Reference(policy, changed(CONFIG, beta__reference=str(folder)))),
        ("lora.adapter", lambda: attach_lora(tiny_llama(0), changed(CONFIG, lora__adapter=str(folder)).lora, 0)),
    ):
        with pytest.raises(InputError) as caught:
            read()
        lines = str(caught.value).splitlines()
        assert len(lines) <= 5 and lines[0].startswith(f"{key}={folder}") and named in str(caught.value)
    torch.testing.assert_close(scores(policy), before, rtol=0, atol=0)
