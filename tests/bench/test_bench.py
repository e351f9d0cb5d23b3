"""The benchmarks' own rules: equal work is noticed when it is not, times and operations are counted right."""

from __future__ import annotations

import json
import sys
import zlib
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "bench"))

import compare  # noqa: E402
import flops  # noqa: E402
import noted_reward  # noqa: E402
import parts  # noqa: E402
import running  # noqa: E402
import tables  # noqa: E402
from cases import CASES, Case, model_folder, prompts, write_questions  # noqa: E402

SMALL = Case("small", 2, 4, 6, rank=2, characters=12, steps=4)


def a_run(side: str, **changed: object) -> dict:
    """What a sound run of SMALL leaves, with some of it changed."""
    run = {
        "side": side,
        "tokens": [48] * 4,
        "weighted": [8] * 4,
        "updates": 4,
        "trainable": 1000,
        "prompt_tokens": 24,
        "versions": {"torch": "2", "transformers": "5", "peft": "0"},
        "steps_s": [9.0, 9.0, 1.0, 3.0] if side == "ours" else [9.0, 9.0, 8.0, 12.0],
        "rollout_s": [9.0, 9.0, 0.5, 0.5],
        "first_rollout_s": 2.0,
        "peak_mib": 100.0 if side == "ours" else 400.0,
        "peak_all_mib": 150.0 if side == "ours" else 400.0,
    }
    return run | changed


def test_equal_work_is_found_equal():
    assert compare.unequal(SMALL, [a_run("ours"), a_run("trl")]) == []


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"tokens": [48, 48, 47, 48]}, "47"),
        ({"weighted": [8, 7, 8, 8]}, "carry weight"),
        ({"updates": 3}, "3 updates"),
        ({"trainable": 1001}, "trainable parameters differ"),
        ({"prompt_tokens": 26}, "prompt tokens a step differ"),
        ({"versions": {"torch": "1", "transformers": "5", "peft": "0"}}, "torch differ"),
    ],
)
def test_unequal_work_is_told(changed, said):
    (problem,) = compare.unequal(SMALL, [a_run("ours"), a_run("trl", **changed)])
    assert said in problem


def test_the_warm_up_is_left_out_and_the_ratio_is_of_medians():
    made = compare.summary([a_run("ours"), a_run("trl")])
    assert made["ours"]["step_s"] == {"median": 2.0, "min": 1.0, "max": 3.0}  # the 9s are the warm-up
    assert made["ratio"]["step_s"] == 10.0 / 2.0 and made["ratio"]["peak_mib"] == 4.0


def test_rows_at_the_mean_of_their_group_carry_no_weight():
    questions = ["a", "a", "a", "b", "b", "b"]
    assert noted_reward.weighted(questions, [0.0, 0.5, 1.0, 0.2, 0.3, 0.7]) == 5  # 0.5 is the mean of its group
    assert noted_reward.weighted(questions, [1.0] * 6) == 0


def test_both_sides_have_the_same_reward_and_note_each_call(tmp_path, monkeypatch):
    monkeypatch.setenv(noted_reward.NOTES, str(tmp_path / "notes"))
    texts = ["x", "y"]
    ours = noted_reward.checksum(questions=["q", "q"], golds=["1", "1"], completions=texts)
    theirs = noted_reward.checksum_trl(prompts=["q", "q"], completions=texts, completion_ids=[[1], [2, 3]], step=0)
    assert ours == theirs == [zlib.crc32(b"x") / 2**32, zlib.crc32(b"y") / 2**32]
    notes = running.json_lines(tmp_path / "notes")
    assert [note["weighted"] for note in notes] == [2, 2] and notes[1]["tokens"] == 3


def test_a_part_is_charged_for_its_own_time_alone():
    now = [0.0]
    clock = parts.Clock(now=lambda: now[0])

    def spend(seconds: float) -> None:
        now[0] += seconds

    inner = clock.timed("backward", lambda: spend(3))

    def update() -> None:
        spend(1)
        inner()
        spend(1)

    outer = clock.timed("update: rest", update)
    for pause in (50, 4):  # the first is warm-up
        clock.begin()
        spend(pause)
        outer()
    clock.end()
    whole, seconds = clock.seconds(warm_up=1)
    assert (whole, seconds["backward"], seconds["update: rest"], seconds["rest"]) == (9, 3, 2, 4)
    assert sum(seconds.values()) == whole


def test_the_names_of_the_profile_are_there():
    """Without replacing anything: what the rewrite of a room must keep in step with the table."""
    import importlib

    for name in [name for names in parts.PARTS.values() for name in names] + [parts.STEP, parts.LOOP]:
        module, path = name.split(":")
        found = importlib.import_module(module)
        for each in path.split("."):
            found = getattr(found, each)
        assert callable(found), name


def test_operations_are_those_that_torch_counts():
    """torch's own counter over a forward and backward pass of frozen linear layers with LoRA."""
    from torch.utils.flop_counter import FlopCounterMode

    model, rank, tokens = flops.Shapes([(6, 4), (4, 6)], 1, (6, 10)), 2, 5
    frozen = [torch.randn(out, into) for into, out in model.linears]
    adapters = [
        (torch.randn(rank, into, requires_grad=True), torch.randn(out, rank, requires_grad=True))
        for into, out in model.linears
    ]
    x = torch.randn(tokens, 6, requires_grad=True)  # stands for a layer below, which wants its gradient
    with FlopCounterMode(display=False) as counter:
        h = x
        for weight, (A, B) in zip(frozen, adapters, strict=True):
            h = h @ weight.T + (h @ A.T) @ B.T
        (h @ torch.randn(10, 6).T).sum().backward()
    # five rows of one token each, and no prompt: every token passes the layers and the head
    assert flops.step_flops(model, rank, 0, tokens, 1)["update"] == counter.get_total_flops()
    # one question of 3 tokens, 5 rows of 2: 3 + 5 through the layers, 10 through the head
    assert flops.step_flops(model, rank, 3, 5, 2)["rollout"] == 2 * (3 + 5) * 48 + 2 * 10 * 60


def test_parameters_of_an_adapter_are_counted_from_the_shapes():
    config = {"hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9, "num_key_value_heads": 3}
    model = flops.shapes(config | {"num_hidden_layers": 30, "vocab_size": 49152})
    assert model.lora(16) == 4_884_480  # PEFT's own count for SmolLM2-135M
    assert model.base + 49152 * 576 + 61 * 576 == 134_515_008  # the model's own count, 61 norms included


def test_a_page_is_filled_and_says_what_was_not_measured(tmp_path):
    page = "a <!-- bench:one -->\nold\n<!-- /bench --> b\n<!-- bench:two -->\n<!-- /bench -->\n"
    (tmp_path / "one.json").write_text(json.dumps({"kind": "table", "header": ["x"], "rows": [["1"]]}))
    made = tables.filled(page, tmp_path)
    assert "| 1 |" in made and "old" not in made and made.count("Not measured.") == 1
    assert tables.filled(made, tmp_path) == made  # filling again changes nothing


def test_the_page_in_the_repository_is_what_the_files_say():
    page = (ROOT / "docs" / "speed.md").read_text()
    assert tables.filled(page, ROOT / "docs" / "speed") == page


def test_prompts_differ_from_their_first_characters_on():
    for case in CASES.values():
        texts = prompts(case.questions, case.characters)
        assert {len(text) for text in texts} == {case.characters} and len({text[:2] for text in texts}) == len(texts)


@pytest.mark.slow
def test_a_run_of_ours_does_the_whole_work(tmp_path):
    """A tiny run from end to end: every row has its tokens, for the model cannot end an answer."""
    data = write_questions(tmp_path, prompts(2, 12))
    run = running.run_ours(compare.settings_of(SMALL, model_folder("tiny", tmp_path), data, 1, "float32", 0))
    assert compare.unequal(SMALL, [run]) == []
    assert len(run["steps_s"]) == 3 and min(run["steps_s"]) > 0 and run["peak_mib"] > 50
    assert run["trainable"] == 4 * 2 * (4 * 256 + 3 * 480)  # r · (in + out) of 4 layers
    # the check can fail: the same run would not do for a case of one token more
    assert compare.unequal(Case("more", 2, 4, 7, rank=2, characters=12, steps=4), [run])
