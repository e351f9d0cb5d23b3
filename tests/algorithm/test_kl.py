"""The estimators of the KL as values, as a loss and in the reward."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_runner.algorithm import ESTIMATORS, kl_slope, reward_penalty
from grpo_runner.algorithm.kl import k1, k2, k3

POINT = (-1.0, -2.0)  # log π, log π_ref


@pytest.mark.parametrize(
    ("name", "value", "slope"), [("k1", 1.0, 1.0), ("k2", 0.5, 1.0), ("k3", 0.36787944, 0.63212056)]
)
def test_pb040_value_and_slope_of_each_estimator(name, value, slope):
    logprob, reference = (torch.tensor(number, dtype=torch.float64) for number in POINT)
    assert ESTIMATORS[name](logprob, reference).item() == pytest.approx(value, abs=1e-8)
    assert kl_slope(logprob, reference, name).item() == pytest.approx(slope, abs=1e-8)


def test_pb040_k1_as_a_loss_does_not_know_the_reference():
    logprobs, references = torch.full((5,), -1.0), torch.linspace(-4.0, -0.1, 5)
    assert kl_slope(logprobs, references, "k1").tolist() == [1.0] * 5
    for name in ("k2", "k3"):  # negative control: the others pull towards it, from either side
        slopes = kl_slope(logprobs, references, name)
        assert (slopes[references < -1.0] > 0).all() and (slopes[references > -1.0] < 0).all()


def test_the_penalty_is_summed_over_the_tokens_of_the_mask():
    logprobs = torch.tensor([[-1.0, -2.0, 9.0], [-0.5, 9.0, 9.0]], dtype=torch.float64)
    reference = torch.tensor([[-2.0, -1.5, 0.0], [-1.5, 0.0, 0.0]], dtype=torch.float64)
    mask = torch.tensor([[True, True, False], [True, False, False]])
    assert reward_penalty(logprobs, reference, mask, "k1").sum(dim=1).tolist() == pytest.approx([1.0 - 0.5, 1.0])
    assert reward_penalty(logprobs, reference, mask, "k2").sum(dim=1).tolist() == pytest.approx([0.5 + 0.125, 0.5])
    expected = [math.exp(-1) + (math.exp(0.5) - 1.5), math.exp(-1)]
    assert reward_penalty(logprobs, reference, mask, "k3").sum(dim=1).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_the_slope_has_no_graph_and_leaves_the_logprobs_alone(name):
    logprobs = torch.tensor([-1.0, -0.5], requires_grad=True)
    with torch.no_grad():
        found = kl_slope(logprobs, torch.tensor([-1.5, -0.7]), name)
    assert not found.requires_grad and logprobs.grad is None


@settings(max_examples=200, deadline=None)
@given(st.floats(-10, 0), st.floats(-10, 0))
def test_k2_and_k3_are_never_negative_and_slopes_are_those_of_the_value(logprob, reference):
    p, q = torch.tensor(logprob, dtype=torch.float64), torch.tensor(reference, dtype=torch.float64)
    assert k2(p, q) >= 0 and k3(p, q) >= -1e-15
    assert k1(p, q).item() == pytest.approx(logprob - reference)
    expected = {"k1": 1.0, "k2": logprob - reference, "k3": 1 - math.exp(reference - logprob)}
    for name, slope in expected.items():
        assert kl_slope(p, q, name).item() == pytest.approx(slope, rel=1e-9, abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-2, 2), min_size=3, max_size=3), st.lists(st.floats(-2, 2), min_size=3, max_size=3))
def test_k1_and_k3_have_the_kl_as_their_mean(ours, theirs):
    """Over a vocabulary of three."""
    policy, reference = (torch.log_softmax(torch.tensor(v, dtype=torch.float64), 0) for v in (ours, theirs))
    true = float((policy.exp() * (policy - reference)).sum())
    means = {name: float((policy.exp() * f(policy, reference)).sum()) for name, f in ESTIMATORS.items()}
    assert means["k1"] == pytest.approx(true, abs=1e-12) and means["k3"] == pytest.approx(true, abs=1e-12)


def test_k2_is_biased_as_a_value():
    """Negative control of the test above: coins of 1/2 and 9/10, KL 0.511, E[k2] 0.734."""
    policy = torch.tensor([0.5, 0.5], dtype=torch.float64).log()
    reference = torch.tensor([0.9, 0.1], dtype=torch.float64).log()
    by_hand = 0.5 * 0.5 * (math.log(0.5 / 0.9) ** 2 + math.log(0.5 / 0.1) ** 2)
    assert float((policy.exp() * k2(policy, reference)).sum()) == pytest.approx(by_hand)
    assert by_hand - 0.5 * math.log(0.5 / 0.9) - 0.5 * math.log(0.5 / 0.1) == pytest.approx(0.734 - 0.511, abs=0.001)
