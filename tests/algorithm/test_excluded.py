"""Excluded answers: as if they had never been sampled. Against the shorter rollout, in plain Python, group by group."""

from __future__ import annotations

import itertools
import math
import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_runner.algorithm import BASELINES, LOSS_NORMS, SCALES, advantages, loss_norm, token_weights, zero_variance
from grpo_runner.config import compose
from grpo_runner.policy.loss import Given, loss_of
from grpo_runner.train.collect import Rollout
from grpo_runner.types import Completion, Finish, Group, Question, Reward
from tests.helpers import changed

NAN = math.nan
L = 50
ALL = list(itertools.product(BASELINES, SCALES))


def plain_advantages(groups, baseline, scale, ddof, eps):
    """Of a rollout whose groups are lists of rewards, of any lengths, none of them empty."""
    everything = [reward for group in groups for reward in group]

    def spread(values):
        return (statistics.stdev if ddof else statistics.pstdev)(values) + eps

    def one(group, i):
        others = group[:i] + group[i + 1 :]
        of_group, of_all = len(set(group)) == 1, len(set(everything)) == 1
        if (of_group and (baseline in ("group_mean", "leave_one_out") or scale in ("group_std", "group_mean"))) or (
            of_all and (baseline == "batch_mean" or scale == "batch_std")
        ):
            return 0.0
        middle = {
            "group_mean": lambda: statistics.fmean(group),
            "leave_one_out": lambda: statistics.fmean(others),
            "batch_mean": lambda: statistics.fmean(everything),
            "none": lambda: 0.0,
        }[baseline]()
        width = {
            "none": lambda: 1.0,
            "group_std": lambda: spread(group),
            "batch_std": lambda: spread(everything),
            "group_mean": lambda: rate if (rate := statistics.fmean(group) + eps) > 0 else math.inf,
        }
        return (group[i] - middle) / width[scale]()

    return [[one(group, i) for i in range(len(group))] for group in groups]


def plain_norm(lengths, groups, kind):
    """What a token of each row counts, of the rows of one optimizer batch: their lengths, and which group each is of."""
    of_group = {group: sum(n for n, g in zip(lengths, groups, strict=True) if g == group) for group in groups}
    return [
        {
            "sequence_mean": 1 / (len(lengths) * length),
            "constant": 1 / (len(lengths) * L),
            "token_mean": 1 / sum(lengths),
            "group_token_mean": 1 / (len(of_group) * of_group[group]),
            "sequence_sum": 1 / len(lengths),
        }[kind]
        for length, group in zip(lengths, groups, strict=True)
    ]


@st.composite
def rollouts(draw):
    """(rewards (Q, G) with NaN, lengths (Q, G), optimizer batches of the rows that are left)."""
    size, questions = draw(st.integers(2, 4)), draw(st.integers(1, 3))

    def table(cells):
        row = st.lists(cells, min_size=size, max_size=size)
        return draw(st.lists(row, min_size=questions, max_size=questions))

    rewards = table(st.sampled_from([0.0, 1.0, 1.0, 0.1, -0.5, NAN]))
    lengths = table(st.integers(1, 4))
    kept = [i for i, reward in enumerate(itertools.chain(*rewards)) if not math.isnan(reward)]
    order, cut = draw(st.permutations(kept)), draw(st.integers(0, len(kept)))
    return rewards, lengths, [sorted(part) for part in (order[:cut], order[cut:]) if part]


@settings(max_examples=100, deadline=None)
@given(rollouts(), st.integers(0, 1), st.sampled_from([0.0, 1e-4]))
def test_advantages_are_those_of_the_rollout_without_the_excluded(rollout, ddof, eps):
    rewards, _, _ = rollout
    left = [[reward for reward in group if not math.isnan(reward)] for group in rewards]
    for baseline, scale in ALL:
        found = advantages(torch.tensor(rewards, dtype=torch.float64), baseline, scale, ddof, eps).tolist()
        expected = iter(plain_advantages([group for group in left if group], baseline, scale, ddof, eps))
        for group, row, kept in zip(rewards, found, left, strict=True):
            values = iter(next(expected) if kept else [])
            by_hand = [0.0 if math.isnan(reward) else next(values) for reward in group]
            assert row == pytest.approx(by_hand, rel=1e-9, abs=1e-12), (baseline, scale)


@settings(max_examples=100, deadline=None)
@given(rollouts())
def test_token_weights_are_those_of_the_rollout_without_the_excluded(rollout):
    rewards, lengths, parts = rollout
    rows, size = len(rewards) * len(rewards[0]), len(rewards[0])
    flat, longest = list(itertools.chain(*lengths)), max(itertools.chain(*lengths))
    gone = [math.isnan(reward) for reward in itertools.chain(*rewards)]
    mask = (torch.arange(longest) < torch.tensor(flat)[:, None]) & ~torch.tensor(gone)[:, None]
    share = torch.linspace(-1.0, 2.0, rows, dtype=torch.float64)
    everything = [list(range(rows))]  # excluded rows in an optimizer batch count nowhere either
    for kind, cut in itertools.product(LOSS_NORMS, (parts, everything)):
        found = token_weights(share, mask, torch.arange(rows) // size, [torch.tensor(p) for p in cut], kind, L)
        for part in cut:
            kept = [row for row in part if not gone[row]]
            norm = plain_norm([flat[row] for row in kept], [row // size for row in kept], kind)
            for row, value in zip(kept, norm, strict=True):
                expected = [value] * flat[row] + [0.0] * (longest - flat[row])
                assert found[1][row].tolist() == pytest.approx(expected), kind
                assert found[0][row].tolist() == pytest.approx([float(share[row]) * v for v in expected]), kind
        assert not found[0][gone].any() and not found[1][gone].any()


CONFIG = changed(compose(["beta=0.04", "clip=ppo", "entropy_bonus=0.1", "rollout.importance=token"]), run_dir="unused")


@settings(max_examples=60, deadline=None)
@given(rollouts(), st.randoms(use_true_random=False), st.sampled_from(ALL), st.sampled_from(list(LOSS_NORMS)))
def test_loss_and_gradient_are_those_of_the_rollout_without_the_excluded(rollout, random, advantage, kind):
    """Token by token in plain Python: clipped surrogate, k3, entropy bonus and importance weight of the rows left."""
    rewards, lengths, _ = rollout
    size, flat = len(rewards[0]), list(itertools.chain(*lengths))
    gone = [math.isnan(reward) for reward in itertools.chain(*rewards)]
    kept, longest = [row for row, out in enumerate(gone) if not out], max(flat)
    if not kept:
        return

    def drawn():
        return [[random.uniform(-2.0, -0.1) for _ in range(longest)] for _ in flat]

    logp, sampled, ref, entropy = drawn(), drawn(), drawn(), drawn()
    old = [[value + random.choice([-0.4, -0.1, 0.1, 0.4]) for value in row] for row in logp]

    mask = (torch.arange(longest) < torch.tensor(flat)[:, None]) & ~torch.tensor(gone)[:, None]
    made = advantages(torch.tensor(rewards, dtype=torch.float64), *advantage).flatten()
    rows = torch.arange(len(flat))
    weights, norm = token_weights(made, mask, rows // size, [rows], kind, L)

    def tensor(values):
        return torch.tensor(values, dtype=torch.float64).masked_fill(~mask, 0.0)

    leaf, spread = tensor(logp).requires_grad_(), tensor(entropy).requires_grad_()
    loss = loss_of(Given(leaf, tensor(old), tensor(sampled), weights, norm, mask, tensor(ref), spread), CONFIG).value
    slopes = torch.autograd.grad(loss, [leaf, spread])

    left = [[reward for reward in group if not math.isnan(reward)] for group in rewards]
    by_row = dict(
        zip(kept, itertools.chain(*plain_advantages([g for g in left if g], *advantage, 0, 0.0)), strict=True)
    )
    norms = dict(zip(kept, plain_norm([flat[r] for r in kept], [r // size for r in kept], kind), strict=True))
    total, expected, of_entropy = 0.0, torch.zeros_like(mask, dtype=torch.float64), torch.zeros(mask.shape)
    for row in kept:
        for t in range(flat[row]):
            ratio, a = math.exp(logp[row][t] - old[row][t]), by_row[row] * math.exp(old[row][t] - sampled[row][t])
            rho, held = math.exp(ref[row][t] - logp[row][t]), min(max(ratio, 0.8), 1.2)
            total -= norms[row] * (min(ratio * a, held * a) - 0.04 * (rho - math.log(rho) - 1) + 0.1 * entropy[row][t])
            inside = ratio <= 1.2 if a > 0 else ratio >= 0.8
            expected[row, t] = -norms[row] * (a * ratio * inside + 0.04 * (rho - 1))
            of_entropy[row, t] = -norms[row] * 0.1
    assert float(loss.detach()) == pytest.approx(total, rel=1e-9, abs=1e-12)
    torch.testing.assert_close(slopes[0], expected, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(slopes[1], of_entropy.double(), rtol=1e-6, atol=1e-9)


def test_an_answer_of_advantage_zero_still_counts():
    """Excluded is not the same as without advantage: the mean is over both kinds of the others."""
    mask = torch.ones(4, 2, dtype=torch.bool)
    all_four = loss_norm(mask, torch.zeros(4, dtype=torch.long), "constant", L)
    mask[3] = False
    three = loss_norm(mask, torch.zeros(4, dtype=torch.long), "constant", L)
    assert all_four[0, 0].item() == pytest.approx(1 / (4 * L)) and three[0, 0].item() == pytest.approx(1 / (3 * L))


def test_pb008_one_reward_of_none_leaves_mean_std_and_loss():
    """[1, None, 0, 1]: mean 2/3 and std √2/3 of the three; the row itself weighs nothing and no NaN is left."""
    rewards = rollout_of([[1.0, None, 0.0, 1.0]]).rewards_QG(CONFIG)
    third, spread = 1 / 3, 2**0.5 / 3
    assert advantages(rewards, "group_mean", "none")[0].tolist() == pytest.approx([third, 0, -2 * third, third])
    assert advantages(rewards, "group_mean", "group_std")[0].tolist() == pytest.approx(
        [third / spread, 0, -2 * third / spread, third / spread]
    )
    assert advantages(rewards, "leave_one_out", "none")[0].tolist() == pytest.approx([0.5, 0, -1, 0.5])
    mask = ~rewards.isnan().view(4, 1).expand(4, 2)
    made = advantages(rewards, "group_mean", "none").flatten()
    weights, norm = token_weights(made, mask, torch.zeros(4, dtype=torch.long), [torch.arange(4)], "sequence_sum", L)
    assert weights[1].tolist() == [0, 0] and weights[0, 0].item() == pytest.approx(third / 3)
    assert norm.sum().item() == pytest.approx(2.0) and torch.isfinite(weights).all()
    # negative control: as a 0 it would have moved the baseline to 1/2
    assert advantages(rewards.nan_to_num(), "group_mean", "none")[0, 0].item() == pytest.approx(0.5)


def rollout_of(rewards, cut=()):
    """A Rollout with these totals; (slot, answer) in `cut` ended at the budget."""
    rows = [
        Group(
            Question(f"q{slot}", "", "1"),
            (1,),
            tuple(
                Completion((3,), "", (-1.0,), Finish.LENGTH if (slot, i) in cut else Finish.EOS)
                for i in range(len(group))
            ),
        )
        for slot, group in enumerate(rewards)
    ]
    return Rollout(groups=rows, rewards=[[Reward(total) for total in group] for group in rewards])


@pytest.mark.parametrize("baseline", list(BASELINES))
@pytest.mark.parametrize("scale", list(SCALES))
def test_pb014_a_masked_answer_moves_neither_baseline_nor_std(baseline, scale):
    """[1, 0, 0, masked 1] is [1, 0, 0]; were its reward kept, the baseline would be 1/2."""
    rollout = rollout_of([[1.0, 0.0, 0.0, 1.0]], cut={(0, 3)})
    masked = rollout.rewards_QG(changed(CONFIG, reward__truncated="mask"))
    assert masked.isnan().tolist() == [[False, False, False, True]]
    three = {"group_mean": (2 / 3, -1 / 3), "batch_mean": (2 / 3, -1 / 3), "leave_one_out": (1.0, -0.5), "none": (1, 0)}
    width = {"none": 1.0, "group_mean": 1 / 3}.get(scale, 2**0.5 / 3)
    right, wrong = (value / width for value in three[baseline])
    assert advantages(masked, baseline, scale)[0].tolist() == pytest.approx([right, wrong, wrong, 0.0])
    kept = rollout.rewards_QG(changed(CONFIG, reward__truncated="keep"))  # negative control
    assert advantages(kept, baseline, scale)[0, 3] != 0


def test_pb029_a_masked_answer_leaves_numerator_and_denominator():
    """Lengths 10 (masked) and 2: a token counts 1/2, not 1/12; the mean over responses is of one."""
    mask = torch.arange(10) < torch.tensor([[0], [2]])
    for kind, expected in (
        ("token_mean", 1 / 2),
        ("group_token_mean", 1 / 2),
        ("sequence_mean", 1 / 2),
        ("constant", 1 / L),
        ("sequence_sum", 1.0),
    ):
        for groups in ([0, 0], [0, 1]):
            norm = loss_norm(mask, torch.tensor(groups), kind, L)
            assert norm[1].tolist() == pytest.approx([expected] * 2 + [0.0] * 8), kind
            assert (norm[0] == 0).all()


def test_pb019_a_group_without_variance_that_is_turned_down_counts_nowhere():
    """Two questions, one with equal rewards: it is dropped and the other stays as it would be alone."""
    rewards = torch.tensor([[1.0, 1, 1, 1], [1, 0, 0, 0]], dtype=torch.float64)
    left = rewards.masked_fill(zero_variance(rewards)[:, None], NAN)
    for baseline, scale in ALL:
        found, alone = (advantages(values, baseline, scale) for values in (left, rewards[1:]))
        assert found[0].tolist() == [0.0] * 4 and found[1].tolist() == pytest.approx(alone[0].tolist())
    mask = ~left.isnan().view(8, 1).expand(8, 3)
    norm = loss_norm(mask, torch.arange(8) // 4, "sequence_mean", L)
    assert (norm[:4] == 0).all() and norm[4:].flatten().tolist() == pytest.approx([1 / 12] * 12)
    # where all are constant nothing is left, and nothing is NaN
    nothing = torch.full((2, 4), NAN)
    assert all((advantages(nothing, *pair) == 0).all() for pair in ALL)
    for kind in LOSS_NORMS:
        weights = token_weights(torch.zeros(8), torch.zeros(8, 3, dtype=torch.bool), torch.arange(8) // 4, [], kind, L)
        assert not any(made.any() for made in weights)
        assert (loss_norm(torch.zeros(8, 3, dtype=torch.bool), torch.arange(8) // 4, kind, L) == 0).all()


def test_zero_variance_looks_past_excluded_answers():
    rewards = torch.tensor([[1.0, NAN, 1.0], [1.0, NAN, 0.0], [NAN, NAN, 1.0], [NAN, NAN, NAN]])
    assert zero_variance(rewards).tolist() == [True, False, True, True]
