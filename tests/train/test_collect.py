"""Dynamic sampling, responses without a reward, masked and overlong answers: what trains, and what is recorded of it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
import torch
import zstandard
from safetensors.torch import load_file

from grpo_runner import compose, run
from grpo_runner.data import order
from grpo_runner.errors import InputError
from grpo_runner.parallel import Ranks
from grpo_runner.prompts import token_texts
from grpo_runner.rollout import ENGINES, NativeEngine
from grpo_runner.train import ahead, collect
from grpo_runner.types import Completion, Finish, Group, Question, Reward, Status, Verdict
from tests.helpers import changed

SMALL = [
    "debug=cpu_smoke", "tracking=off", "data.train_size=64", "data.eval_size=16", "max_new_tokens=16",
    "evaluation.every=0", "questions_per_step=4", "tracking.completions_every=1",
]  # fmt: skip


def go(folder: Path, *overrides: str, **parts):
    return run(changed(compose([*SMALL, *overrides]), run_dir=str(folder), **parts))


def metrics(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def answers(folder: Path, step: int) -> list[dict]:
    data = (folder / "completions" / f"step_{step:06d}.jsonl.zst").read_bytes()
    return [json.loads(line) for line in zstandard.ZstdDecompressor().decompress(data).decode().split("\n") if line]


def own_rewards(folder: Path, monkeypatch, body: str) -> list[str]:
    (folder / "own_part.py").write_text(body)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(__import__("sys").modules, "own_part", raising=False)
    return ["reward=custom", "reward.function=own_part:score", "reward.parts={function: 1.0}"]


ALL_WRONG = "def score(questions, golds, completions): return [0.0] * len(golds)\n"


def test_dynamic_sampling_trains_on_groups_that_differ_and_records_all(tmp_path):
    go(tmp_path / "run", "rollout.dynamic_sampling=20")
    for row in metrics(tmp_path / "run"):
        rows = answers(tmp_path / "run", row["step"])
        slots = sorted({line["slot"] for line in rows})
        kept = [slot for slot in slots if any(line["included"] for line in rows if line["slot"] == slot)]
        assert row["groups/kept"] == len(kept) == 4 and len(slots) > 4  # this model's groups are often all equal
        assert row["excluded"] == 4 * (len(slots) - 4) and row["refills"] >= 1
        for slot in slots:
            earned = {line["reward"] for line in rows if line["slot"] == slot}
            assert (len(earned) > 1) == (slot in kept)
        # the questions that came in are others, each once
        asked = [rows[4 * slot]["question_id"] for slot in slots]
        assert len(set(asked)) == len(asked)
        # accuracy and lengths are of everything that was sampled
        assert row["accuracy"] == pytest.approx(sum(line["status"] == "correct" for line in rows) / len(rows))
        assert row["length/mean"] == pytest.approx(sum(line["tokens"] for line in rows) / len(rows))
        table = [
            line
            for line in pq.read_table(tmp_path / "run" / "questions.parquet").to_pylist()
            if line["step"] == row["step"]
        ]
        assert [line["slot"] for line in table if line["weight"] > 0] == kept
        # N of the mean over responses is that of the kept ones: Σ|w| of GRPO is Σ|A| / 16
        weight = sum(line["advantage_weight"] for line in table) / 16
        assert row["weight/total"] == pytest.approx(weight)


def kept_alone(monkeypatch, leave_out=0):
    """The loop goes on as if only the groups that were kept had ever been sampled (but for so many of those)."""
    real = collect.collect

    def collected(run, step):
        made, rewards_QG = real(run, step)
        kept = (~rewards_QG.isnan()).any(dim=1).nonzero().flatten().tolist()
        kept = kept[: len(kept) - leave_out]
        groups, verdicts, rewards = (
            [rows[slot] for slot in kept] for rows in (made.groups, made.verdicts, made.rewards)
        )
        return collect.Rollout(groups, verdicts, rewards, made.seconds, made.refills), rewards_QG[kept]

    monkeypatch.setattr(ahead, "collect", collected)


def adapter(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "adapter" / "adapter_model.safetensors")


def test_a_rejected_group_is_as_if_it_had_never_been_sampled(tmp_path, monkeypatch):
    """Groups of a step turned down, or taken away before anything is made of them: the same adapter, to the last bit.

    A KL is in the loss, of which rows without advantage would be a part, and rows are dealt out to three optimizer steps.
    """
    one_step = ["rollout.dynamic_sampling=1", "steps=1", "data.train_size=8", "beta=0.1", "loss_norm=token_mean"]
    one_step += ["optim.updates_per_rollout=3", "optim.minibatch=response", "optim.lr=0.01"]
    go(tmp_path / "all", *one_step)
    found = metrics(tmp_path / "all")[0]
    assert found["excluded"] > 0 and found["groups/kept"] > 1 and found["updates"] == 3 and found["kl"] > 0
    made = [adapter(tmp_path / "all")]
    for name, leave_out in (("alone", 0), ("control", 1)):
        with monkeypatch.context() as patched:
            kept_alone(patched, leave_out)
            go(tmp_path / name, *one_step)
        row = metrics(tmp_path / name)[0]
        assert row["excluded"] == 0 and row["groups/kept"] == found["groups/kept"] - leave_out
        made.append(adapter(tmp_path / name))
    all_of_it, alone, control = made
    assert all(torch.equal(all_of_it[name], alone[name]) for name in all_of_it)
    assert not all(torch.equal(all_of_it[name], control[name]) for name in all_of_it)


def test_without_dynamic_sampling_the_same_groups_carry_their_share(tmp_path):
    """The mean is then over all 16 responses: weights and gradient are those of the kept groups times their share."""
    go(tmp_path / "all", "rollout.dynamic_sampling=1", "steps=1", "data.train_size=4", "beta=0")
    go(tmp_path / "off", "steps=1", "data.train_size=4", "beta=0")
    on, off = metrics(tmp_path / "all")[0], metrics(tmp_path / "off")[0]
    share = on["groups/kept"] / 4
    assert 0 < share < 1
    assert off["grad_norm"] == pytest.approx(on["grad_norm"] * share, rel=1e-5)
    assert off["weight/total"] == pytest.approx(on["weight/total"] * share, rel=1e-9)


def test_each_round_of_refills_has_draws_of_its_own():
    """Every answer of a step is from other uniforms than every other one, and asking again gives the same ones."""
    config = changed(compose([*SMALL, "questions_per_step=2", "rollout.dynamic_sampling=3"]), run_dir="unused")
    questions = [Question(f"q{number}", "", "1") for number in range(10)]

    def drawn(step):
        rounds = []

        def sample(asked, prompts, size, sampling):
            rounds.append([sampling.draws(slot, i)[0] for slot in range(len(asked)) for i in range(size)])
            answers = (Completion((3,), "", (-1.0,), Finish.EOS),) * size
            return [Group(question, prompt, answers) for question, prompt in zip(asked, prompts, strict=True)]

        def reward_of(groups, verdicts):
            return [[Reward(0.0, {}) for _ in group.completions] for group in groups]

        run = SimpleNamespace(
            ranks=Ranks(),
            config=config,
            questions=questions,
            prompts=[(1,)] * len(questions),
            engine=SimpleNamespace(sample=sample),
            grade=lambda groups: [[Verdict(Status.WRONG)] * len(group.completions) for group in groups],
            reward_of=reward_of,
        )
        collect.collect(run, step)
        return rounds

    rounds = drawn(5)
    assert [len(made) for made in rounds] == [8] * 4  # the first round and three further ones
    assert len({uniform for made in (*rounds, *drawn(6)) for uniform in made}) == 2 * 4 * 8
    assert drawn(5) == rounds


def test_pb020_the_limit_ends_it_with_an_error_that_names_the_keys(tmp_path, monkeypatch):
    own = own_rewards(tmp_path, monkeypatch, ALL_WRONG)
    with pytest.raises(InputError) as caught:
        go(tmp_path / "run", *own, "rollout.dynamic_sampling=3", "rollout.when_short=error")
    text = str(caught.value)
    assert "step 0: after 3 further rounds, only 0 of 4 groups" in text and "rollout.when_short=smaller" in text
    assert len(text.splitlines()) <= 5


def test_pb020_or_with_a_smaller_batch_and_pb019_once_for_all_groups(tmp_path, monkeypatch):
    """Nothing differs in 3 rounds: no update, one row of metrics, all that was sampled in the record."""
    own = own_rewards(tmp_path, monkeypatch, ALL_WRONG)
    before = go(tmp_path / "run", *own, "rollout.dynamic_sampling=3", "beta=0.04")
    assert before.status == "done"
    for row in metrics(tmp_path / "run"):
        assert row["refills"] == 3 and row["groups/kept"] == 0 and row["updates"] == 0 and row["grad_norm"] is None
        assert row["excluded"] == 4 * 4 * 4 and row["zero_variance_fraction"] == 1 and row["weight/gini"] is None
    adapter = load_file(tmp_path / "run" / "adapter" / "adapter_model.safetensors")
    assert all((value == 0).all() for name, value in adapter.items() if "lora_B" in name)


def test_pb019_one_constant_group_of_two_goes_and_the_other_stays(tmp_path, monkeypatch):
    body = (
        "def score(questions, golds, completions):\n"
        "    first = questions[0]\n"
        "    return [1.0 if q == first else float(i % 2) for i, q in enumerate(questions)]\n"
    )
    own = own_rewards(tmp_path, monkeypatch, body)
    go(tmp_path / "run", *own, "questions_per_step=2", "rollout.dynamic_sampling=1", "steps=1", "data.train_size=2")
    row = metrics(tmp_path / "run")[0]
    assert row["groups/kept"] == 1 and row["excluded"] == 4 and row["refills"] == 0  # no other question is left to draw
    assert {line["slot"] for line in answers(tmp_path / "run", 0) if line["included"]} == {1}


def test_refills_are_other_questions_in_a_fixed_order():
    others = order.others(10, 3, 0, [2, 5])
    assert sorted(others) == [0, 1, 3, 4, 6, 7, 8, 9] and others == order.others(10, 3, 0, [2, 5])
    assert others != order.others(10, 4, 0, [2, 5]) and others != order.others(10, 3, 1, [2, 5])


def test_pb008_an_answer_without_a_reward_leaves_baseline_and_loss(tmp_path, monkeypatch):
    body = "def score(questions, golds, completions): return [1.0, None, 0.0, 1.0] * (len(golds) // 4)\n"
    own = own_rewards(tmp_path, monkeypatch, body)
    go(tmp_path / "run", *own, "steps=1", "advantage=dr_grpo", "loss_norm=sequence_sum", "beta=0.04")
    row, rows = metrics(tmp_path / "run")[0], answers(tmp_path / "run", 0)
    assert row["unscored"] == row["excluded"] == 4 and row["reward/mean"] == pytest.approx(2 / 3)
    for slot in range(4):
        group = rows[4 * slot : 4 * slot + 4]
        assert [line["advantage"] for line in group] == pytest.approx([1 / 3, 0, -2 / 3, 1 / 3])
        assert group[1]["reward"] is None and not group[1]["included"] and group[1]["coefficient"] is None
        assert group[0]["coefficient"][0] == pytest.approx(1 / 3 / 12, rel=1e-5)  # 12 responses count, at π = π_ref
    assert row["grad_norm"] > 0


def test_pb029_pb031_masked_answers_leave_the_denominator_and_keep_their_lengths(tmp_path):
    go(
        tmp_path / "run",
        "reward.truncated=mask",
        "max_new_tokens=8",
        "loss_norm=token_mean",
        "advantage=reinforce",
        "beta=0",
    )
    for row in metrics(tmp_path / "run"):
        rows = answers(tmp_path / "run", row["step"])
        cut = [line for line in rows if line["finish"] == "length"]
        assert cut and all(line["included"] == (line["finish"] != "length") for line in rows)
        assert row["excluded"] == len(cut)
        assert row["length/mean"] == pytest.approx(sum(line["tokens"] for line in rows) / len(rows))
        assert row["length/min"] == min(line["tokens"] for line in rows) < row["length/max"] == 8
        tokens = sum(line["tokens"] for line in rows if line["included"])
        right = sum(line["tokens"] for line in rows if line["included"] and line["reward"] == 1)
        assert row["weight/total"] == pytest.approx(right / tokens)


def test_soft_overlong_takes_off_what_the_paper_says(tmp_path):
    go(tmp_path / "run", "reward.truncated=soft", "reward.overlong_buffer=4", "max_new_tokens=10", "steps=1")
    rows = answers(tmp_path / "run", 0)
    penalty = {6: 0.0, 7: -0.25, 8: -0.5, 9: -0.75, 10: -1.0}
    seen = set()
    for line in rows:
        expected = penalty.get(line["tokens"], 0.0)
        seen.add(expected)
        assert line["parts"]["overlong"] == pytest.approx(expected)
        assert line["reward"] == pytest.approx((line["status"] == "correct") + expected)
    assert -1.0 in seen and 0.0 in seen
    assert "reward/overlong" in metrics(tmp_path / "run")[0]


def test_the_kl_in_the_reward_is_seen_in_both_rewards(tmp_path):
    """Truncated answers are masked: they earn a reward, have no KL taken off, and their tokens are not in its mean."""
    short = ["reward.truncated=mask", "max_new_tokens=8", "loss_norm=sequence_sum"]
    go(tmp_path / "run", "beta=in_reward", "beta.value=0.5", "optim.lr=0.02", "steps=3", *short)
    moved = []
    for row in metrics(tmp_path / "run"):
        rows = answers(tmp_path / "run", row["step"])
        included = [line for line in rows if line["included"]]
        assert 0 < len(included) < len(rows) and row["excluded"] == len(rows) - len(included)
        assert row["reward/mean"] == pytest.approx(sum(line["parts"]["correct"] for line in rows) / len(rows))
        assert row["reward/after_kl"] == pytest.approx(sum(line["reward"] for line in included) / len(included))
        total = sum(line["parts"]["correct"] - line["reward"] for line in included)  # β Σ KL
        tokens = sum(line["tokens"] for line in included)
        assert total / 0.5 / tokens == pytest.approx(row["kl"], rel=1e-5, abs=1e-7)
        moved.append(abs(total / 0.5 / tokens))
        table = pq.read_table(tmp_path / "run" / "questions.parquet").to_pylist()
        for line in (line for line in table if line["step"] == row["step"]):
            mine = [answer for answer in included if answer["slot"] == line["slot"]]
            each = [(answer["parts"]["correct"] - answer["reward"]) / 0.5 / answer["tokens"] for answer in mine]
            assert line["kl"] == (pytest.approx(sum(each) / len(each), rel=1e-5, abs=1e-6) if each else None)
    assert moved[0] < 1e-6 and max(moved) > 1e-3  # nothing at first, and then something


@pytest.mark.parametrize("extra", [[], ["rollout=transformers"]])
def test_importance_weights_are_one_where_engine_and_trainer_agree(tmp_path, extra):
    """pb046 and pb047's other side: the same policy at the same temperature over the full vocabulary."""
    go(tmp_path / "run", "rollout.importance=token", "rollout.importance_cap=2", "temperature=0.7", *extra)
    for row in metrics(tmp_path / "run"):
        assert row["importance/mean"] == pytest.approx(1, abs=1e-4) and row["importance/capped"] == 0
        assert row["mismatch"] < 1e-4


def test_an_entropy_bonus_keeps_the_policy_wider(tmp_path):
    wide = ["optim.lr=0.01", "steps=12", "beta=0"]
    go(tmp_path / "with", *wide, "entropy_bonus=0.5")
    go(tmp_path / "without", *wide)
    last = [metrics(tmp_path / name)[-1]["entropy"] for name in ("with", "without")]
    assert last[0] > 1.5 * last[1]


def test_every_excluded_response_is_recorded_and_torch_sees_no_nan(tmp_path, monkeypatch):
    body = "def score(questions, golds, completions): return [None] * len(golds)\n"
    own = own_rewards(tmp_path, monkeypatch, body)
    go(tmp_path / "run", *own, "beta=0.04")
    row = metrics(tmp_path / "run")[0]
    assert row["reward/mean"] is None and row["unscored"] == 16 and row["updates"] == 0 and row["kl"] is None
    adapter = load_file(tmp_path / "run" / "adapter" / "adapter_model.safetensors")
    assert all(torch.isfinite(value).all() for value in adapter.values())


def test_pb011_a_question_twice_in_a_step_is_two_groups(tmp_path, monkeypatch):
    """Its first group all right, its second all wrong: no advantage for either, and both in its cumulative weight."""
    body = (
        "def score(questions, golds, completions):\n"
        "    return [float(i < len(golds) // 2) for i in range(len(golds))]\n"
    )
    own = own_rewards(tmp_path, monkeypatch, body)
    go(tmp_path / "run", *own, "data.train_size=2", "data.small_set=wrap", "steps=1", "beta=0")
    rows = answers(tmp_path / "run", 0)
    asked = [rows[4 * slot]["question_id"] for slot in range(4)]
    assert len(set(asked)) == 2 and {line["advantage"] for line in rows} == {0.0}
    earned = {name: {line["reward"] for line in rows if line["question_id"] == name} for name in asked}
    assert set(map(frozenset, earned.values())) == {frozenset({0.0, 1.0})}  # once all right, once all wrong
    assert metrics(tmp_path / "run")[0]["updates"] == 0
    go(tmp_path / "two", "data.train_size=2", "data.small_set=wrap", "steps=1", "beta=0")
    table = pq.read_table(tmp_path / "two" / "questions.parquet").to_pylist()
    for name in asked:
        mine = [line for line in table if line["question_id"] == name]
        assert mine[-1]["cumulative_weight"] == pytest.approx(sum(line["weight"] for line in mine))


@pytest.mark.parametrize("fault", ["another question", "another prompt", "an answer short"])
def test_pb013_a_group_holds_one_question(tmp_path, monkeypatch, fault):
    """An engine of one's own that draws a new problem for a group, or loses an answer, is found out at once."""

    class Engine(NativeEngine):
        def sample(self, questions, prompts, group_size, sampling):
            groups = super().sample(questions, prompts, group_size, sampling)
            if sampling.purpose.startswith("rollout"):
                swapped = {
                    "another question": {"question": groups[0].question},
                    "another prompt": {"prompt_ids": groups[0].prompt_ids, "completions": groups[0].completions},
                    "an answer short": {"completions": groups[1].completions[:-1]},
                }[fault]
                groups[1] = dataclasses.replace(groups[1], **swapped)
            return groups

    monkeypatch.setitem(ENGINES, "native", lambda *given: Engine(*given[:3], batch_rows=64))
    with pytest.raises(ValueError, match="not 4 answers to each question's prompt"):
        go(tmp_path / "run")


class Bytes:
    """A tokenizer of bytes that, like SentencePiece ones, drops the space that a text begins with."""

    def decode(self, ids):
        return bytes(ids).decode("utf-8", errors="replace").removeprefix(" ")


@pytest.mark.parametrize("text", ["a b  c", "one two", "2·√3 = x", "日本 4", "x"])
def test_token_texts_together_are_the_text(text):
    pieces = token_texts(Bytes(), list(text.encode()))
    assert len(pieces) == len(text.encode())
    if text.isascii():
        assert "".join(pieces) == text
    else:  # bytes of half a character show as unreadable, the rest of the text is there in its order
        seen = iter("".join(pieces))
        assert all(character in seen for character in text if character.isascii())


def test_a_lone_token_would_lose_its_space():
    """Negative control: what decoding each token by itself gives."""
    assert "".join(Bytes().decode([number]) for number in b"a b") == "ab"
