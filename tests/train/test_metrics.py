"""A step's row of metrics and its rows of questions, from a step whose numbers are all given, against sums by hand."""

from __future__ import annotations

import math

import pytest
import torch

from grpo_runner.algorithm.advantages import std
from grpo_runner.config import compose
from grpo_runner.objectives import PRESETS
from grpo_runner.policy.batch import Batch
from grpo_runner.policy.update import Update
from grpo_runner.train.collect import Rollout
from grpo_runner.train.credit import Credited
from grpo_runner.train.metrics import Step, step_metrics, step_questions
from grpo_runner.types import Completion, Finish, Group, Question, Reward, Status, Verdict
from tests.helpers import changed

NAN = math.nan
BETA, DDOF, EPS, BUDGET = 0.5, 1, 0.25, 10
CONFIG = changed(
    compose(["beta=in_reward", f"beta.value={BETA}", f"max_new_tokens={BUDGET}", "rollout.importance=token"]),
    run_dir="unused",
    advantage__ddof=DDOF,
    advantage__eps=EPS,
    rollout__dynamic_sampling=3,
)
# two questions with four answers; of the second question one answer has no reward and one is masked as truncated
LENGTHS = ((2, 3, 1, 4), (2, 5, 3, 6))
EARNED = ((1.0, 0.0, 0.0, 1.0), (1.0, 0.0, None, 0.0))
ENTROPY = ((0.5, 1.0, None, 2.0), (0.25, 1.5, 3.0, 0.75))
STATUS = (
    (Status.CORRECT, Status.WRONG, Status.NO_ANSWER, Status.CORRECT),
    (Status.CORRECT, Status.TIMEOUT, Status.ERROR, Status.WRONG),
)
PENALTY = ((0.4, 0.3, -0.2, 0.8), (0.1, 0.5, NAN, NAN))  # Σ over the answer's tokens; not made where excluded
TRAINED = tuple(
    tuple(NAN if math.isnan(k) else r - BETA * k for r, k in zip(*rows, strict=True))
    for rows in zip(EARNED, PENALTY, strict=True)
)
WEIGHTS = ((0.3, -0.2, -0.1, 0.4), (0.05, -0.15, 0.0, 0.0))  # of each token


def update(**found):
    empty = dict.fromkeys(("kl", "kl_N", "importance_mean", "importance_capped", "mismatch"))
    return Update(
        **{
            **empty,
            "ratio_mean": 1.01,
            "ratio_max": 1.7,
            "clip_fraction": 0.1,
            "grad_norm": 2.0,
            "lr": 0.01,
            "updates": 3,
            **found,
        }
    )


def step(config, made, penalty=PENALTY):
    """The step; `penalty` None: the KL is not in the reward."""
    groups = [
        Group(
            Question(f"q{slot}", f"text {slot}", "1"),
            (1, 5),
            tuple(
                Completion((3,) * n, "", (), Finish.LENGTH if n == 6 else Finish.EOS, entropy)
                for n, entropy in zip(LENGTHS[slot], ENTROPY[slot], strict=True)
            ),
        )
        for slot in range(2)
    ]
    rollout = Rollout(
        groups,
        [[Verdict(status) for status in row] for row in STATUS],
        [[Reward(r, {"correct": r}) for r in row] for row in EARNED],
        refills=2,
    )
    batch = Batch.of(groups)
    included_N = torch.tensor([True] * 6 + [False] * 2)
    return Step(
        config=config,
        number=7,
        rollout=rollout,
        credited=Credited(
            advantages_NT=torch.zeros(8, 1, dtype=torch.float64),
            rewards_QG=torch.tensor(TRAINED, dtype=torch.float64),
            penalty_N=None if penalty is None else torch.tensor(penalty, dtype=torch.float64).flatten(),
            metrics={},
        ),
        batch=batch,
        mask_NT=batch.mask_NT & included_N[:, None],
        minibatches=[torch.arange(6)],
        weights_NT=torch.tensor(WEIGHTS, dtype=torch.float64).view(8, 1) * batch.mask_NT,
        update=made,
    )


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def deviation(values, ddof):
    return math.sqrt(sum((value - mean(values)) ** 2 for value in values) / (len(values) - ddof))


def weights(slot, ddof, eps):
    """What the question weighs under GRPO, Dr. GRPO and RLOO: 6 answers are in the loss, this question's are `r`."""
    r = [value for value in TRAINED[slot] if not math.isnan(value)]
    centred = [abs(value - mean(r)) for value in r]
    constant = sum(c * n for c, n in zip(centred, LENGTHS[slot], strict=False)) / (6 * BUDGET)
    grpo = sum(centred) / (deviation(r, ddof) + eps) / 6
    summed = {"constant": 1, "sequence_sum": BUDGET}[PRESETS["rloo"].norm]
    return {"grpo": grpo, "dr_grpo": constant, "rloo": summed * constant * len(r) / (len(r) - 1)}


def concentration(one, other):
    """Of two questions: half their mean difference over their mean, and the share of the heavier one."""
    return {"gini": abs(one - other) / (one + other) / 2, "top_tenth": max(one, other) / (one + other)}


def test_every_metric_of_a_step():
    made = update(importance_mean=0.9, importance_capped=0.2, mismatch=0.05)
    trained = [[value for value in row if not math.isnan(value)] for row in TRAINED]
    own = [sum(abs(w) * n for w, n in zip(*rows, strict=True)) for rows in zip(WEIGHTS, LENGTHS, strict=True)]
    of_names = [weights(slot, DDOF, EPS) for slot in range(2)]
    expected = {
        "reward/mean": 3 / 7,
        "reward/correct": 3 / 7,
        "reward/after_kl": (3 - BETA * (0.4 + 0.3 - 0.2 + 0.8 + 0.1 + 0.5)) / 6,  # of the included ones
        "reward/group_std": mean(deviation(row, 0) for row in trained),
        "reward/batch_std": deviation([value for row in trained for value in row], 1),
        "accuracy": 3 / 8,
        "tokens/sampled": 26,
        "length/mean": 26 / 8,
        "length/min": 1,
        "length/max": 6,
        "length/correct": 8 / 3,
        "length/wrong": 18 / 5,
        "truncated": 1 / 8,
        "no_answer": 1 / 8,
        "ambiguous": 0.0,
        "timeout": 1 / 8,
        "error": 1 / 8,
        "unscored": 1,
        "excluded": 2,
        "refills": 2,
        "groups/kept": 2,
        "kl": (0.4 + 0.3 - 0.2 + 0.8 + 0.1 + 0.5) / (2 + 3 + 1 + 4 + 2 + 5),  # tokens of the included ones
        "entropy": (0.5 * 2 + 1 * 3 + 2 * 4 + 0.25 * 2 + 1.5 * 5 + 3 * 3 + 0.75 * 6) / 25,  # one engine cannot tell
        "clip_fraction": 0.1,
        "ratio/mean": 1.01,
        "ratio/max": 1.7,
        "mismatch": 0.05,
        "importance/mean": 0.9,
        "importance/capped": 0.2,
        "grad_norm": 2.0,
        "lr": 0.01,
        "updates": 3,
        "zero_variance_fraction": 0.0,
        "weight/total": sum(own),
        **{f"weight/{name}": value for name, value in concentration(*own).items()},
        **{
            f"weight/{measure}_{name}": value
            for name in ("grpo", "dr_grpo", "rloo")
            for measure, value in concentration(*(row[name] for row in of_names)).items()
        },
    }
    found = step_metrics(step(CONFIG, made))
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-12), name


@pytest.mark.parametrize("scale, ddof, eps", [("group_std", DDOF, EPS), ("none", 0, 0.0)])
def test_what_a_question_would_weigh_follows_the_std_of_the_run(scale, ddof, eps):
    """ddof and eps of the run, where it divides by a std; the papers' own where it has none."""
    config = changed(CONFIG, advantage__scale=scale)
    for slot, row in enumerate(step_questions(step(config, update()))):
        for name, value in weights(slot, ddof, eps).items():
            assert row[f"weight_{name}"] == pytest.approx(value, rel=1e-12), name
    assert weights(0, 1, 0.0)["grpo"] != pytest.approx(weights(0, 0, 0.0)["grpo"], rel=0.05)  # ddof is seen
    assert weights(0, 0, EPS)["grpo"] != pytest.approx(weights(0, 0, 0.0)["grpo"], rel=0.05)  # and eps


def test_the_kl_of_a_question_is_a_mean_over_tokens_then_over_its_included_answers():
    """In the reward it was summed over the answer's tokens; in the loss the update has the mean of each row."""
    in_reward = step_questions(step(CONFIG, update()))
    assert in_reward[0]["kl"] == pytest.approx((0.4 / 2 + 0.3 / 3 - 0.2 / 1 + 0.8 / 4) / 4)
    assert in_reward[1]["kl"] == pytest.approx((0.1 / 2 + 0.5 / 5) / 2)
    in_loss = changed(CONFIG, beta__placement="loss")
    kl_N = torch.tensor([0.1, 0.2, 0.3, NAN, 0.5, 0.7, 90.0, NAN], dtype=torch.float64)
    made = step(in_loss, update(kl=0.25, kl_N=kl_N), penalty=None)
    assert [row["kl"] for row in step_questions(made)] == pytest.approx([0.2, 0.6])
    found = step_metrics(made)
    assert found["kl"] == 0.25 and "reward/after_kl" not in found
    none = step(changed(in_loss, beta__value=0.0), update(), penalty=None)
    assert [row["kl"] for row in step_questions(none)] == [None, None] and step_metrics(none)["kl"] is None


def test_pb095_two_meanings_of_a_std_have_two_names():
    """Groups [1, 1] and [0, 0]: no spread within, √(4 · ½² / 3) over all."""
    rewards = torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    assert std(rewards, 0).tolist() == [[0.0], [0.0]]
    assert std(rewards.reshape(1, -1), 1).item() == pytest.approx(0.57735, abs=1e-5)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["advantage=grpo"], 0.0),
        (["advantage=rloo"], 0.0),
        (["advantage=reinforce", "advantage.scale=group_std"], 0.0),
        (["advantage=reinforce"], None),
        (["advantage=reinforce_baseline"], None),
        (["method=grpo_process"], None),
    ],
)
def test_the_share_without_variance_is_told_where_answers_are_compared_with_their_group(words, told):
    """The rule of health that reads it is silent elsewhere: such groups carry weight there."""
    assert (
        step_metrics(step(changed(compose(words), run_dir="x", max_new_tokens=BUDGET), update()))[
            "zero_variance_fraction"
        ]
        == told
    )
