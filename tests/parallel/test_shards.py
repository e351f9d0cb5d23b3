"""A base that is shared out: passes made in step by processes that have other numbers of them, and the same policy."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
import torch

from grpo_runner import compose
from grpo_runner.errors import InputError, MachineError
from grpo_runner.policy.shards import Shards
from tests.parallel.runs import BOUND, alike, alone, answers, distance, rows
from tests.threads import Meeting, together

# --- who gathers what, in which order: processes are threads here, and a gather is a place where all must be


class Layer:
    """Stands for a layer that FSDP keeps: a gather takes all threads, for the same layer."""

    def __init__(self, number: int, rank: int, meeting: Meeting, log: list, trained: bool) -> None:
        self.number, self.rank, self.meeting, self.log, self.trained = number, rank, meeting, log, trained
        self.whole = False

    def parameters(self):
        return [SimpleNamespace(requires_grad=self.trained)]

    def unshard(self, async_op: bool = False) -> None:
        if not self.whole:
            asked = self.meeting(self.rank, ("gather", self.number))
            assert len(set(asked)) == 1, asked
            self.log.append(self.number)
            self.whole = True

    def reshard(self) -> None:
        self.whole = False


def passes(counts: list[int], untrained: int, follow: bool = True) -> tuple[list[list[int]], list[BaseException]]:
    """Each thread makes so many passes with their backward passes, over four layers; gives what each gathered."""
    logs: list[list[int]] = [[] for _ in counts]

    def work(rank: int, meeting: Meeting) -> None:
        ranks = SimpleNamespace(rank=rank, world=len(counts), unheard=False)
        ranks.gather = lambda values, where: [value for given in meeting(rank, values) for value in given]
        layers = [Layer(number, rank, meeting, logs[rank], number >= untrained) for number in range(4)]
        shards = Shards(layers, ranks)

        def backward() -> None:
            for number in reversed(range(untrained, 4)):
                shards.open(number, number - 1)
                assert layers[number].whole
                if number > untrained:  # autograd asks for nothing below
                    shards.close(number)

        for _ in range(counts[rank]):
            for layer in shards.forward(lambda layer: layer):
                assert layer.whole
            shards.backward(SimpleNamespace(backward=backward))
            assert not any(layer.whole for layer in layers) and not ranks.unheard
        if follow:
            shards.follow()
        elif counts[rank] < max(counts):
            raise SystemExit  # gone

    return logs, together(len(counts), work)


@pytest.mark.parametrize("untrained", [0, 2])
@pytest.mark.parametrize("counts", [[3, 1, 0], [0, 2], [1, 1, 1, 1], [0, 0]])
def test_every_process_takes_part_in_every_gather(counts, untrained):
    logs, errors = passes(counts, untrained)
    assert not errors
    once = [0, 1, 2, 3, *reversed(range(untrained, 4))]
    # one after the other, as many passes as the process with the most has
    assert logs == [once * max(counts)] * len(counts)


def test_without_following_the_others_wait_for_one_that_is_gone():
    """Negative control: what would be a hang is seen above."""
    _, errors = passes([3, 1], 0, follow=False)
    assert any(isinstance(error, (threading.BrokenBarrierError, MachineError)) for error in errors)


# --- what is refused


@pytest.mark.parametrize(
    "word",
    ["lora=off", "model.quantize=nf4", "optim.packing=false", "rollout=transformers", "tracking.probe_every=2"],
)
def test_what_needs_the_whole_base_is_refused(word):
    compose([word])  # by itself it works
    with pytest.raises(InputError, match=r"^shard_base=all does not work with .*\. Allowed: .*; or shard_base=none\.$"):
        compose(["shard_base=all", word])


# --- several processes compute what one does; the short form is in test_processes.py

SHORT = ["steps=3", "evaluation.every=0"]
VARIANTS = {
    "copy": ["shard_base=all"],
    "layers": ["shard_base=all", "rollout.merge_lora=false"],
    "split": [
        *SHORT, "shard_base=machine", "optim.updates_per_rollout=2", "optim.minibatch=response", "entropy_bonus=0.01",
        "beta=no_kl", "rollout.dynamic_sampling=2", "rollout.importance=token", "optim.microbatch_tokens=64",
    ],
    "penalty": [
        *SHORT, "shard_base=all", "beta=in_reward", "beta.refresh_every=2", "optim.updates_per_rollout=2",
        "optim.minibatch=group", "questions_per_step=2",
    ],
    "critic": [*SHORT, "shard_base=all", "method=ppo", "critic=shared_base"],
    "last_layer": [
        *SHORT, "shard_base=all", "model.gradient_checkpointing=true", "rollout.merge_lora=false",
        "lora.targets=[layers.2.mlp.down_proj,layers.1.self_attn.q_proj]",
    ],
    "base": [*SHORT, "shard_base=all", "method=rft", "data.train_size=32", "data.small_set=wrap"],
    "idle": [*SHORT, "shard_base=all", "questions_per_step=1", "rollout.merge_lora=false", "evaluation.every=3", "evaluation.questions=1"],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("variant", VARIANTS)
def test_processes_that_share_out_the_base_compute_what_one_does(variant, world, start, tmp_path):
    codes, said = start(tmp_path / "several", world, *VARIANTS[variant], first=HELD)
    assert codes == [0] * world, said
    alone(tmp_path / "one", *[word for word in VARIANTS[variant] if not word.startswith("shard_base")])
    assert distance(tmp_path / "one", tmp_path / "several") <= BOUND
    assert answers(tmp_path / "one") == answers(tmp_path / "several")
    alike(tmp_path / "one", tmp_path / "several")
    numbers = [line.split()[1:] for text in said for line in text.splitlines() if line.startswith("held ")]
    assert len(numbers) == world
    matrices = 3 * 4 * (4 * 64 * 64 + 3 * 64 * 192)  # bytes: layers, float32, attention and MLP
    for before, after in numbers:
        assert int(before) - int(after) == matrices - matrices // world


# how many bytes of parameters a process holds: of all of them, and with its slices, after the run as before it
HELD = """
import grpo_runner.train.loading as loading, atexit
from grpo_runner.policy.shards import held_bytes
right = loading.split
def split(causal, *rest):
    whole = held_bytes(causal)
    right(causal, *rest)
    atexit.register(lambda: print("held", whole, held_bytes(causal)))
loading.split = split
"""


@pytest.mark.slow
def test_two_machines_of_two_processes_have_a_copy_each(start, tmp_path):
    """machine: each matrix in halves, twice, though there are four processes; the numbers are those of one."""
    words = [*SHORT, "shard_base=machine"]
    first = "import os\nos.environ['LOCAL_WORLD_SIZE'] = '2'\n" + HELD
    codes, said = start(tmp_path / "four", 4, *words, first=first)
    assert codes == [0] * 4, said
    before, after = (int(word) for word in said[0].split("held ")[1].split()[:2])
    matrices = 3 * 4 * (4 * 64 * 64 + 3 * 64 * 192)
    assert before - after == matrices // 2
    alone(tmp_path / "one", *SHORT)
    assert distance(tmp_path / "one", tmp_path / "four") <= BOUND
    first = "import os\nos.environ['LOCAL_WORLD_SIZE'] = '2'\n"
    codes, said = start(tmp_path / "three", 3, *words, first=first)
    assert codes == [2] * 3 and "3 processes are not 2 on each machine" in said[0] and said[1] == ""


WRONG = {  # what a process could get wrong, and what is seen of it
    "slices of another base": """
import grpo_runner.train.loading as loading, os
right = loading.split
def split(causal, *rest):
    if os.environ["RANK"] == "1":
        for name, parameter in causal.named_parameters():
            parameter.data = parameter.data * (1.01 if "layers" in name and "lora" not in name else 1)
    right(causal, *rest)
loading.split = split
""",
    "a gradient of what is gathered in the other's pass": """
import os
from grpo_runner.policy.shards import Shards, Whole
right = Shards.backward
def backward(self, loss):
    right(self, loss * (2 if os.environ["RANK"] == "1" else 1))
Shards.backward = backward
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_with_slices_would_be_seen(wrong, start, tmp_path):
    """Negative controls."""
    codes, said = start(tmp_path / "two", 2, *SHORT, "shard_base=all", first=WRONG[wrong])
    assert codes == [0, 0], said
    assert distance(alone(tmp_path / "one", *SHORT), tmp_path / "two") > 20 * BOUND


@pytest.mark.slow
def test_layers_that_are_never_let_go_would_be_seen(start, tmp_path):
    """Negative control of the bytes that are held."""
    first = HELD + "from grpo_runner.policy.shards import Shards\nShards.close = lambda self, number: None\n"
    codes, said = start(tmp_path / "two", 2, *SHORT, "shard_base=all", first=first)
    assert codes == [0, 0], said
    before, after = (int(word) for word in said[1].split("held ")[1].split()[:2])
    assert before == after


# --- how it ends

BROKEN = """
import os, signal, torch
import grpo_runner.policy.{module} as module
right = module.{name}
calls = 0
def broken(*given, **named):
    global calls
    calls += 1
    if calls == {call} and os.environ["RANK"] == "1":
        {what}
    return right(*given, **named)
module.{name} = broken
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "where, what, codes, words",
    [
        # between the forward and the backward pass of a micro-batch: heard at the next meeting, by the others' word
        ("update.loss_of", "from grpo_runner.errors import NonFiniteError; raise NonFiniteError('not finite here')", [4, 4], "not finite here"),
        ("update.loss_of", "raise torch.OutOfMemoryError('no')", [2, 2], "shard_base on"),
        # within a pass: the other hears of nothing, and finds it gone
        ("packed._layer", "raise torch.OutOfMemoryError('no')", [2, 2], "another process of this run ended"),
        ("packed._layer", "os.kill(os.getpid(), signal.SIGKILL)", [2, -9], "another process of this run ended"),
    ],
)  # fmt: skip
def test_what_ends_one_within_or_between_passes_ends_both(where, what, codes, words, start, tmp_path):
    module, name = where.split(".")
    first = BROKEN.format(module=module, name=name, call=2 if module == "update" else 8, what=what)
    words_ = ["steps=2", "evaluation.every=0", "shard_base=all", "optim.microbatch_tokens=64"]
    found, said = start(tmp_path / "run", 2, *words_, first=first)
    assert found == codes, said
    assert words in said[0] and "Traceback" not in said[0], said
    if where == "packed._layer" and codes == [2, 2]:
        assert "shard_base on" in said[1] and "Traceback" not in said[1]


@pytest.mark.slow
def test_a_model_that_the_passes_do_not_know_is_refused(start, tmp_path):
    from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    GPT2LMHeadModel(GPT2Config(vocab_size=32, n_embd=16, n_layer=1, n_head=2, n_positions=64)).save_pretrained(
        tmp_path / "gpt"
    )
    from grpo_runner.policy.models import EMBEDDED

    AutoTokenizer.from_pretrained(EMBEDDED).save_pretrained(tmp_path / "gpt")
    words = ["shard_base=all", f"model.path={tmp_path / 'gpt'}", "lora.targets=[c_attn]"]
    codes, said = start(tmp_path / "run", 2, *words)
    assert codes == [2, 2] and "shard_base=all does not know this model (its type is gpt2)" in said[0], said
    assert said[1] == "" and not rows_of(tmp_path / "run")


def rows_of(folder) -> list:
    return rows(folder, "metrics.jsonl") if (folder / "metrics.jsonl").exists() else []
