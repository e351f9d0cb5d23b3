"""docs/scale.md: closed forms of the simulation, worked out by hand, and the page beside what the script gives."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
import torch

from grpo_runner.parallel import Ranks
from grpo_runner.types import Completion, Finish
from scripts.bench import flops
from scripts.cluster import calibrate, own_core, page, plan, simulate
from scripts.cluster.hardware import GPUS
from scripts.cluster.simulate import Rates

QG = np.array([[3, 5], [2, 8], [7, 1], [4, 4]])


def linear(a: float, b: float, **others: float) -> Rates:
    """A round of `a` seconds and `b` for each of its rows."""
    return Rates(round_s=lambda rows, context: a + b * rows, **{"prompt_s": 0.0, "update_s": 0.0, **others})


@pytest.mark.parametrize("stride", [1, 3, 16])
def test_without_a_queue_sampling_takes_the_longest_answer_and_all_tokens(stride):
    """a · longest + b · tokens, for any stride; two replicas of two questions each."""
    own = simulate.by_replica(QG, 2)
    assert own.tolist() == [[3, 5, 2, 8], [7, 1, 4, 4]]
    found = simulate.rollout(own, 10, np.array([2.0, 2.0]), 4, linear(0.5, 0.01, prompt_s=0.001), stride)
    assert found == pytest.approx([0.5 * 8 + 0.01 * 18 + 0.02, 0.5 * 7 + 0.01 * 16 + 0.02], rel=1e-12)


def test_with_a_queue_the_next_answer_begins_where_one_ends():
    """Lengths 3, 5, 2, 8 in two places: 3 and 5 begin, 2 follows the 3, and 8 begins when both end, after 5: 13 rounds."""
    found = simulate.rollout(simulate.by_replica(QG[:2], 1), 0, np.zeros(1), 2, linear(1.0, 0.0))
    assert found.tolist() == [13.0]
    assert simulate.rollout(simulate.by_replica(QG[:2], 1), 0, np.zeros(1), 4, linear(1.0, 0.0)).tolist() == [8.0]


def test_the_context_of_a_row_is_its_prompt_and_what_it_has():
    """One answer of 4 tokens after 10: 10.5 + 11.5 + 12.5 + 13.5, by steps of one or at once."""
    read = Rates(round_s=lambda rows, context: context, prompt_s=0.0, update_s=0.0)
    for stride in (1, 4):
        assert simulate.rollout(np.array([[4]]), 10, np.zeros(1), 1, read, stride).tolist() == [48.0]


@pytest.mark.parametrize(
    ("works", "cores", "ends"),
    [([1, 1, 1, 1], 2, [2, 2, 2, 2]), ([1, 2], 2, [1, 2]), ([2, 1, 1], 1, [4, 3, 3]), ([0, 3], 1, [0, 3])],
)
def test_works_that_share_cores(works, cores, ends):
    assert simulate.on_cores(works, cores).tolist() == ends


@pytest.mark.parametrize("world", [2, 3, 5, 6])
def test_updates_are_shared_out_as_runs_share_them(world):
    """With `Ranks.rows` itself, a prompt of 7 tokens a group or row counted beside."""
    lengths = simulate.lengths(5, 4, 60, 200)
    groups_N, lengths_N = torch.arange(20) // 4, torch.from_numpy(lengths.ravel())
    loads = []
    for rank in range(world):
        own = Ranks(rank, world).rows(torch.arange(20), groups_N, lengths_N)
        prompts = len(groups_N[own].unique()) if world <= 5 else len(own)
        loads.append(int(lengths_N[own].sum()) + 7 * prompts)
    assert simulate.update_loads(lengths, 7, world).tolist() == loads
    assert max(loads) < 1.5 * sum(loads) / world or world > 3  # negative control: a sum would be alike for any shares


def test_a_step_is_its_slowest_parts_and_waiting_is_what_the_others_lack():
    rates = linear(0, 0, whole_s=0.01, exchange_s=0.5, reduce_s=0.25, saving_s=0.125)
    made = simulate.step(np.array([4.0, 2.0]), np.array([1.0, 3.0]), 100, rates)
    assert made.seconds == 4 + 0.5 + 1 + 3 + 0.25 + 0.125
    assert (made.waited_rollout, made.waited_update, made.waited) == (1, 1, 2)
    assert made.idle == 2 / 8.875
    even = simulate.step(np.array([3.0, 3.0]), np.array([2.0, 2.0]), 100, rates)
    assert even.idle == 0  # negative control: equal loads do not wait


def test_lengths_are_as_stated():
    found = simulate.lengths(2_000, 4, 1_500, 10**9)
    logs = np.log(found)
    assert np.exp(np.median(logs)) == pytest.approx(1_500, rel=0.05)
    assert logs.mean(1).var() - logs.var(1, ddof=1).mean() / 4 == pytest.approx(0.36, rel=0.1)
    assert logs.var(1, ddof=1).mean() == pytest.approx(0.16, rel=0.05)
    assert simulate.lengths(50, 4, 1_500, 900).max() == 900


# --- the plan


def test_operations_of_the_update_are_those_of_the_bench():
    """`scripts/bench/flops.py` counts a step of a config.json; a token of it, without attention and recomputation."""
    size = plan.sizes("7B")
    shapes = flops.Shapes(size.linears, size.num_hidden_layers, (size.hidden_size, size.vocab_size))
    counted = flops.step_flops(shapes, plan.RANK, 0, 1, 1)["update"]
    assert plan.update_flops(size, checkpointing=False) == counted
    again = plan.update_flops(size) - counted
    assert again == 2 * (size.base + size.lora(plan.RANK))


def test_a_round_reads_the_weights_or_multiplies():
    """7B on one H100: 15.2 GB at 60 % of 3.35 TB/s and 1 ms; with 10,000 rows 2 · 7.6e9 · 10,000 at 40 % of 989e12."""
    size, gpu = plan.sizes("7B"), GPUS["H100"]
    few = plan.round_seconds(size, gpu, 1, np.ones(1), np.zeros(1))
    assert few[0] == pytest.approx(2 * 7_615_616_512 / 2.01e12 + 1e-3, rel=1e-9)
    many = plan.round_seconds(size, gpu, 1, np.full(1, 10_000.0), np.zeros(1))
    assert many[0] == pytest.approx(2 * 7_615_616_512 * 1e4 / 3.956e14 + 1e-3, rel=1e-9)
    cached = plan.round_seconds(size, gpu, 1, np.ones(1), np.full(1, 1e6))  # 28 layers · 2 · 4 · 128 · 2 bytes a token
    assert cached[0] - few[0] == pytest.approx(1e6 * 57_344 / 2.01e12, rel=1e-9)


def test_messages_of_a_step():
    size, layout = plan.sizes("7B"), plan.Layout(64, 8, True)
    moved = plan.bytes_a_step(size, layout, plan.lengths(plan.LOADS["large"]))
    assert moved["adapter to the engine"] == 4 * size.lora(16) == 161_480_704
    assert moved["gradient"] == 2 * 63 / 64 * 161_480_704
    assert plan.ring(8e9, 8, 1e9) == 14.0  # 2 · 7/8 of 8 s
    assert plan.bytes_a_step(size, plan.Layout(64, 1, False), plan.lengths(plan.LOADS["large"]))["base, gathered"] == 0


def test_the_bytes_of_a_pickled_token():
    """Ids of a vocabulary of 152,064 in 5 bytes, or 3 below 65,536; 9 a log-probability; 4 characters of text."""
    drawn = np.random.default_rng(0)
    ids, numbers = drawn.integers(0, 152_064, 4_000), drawn.random(4_000)
    answer = Completion(tuple(map(int, ids)), "word" * 4_000, tuple(map(float, numbers)), Finish.EOS)
    assert len(pickle.dumps(answer, protocol=4)) / 4_000 == pytest.approx(plan.PICKLED, abs=0.7)


def test_where_it_stops():
    assert plan.stops_at({8: 100, 16: 55, 32: 30, 64: 25, 128: 5}) == 32  # 25 → 5 comes after the first that fails
    assert plan.stops_at({8: 100, 16: 90}) == 8


def test_memory_adds_up_to_the_gpu_and_what_does_not_fit_is_left_out():
    layout = plan.Layout(8, 2, True)
    for gpu in GPUS.values():
        *always, sampling, update, beside, keys = plan.memory(plan.sizes("32B"), gpu, layout).values()
        assert (
            sum(always) + sampling + keys == pytest.approx(gpu.memory) == pytest.approx(sum(always) + update + beside)
        )
    assert plan.plan("70B", GPUS["H100"], plan.Layout(8, 2, True), plan.LOADS["small"], 0.0) is None  # 70.6 GB of 80
    assert plan.plan("32B", GPUS["H200"], plan.Layout(8, 1, False), plan.LOADS["small"], 0.0) is None  # twice 65.5


# --- the calibration


def test_rates_are_found_again():
    """Two runs of steps that known rates made, one step of each disturbed; and where least squares gives one below 0,
    the other is fitted alone.
    """
    runs = []
    for lengths_QG in (QG, QG * 3 + 1):
        tokens = lengths_QG.sum()
        row = {
            "time/rollout_s": 0.1 * lengths_QG.max() + 0.01 * tokens, "time/update_s": 0.5 + 0.02 * tokens,
            "time/reward_s": 0.8, "time/step_s": 1.3 + 0.1 * lengths_QG.max() + 0.04 * tokens,
        }  # fmt: skip
        slow = {**row, "time/step_s": 99.0, "time/rollout_s": 90.0}
        runs.append(([{}] * calibrate.WARM + [row, slow, row], [lengths_QG] * (calibrate.WARM + 3)))
    found = calibrate.fitted(runs)
    wanted = {
        "round_s": 0.1,
        "token_s": 0.01,
        "update_fixed_s": 0.5,
        "update_s": 0.02,
        "answer_s": 0.1,
        "whole_s": 0.01,
    }
    assert found == pytest.approx(wanted)
    assert calibrate.solved([(1, 0, -1), (0, 1, 2), (1, 1, 2)]) == (0.0, 2.0)


def test_two_processes_on_two_cores_and_four():
    """Equal answers: two processes take half of the sampling, four on two cores no less than two."""
    even = np.full((8, 2), 10)
    rates = {"round_s": 0.0, "token_s": 0.01, "answer_s": 0.0, "update_fixed_s": 0.0, "update_s": 0.01, "whole_s": 0.0}
    said = {"gather_s": 0.0, "meeting_s": 0.0, "sum_s": 0.0}
    one, two, four = (calibrate.predicted(even, world, rates, said, 1.0, 2) for world in (1, 2, 4))
    assert [made.seconds for made in (one, two, four)] == pytest.approx([3.2, 1.6, 1.6])
    assert calibrate.predicted(even, 2, rates, said, 1.5, 2).seconds == pytest.approx(2.4)  # a busy neighbour


def test_the_slowest_process_and_what_the_mean_one_waits():
    """Two steps of two processes: sampling 4 and 2, then 3 and 1 (slowest 3.5, means 3 and 2: 5 of 7); no waiting in the
    update. Expected of equal rates: rounds and tokens of each share, as in a run.
    """
    steps = [{"rollout_s": [4, 2], "update_s": [1, 1]}, {"rollout_s": [1, 3], "update_s": [2, 2]}]
    found = own_core.summed(steps)
    assert found == pytest.approx({"rollout_s": 3.5, "rollout_idle": 2 / 7, "update_s": 1.5, "update_idle": 0})
    rates = {"round_s": 0.5, "token_s": 0.01, "update_fixed_s": 1.0, "update_s": 0.1}
    made = own_core.expected(QG, 2, rates)
    assert made["rollout_s"] == pytest.approx([0.5 * 8 + 0.18, 0.5 * 7 + 0.16])
    assert made["update_s"] == pytest.approx([1 + 0.1 * 18, 1 + 0.1 * 16])  # groups of 8, 10, 8, 8 tokens
    runs = [
        {"lengths": [one.tolist()] * 4, "rollout_s": [9, 9] + [0.5 * one.max() + 0.01 * one.sum()] * 2,
         "update_s": [9, 9] + [1 + 0.1 * one.sum()] * 2} for one in (QG, QG[:2])
    ]  # fmt: skip
    assert own_core.fitted(runs) == pytest.approx(rates)


# --- the page


def test_the_page_has_the_tables_of_the_script():
    text, found, made = page.PAGE.read_text(), page.read(page.PLAN), page.read(page.CALIBRATION)
    assert page.filled(text, found, made) == text, "python scripts/scale.py --write"
    # negative control: another figure would be seen
    changed = json.loads(json.dumps(found))
    changed["rows"][-1]["idle"] += 0.1
    assert page.filled(text, changed, made) != text or changed["rows"][-1]["gpus"] not in page.SHOWN
    changed["changes"]["as assumed"]["7B"] *= 2
    assert page.filled(text, changed, made) != text


@pytest.mark.parametrize(("gpu", "model", "load", "gpus"), [("H100", "7B", "small", 64), ("H200", "70B", "small", 512)])
def test_the_file_of_the_page_is_what_the_simulation_gives(gpu, model, load, gpus):
    found = page.read(page.PLAN)
    own = [
        one for one in found["rows"] if (one["gpu"], one["model"], one["load"], one["gpus"]) == (gpu, model, load, gpus)
    ]
    assert own == page.rows_of(gpu, model, load, gpus, found["whole_s"]), "python scripts/scale.py --write"
    others = [one for one in found["rows"] if (one["model"], one["load"], one["gpus"]) == (model, load, gpus)]
    assert any(one["step_s"] != own[0]["step_s"] for one in others)  # negative control: another GPU takes another time
