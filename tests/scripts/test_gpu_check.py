"""scripts/gpu_check.py in its dry form on the CPU, and the arithmetic of scripts/memory.py against what is kept."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import gpu_check  # noqa: E402
import memory  # noqa: E402
from gpu import jobs, making, numbers  # noqa: E402
from gpu.rows import OutOfTime, Part, Setting, as_json, failed, limit, run_parts, table  # noqa: E402

from grpo_runner.planning import needs  # noqa: E402
from grpo_runner.policy import budget, packed  # noqa: E402
from grpo_runner.policy.attention import blocks, fused  # noqa: E402
from grpo_runner.policy.batch import Batch  # noqa: E402
from grpo_runner.policy.decoder import Decoder  # noqa: E402
from grpo_runner.sizes import read as sizes_of  # noqa: E402

DRY = Setting(torch.device("cpu"), True)
SEVEN = ROOT / "scripts" / "gpu" / "configs" / "qwen2_5_7b.json"


@pytest.fixture(scope="module")
def dry(tmp_path_factory) -> dict:
    """Exit code, the JSON and its rows by (part, check)."""
    output = tmp_path_factory.mktemp("gpu") / "gpu_check.json"
    code = gpu_check.main(["--dry", "--output", str(output)])
    made = json.loads(output.read_text())
    return {"code": code, "json": made, "rows": {(row["part"], row["name"]): row for row in made["rows"]}}


@pytest.mark.slow
def test_the_dry_form_runs_every_part_and_all_of_it_is_right(dry):
    assert [row for row in dry["json"]["rows"] if row["ok"] is False] == [] and dry["code"] == 0
    assert {part for part, _ in dry["rows"]} == {part.name for part in gpu_check.PARTS}
    assert dry["json"]["dry"] and sum(row["ok"] is True for row in dry["json"]["rows"]) >= 20


@pytest.mark.slow
def test_what_a_cpu_cannot_show_is_not_judged(dry):
    peak = dry["rows"]["7B", "peak of the update, GB"]
    assert (peak["value"], peak["ok"], peak["bound"]) == (None, None, "≤ 80")
    speed = dry["rows"]["7B", "the same, share of the matrix product's speed"]
    assert speed["value"] > 0 and speed["ok"] is None


def test_the_parts_fit_into_four_minutes():
    assert sum(part.seconds for part in gpu_check.PARTS) <= gpu_check.SECONDS < 240


def test_a_part_that_raises_or_hangs_is_a_failed_row_and_the_others_run(tmp_path, monkeypatch):
    def raises(setting):
        yield setting.least("before", 2.0, 1.0)
        raise RuntimeError("CUDA error [700]")

    def hangs(setting):
        yield setting.most("before", float("nan"), 1.0)
        time.sleep(30)

    parts = [Part("raises", 5, raises), Part("hangs", 0.1, hangs), Part("last", 5, lambda s: iter([s.fact("x", 1.0)]))]
    rows = run_parts(parts, DRY, time.monotonic() + 20)
    found = [(row.part, row.name, row.ok) for row in rows if row.name != "seconds"]
    end = "ran to its end"
    assert found[:2] == [("raises", "before", True), ("raises", end, False)]
    assert found[2:] == [("hangs", "before", False), ("hangs", end, False), ("last", "x", None)]
    assert "RuntimeError: CUDA error [700]" in str(rows[1].value) and "0 s" in str(failed(rows)[-1].value)
    assert table(rows, "").row_count == len(rows) and '"nan"' in json.dumps(as_json(rows), allow_nan=False)
    late = run_parts(parts[2:], DRY, time.monotonic() - 1)
    assert "no time was left" in str(late[0].value)
    monkeypatch.setattr(gpu_check, "PARTS", tuple(parts))
    monkeypatch.setenv("OUT", str(tmp_path))
    assert gpu_check.main(["--dry", "--only", "raises"]) == 1
    assert len(json.loads((tmp_path / "gpu_check.json").read_text())["rows"]) == 3
    with pytest.raises(OutOfTime), limit(0.05):
        time.sleep(5)


def test_without_a_gpu_it_says_so(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu_check.main([]) == 2 and "--dry" in capsys.readouterr().err


def test_wrong_attention_fails(monkeypatch):
    """Negative control: keys of the packed path 2 % too large, as a wrong kernel might have them."""
    monkeypatch.setattr(packed, "blocks", lambda q, k, *rest: blocks(q, k * 1.02, *rest))
    assert {row.name for row in failed(list(numbers.gradients(DRY)))} >= {"fp32 packed - padded, of the norm"}


def test_an_adapter_that_sampling_leaves_out_or_merges_into_the_base_fails(monkeypatch):
    monkeypatch.setattr(Decoder, "merged", lambda self: [_bare(layer) for layer in self.layers()])
    assert [row.name for row in failed(list(numbers.merged(DRY)))] == ["what the adapter adds: |Δ log-prob|"]
    assert "adapter merged - beside: |Δ log-prob|" in {row.name for row in failed(list(numbers.engines(DRY)))}

    def into_the_base(self):
        self.layers()[0].down.weight.add_(0.01)
        return self.layers()

    monkeypatch.setattr(Decoder, "merged", into_the_base)
    assert "tensors that sampling changed" in {row.name for row in failed(list(numbers.merged(DRY)))}


def _bare(layer):
    bare = {name: [p._replace(A=None, B=None) for p in getattr(layer, name)] for name in ("qkv", "gate_up")}
    bare |= {name: getattr(layer, name)._replace(A=None, B=None) for name in ("output", "down")}
    return layer._replace(**bare)


def test_a_run_that_does_not_learn_fails():
    level = [{"reward/mean": 0.4 + 0.05 * (step % 2)} for step in range(jobs.STEPS)]
    assert [row.name for row in failed(list(jobs.judged(level, DRY)))] == [
        "rise of the mean reward to the last 4 steps"
    ]


@pytest.mark.parametrize(
    "output, counts",
    [
        ("tests/x.py ..\n2 failed, 3 passed, 1 skipped in 4.50s", {"failed": 2, "passed": 3, "skipped": 1}),
        ("6 tests collected in 2.1s", {"collected": 6}),
        ("1 error in 0.5s", {"error": 1}),
        ("", {}),
    ],
)
def test_pytests_counts_are_read(output, counts):
    assert jobs.counted(output) == counts


@pytest.mark.parametrize(
    "name, parameters",  # of the published weights
    [("qwen2_5_0_5b", 494_032_768), ("qwen2_5_1_5b", 1_543_714_304), ("qwen2_5_7b", 7_615_616_512)],
)
def test_the_models_have_their_real_sizes(name, parameters):
    assert memory.read(memory.CONFIGS / f"{name}.json").parameters == parameters


def test_the_memory_of_7b_by_hand():
    """8 answers of 1024 tokens after 128: each part from Qwen2.5-7B's numbers, written out."""
    model, step = memory.read(SEVEN), memory.Step(8, 128, 1024, 16)
    tokens = 128 + 8 * 1023
    lora = 28 * 16 * ((3584 + 3584) + 2 * (3584 + 512) + (3584 + 3584) + 3 * (3584 + 18944))
    linear = 28 * (2 * 3584 * 3584 + 2 * 3584 * 512 + 3 * 3584 * 18944)
    work = memory.work(model, step)
    assert sum(needs.lasting(work).values()) == 2 * 7_615_616_512 + 12 * lora
    sampling = needs.sampling(work)
    assert sampling["merged copy of the linear layers"] == 2 * linear
    assert sampling["keys and values"] == 28 * 2 * 4 * 128 * 2 * (8 * (1023 + 128) + 128)
    kept = 28 * 2 * (4 * 3584 + 2 * 3584 + 2 * 512 + 2 * 18944) + 4 * 3584
    assert needs.updating(work)["kept for the backward pass"] == tokens * kept
    assert all(size < 79e9 for size in memory.total(model, step).values())


def test_1_5b_fits_into_24_gb_and_more_tokens_do_not():
    model = memory.read(memory.CONFIGS / "qwen2_5_1_5b.json")
    assert max(memory.total(model, memory.Step(8, 128, 1024, 16)).values()) < 23e9
    assert max(memory.total(model, memory.Step(16, 128, 1024, 16)).values()) > 24e9  # negative control


def test_the_page_has_what_the_script_prints():
    models = [memory.read(memory.CONFIGS / f"{name}.json") for name in ("qwen2_5_1_5b", "qwen2_5_7b")]
    page = (ROOT / "docs" / "memory.md").read_text()
    assert "\n".join(memory.lines(models, memory.Step(8, 128, 1024, 16))) in page


@pytest.mark.parametrize("kind", ["blocks", "fused"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_what_the_update_keeps_is_what_the_arithmetic_says(kind, checkpointing, monkeypatch):
    """Bytes of the tensors that autograd holds after the forward pass, the model's own aside, counted once each."""
    monkeypatch.setattr(packed, "blocks", {"blocks": blocks, "fused": fused}[kind])
    sizes = {"hidden_size": 256, "intermediate_size": 640, "num_attention_heads": 8, "num_hidden_layers": 3}
    monkeypatch.setattr(making, "TINY", making.TINY | sizes)
    policy = making.model("qwen2_5_7b", DRY, torch.float32)
    if checkpointing:
        base = policy.get_base_model()
        (getattr(base, "activation_checkpointing_enable", None) or base.gradient_checkpointing_enable)()
        base.train()
    step = memory.Step(4, 32, 64, making.RANK)
    batch: Batch = making.batch(300, 1, step.rows, step.prompt, step.tokens)
    kept: dict[int, int] = {}
    own = {value.untyped_storage().data_ptr() for value in policy.state_dict().values()}

    def note(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)
        return tensor

    alive: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        made = packed.pack(batch, torch.arange(step.rows), DRY.device)
        packed.packed_logprobs(Decoder(policy), made, 1.0, False)
    found = sum(kept.values())
    said = budget.bytes_a_token(policy.config, 4, True, checkpointing) * step.packed
    if kind == "fused":
        work = memory.work(memory.Model("", sizes_of(policy.config.to_dict())), step, item=4)
        said += needs.fused_attention(work) * (1 if checkpointing else 3)
    if checkpointing:  # what a layer keeps inside is there in the backward pass alone, one layer at a time
        inside = budget.bytes_a_token(policy.config, 4, True, False) - 4 * policy.config.hidden_size
        said -= inside * step.packed // 3 + (needs.fused_attention(work) if kind == "fused" else 0)
    # besides: the adapter's inner products, the norms' scales, cos and sin, the last norm
    assert said < found < said * (1.3 if checkpointing else 1.06)
