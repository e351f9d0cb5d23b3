"""Counts of a run, worked out by hand from the settings."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from grpo_runner.config import compose
from grpo_runner.planning.happens import happens, no_variance
from grpo_runner.planning.speed import Speed, estimate

OAT = [
    "experiment=dr_grpo_oat_zero_7b",
    "data.train.path=understand-r1-zero/datasets/train/math_lvl3to5_8k/train/data-00000-of-00001.arrow",
]


def test_oat_zero_7b_by_hand():
    counts = happens(compose(OAT))
    assert (counts.steps, counts.questions, counts.group_size) == (300, 128, 8)
    assert (counts.samples, counts.updates, counts.responses, counts.optimizer_steps) == (307_200, 8, 128, 2_400)
    assert counts.rows == 8_523 and counts.epochs == pytest.approx(38_400 / 8_523) and counts.seen == 8_523
    assert counts.training_tokens == 307_200 * 3000
    # before steps 0, 16, …, 288, and after the last: 19 + 1
    assert (counts.evaluations, counts.held_out, counts.held_out_known, counts.evaluated) == (20, 500, True, 500)
    assert counts.evaluation_tokens == 20 * 500 * 3000
    assert "can act in all but the first" in counts.clip


def test_rows_of_an_arrow_file_and_of_one_that_is_not_here(tmp_path):
    folder = tmp_path / "gsm_8k" / "train"
    path = folder / "data-00000-of-00001.arrow"
    words = ["data=orz_57k", f"data.train.path={path}", "data.eval.path=x.jsonl"]
    assert happens(compose(words)).rows == 8_792  # known of the set of that name
    table = pa.table({"problem": ["a"] * 40, "answer": ["1"] * 40})
    folder.mkdir(parents=True)
    with pa.ipc.new_stream(str(path), table.schema) as file:
        file.write_table(table, max_chunksize=30)
    assert happens(compose(words)).rows == 40


def test_a_single_update_cannot_clip_and_short_batches_are_left_out():
    words = [
        "steps=10",
        "questions_per_step=60",
        "data.short_batch=drop",
        "evaluation.every=5",
        "optim.minibatch=whole",
    ]
    counts = happens(compose(words))
    assert "cannot act" in counts.clip and counts.responses == 480
    assert counts.epochs == pytest.approx(10 / 3)  # 200 questions: three batches of 60, 20 left out
    assert counts.seen == 200
    assert (counts.evaluations, counts.evaluated) == (3, 256 * 5)  # before steps 0 and 5, and at the end
    assert happens(compose(["evaluation=never"])).evaluations == 0
    assert happens(compose(["experiment=dapo"])).rounds == 11


def test_dynamic_sampling_may_sample_all_rounds_and_trains_on_one():
    config = compose(["rollout.dynamic_sampling=10", "evaluation=never"])
    counts = happens(config)
    assert counts.training_tokens == 100 * 8 * 8 * 32  # steps x questions x answers x tokens
    found = estimate(config, counts, Speed(rollout=1000.0, update=500.0, length=16.0, budget=32, date=""))
    assert found.least * 3600 == pytest.approx(102_400 / 1000 + 102_400 / 500)
    assert found.most * 3600 == pytest.approx(11 * 204_800 / 1000 + 204_800 / 500)


def test_evaluations_are_as_many_as_the_loop_makes():
    for steps, every in ((1, 1), (4, 3), (6, 3), (5, 9)):
        made = sum(step % every == 0 for step in range(steps)) + 1  # train/loop.py, then train/runner.py
        assert happens(compose([f"steps={steps}", f"evaluation.every={every}"])).evaluations == made


def test_sizes_of_sets(tmp_path):
    assert happens(compose(["data=gsm8k", "max_new_tokens=256"])).rows == 7_473
    file = tmp_path / "q.jsonl"
    file.write_text("".join(json.dumps({"question": "1+1", "answer": "2"}) + "\n" for _ in range(5)) + "\n")
    own = ["data=jsonl", f"data.train.path={file}", f"data.eval.path={file}", "questions_per_step=2"]
    assert happens(compose(own)).rows == 5
    assert happens(compose([*own, "data.train_size=3"])).rows == 3
    unknown = happens(compose(["data=hub", "data.train.hub_id=some/set", "data.eval.hub_id=some/set"]))
    assert unknown.rows is None and unknown.epochs is None and "not known before it is loaded" in unknown.rows_from
    gone = happens(compose(["data=jsonl", "data.train.path=gone.jsonl"]))
    assert gone.rows is None and "not here" in gone.rows_from


def test_several_sets_are_counted_together(tmp_path):
    suite = happens(compose(["data=math_12k", "max_new_tokens=3000", "evaluation=dr_grpo_suite"]))
    assert suite.held_out == 30 + 83 + 500 + 272 + 675 == suite.evaluated and suite.held_out_known
    few = happens(compose(["data=math_12k", "evaluation=dr_grpo_suite", "evaluation.questions=50"]))
    assert few.held_out == 30 + 4 * 50
    other = happens(
        compose(["data=hub", "data.train.hub_id=some/set", "data.eval.hub_id=some/set", "evaluation.questions=70"])
    )
    assert other.held_out == 70 and not other.held_out_known


def test_filters_leave_a_number_that_is_not_known():
    counts = happens(compose(["data=math_12k", "data.levels=[3,4,5]"]))
    assert counts.rows is None and "fewer than 12,000" in counts.rows_from and "data.levels" in counts.rows_from


def test_groups_without_variance_by_counting():
    """Against all outcomes of three answers, one by one."""
    for p in (0.0, 0.1, 0.5, 1.0):
        share = 0.0
        for outcome in range(8):
            right = bin(outcome).count("1")
            share += p**right * (1 - p) ** (3 - right) * (right in (0, 3))
        assert no_variance(p, 3) == pytest.approx(share)
    assert set(happens(compose([]), success=0.9).even) == {0.9}
    assert no_variance(0.9, 8) != pytest.approx(no_variance(0.8, 8))
