"""What an update reports of itself, against numbers of each row by itself: no padding, no batch, numpy for the sums."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from grpo_runner.algorithm import token_weights
from grpo_runner.config import compose
from grpo_runner.policy.batch import Batch, minibatches
from grpo_runner.policy.update import Trainer
from tests.helpers import changed, random_groups, tiny_llama

CPU = torch.device("cpu")
LOW, HIGH, TEMPERATURE = 0.1, 0.15, 0.7
CONFIG = changed(
    compose(["beta=no_kl", "clip=ppo", "optim.max_grad_norm=null", f"temperature={TEMPERATURE}"]),
    run_dir="unused",
    lora__enabled=False,
    clip__low=LOW,
    clip__high=HIGH,
    optim__lr=0.01,
    optim__microbatch_tokens=30,
)
ADVANTAGES = (1.5, -1.0, 0.0, 0.8, -0.7, 1.2)
EXCLUDED = 4  # this row is in no loss
KL = {
    "k2": lambda now, ref: (now - ref) ** 2 / 2,
    "k3": lambda now, ref: np.exp(ref) / np.exp(now) - 1 - (ref - now),
}


@torch.no_grad()
def scores(model, batch, row):
    """log π of the tokens of one row."""
    prompt, completion = batch.prompts[row], batch.completions[row]
    logits = model(input_ids=torch.cat([prompt, completion])[None]).logits[0, len(prompt) - 1 : -1] / TEMPERATURE
    return logits.log_softmax(1).gather(1, completion[:, None]).squeeze(1).numpy()


def watched(config, kind, updates):
    """(update, batch, parts, policies before each step, norm of each gradient, old, sampled, reference by row).

    The policy is not the reference, and the sampler's log-probabilities are drawn apart from the policy's.
    """
    draw, batch = np.random.default_rng(3), Batch.of(random_groups(2, 3, longest=6))
    model = tiny_llama(1)
    trainer = Trainer(model, 0, config, CPU, autocast=False)
    reference = copy.deepcopy(model)
    for parameter in model.parameters():
        parameter.data += torch.tensor(draw.normal(size=tuple(parameter.shape)) * 0.05)
    old = [scores(model, batch, row) for row in range(6)]
    sampled = [values + draw.normal(size=values.shape) * 0.3 for values in old]
    sampled_NT = torch.zeros(batch.mask_NT.shape, dtype=torch.float64)
    for row, values in enumerate(sampled):
        sampled_NT[row, : len(values)] = torch.tensor(values)
    batch = replace(batch, sampled_NT=sampled_NT)

    included = torch.arange(6) != EXCLUDED
    parts = minibatches(included, 3, updates, kind, 0, 0)
    made = token_weights(
        torch.tensor(ADVANTAGES), batch.mask_NT & included[:, None], batch.groups_N, parts, "token_mean", 16
    )
    policies, norms, step = [], [], trainer.optimizer.step

    def watch():
        policies.append(copy.deepcopy(model))
        flat = np.concatenate([parameter.grad.numpy().ravel() for parameter in trainer.named.values()])
        norms.append(np.sqrt((flat**2).sum()))
        step()

    trainer.optimizer.step = watch
    update = trainer.update(batch, parts, *made, 0)
    return update, batch, parts, policies, norms, old, sampled, [scores(reference, batch, row) for row in range(6)]


CASES = {
    "KL in the loss, token importance": (0.1, "k3", "token", 1.2, "whole", 3),
    "KL in the loss, importance of the answer, no cap": (0.1, "k2", "sequence", None, "response", 2),
    "no KL, rows without advantage left out": (0.0, "k3", "token", 1.2, "whole", 3),
    "KL in the loss, no importance, groups": (0.2, "k3", "none", None, "group", 2),
    "one step": (0.1, "k3", "token", 1.2, "whole", 1),
}


@pytest.mark.parametrize("case", CASES)
def test_every_figure_is_the_mean_over_the_tokens_of_all_steps(case):
    beta, estimator, importance, cap, kind, updates = CASES[case]
    config = changed(
        CONFIG,
        beta__value=beta,
        beta__estimator=estimator,
        rollout__importance=importance,
        rollout__importance_cap=cap,
        optim__updates_per_rollout=updates,
        optim__minibatch=kind,
    )
    update, batch, parts, policies, norms, old, sampled, reference = watched(config, kind, updates)
    found = {name: [] for name in ("kl", "ratio", "clipped", "importance", "capped", "mismatch")}
    kl_of, clipped_of = {}, {-1: 0, 0: 0, 1: 0}
    for at, policy in zip(parts, policies, strict=True):
        for row in at.tolist():
            sign = int(np.sign(ADVANTAGES[row]))
            if not beta and not sign:
                continue
            now = scores(policy, batch, row)
            then = old[row] if updates > 1 else now
            ratio, uncut = np.exp(now) / np.exp(then), np.exp(then) / np.exp(sampled[row])
            if importance == "sequence":
                uncut = np.full_like(uncut, np.prod(uncut))
            beyond = {1: ratio > 1 + HIGH, -1: ratio < 1 - LOW, 0: np.zeros(len(ratio), dtype=bool)}[sign]
            found["kl"] += [KL[estimator](now, reference[row])]
            found["ratio"] += [ratio]
            found["clipped"] += [beyond]
            found["importance"] += [uncut if cap is None else np.minimum(uncut, cap)]
            found["capped"] += [uncut > (np.inf if cap is None else cap)]
            found["mismatch"] += [abs(then - sampled[row])]
            kl_of.setdefault(row, []).append(found["kl"][-1])
            clipped_of[sign] += beyond.sum()
    means = {name: np.concatenate(values).mean() for name, values in found.items()}

    assert len(norms) == update.updates == updates and EXCLUDED not in kl_of
    assert update.grad_norm == pytest.approx(np.mean(norms), rel=1e-9)
    assert update.ratio_mean == pytest.approx(means["ratio"], rel=1e-6)
    assert update.ratio_max == pytest.approx(np.concatenate(found["ratio"]).max(), rel=1e-6)
    assert update.clip_fraction == pytest.approx(means["clipped"], abs=1e-12)
    assert update.mismatch == pytest.approx(means["mismatch"], rel=1e-5)
    if importance == "none":
        assert update.importance_mean is None and update.importance_capped is None
    else:
        assert update.importance_mean == pytest.approx(means["importance"], rel=1e-6)
        assert update.importance_capped == pytest.approx(means["capped"], abs=1e-12)
        assert (0 < means["capped"] < 1) == (cap is not None)
    if beta:
        assert update.kl == pytest.approx(means["kl"], rel=1e-5)
        expected = [np.concatenate(kl_of[row]).mean() if row in kl_of else np.nan for row in range(6)]
        assert update.kl_N.numpy() == pytest.approx(np.array(expected), rel=1e-5, nan_ok=True)
    else:
        assert update.kl is None and update.kl_N is None
    # what the case is for is in it
    if updates > 1:
        assert abs(norms[-1] / norms[0] - 1) > 0.01 and abs(means["ratio"] - 1) > 1e-4
        assert kind != "whole" or (clipped_of[1] > 0 and clipped_of[-1] > 0)
