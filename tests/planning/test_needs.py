"""Memory by part: each part written out by hand from a model's numbers, and what is said of devices."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import save_file

from grpo_runner.config import compose
from grpo_runner.planning import devices, models, needs
from grpo_runner.planning.devices import GB, Place

OAT = compose(["experiment=dr_grpo_oat_zero_7b"])
SEVEN = models.find("Qwen/Qwen2.5-Math-7B").sizes
P = 7_615_616_512
LINEAR = 28 * (2 * 3584 * 3584 + 2 * 3584 * 512 + 3 * 3584 * 18944)
EIGHTY = Place("GPU, 80 GB", "cuda", 80 * GB)
ADAPTER = ["model=qwen2_5_math_7b", "data=gsm8k", "prompt=qwen_math", "beta=no_kl", "max_new_tokens=1024",
           "evaluation=never"]  # fmt: skip


def found(*words, place=EIGHTY, prompt=128, world=1):
    config = compose([*ADAPTER, *words])
    return devices.needs(config, models.find(config.model.path).sizes, place, prompt, world)


def test_a_reward_model_by_hand(tmp_path):
    """Two bytes a number beside a policy in bfloat16; gradient and moments where it is trained on, all in float32."""
    save_file({"a": np.zeros((3, 5), np.float32), "b": np.zeros(7, np.float32)}, tmp_path / "model.safetensors")
    words = ("reward=model", f"reward.model={tmp_path}")
    assert found(*words).lasting == {**found().lasting, "reward model": 2 * 22}
    assert found(*words, "reward.refresh_every=2").lasting["reward model"] == 16 * 22
    assert "reward model" not in found("reward=model", "reward.model=some/hub").lasting


def test_full_fine_tuning_of_7b_by_hand():
    """float32 weights, two moments and a gradient; the weights once more in bfloat16 while they are computed with."""
    made = devices.needs(OAT, SEVEN, EIGHTY, 1024)
    assert made.lasting == {"weights": 4 * P, "AdamW's two moments": 8 * P}
    assert made.updating["gradient"] == 4 * P and made.updating["weights cast to bfloat16"] == 2 * P
    # the greedy evaluation takes more than training: 256 answers at once to 256 questions, in float32; the prompts of
    # 1,024 tokens stand in the cache and as they were computed
    assert made.sampling["keys and values"] == 28 * 2 * 4 * 128 * 4 * (256 * 2999 + 2 * 256 * 1024)
    trained = devices.needs(compose(["experiment=dr_grpo_oat_zero_7b", "evaluation=never"]), SEVEN, EIGHTY, 1024)
    assert trained.sampling["keys and values"] == 28 * 2 * 4 * 128 * 4 * (256 * 2999 + 2 * 32 * 1024)
    assert "merged copy of the linear layers" not in made.sampling
    assert made.fits is False and made.micro == 1024 + 2999  # down to a single answer, and still too much
    with_kl = compose(["experiment=dr_grpo_oat_zero_7b", "beta=0.04"])
    assert devices.needs(with_kl, SEVEN, EIGHTY, 1024).lasting["reference policy"] == 4 * P


def test_an_adapter_on_7b_by_hand():
    lora = 28 * 16 * ((3584 + 3584) + 2 * (3584 + 512) + (3584 + 3584) + 3 * (3584 + 18944))
    made = found("rollout.batch_rows=16")
    assert made.lasting == {"weights": 2 * P, "LoRA adapter": 4 * lora, "AdamW's two moments": 8 * lora}
    assert made.sampling["merged copy of the linear layers"] == 2 * LINEAR
    assert made.sampling["keys and values"] == 28 * 2 * 4 * 128 * 2 * (16 * (1023 + 128) + 2 * 128)
    assert made.sampling["logits of a token of each row"] == 16 * 152_064 * (2 + 12)
    assert made.updating["gradient"] == 4 * lora
    assert made.most == max(made.peaks.values()) and made.fits is True
    rest = sum(made.lasting.values()) + sum(made.sampling.values())
    assert made.peaks["sampling"] == rest + needs.CUDA_ITSELF


def test_a_base_that_is_shared_out_by_hand():
    """Embedding, head, norms and biases in each process; of the linear layers a quarter, and two layers at a time."""
    whole, made = found(world=4), found("shard_base=machine", world=4)
    assert made.lasting["weights, 1/4 of the linear layers"] == 2 * (P - LINEAR) + 2 * LINEAR // 4
    for part in ("sampling", "updating"):
        assert getattr(made, part) == getattr(whole, part) | {"two layers, gathered": 2 * 2 * LINEAR // 28}
    assert "merged copy of the linear layers" in made.sampling
    beside = found("shard_base=machine", "rollout.merge_lora=false", world=4)
    assert "merged copy of the linear layers" not in beside.sampling
    # negative control: one process has all of it, by whatever name
    assert found("shard_base=machine").lasting == found().lasting


def test_sharing_out_is_what_a_run_of_several_processes_is_told():
    place, words = Place("GPU, 16 GB", "cuda", 16 * GB), ["rollout.batch_rows=8", "max_new_tokens=512"]
    config = compose([*ADAPTER, *words])
    told, fits = devices.to_fit(config, SEVEN, place, 128, 4)
    assert "shard_base=machine" in told and fits and "model.quantize=nf4" not in told
    assert "shard_base=machine" not in devices.to_fit(config, SEVEN, place, 128, 1)[0]


def test_a_critic_by_hand():
    """Its adapter with two moments; as a model of its own the base once more, and in full fine-tuning 12 bytes for 4."""
    lora = 28 * 16 * ((3584 + 3584) + 2 * (3584 + 512) + (3584 + 3584) + 3 * (3584 + 18944))
    without = found("method=grpo", "beta=no_kl").lasting
    assert not any("critic" in part for part in without)
    shared = found("method=ppo").lasting
    assert shared == {**without, "critic, with its two moments": 12 * lora}
    assert found("method=ppo", "critic=own_model").lasting == {**shared, "critic's own base": 2 * P}
    full = found("method=ppo", "critic=own_model", "lora=off", "optim=full_finetune", "beta=no_kl").lasting
    assert full == {"weights": 4 * P, "AdamW's two moments": 8 * P, "critic, with its two moments": 12 * P}


@pytest.mark.parametrize(
    "words, part, less",
    [
        (["rollout.merge_lora=false"], "merged copy of the linear layers", 2 * LINEAR),
        (["rollout.batch_rows=8"], "keys and values", 28 * 2 * 4 * 128 * 2 * (248 * (1023 + 128) + 31 * 128)),
    ],
)
def test_keys_that_save_memory_save_what_they_say(words, part, less):
    words = ["questions_per_step=32", *words]
    assert found(words[0]).sampling[part] - found(*words).sampling.get(part, 0) == less


def test_the_reference_of_an_adapter_costs_nothing_unless_it_moves():
    words = ["beta.value=0.04"]
    assert "reference policy" not in found(*words).lasting
    assert "reference policy" in found(*words, "beta.refresh_every=10").lasting


def test_four_bits_and_float32():
    four = found("model.quantize=nf4").lasting["weights, linear layers in 4 bits"]
    assert four == pytest.approx(LINEAR * 4.127 / 8 + (P - LINEAR) * 2, abs=1)
    assert found("dtype=float32").lasting["weights"] == 4 * P


def test_vllm_takes_its_share():
    words = ["rollout=vllm", "rollout.vllm_memory=0.4"]
    assert found(*words).sampling == {"vLLM's share": 32 * GB}


def test_processes_share_the_answers_and_hold_the_rest_whole():
    one, four = found("questions_per_step=16"), found("questions_per_step=16", world=4)
    assert one.lasting == four.lasting
    assert four.sampling["keys and values"] < one.sampling["keys and values"]
    assert four.updating["gradient"] == 2 * one.updating["gradient"]  # and the buffer that is summed


def test_the_micro_batch_is_that_of_the_run():
    """Set by hand, by auto, and halved where memory would not do."""
    assert found("optim.microbatch_tokens=5000", "questions_per_step=16").micro == 5000
    whole = 8 * (128 + 8 * 1023)
    assert found("model.gradient_checkpointing=true").micro == min(whole, 65_536)
    small = found("optim.microbatch_tokens=60000", place=Place("GPU", "cuda", 48 * GB))
    assert small.micro in (60_000 // 2**n for n in range(1, 6)) and small.fits


def test_what_to_change_makes_it_fit_and_nothing_of_it_is_for_nothing():
    """1.5B with an adapter in 6 GB, where the largest part is what its activations take."""
    words = ["model=qwen2_5_math_1_5b", "model.gradient_checkpointing=false", "optim.microbatch_tokens=9000"]
    place, size = Place("GPU, 6 GB", "cuda", 6 * GB), models.find("Qwen/Qwen2.5-Math-1.5B").sizes

    def fits(*changes):
        return devices.needs(compose([*ADAPTER, *words, *changes]), size, place, 128).fits

    found_, enough = devices.to_fit(compose([*ADAPTER, *words]), size, place, 128)
    assert found_[0] == "model.gradient_checkpointing=true" and enough
    assert fits(*found_) and not any(fits(*(one for one in found_ if one != left)) for left in found_)


def test_what_to_change_names_the_adapter_last_and_says_where_nothing_is_enough():
    assert devices.to_fit(OAT, SEVEN, EIGHTY, 1024) == (("rollout.batch_rows=8", "lora=default"), True)
    few, enough = devices.to_fit(OAT, SEVEN, Place("GPU, 4 GB", "cuda", 4 * GB), 1024)
    assert not enough and "lora=default" in few and "model.quantize=nf4" in few
    # a share of the device that vLLM takes whatever the run is
    whole = compose([*ADAPTER, "rollout=vllm", "rollout.vllm_memory=0.9"])
    assert not devices.to_fit(whole, SEVEN, Place("GPU, 16 GB", "cuda", 16 * GB), 128)[1]


def test_devices_by_the_key():
    assert [place.kind for place in devices.places("cpu", 10)] == ["cpu"]
    assert {place.kind for place in devices.places("cuda", 10)} == {"cuda"}
    both = devices.places("auto", 10)
    assert [place.size for place in both] == [10, 16 * GB, 24 * GB, 48 * GB, 80 * GB]
    unknown = devices.needs(compose([]), models.find("embedded").sizes, Place("CPU", "cpu", None), 14)
    assert unknown.fits is None


def test_auto_is_the_budget_that_the_run_takes(monkeypatch):
    """The same function, on the same numbers."""
    import torch

    from grpo_runner.policy import budget
    from grpo_runner.policy.models import attach_lora, load_model

    config = compose(["questions_per_step=400", "group_size=16"])
    model = attach_lora(load_model(config.model, torch.device("cpu"), torch.float32), config.lora, 0)
    size = models.find("embedded").sizes
    for memory in (2 * GB, 10**8 + needs.LIBRARIES):
        place = Place("CPU", "cpu", memory)
        work = devices._work(config, size, place, 14, 1)
        stays = needs.lasting(work)
        free = memory - needs.LIBRARIES - stays["weights"] - stays["LoRA adapter"]
        monkeypatch.setattr(budget, "free_memory", lambda device, free=free: free)
        assert devices._limit(config, work, place) == budget.automatic(model, torch.device("cpu"), True)
