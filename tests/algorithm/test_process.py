"""Process rewards against DeepSeekMath 4.1.3 by hand, and the gradient against a slow loop of its own."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from grpo_runner.algorithm import advantages, process_advantages, token_weights

SWITCHES = [("group_std", 0, 0.0), ("group_std", 1, 1e-6), ("none", 0, 0.0)]


def test_by_hand():
    """R = 0, 1, 1, 1, 0, 0: mean 1/2 and std 1/2, so that each step is +1 or -1; a token sums those from it on."""
    steps = [[[(4, 0.0)], [(1, 1.0), (3, 1.0), (4, 1.0)], [(2, 0.0)], [(3, 0.0)]]]
    assert process_advantages(steps, 6).tolist() == [
        [-1, -1, -1, -1, -1, 0],
        [3, 3, 2, 2, 1, 0],
        [-1, -1, -1, 0, 0, 0],
        [-1, -1, -1, -1, 0, 0],
    ]
    # Dr. GRPO's scale: the mean alone
    assert process_advantages(steps, 6, scale="none")[1].tolist() == [1.5, 1.5, 1.0, 1.0, 0.5, 0.0]


def test_mean_and_std_are_over_steps_and_not_over_answers():
    """R = 1, 1, 1, 0: mean 3/4 and std sqrt(3)/4. Over the two answers' sums it would be another."""
    made = process_advantages([[[(0, 1.0), (1, 1.0), (2, 1.0)], [(2, 0.0)]]], 3)
    up, down = 0.25 / (math.sqrt(3) / 4), -0.75 / (math.sqrt(3) / 4)
    assert made.tolist() == [pytest.approx([3 * up, 2 * up, up]), pytest.approx([down] * 3)]


@pytest.mark.parametrize(("scale", "ddof", "eps"), SWITCHES)
def test_one_step_an_answer_is_the_outcome_bit_by_bit(scale, ddof, eps):
    draw = np.random.default_rng(0)
    for _ in range(50):
        questions, size, length = draw.integers(1, 5), draw.integers(2, 9), draw.integers(1, 12)
        rewards_QG = torch.tensor(draw.choice([0.0, 1.0, 0.3, draw.normal()], (questions, size)))
        out = torch.tensor(draw.random((questions, size)) < 0.2)
        ends = draw.integers(0, length, (questions, size))
        steps = [
            [[] if out[q, g] else [(int(ends[q, g]), float(rewards_QG[q, g]))] for g in range(size)]
            for q in range(questions)
        ]
        made_NT = process_advantages(steps, int(length), "group_mean", scale, ddof, eps)
        outcome_QG = advantages(rewards_QG.masked_fill(out, torch.nan), "group_mean", scale, ddof, eps)
        until = torch.arange(int(length)) <= torch.tensor(ends).view(-1, 1)
        assert torch.equal(made_NT, outcome_QG.view(-1, 1) * (until & ~out.view(-1, 1)))


def test_two_steps_an_answer_are_not_the_outcome():
    """Negative control: the answer that is wrong after a right step is pushed down less than by its outcome."""
    outcome = advantages(torch.tensor([[1.0, 0.0]]), "group_mean", "group_std").flatten()
    made = process_advantages([[[(0, 1.0), (1, 1.0)], [(0, 1.0), (1, 0.0)]]], 2)
    assert not torch.allclose(made[:, :1], outcome[:, None].double())


def test_steps_that_all_earn_the_same_weigh_exactly_nothing():
    for same in (0.0, 1.0, 0.1 + 0.2):
        made = process_advantages([[[(0, same), (2, same)], [(1, 0.3 if same > 0.2 and same < 1 else same)]]], 3)
        assert torch.equal(made, torch.zeros(2, 3, dtype=torch.float64))


def test_an_excluded_answer_is_0_and_leaves_the_others_alone():
    with_it = process_advantages([[[(0, 1.0), (1, 0.0)], [], [(1, 1.0)]]], 2)
    without = process_advantages([[[(0, 1.0), (1, 0.0)], [(1, 1.0)]]], 2)
    assert torch.equal(with_it[[0, 2]], without) and not with_it[1].any()
    assert not process_advantages([[[], []]], 2).any()


def test_an_index_outside_the_answer_is_refused():
    for end in (-1, 3):
        with pytest.raises(ValueError, match="of 3"):
            process_advantages([[[(end, 1.0)], [(0, 0.0)]]], 3)


# --- GRPO's gradient with process rewards, by a loop that shares no code with the package


def drawn(draw):
    """Steps by answer, answers' lengths, and which are excluded; now and then a group without variance."""
    questions, size = int(draw.integers(1, 4)), int(draw.integers(2, 6))
    steps, lengths = [], []
    for _ in range(questions):
        kind, group = draw.random(), []
        for _ in range(size):
            length = int(draw.integers(1, 9))
            count = int(draw.integers(1, 5))
            ends = [*sorted(int(end) for end in draw.integers(0, length, count - 1)), length - 1]
            earned = draw.choice([0.0, 1.0, 0.5, float(draw.normal())], count)
            earned = [0.7] * count if kind < 0.15 else [float(value) for value in earned]
            group.append([] if draw.random() < 0.15 else list(zip(ends, earned, strict=True)))
            lengths.append(length)
        steps.append(group)
    return steps, lengths


def by_hand(steps, lengths, divided, ddof, eps, width):
    """(1/N) (1/|o|) A_it of every token, with the sums of 4.1.3 written out; N counts the answers that take part."""
    rows, taking_part = [], sum(bool(answer) for group in steps for answer in group)
    at = 0
    for group in steps:
        everything = [reward for answer in group for _, reward in answer]
        middle = math.fsum(everything) / len(everything) if everything else 0.0
        spread = 1.0
        if divided and len(everything) > 1:
            spread = math.sqrt(math.fsum((r - middle) ** 2 for r in everything) / (len(everything) - ddof)) + eps
        alike = len(set(everything)) < 2
        for answer in group:
            row = [0.0] * width
            for t in range(lengths[at]):
                if answer and not alike:
                    later = math.fsum((reward - middle) / spread for end, reward in answer if end >= t)
                    row[t] = later / lengths[at] / taking_part
            rows.append(row)
            at += 1
    return np.array(rows)


@pytest.mark.parametrize(("scale", "ddof", "eps"), SWITCHES)
def test_the_gradient_is_the_coefficient_times_grad_logprob(scale, ddof, eps):
    """200 draws: ∇ of Σ weight · log π by autograd over a softmax of its own logits against Σ coefficient · (1 - π)."""
    draw, seen = np.random.default_rng(1), {"no variance": 0, "excluded": 0, "several steps": 0}
    for _ in range(200):
        steps, lengths = drawn(draw)
        width, rows, words = max(lengths), len(lengths), 5
        included = torch.tensor([bool(answer) for group in steps for answer in group])
        mask_NT = (torch.arange(width) < torch.tensor(lengths)[:, None]) & included[:, None]
        made_NT = process_advantages(steps, width, "group_mean", scale, ddof, eps)
        groups_N = torch.arange(rows) // len(steps[0])
        batch = [included.nonzero().squeeze(1)]
        weights_NT, _ = token_weights(made_NT, mask_NT, groups_N, batch, "sequence_mean", 1.0)

        logits = torch.tensor(draw.normal(0, 1, (rows, width, words)), requires_grad=True)
        tokens = torch.tensor(draw.integers(0, words, (rows, width)))
        logp = torch.log_softmax(logits, 2)
        (weights_NT * logp.gather(2, tokens[..., None])[..., 0]).sum().backward()
        hot = torch.nn.functional.one_hot(tokens, words).double().numpy()
        expected = by_hand(steps, lengths, scale == "group_std", ddof, eps, width)[..., None] * (
            hot - logp.detach().exp().numpy()
        )
        assert np.abs(logits.grad.numpy() - expected).max() <= 1e-12 * max(1.0, np.abs(expected).max())
        seen["no variance"] += any(len({r for answer in group for _, r in answer}) == 1 for group in steps)
        seen["excluded"] += not bool(included.all())
        seen["several steps"] += any(len(answer) > 1 for group in steps for answer in group)
    assert all(count >= 20 for count in seen.values()), seen


def test_the_loop_would_see_a_mean_over_answers():
    """Negative control: sums of steps normalised over the answers are not 4.1.3."""
    steps, lengths = [[[(0, 1.0), (2, 1.0)], [(1, 0.0)], [(1, 1.0), (2, 0.0)]]], [3, 2, 3]
    sums = torch.tensor([[2.0, 0.0, 1.0]])
    wrong = (advantages(sums, "group_mean", "group_std").view(-1, 1) / torch.tensor(lengths)[:, None] / 3).numpy()
    assert np.abs(by_hand(steps, lengths, True, 0, 0.0, 3)[:, :1] - wrong).max() > 0.04
