"""The figures of `explain` against numbers worked out by hand, in the papers or with the standard library."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest
import torch

from grpo_runner import compose
from grpo_runner.lessons import figures, worked
from grpo_runner.lessons.methods import METHODS
from grpo_runner.method import method_name
from grpo_runner.objectives import PRESETS, Objective, preset

ROOT3 = 3**0.5
ROOT = Path(__file__).parents[2]


def test_pb034_the_clip_table_with_and_without_a_dual_clip():
    plain = figures.clip_table(worked.CLIP_CASES, 0.2, 0.2)
    assert [value for value, _ in plain] == pytest.approx([1.2, -1.5, 0.5, -0.8, -10])
    assert [slope for _, slope in plain] == pytest.approx([0, -1.5, 0.5, 0, -10])
    dual = figures.clip_table(worked.CLIP_CASES, 0.2, 0.2, 3.0)
    assert dual[:4] == plain[:4] and dual[4] == pytest.approx((-3, 0))


def test_a_clip_that_cuts_both_sides_would_be_seen():
    """Negative control: clip(r)·A without the minimum holds (A=-1, r=1.5) at -1.2 and stops its gradient."""
    wrong = [max(0.8, min(1.2, ratio)) * advantage for advantage, ratio in worked.CLIP_CASES]
    assert wrong != pytest.approx([value for value, _ in figures.clip_table(worked.CLIP_CASES, 0.2, 0.2)])


def test_pb040_k3_in_the_loss_at_one_token():
    """log π = -1, log π_ref = -2, beta 1: k3 = 0.367879, its gradient +0.632121, which the objective has with a minus."""
    ((_, value, part, whole),) = figures.kl_table(1.0, 0.0, [math.exp(-1)])
    assert value == pytest.approx(0.367879, abs=1e-6)
    assert part == pytest.approx(-0.632121, abs=1e-6) and whole == pytest.approx(part)


def test_beta_004_gives_the_papers_three_coefficients():
    rows = figures.kl_table(0.04, 1.0, (0.5, 1, 2))
    assert [whole for *_, whole in rows] == pytest.approx([0.98, 1.00, 1.04], abs=1e-12)
    assert [part for _, _, part, _ in rows] == pytest.approx([-0.02, 0, 0.04], abs=1e-12)
    assert [value for _, value, _, _ in rows] == pytest.approx([0.193147, 0, 0.306853], abs=1e-6)
    assert rows[0][3] != pytest.approx(1.02)  # the sign turned round


def test_lengths_100_and_400_and_the_mirror_image():
    own = figures.length_table(worked.SIGNED_LENGTHS, "sequence_mean", 1000)
    assert [token for token, _ in own] == pytest.approx([0.01, 0.0025, -0.01, -0.0025])
    assert [answer for _, answer in own] == pytest.approx([1, 1, -1, -1])
    constant = figures.length_table(worked.SIGNED_LENGTHS, "constant", 1000)
    assert constant == [pytest.approx(pair) for pair in ((0.001, 0.1), (0.001, 0.4), (-0.001, -0.1), (-0.001, -0.4))]


@pytest.mark.parametrize(("right", "factor"), [(50, 2), (10, 3.3333), (1, 10.0504)])
def test_question_weight_is_one_over_the_root_of_p_times_one_minus_p(right, factor):
    scaled, plain, found = figures.question_factor(right, 100)
    p = right / 100
    assert found == pytest.approx(factor, abs=5e-5) and found == pytest.approx((p * (1 - p)) ** -0.5)
    assert scaled == pytest.approx(2 * math.sqrt(p * (1 - p))) and plain == pytest.approx(2 * p * (1 - p))


@pytest.mark.parametrize("size", [2, 4, 8])
@pytest.mark.parametrize("chance", [0.3, 0.5, 0.05])
def test_the_mean_with_itself_shrinks_by_g_minus_one_over_g_and_leave_one_out_does_not(size, chance):
    assert figures.expected_over_true(chance, size, "group_mean", "none") == pytest.approx((size - 1) / size)
    assert figures.expected_over_true(chance, size, "leave_one_out", "none") == pytest.approx(1)


def test_over_the_std_it_is_no_constant_factor():
    found = [figures.expected_over_true(0.3, size, "group_mean", "group_std") for size in (4, 8)]
    assert found == pytest.approx([1.6346, 1.9627], abs=5e-5)
    assert figures.expected_over_true(0.5, 4, "group_mean", "group_std") != pytest.approx(found[0], abs=0.01)


def test_the_enumeration_agrees_with_a_sum_in_plain_python():
    """All 16 groups of four, with no tensor: Σ over groups of chance × mean over answers of (r - mean)(r - p)."""
    p, total = 0.3, 0.0
    for group in itertools.product((0, 1), repeat=4):
        mean = sum(group) / 4
        chance = math.prod(p if right else 1 - p for right in group)
        total += chance * sum((right - mean) * (right - p) for right in group) / 4
    assert figures.expected_over_true(p, 4, "group_mean", "none") == pytest.approx(total / (p * (1 - p)))


@pytest.mark.parametrize(
    ("name", "rewards", "right", "wrong"),
    [
        ("grpo", (1, 0, 0, 1), 1, -1),
        ("grpo", (1, 0, 0, 0), ROOT3, -1 / ROOT3),
        ("grpo", (1, 1, 1, 0), 1 / ROOT3, -ROOT3),
        ("dr_grpo", (1, 0, 0, 0), 0.75, -0.25),
        ("rloo", (1, 0, 0, 0), 1, -1 / 3),
        ("rloo", (1, 1, 1, 0), 1 / 3, -1),
        ("reinforce", (1, 0, 0, 0), 1, 0),
    ],
)
def test_advantages_side_by_side(name, rewards, right, wrong):
    found = figures.group_advantages(rewards, PRESETS[name].baseline, PRESETS[name].scale)
    assert found.tolist() == pytest.approx([right if reward else wrong for reward in rewards])


def test_weights_of_a_group_by_hand():
    """One of five right, GRPO: +2 and -1/2, over 5·|o|. Under a constant of 300: 4/5 and -1/5, over 5·300."""
    lengths = [120, 80, 300, 64, 90]
    rewards_QG, parts = torch.tensor([[1.0, 0, 0, 0, 0]]), [torch.arange(5)]
    found = figures.weigh(rewards_QG, torch.tensor(lengths), preset("grpo", 0, 0.0, 300.0), parts)
    assert found[1].tolist() == pytest.approx(
        [(2 if i == 0 else -0.5) / (5 * length) for i, length in enumerate(lengths)]
    )
    assert figures.shares(found[2]) == pytest.approx([0.5, 0.125, 0.125, 0.125, 0.125])
    found = figures.weigh(rewards_QG, torch.tensor(lengths), preset("dr_grpo", 0, 0.0, 300.0), parts)
    assert found[1].tolist() == pytest.approx([0.8 / 1500, *[-0.2 / 1500] * 4])
    assert figures.shares(torch.zeros(3)) == [None] * 3


def test_an_excluded_answer_counts_nowhere():
    """Rewards 1, -, 0 and 1, 0, -: N is 4, and the answers left are pairs: ±1 over 4·|o|."""
    rewards_QG = torch.tensor([[1, math.nan, 0], [1, 0, math.nan]])
    lengths, parts = [10, 99, 20, 40, 5, 7], [torch.tensor([0, 2, 3, 4])]
    found = figures.weigh(rewards_QG, torch.tensor(lengths), preset("grpo", 0, 0.0, 50.0), parts)
    assert found[0].tolist() == pytest.approx([1, 0, -1, 1, -1, 0])
    assert found[1].tolist() == pytest.approx([1 / 40, 0, -1 / 80, 1 / 160, -1 / 20, 0])
    assert found[3].tolist() == pytest.approx([1 / 40, 0, 1 / 80, 1 / 160, 1 / 20, 0])
    # negative control: as rewards of 0 they would count
    counted = figures.weigh(rewards_QG.nan_to_num(), torch.tensor(lengths), preset("grpo", 0, 0.0, 50.0), parts)
    assert counted[0].tolist() != pytest.approx(found[0].tolist())


def test_the_coefficient_is_ratio_times_weight_plus_the_kl_part():
    """r·w inside the clip, 0 outside, and β·norm·(π_ref/π - 1) on top: the closed form, which shares no code."""
    weights, ratios, refs = [0.02, -0.01, 0.02], [1.1, 1.1, 1.3], [0.5, 2.0, 3.0]
    norm, beta = [0.01, 0.005, 0.01], 0.04
    tensors = [torch.tensor(values, dtype=torch.float64) for values in (weights, norm, ratios, refs)]
    _, found = figures.coefficients(*tensors, beta)
    kl = [beta * n * (ref - 1) for n, ref in zip(norm, refs, strict=True)]
    assert found.tolist() == pytest.approx([0.022 + kl[0], -0.011 + kl[1], 0 + kl[2]])


@pytest.mark.parametrize("name", PRESETS)
def test_the_names_mean_what_conf_says(name):
    advantage = compose([f"advantage={name}"]).advantage
    assert (advantage.baseline, advantage.scale) == PRESETS[name][1:3]
    method = method_name(compose([f"advantage={name}", f"loss_norm={PRESETS[name].norm}", "beta=0.04"]))
    # batch_std has no loss norm of its own: GRPO's, which conf goes with
    own = " with GRPO's loss norm (each response's length)" if name == "batch_std" else ""
    assert method.split(" and a KL")[0] == PRESETS[name].label + own


def test_every_advantage_of_conf_can_be_shown():
    conventions = {"grpo_oat", "grpo_verl"}  # GRPO with a library's ddof and eps: explain --ddof 1
    credited = {"pairs", "process", "gae"}  # not by one reward an answer
    assert set(PRESETS) | conventions | credited == {path.stem for path in (ROOT / "conf/advantage").glob("*.yaml")}
    for name in conventions:
        of = compose([f"advantage={name}"]).advantage
        assert (of.baseline, of.scale) == PRESETS["grpo"][1:3] and of.ddof == 1
    assert list(PRESETS)[:3] == ["grpo", "dr_grpo", "rloo"]  # explain --help: the first three


def test_objectives_are_the_same_when_their_weights_are():
    one = Objective("a", "group_mean", "none", 1, 0.1, "sequence_mean", 32.0)
    assert one.same_weights(one._replace(label="b", ddof=0, eps=0.0, budget=64.0))
    assert not one._replace(norm="constant").same_weights(one._replace(norm="constant", budget=64.0))
    assert not one._replace(scale="group_std").same_weights(one._replace(scale="group_std", ddof=0))


def test_every_command_of_the_methods_composes_to_that_method():
    names = {
        "GRPO, outcome": "GRPO",
        "GRPO, process": "GRPO with process rewards",
        "GRPO, iterative": "Iterative GRPO",
        "RLOO": "RLOO with the KL in the reward",
    }
    composed = {m.name: compose(m.command.split()) for m in METHODS if m.command}
    assert set(composed) == {m.name for m in METHODS}
    for name, config in composed.items():
        assert method_name(config) == names.get(name, name)
    for name, kind in (("DAPO", "token"), ("GSPO", "sequence"), ("CISPO", "cispo")):
        config = composed[name]
        assert config.clip.kind == kind and config.optim.updates_per_rollout > 1 and config.beta.value == 0, name
        assert (config.advantage.baseline, config.advantage.scale) == PRESETS["grpo"][1:3], name
    dapo = composed["DAPO"]
    assert (dapo.clip.low, dapo.clip.high, dapo.loss_norm.kind) == (0.2, 0.28, "group_token_mean")
    assert dapo.rollout.dynamic_sampling and dapo.reward.truncated == "soft"


def test_every_method_of_the_unified_template_is_there():
    asked = (
        "SFT, RFT, Online RFT, DPO, PPO, GRPO outcome, GRPO process, GRPO iterative, Dr. GRPO, RLOO, REINFORCE, MaxRL, "
        "DAPO, GSPO, CISPO"
    )
    assert [method.name.replace(",", "") for method in METHODS] == asked.split(", ")
