"""The gradient-coefficient identity: random draws through the package's functions, against closed_forms.

`identity` uses a linear softmax policy (its ∇log π is known by hand too); `trainer_identity` runs the real Trainer over
several optimizer steps on a small Llama. Both take the functions under test, so that broken twins go the same way.
"""

from __future__ import annotations

import copy
import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from unittest import mock

import numpy as np
import torch

from grpo_runner import algorithm
from grpo_runner.config import compose
from grpo_runner.policy.batch import Batch, minibatches
from grpo_runner.policy.loss import Given, loss_of
from grpo_runner.policy.update import Trainer
from tests.helpers import changed, random_groups, tiny_llama
from tests.proof import closed_forms

DRAWS = 200
KINDS = ("whole", "response", "group")
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Package:
    """The functions under test, as the package has them; a broken twin replaces one."""

    advantages: Callable = algorithm.advantages
    token_weights: Callable = algorithm.token_weights
    surrogates: dict[str, Callable] = field(default_factory=lambda: dict(algorithm.SURROGATES))
    estimators: dict[str, Callable] = field(default_factory=lambda: dict(algorithm.ESTIMATORS))
    importance: Callable = algorithm.importance_weights
    loss: Callable = loss_of

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """What `loss_of` looks up is this package's."""
        with (
            mock.patch.dict(algorithm.SURROGATES, self.surrogates),
            mock.patch.dict(algorithm.ESTIMATORS, self.estimators),
            mock.patch("grpo_runner.policy.loss.importance_weights", self.importance),
        ):
            yield


def objectives():
    """Every (baseline, scale, norm, surrogate, estimator or None) that the package's dicts offer.

    MaxRL's scale with the baseline that it goes with, and one estimator where there is no ratio: more of these would
    cost time and prove the same.
    """
    everything = itertools.product(
        algorithm.BASELINES,
        algorithm.SCALES,
        algorithm.LOSS_NORMS,
        algorithm.SURROGATES,
        [None, *algorithm.ESTIMATORS],
    )
    return [
        (baseline, scale, norm, surrogate, estimator)
        for baseline, scale, norm, surrogate, estimator in everything
        if (scale != "group_mean" or baseline == "group_mean") and (surrogate != "none" or estimator in (None, "k3"))
    ]


def label(objective):
    return "-".join(str(part) for part in objective)


def random_rewards(draw, questions, size):
    """Binary, with ties, continuous, negative, and groups without variance (0.1 is not exact in binary)."""
    shape = (questions, size)
    rewards = {
        0: lambda: draw.integers(0, 2, shape).astype(float),
        1: lambda: draw.choice([-1.0, 0.0, 0.1, 0.5, 1.0], shape),
        2: lambda: draw.normal(size=shape),
        3: lambda: draw.integers(0, 2, shape) + 0.1 * draw.integers(0, 2, shape),
    }[int(draw.integers(4))]()
    if questions > 1 and draw.random() < 0.3:
        rewards[0] = 0.1
    return rewards


def random_mask(draw, rows):
    """Lengths from 1; in some draws tokens inside an answer are masked, or a whole row is."""
    width = int(draw.integers(1, 9))
    mask = np.arange(width)[None, :] < draw.integers(1, width + 1, rows)[:, None]
    if draw.random() < 0.3:
        mask &= draw.random(mask.shape) < 0.8
    if draw.random() < 0.1:
        mask[0] = False
    return mask


def random_exclusion(draw, rewards):
    """Rewards with NaN where an answer is excluded: none in most draws, else about a third, sometimes a whole group."""
    made = rewards.copy()
    if draw.random() < 0.4:
        gone = draw.random(rewards.shape) < 0.3
        if draw.random() < 0.3:
            gone[0] = True
        gone.flat[int(draw.integers(gone.size))] = False  # one answer at least is left
        made[gone] = np.nan
    return made


def random_importance(draw):
    """(kind, cap)."""
    kind = str(draw.choice(list(algorithm.IMPORTANCE)))
    return kind, float(draw.uniform(0.7, 1.5)) if kind != "none" and draw.random() < 0.6 else None


def relative(found, expected):
    """Largest difference over the largest expected entry, of each objective (first axis); where that is 0, as it is."""
    found, expected = (values.reshape(len(values), -1) for values in (found, expected))
    top = np.abs(expected).max(1)
    return np.abs(found - expected).max(1) / np.where(top > 0, top, 1.0)


def identity(draws=DRAWS, package=None, only=None, seed=0):
    """({objective: worst relative error}, {what the draws held: how often}).

    Each objective gets its own copy of the policy's weights, stacked as rows, so that one backward pass gives the
    gradient of each. Excluded answers, importance weights and the entropy bonus change from draw to draw.
    """
    package = package or Package()
    chosen = [objective for objective in objectives() if only is None or only(*objective)]
    triples = sorted({objective[:3] for objective in chosen})
    pairs = sorted({objective[3:] for objective in chosen}, key=str)
    worst = dict.fromkeys(itertools.product(triples, pairs), 0.0)
    held, config = Counter(), base_config()
    draw = np.random.default_rng(seed)
    for number in range(draws):
        questions, size = int(draw.integers(1, 4)), int(draw.integers(2, 6))
        rows, vocabulary, dimension = questions * size, int(draw.integers(2, 6)), int(draw.integers(1, 4))
        rewards, mask = random_exclusion(draw, random_rewards(draw, questions, size)), random_mask(draw, rows)
        included = ~np.isnan(rewards.reshape(-1))
        mask &= included[:, None]
        ddof, eps = int(draw.integers(2)), float(draw.choice([0.0, 1e-8, 1e-6, 1e-4]))
        low, high, beta = (float(draw.uniform(*ends)) for ends in ((0.05, 0.3), (0.05, 0.4), (0.001, 0.5)))
        dual = float(draw.uniform(1.1, 3)) if draw.random() < 0.4 else None
        importance, cap = random_importance(draw)
        bonus = float(draw.uniform(0.01, 0.5)) if draw.random() < 0.4 else 0.0
        temperature, budget = draw.uniform(0.5, 1.5), int(draw.integers(8, 3000))
        contexts = draw.normal(size=(rows, mask.shape[1], dimension))
        tokens = draw.integers(0, vocabulary, mask.shape)
        weights = draw.normal(size=(dimension, vocabulary))
        moved = weights + draw.normal(size=weights.shape) * 0.2
        reference = weights + draw.normal(size=weights.shape) * 0.5
        # excluded rows are in no optimizer batch; in some draws they are, where they must count nowhere too
        shared_out = included if draw.random() < 0.5 else np.ones(rows, dtype=bool)
        kind, updates = KINDS[number % 3], int(draw.integers(1, 4))
        units = len({row // size for row in np.flatnonzero(shared_out)}) if kind == "group" else int(shared_out.sum())
        parts = minibatches(torch.tensor(shared_out), size, min(updates, units), kind, seed, number)
        part = parts[int(draw.integers(len(parts)))]
        at = part.numpy()

        # the closed form: coefficients of the rows of one optimizer batch, for every (baseline, scale, norm)
        scores = [closed_forms.softmax_scores(w, contexts[at], tokens[at], temperature) for w in (weights, moved)]
        (logp, probabilities), (old, _) = scores
        ref = closed_forms.softmax_scores(reference, contexts[at], tokens[at], temperature)[0]
        behind = len(parts) > 1
        old = old if behind else logp
        sampled = np.where(mask[at], old + draw.normal(size=old.shape) * 0.3, 0.0)
        weight = closed_forms.importance(old, sampled, mask[at], importance, cap)
        of_rows = {pair: closed_forms.advantages(rewards, *pair, ddof, eps) for pair in {t[:2] for t in triples}}
        of_norm = {name: closed_forms.norm(mask[at], at // size, name, budget) for name in {t[2] for t in triples}}
        advantage_KN = np.stack([of_rows[triple[:2]].reshape(-1)[at] for triple in triples])
        norms_KNT = np.stack([of_norm[triple[2]] for triple in triples])
        more = closed_forms.softmax_entropy_gradient(norms_KNT, bonus, probabilities, contexts[at], temperature)

        # the package: its weights, and its loss as Trainer differentiates it
        mask_t, made = torch.tensor(mask), []
        for baseline, scale, kind_of_norm in triples:
            advantage = package.advantages(torch.tensor(rewards), baseline, scale, ddof, eps).flatten()
            made.append(
                package.token_weights(advantage, mask_t, torch.arange(rows) // size, parts, kind_of_norm, budget)
            )
        copies, width = len(triples), mask.shape[1]
        token_weight, norm = (torch.stack([m[i][part] for m in made]).view(-1, width) for i in range(2))

        def stacked(values, copies=copies):
            return torch.as_tensor(values).repeat(copies, 1)

        there = stacked(mask[at])
        inputs = torch.tensor(contexts[at])
        for surrogate, estimator in pairs:
            parameter = torch.tensor(weights).repeat(copies, 1, 1).requires_grad_()
            logits = torch.einsum("ntd,kdv->kntv", inputs, parameter) / temperature
            log_policy = torch.log_softmax(logits, 3).flatten(0, 1)
            of_tokens = log_policy.gather(2, stacked(tokens[at])[..., None]).squeeze(2).masked_fill(~there, 0.0)
            given = Given(
                logprobs=of_tokens,
                old=stacked(np.where(mask[at], old, 0.0)) if behind else of_tokens.detach(),
                sampled=stacked(sampled),
                weights=token_weight,
                norm=norm,
                mask=there,
                reference=stacked(np.where(mask[at], ref, 0.0)) if estimator else None,
                entropy=-(log_policy.exp() * log_policy).sum(2).masked_fill(~there, 0.0) if bonus else None,
            )
            share = beta if estimator else 0.0
            settings = changed(
                config,
                beta=replace(config.beta, value=share, estimator=estimator or "k3"),
                clip=replace(config.clip, kind=surrogate, low=low, high=high, dual=dual),
                rollout=replace(config.rollout, importance=importance, importance_cap=cap),
                entropy_bonus=bonus,
            )
            with package.in_place():
                loss = package.loss(given, settings).value
            (gradient,) = torch.autograd.grad(loss, parameter)
            expected = closed_forms.coefficient(
                surrogate, norms_KNT, advantage_KN, logp, old, mask[at], low, high, dual, share, estimator, ref, weight
            )
            ascent = closed_forms.softmax_gradient(expected, probabilities, contexts[at], tokens[at], temperature)
            for triple, error in zip(triples, relative(-gradient.numpy(), ascent + more), strict=True):
                worst[triple, (surrogate, estimator)] = max(worst[triple, (surrogate, estimator)], float(error))

        ratio, there = np.exp(logp - old), mask[at]
        positive = advantage_KN[0][:, None] > 0
        held["ratio not 1"] += behind
        held["clipped"] += bool(((ratio > 1 + high) & positive & there).any())
        held["no variance"] += bool((rewards == rewards[:, :1]).all(1).any())
        held["not binary"] += not set(rewards[~np.isnan(rewards)]) <= {0.0, 1.0}
        held["ties"] += any(1 < len(set(group)) < size for group in rewards.tolist() if not np.isnan(group).any())
        held["holes or empty rows"] += bool((mask[:, 1:] & ~mask[:, :-1]).any() or (~mask).all(1).any())
        held["excluded"] += not included.all()
        held["excluded in the optimizer batch"] += not included[at].all()
        held["importance by token"] += importance == "token"
        held["importance by sequence"] += importance == "sequence"
        held["importance cut"] += cap is not None and bool((weight[there] == cap).any())
        held["entropy bonus"] += bonus > 0
        held[kind] += 1
    return {(*triple, *pair): error for (triple, pair), error in worst.items()}, held


@functools.cache
def base_config():
    # every group is named, so that no other default reaches the proofs
    return changed(
        compose(["advantage=grpo", "loss_norm=sequence_mean", "beta=no_kl", "clip=ppo", "optim.max_grad_norm=null"]),
        run_dir="unused",
        lora__enabled=False,
    )


def row_log_policy(model, batch, row, temperature):
    """log π (T, V) at the positions of one row by itself: no padding, no other row."""
    prompt, completion = batch.prompts[row], batch.completions[row]
    logits = model(input_ids=torch.cat([prompt, completion])[None]).logits[0, len(prompt) - 1 : -1] / temperature
    return logits.log_softmax(1)


def row_scores(model, batch, row, temperature):
    """log π of the tokens of one row."""
    return row_log_policy(model, batch, row, temperature).gather(1, batch.completions[row][:, None]).squeeze(1)


def shaken(model, draw, size):
    """Every parameter moved by noise, in place."""
    for parameter in model.parameters():
        parameter.data += torch.tensor(draw.normal(size=tuple(parameter.shape)) * size)


def trainer_identity(draws, seed=0):
    """The real Trainer at each optimizer step: (worst relative error of its gradients, of what it records of each
    token, {what was seen: how often}).

    The steps are taken (plain descent), so that from the second on the policy is not the one that sampled. The KL term
    is in the loss or in the reward; the sampler's log-probabilities are drawn apart from the policy's.
    """
    draw, config = np.random.default_rng(seed), base_config()
    worst, worst_record, seen = 0.0, 0.0, Counter()
    combinations = objectives()
    for number in range(draws):
        baseline, scale, kind_of_norm, surrogate, estimator = combinations[int(draw.integers(len(combinations)))]
        questions, size = int(draw.integers(2, 4)), int(draw.integers(2, 4))
        rows = questions * size
        ddof, eps = int(draw.integers(2)), float(draw.choice([0.0, 1e-6]))
        beta = float(draw.uniform(0.01, 0.5)) if estimator else 0.0
        in_reward = estimator is not None and draw.random() < 0.4
        low, high, temperature = (float(draw.uniform(*ends)) for ends in ((0.02, 0.2), (0.02, 0.3), (0.6, 1.4)))
        budget, dual = 16, float(draw.uniform(1.1, 3)) if draw.random() < 0.4 else None
        importance, cap = random_importance(draw)
        bonus = float(draw.uniform(0.01, 0.5)) if draw.random() < 0.4 else 0.0
        settings = changed(
            config,
            beta__value=beta,
            beta__estimator=estimator or "k3",
            beta__placement="reward" if in_reward else "loss",
            clip=replace(config.clip, kind=surrogate, low=low, high=high, dual=dual),
            rollout=replace(config.rollout, importance=importance, importance_cap=cap),
            entropy_bonus=bonus,
            temperature=temperature,
            optim__microbatch_tokens=int(draw.choice([1, 30, 10_000])),
            optim__packing=number % 2 == 0,
        )
        rewards = random_exclusion(draw, random_rewards(draw, questions, size))
        included = ~np.isnan(rewards.reshape(-1))
        batch = Batch.of(random_groups(questions, size, seed=number, longest=6))
        model = tiny_llama(number)
        trainer = Trainer(model, 0, settings, CPU, autocast=False)
        shaken(model, draw, 0.03)  # from here on the policy is not the reference

        with torch.no_grad():
            old = [row_scores(model, batch, row, temperature).numpy() for row in range(rows)]
            ref_model = trainer.reference.model if estimator else model
            ref = [row_scores(ref_model, batch, row, temperature).numpy() for row in range(rows)]
        sampled = [scores + draw.normal(size=scores.shape) * 0.3 for scores in old]
        sampled_NT = torch.zeros(batch.mask_NT.shape, dtype=torch.float64)
        for row, values in enumerate(sampled):
            sampled_NT[row, : len(values)] = torch.tensor(values)
        batch = replace(batch, sampled_NT=sampled_NT)

        # as the loop does it
        kind, updates = KINDS[number % 3], int(draw.integers(1, 3))
        units = len({row // size for row in np.flatnonzero(included)}) if kind == "group" else int(included.sum())
        parts = minibatches(torch.tensor(included), size, min(updates, units), kind, seed, number)
        rewards_QG, mask_NT = torch.tensor(rewards), batch.mask_NT & torch.tensor(included)[:, None]
        penalty = trainer.penalty(batch, torch.tensor(included), 0)
        if penalty is not None:
            rewards_QG = rewards_QG - beta * penalty.sum(dim=1).view(questions, size)
        advantage = algorithm.advantages(rewards_QG, baseline, scale, ddof, eps).flatten()
        weights_NT, norm_NT = algorithm.token_weights(advantage, mask_NT, batch.groups_N, parts, kind_of_norm, budget)

        # the closed form's advantages
        lowered = rewards.copy().reshape(-1)
        if in_reward:
            lowered -= [beta * closed_forms.PENALTY[estimator](old[row], ref[row]).sum() for row in range(rows)]
        signs = closed_forms.advantages(lowered.reshape(rewards.shape), baseline, scale, ddof, eps).reshape(-1)
        in_loss = estimator if not in_reward else None

        caught = []  # (policy before the step, its gradient), in order

        def descend(model=model, trainer=trainer, caught=caught):
            with torch.no_grad():
                gradients = [parameter.grad.clone() for parameter in trainer.named.values()]
                caught.append((copy.deepcopy(model), gradients))
                top = max(float(gradient.abs().max()) for gradient in gradients)
                for parameter, gradient in zip(trainer.named.values(), gradients, strict=True):
                    parameter -= 0.05 * gradient / (top or 1.0)

        trainer.optimizer.step = descend
        record = trainer.update(batch, parts, weights_NT, norm_NT, step=0, record=True).tokens
        live = [part.tolist() for part in parts if in_loss or bonus or signs[part.numpy()].any()]
        assert len(live) == len(caught), "the trainer made other steps than the closed form has"

        seen_of_rows = {}  # row -> what its last step should have recorded
        for at, (policy, gradients) in zip(live, caught, strict=True):
            norms = closed_forms.norm(mask_NT[at].numpy(), [row // size for row in at], kind_of_norm, budget)
            total = 0.0
            for line, row in enumerate(at):
                log_policy = row_log_policy(policy, batch, row, temperature)
                scores = log_policy.gather(1, batch.completions[row][:, None]).squeeze(1)
                now = scores.detach().numpy()[None]
                then = old[row][None] if len(parts) > 1 else now
                all_true, norm = np.ones_like(now, dtype=bool), norms[line : line + 1, : now.shape[1]]
                weight = closed_forms.importance(then, sampled[row][None], all_true, importance, cap)
                share, sign = beta if in_loss else 0.0, signs[row : row + 1]
                factor = closed_forms.coefficient(
                    surrogate, norm, sign, now, then, all_true, low, high, dual, share, in_loss, ref[row][None], weight
                )
                of_all = closed_forms.entropy_coefficient(log_policy.detach().exp().numpy(), norm[0], bonus)
                total = total + (torch.tensor(factor[0]) * scores).sum() + (torch.tensor(of_all) * log_policy).sum()
                ratio, clipped = closed_forms.ratio_and_clipped(
                    surrogate, sign[:, None], now - then, all_true, low, high, dual
                )
                values, pull = np.zeros_like(now), np.zeros_like(now)
                if in_loss:
                    values = closed_forms.PENALTY[estimator](now, ref[row][None])
                    pull = closed_forms.kl_part(norm, now, beta, estimator, ref[row][None])
                if in_loss or bonus or sign.any():  # others are not computed
                    seen_of_rows[row] = {
                        "coefficient_NT": factor, "ratio_NT": ratio, "clipped_NT": clipped,
                        "kl_NT": values, "kl_coefficient_NT": pull,
                    }  # fmt: skip
                seen["tokens with ratio not 1"] += int((np.abs(now - then) > 1e-9).sum())
                seen["tokens out of the range"] += int(
                    ((now - then > np.log1p(high)) | (now - then < np.log1p(-low))).sum()
                )
                seen["tokens clipped"] += int(clipped.sum())
                seen["tokens with the importance cut"] += int((weight == cap).sum()) if cap else 0
            ascent = torch.autograd.grad(total, list(policy.parameters()))
            found, expected = (
                np.concatenate([tensor.numpy().ravel() for tensor in tensors])[None] for tensors in (gradients, ascent)
            )
            worst = max(worst, float(relative(-found, expected)[0]))
            seen["steps"] += 1
            seen["steps with excluded answers"] += not included.all()
            seen["steps with an entropy bonus"] += bonus > 0
            seen["steps with KL in the loss"] += in_loss is not None
            seen["steps with KL in the reward"] += in_reward
            seen[f"steps with importance {importance}"] += 1
            seen[f"steps with {kind_of_norm}"] += 1

        assert record.computed_N.nonzero().flatten().tolist() == sorted(seen_of_rows), "other rows were computed"
        for name in ("coefficient_NT", "ratio_NT", "clipped_NT", "kl_NT", "kl_coefficient_NT"):
            expected = np.zeros(batch.mask_NT.shape)
            for row, parts_of_row in seen_of_rows.items():
                values = parts_of_row[name][0]
                expected[row, : len(values)] = values
            found = getattr(record, name).double().masked_fill(~batch.mask_NT, 0.0).numpy()
            worst_record = max(worst_record, float(relative(found[None], expected[None])[0]))
        seen["rows recorded"] += len(seen_of_rows)
    return worst, worst_record, seen
