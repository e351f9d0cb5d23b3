"""The gradient-coefficient identity: random draws through the package's functions, against closed_forms.

`identity` uses a linear softmax policy (its ∇log π is known by hand too); `trainer_identity` runs the real Trainer over
several optimizer steps on a small Llama. Both take the functions under test, so that broken twins go the same way.
"""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from grpo_runner import algorithm
from grpo_runner.config import compose
from grpo_runner.policy.batch import Batch, minibatches
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


def objectives():
    """Every (baseline, scale, norm, surrogate, estimator or None) that the package's dicts offer."""
    return list(
        itertools.product(
            algorithm.BASELINES,
            algorithm.SCALES,
            algorithm.LOSS_NORMS,
            algorithm.SURROGATES,
            [None, *algorithm.ESTIMATORS],
        )
    )


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


def relative(found, expected):
    """Largest difference over the largest expected entry, of each objective (first axis); where that is 0, as it is."""
    found, expected = (values.reshape(len(values), -1) for values in (found, expected))
    top = np.abs(expected).max(1)
    return np.abs(found - expected).max(1) / np.where(top > 0, top, 1.0)


def identity(draws=DRAWS, package=None, only=None, seed=0):
    """({objective: worst relative error}, {what the draws held: how often}).

    Each objective gets its own copy of the policy's weights, stacked as rows, so that one backward pass gives the
    gradient of each.
    """
    package = package or Package()
    chosen = [objective for objective in objectives() if only is None or only(*objective)]
    triples = sorted({objective[:3] for objective in chosen})
    pairs = sorted({objective[3:] for objective in chosen}, key=str)
    worst = dict.fromkeys(itertools.product(triples, pairs), 0.0)
    held = Counter()
    draw = np.random.default_rng(seed)
    for number in range(draws):
        questions, size = int(draw.integers(1, 4)), int(draw.integers(2, 6))
        rows, vocabulary, dimension = questions * size, int(draw.integers(2, 6)), int(draw.integers(1, 4))
        rewards, mask = random_rewards(draw, questions, size), random_mask(draw, rows)
        ddof, eps = int(draw.integers(2)), float(draw.choice([0.0, 1e-8, 1e-6, 1e-4]))
        low, high, beta = draw.uniform(0.05, 0.3), draw.uniform(0.05, 0.4), draw.uniform(0.001, 0.5)
        dual = float(draw.uniform(1.1, 3)) if draw.random() < 0.4 else None
        temperature, budget = draw.uniform(0.5, 1.5), int(draw.integers(8, 3000))
        contexts = draw.normal(size=(rows, mask.shape[1], dimension))
        tokens = draw.integers(0, vocabulary, mask.shape)
        weights = draw.normal(size=(dimension, vocabulary))
        moved = weights + draw.normal(size=weights.shape) * 0.2
        reference = weights + draw.normal(size=weights.shape) * 0.5
        kind, updates = KINDS[number % 3], int(draw.integers(1, 4))
        updates = min(updates, questions if kind == "group" else rows)
        parts = minibatches(torch.ones(rows, dtype=torch.bool), size, updates, kind, seed, number)
        part = parts[int(draw.integers(len(parts)))]
        at = part.numpy()

        # the closed form: coefficients of the rows of one optimizer batch, for every (baseline, scale, norm)
        scores = [closed_forms.softmax_scores(w, contexts[at], tokens[at], temperature) for w in (weights, moved)]
        (logp, probabilities), (old, _) = scores
        ref = closed_forms.softmax_scores(reference, contexts[at], tokens[at], temperature)[0]
        behind = updates > 1
        old = old if behind else logp
        of_rows = {pair: closed_forms.advantages(rewards, *pair, ddof, eps) for pair in {t[:2] for t in triples}}
        of_norm = {name: closed_forms.norm(mask[at], at // size, name, budget) for name in {t[2] for t in triples}}
        advantage_KN = np.stack([of_rows[triple[:2]].reshape(-1)[at] for triple in triples])
        norms_KNT = np.stack([of_norm[triple[2]] for triple in triples])

        # the package: its weights, and its loss put together as Trainer does
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

        for surrogate, estimator in pairs:
            parameter = torch.tensor(weights).repeat(copies, 1, 1).requires_grad_()
            logits = torch.einsum("ntd,kdv->kntv", torch.tensor(contexts[at]), parameter) / temperature
            log_policy = torch.log_softmax(logits, 3).flatten(0, 1)
            log_policy = (
                log_policy.gather(2, stacked(tokens[at])[..., None]).squeeze(2).masked_fill(~stacked(mask[at]), 0.0)
            )
            then = stacked(np.where(mask[at], old, 0.0)) if behind else log_policy.detach()
            limits = algorithm.Range(low, high, dual)
            found = package.surrogates[surrogate](log_policy, then, token_weight, stacked(mask[at]), limits)
            loss = -found.value_NT.sum()
            if estimator:
                there = stacked(np.where(mask[at], ref, 0.0))
                loss = loss + beta * (norm * package.estimators[estimator](log_policy, there)).sum()
            (gradient,) = torch.autograd.grad(loss, parameter)
            share = beta if estimator else 0.0
            expected = closed_forms.coefficient(
                surrogate, norms_KNT, advantage_KN, logp, old, mask[at], low, high, dual, share, estimator, ref
            )
            ascent = closed_forms.softmax_gradient(expected, probabilities, contexts[at], tokens[at], temperature)
            for triple, error in zip(triples, relative(-gradient.numpy(), ascent), strict=True):
                worst[triple, (surrogate, estimator)] = max(worst[triple, (surrogate, estimator)], float(error))

        ratio, there = np.exp(logp - old), mask[at]
        positive = advantage_KN[0][:, None] > 0
        held["ratio not 1"] += behind
        held["clipped"] += bool(((ratio > 1 + high) & positive & there).any())
        held["no variance"] += bool((rewards == rewards[:, :1]).all(1).any())
        held["not binary"] += not set(rewards.flatten()) <= {0.0, 1.0}
        held["ties"] += any(1 < len(set(group)) < size for group in rewards.tolist())
        held["holes or empty rows"] += bool((mask[:, 1:] & ~mask[:, :-1]).any() or (~mask).all(1).any())
        held[kind] += 1
    return {(*triple, *pair): error for (triple, pair), error in worst.items()}, held


def base_config():
    # every group is named, so that no other default reaches the proofs
    return changed(
        compose(["advantage=grpo", "loss_norm=sequence_mean", "beta=no_kl", "clip=ppo", "optim.max_grad_norm=null"]),
        run_dir="unused",
        lora__enabled=False,
    )


def row_scores(model, batch, row, temperature):
    """log π of one row by itself: no padding, no other row."""
    prompt, completion = batch.prompts[row], batch.completions[row]
    logits = model(input_ids=torch.cat([prompt, completion])[None]).logits[0, len(prompt) - 1 : -1] / temperature
    return logits.log_softmax(1).gather(1, completion[:, None]).squeeze(1)


def shaken(model, draw, size):
    """Every parameter moved by noise, in place."""
    for parameter in model.parameters():
        parameter.data += torch.tensor(draw.normal(size=tuple(parameter.shape)) * size)


def trainer_identity(draws, seed=0):
    """Gradients of the real Trainer at each optimizer step. (worst relative error, {what was seen: how often}).

    The steps are taken (plain descent), so that from the second on the policy is not the one that sampled.
    """
    draw, config = np.random.default_rng(seed), base_config()
    worst, seen = 0.0, Counter()
    combinations = objectives()
    for number in range(draws):
        baseline, scale, kind_of_norm, surrogate, estimator = combinations[int(draw.integers(len(combinations)))]
        questions, size = int(draw.integers(2, 4)), int(draw.integers(2, 4))
        kind, updates = KINDS[number % 3], int(draw.integers(1, 3))
        ddof, eps, beta = int(draw.integers(2)), float(draw.choice([0.0, 1e-6])), draw.uniform(0.01, 0.5)
        low, high, temperature, budget = draw.uniform(0.02, 0.2), draw.uniform(0.02, 0.3), draw.uniform(0.6, 1.4), 16
        dual = float(draw.uniform(1.1, 3)) if draw.random() < 0.4 else None
        settings = changed(
            config,
            beta__value=beta if estimator else 0.0,
            beta__estimator=estimator or "k3",
            clip__kind=surrogate,
            clip__low=low,
            clip__high=high,
            clip__dual=dual,
            temperature=temperature,
            optim__microbatch_tokens=int(draw.choice([1, 30, 10_000])),
        )
        batch = Batch.of(random_groups(questions, size, seed=number, longest=6))
        rewards = random_rewards(draw, questions, size)
        model = tiny_llama(number)
        trainer = Trainer(model, 0, settings, CPU, autocast=False)
        shaken(model, draw, 0.03)  # from here on the policy is not the reference
        signs = closed_forms.advantages(rewards, baseline, scale, ddof, eps).reshape(-1)
        advantage = algorithm.advantages(torch.tensor(rewards), baseline, scale, ddof, eps).flatten()
        parts = minibatches(torch.ones(questions * size, dtype=torch.bool), size, updates, kind, seed, number)
        weights_NT, norm_NT = algorithm.token_weights(
            advantage, batch.mask_NT, batch.groups_N, parts, kind_of_norm, budget
        )

        with torch.no_grad():
            old = [row_scores(model, batch, row, temperature).numpy() for row in range(questions * size)]
            ref_model = trainer.reference.model if estimator else model
            ref = [row_scores(ref_model, batch, row, temperature).numpy() for row in range(questions * size)]

        caught = []  # (policy before the step, its gradient), in order

        def descend(model=model, trainer=trainer, caught=caught):
            with torch.no_grad():
                gradients = [parameter.grad.clone() for parameter in trainer.named.values()]
                caught.append((copy.deepcopy(model), gradients))
                top = max(float(gradient.abs().max()) for gradient in gradients)
                for parameter, gradient in zip(trainer.named.values(), gradients, strict=True):
                    parameter -= 0.05 * gradient / (top or 1.0)

        trainer.optimizer.step = descend
        trainer.update(batch, parts, weights_NT, norm_NT, step=0)
        live = [part.tolist() for part in parts if estimator or signs[part.numpy()].any()]
        assert len(live) == len(caught), "the trainer made other steps than the closed form has"

        for rows, (policy, gradients) in zip(live, caught, strict=True):
            norms = closed_forms.norm(batch.mask_NT[rows].numpy(), [row // size for row in rows], kind_of_norm, budget)
            total = 0.0
            for line, row in enumerate(rows):
                scores = row_scores(policy, batch, row, temperature)
                now = scores.detach().numpy()[None]
                then = old[row][None] if updates > 1 else now
                factor = closed_forms.coefficient(
                    surrogate,
                    norms[line : line + 1, : now.shape[1]],
                    signs[row : row + 1],
                    now,
                    then,
                    np.ones_like(now, dtype=bool),
                    low,
                    high,
                    dual,
                    beta if estimator else 0.0,
                    estimator,
                    ref[row][None],
                )
                total = total + (torch.tensor(factor[0]) * scores).sum()
                seen["tokens with ratio not 1"] += int((np.abs(now - then) > 1e-9).sum())
                seen["tokens out of the range"] += int(
                    ((now - then > np.log1p(high)) | (now - then < np.log1p(-low))).sum()
                )
            ascent = torch.autograd.grad(total, list(policy.parameters()))
            found, expected = (
                np.concatenate([tensor.numpy().ravel() for tensor in tensors])[None] for tensors in (gradients, ascent)
            )
            worst = max(worst, float(relative(-found, expected)[0]))
            seen["steps"] += 1
    return worst, seen
