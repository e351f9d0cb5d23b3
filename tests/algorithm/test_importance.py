"""Truncated importance sampling: π_old/μ of a token or of a response, cut from above, without gradient."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_runner.algorithm import IMPORTANCE, importance_weights
from grpo_runner.config import compose
from grpo_runner.policy.loss import Given, loss_of
from tests.helpers import changed

MASK = torch.tensor([[True, True, True], [True, True, False]])
OLD = [[-1.0, -0.5, -2.0], [-0.3, -0.7, 0.0]]
SAMPLED = [[-1.5, -0.4, -2.0], [-0.4, -0.9, 0.0]]


def weights(kind, cap, old=OLD, sampled=SAMPLED):
    return importance_weights(
        torch.tensor(old, dtype=torch.float64), torch.tensor(sampled, dtype=torch.float64), MASK, kind, cap
    )


def test_each_kind_by_hand():
    assert (weights("none", None) == 1).all()
    token = weights("token", None)
    assert token[0].tolist() == pytest.approx([math.exp(0.5), math.exp(-0.1), 1.0])
    assert token[1, :2].tolist() == pytest.approx([math.exp(0.1), math.exp(0.2)])
    sequence = weights("sequence", None)
    assert sequence[0].tolist() == pytest.approx([math.exp(0.4)] * 3)  # the product over the response
    assert sequence[1, :2].tolist() == pytest.approx([math.exp(0.3)] * 2)


def test_the_cap_cuts_from_above_alone():
    assert weights("token", 1.2)[0].tolist() == pytest.approx([1.2, math.exp(-0.1), 1.0])
    assert weights("sequence", 1.4)[0].tolist() == pytest.approx([1.4] * 3)
    assert weights("sequence", 1.4)[1, 0].item() == pytest.approx(math.exp(0.3))
    assert weights("token", 1e-3)[0].tolist() == pytest.approx([1e-3] * 3)


@pytest.mark.parametrize("kind", list(IMPORTANCE))
def test_where_engine_and_trainer_agree_every_weight_is_exactly_one(kind):
    assert (weights(kind, None, sampled=OLD) == 1).all() and (weights(kind, 2.0, sampled=OLD) == 1).all()


def test_padding_does_not_reach_the_ratio_of_a_response():
    spoiled = [OLD[0], [-0.3, -0.7, 99.0]]
    assert weights("sequence", None, old=spoiled)[1, 0].item() == pytest.approx(math.exp(0.3))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.floats(-8, 0), st.floats(-8, 0)), min_size=1, max_size=5), st.floats(0.1, 4))
def test_a_response_is_the_product_of_its_tokens_and_never_above_the_cap(pairs, cap):
    old, sampled = (torch.tensor([values], dtype=torch.float64) for values in zip(*pairs, strict=True))
    mask = torch.ones_like(old, dtype=torch.bool)
    by_token, whole = (importance_weights(old, sampled, mask, kind, None) for kind in ("token", "sequence"))
    assert whole[0].tolist() == pytest.approx([math.prod(by_token[0].tolist())] * len(pairs), rel=1e-9)
    for kind, free in (("token", by_token), ("sequence", whole)):
        held = importance_weights(old, sampled, mask, kind, cap)
        assert held[0].tolist() == pytest.approx([min(value, cap) for value in free[0].tolist()])


@pytest.mark.parametrize("kind", ["token", "sequence"])
def test_the_weight_has_no_gradient_and_multiplies_the_advantage_alone(kind):
    """At ratio 1: the loss's slope is -(importance · advantage · norm) + β norm (1 - ρ), the KL not weighed."""
    config = changed(
        compose(["beta=0.04", f"rollout.importance={kind}", "rollout.importance_cap=1.3"]), run_dir="unused"
    )
    logprobs = torch.tensor(OLD, dtype=torch.float64, requires_grad=True)
    sampled, reference = torch.tensor(SAMPLED, dtype=torch.float64), torch.tensor(OLD, dtype=torch.float64) - 0.5 * MASK
    norm = MASK / 5.0
    share = torch.tensor([[2.0], [-1.0]])
    given = Given(logprobs, logprobs.detach(), sampled, norm * share, norm, MASK, reference, None)
    (slope,) = torch.autograd.grad(loss_of(given, config).value, logprobs)
    weight = weights(kind, 1.3)
    torch.testing.assert_close(slope, -weight * share * norm + 0.04 * norm * (1 - math.exp(-0.5)))
    assert not importance_weights(logprobs, sampled, MASK, kind, None).requires_grad  # given with its graph
    # negative control: without the weight it is another slope
    plain = loss_of(given, changed(config, rollout__importance="none")).value
    assert (torch.autograd.grad(plain, logprobs)[0] - slope).abs().max() > 0.01
