"""Problems small enough to sum over every group: what an estimator gives on average, beside the true gradient."""

from __future__ import annotations

import itertools
import math

import torch

from grpo_runner import algorithm

RANGE = algorithm.Range(0.2, 0.2)


def bandit(p, size, baseline, scale="none", ddof=0, advantages=algorithm.advantages):
    """E[estimate] / true gradient, over all 2^G groups of one-token answers that are right with probability p.

    The policy has one parameter, the logit of p; ∇log π of an answer a in {0, 1} is a - p, the true gradient p(1-p).
    """
    total = 0.0
    mask = torch.ones(size, 1, dtype=torch.bool)
    for answers in itertools.product((0.0, 1.0), repeat=size):
        rewards = torch.tensor([answers], dtype=torch.float64)
        made = advantages(rewards, baseline, scale, ddof, 0.0).flatten()
        weights = algorithm.token_weights(
            made, mask, torch.zeros(size, dtype=torch.long), [torch.arange(size)], "sequence_mean", 1
        )[0][:, 0]
        chance = math.prod(p if answer else 1 - p for answer in answers)
        total += chance * float((weights * (rewards[0] - p)).sum())
    return total / (p * (1 - p))


# The tree: the first token stops (0) or goes on (1); going on, a second token is 0 or 1. Three answers.
ANSWERS = ((0,), (1, 0), (1, 1))
MASK = torch.tensor([[True, False], [True, True], [True, True]])
REWARDS = torch.tensor([0.2, 1.0, -0.5], dtype=torch.float64)
BUDGET = 7
THETA = (0.4, -0.3)  # logits of "go on", and of a second 1
REFERENCE = (-1.5, 1.2)
SAMPLER = (1.1, 0.5)  # another policy, that answers are drawn from
BETA = 0.3


def token_logprobs(theta):
    """(3, 2) log π of each answer's tokens, 0 where there is none."""
    first, second = theta
    stop, go = torch.nn.functional.logsigmoid(-first), torch.nn.functional.logsigmoid(first)
    zero, one = torch.nn.functional.logsigmoid(-second), torch.nn.functional.logsigmoid(second)
    return torch.stack([torch.stack([stop, 0 * stop]), torch.stack([go, zero]), torch.stack([go, one])])


def policy(values=THETA):
    """(theta as a leaf, log π (3, 2), probability of each answer (3,))."""
    theta = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    logprobs = token_logprobs(theta)
    return theta, logprobs, logprobs.sum(1).exp()


def slope(value, theta):
    return torch.autograd.grad(value, theta, retain_graph=True)[0]


def true_gradient(rewards=REWARDS):
    """∇ of the expected reward, summed over the three answers."""
    theta, _, chances = policy()
    return slope((chances * rewards).sum(), theta)


def expected_gradient(
    size,
    baseline,
    scale,
    kind,
    surrogate="token",
    token_weights=algorithm.token_weights,
    rewards=REWARDS,
    questions=1,
    sampler=THETA,
    importance="none",
    cap=None,
):
    """E over all 3^(questions · G) steps of the gradient that the package's loss has; of its own size, kind "constant".

    Answers are drawn from the policy with the logits `sampler`, which the importance weights are told of.
    """
    theta, logprobs, _ = policy()
    sampled, drawn = (values.detach() for values in policy(sampler)[1:])
    groups, total = torch.arange(size * questions) // size, 0.0
    for step in itertools.product(range(3), repeat=size * questions):
        rows = list(step)
        made = algorithm.advantages(rewards[rows].view(questions, size), baseline, scale).flatten()
        weights = token_weights(made, MASK[rows], groups, [torch.arange(len(rows))], kind, BUDGET)[0]
        here, mask = logprobs[rows], MASK[rows]
        weights = weights * algorithm.importance_weights(here.detach(), sampled[rows], mask, importance, cap)
        value = algorithm.SURROGATES[surrogate](here, here.detach(), weights, mask, RANGE).value_NT.sum()
        total = total + drawn[rows].prod() * value
    return slope(total, theta)


def less_the_penalty(estimator, beta=BETA):
    """(3,) rewards of the three answers, with the KL estimate of each taken off."""
    _, logprobs, _ = policy()
    reference = token_logprobs(torch.tensor(REFERENCE, dtype=torch.float64))
    return REWARDS - beta * algorithm.reward_penalty(logprobs.detach(), reference, MASK, estimator).sum(dim=1)


def true_regularised_gradient():
    """∇ of E[r] - β KL(π‖π_ref), the KL of whole answers, by autograd of the sum over the three answers."""
    theta, logprobs, chances = policy()
    reference = token_logprobs(torch.tensor(REFERENCE, dtype=torch.float64))
    return slope((chances * (REWARDS - BETA * (logprobs - reference).sum(1))).sum(), theta)


def distance(found, true):
    """Length of the difference over the length of the true gradient."""
    return float((found - true).norm() / true.norm())


def expected_kl_gradient(estimator):
    """E over answers of the gradient of Σ over tokens of the KL estimate, the answers' chances held fixed."""
    theta, logprobs, chances = policy()
    reference = token_logprobs(torch.tensor(REFERENCE, dtype=torch.float64))
    return slope((chances.detach() * (algorithm.ESTIMATORS[estimator](logprobs, reference) * MASK).sum(1)).sum(), theta)


def two_way(a, b):
    """KL of two coins by their logits."""
    p, q = torch.sigmoid(a), torch.sigmoid(b)
    return p * torch.log(p / q) + (1 - p) * torch.log((1 - p) / (1 - q))
