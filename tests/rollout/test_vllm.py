"""The vLLM engine: what needs no vLLM with a stand-in for it, and with vLLM what it samples, beside the native engine."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from grpo_runner import checks, run
from grpo_runner.config import compose
from grpo_runner.errors import InputError, MachineError
from grpo_runner.policy.batch import Batch
from grpo_runner.policy.logprobs import completion_logprobs
from grpo_runner.policy.models import attach_lora, eos_ids, load_model, load_tokenizer, read_adapter, trainable
from grpo_runner.rollout import NativeEngine, Sampling, vllm_engine
from grpo_runner.rollout.vllm_engine import VllmEngine, close, llm_settings, request_seed, sampling_params
from grpo_runner.rollout.vllm_process import SERVER, VllmProcess, environment
from grpo_runner.rollout.vllm_shared import SharedVllm, sharing
from grpo_runner.types import Finish, Question
from tests.helpers import changed
from tests.rollout.test_engines import Letters
from tests.threads import Meeting, together

CPU = torch.device("cpu")
SAMPLING = Sampling(temperature=1.0, top_p=1.0, top_k=0, max_new_tokens=12, stop=(), seed=0, purpose="rollout", step=3)
GREEDY = dataclasses.replace(SAMPLING, temperature=0.0)
CONFIG = compose(["rollout=vllm", "device=cpu", "dtype=float32", "rollout.vllm_memory=0.15", "prompt.stop=[]"])
PROMPTS = [(1, 5, 14, 6, 16), (1,), (1, 9, 15, 4), (1, 3, 4, 14, 6, 7, 13, 8, 9, 16)]  # ragged, and one token alone
LONG = (1, *([3, 14, 6, 7, 13, 8, 9, 16] * 17))  # longer than a block of vLLM's cache of prompts, 128 on a CPU


def policy(rank: int = 8):
    """The embedded model with an adapter of the configuration."""
    model = load_model(CONFIG.model, CPU, torch.float32)
    return attach_lora(model, dataclasses.replace(CONFIG.lora, rank=rank), 0).eval()


@torch.no_grad()
def set_adapter(model, seed: int, size: float = 0.3) -> None:
    """Random tensors, so large that another adapter writes other answers."""
    draw = torch.Generator().manual_seed(seed)
    for parameter in trainable(model).values():
        parameter.copy_(torch.randn(parameter.shape, generator=draw) * size)


def ask(engine, sampling=SAMPLING, group_size=2, prompts=PROMPTS):
    return engine.sample([Question(str(i), "", "") for i in range(len(prompts))], prompts, group_size, sampling)


def tokens(groups) -> list[tuple[int, ...]]:
    return [answer.token_ids for group in groups for answer in group.completions]


def ends(groups) -> list[tuple]:
    return [(answer.token_ids, answer.text, answer.finish) for group in groups for answer in group.completions]


class Recording:
    """A backend that keeps the orders and the adapter files as they were when it was called."""

    def __init__(self, ids=(5, 6, 2), version=None):
        self.orders, self.files, self.settings, self.ids, self.version = [], [], [], list(ids), version

    def generate(self, order):
        folder = Path(order["adapter"])
        self.orders.append(order)
        self.files.append(load_file(folder / "adapter_model.safetensors"))
        self.settings.append(json.loads((folder / "adapter_config.json").read_text()))
        row = {"ids": self.ids, "logprobs": [-0.5] * len(self.ids), "reason": "stop"}
        version = self.version or order["version"]
        return [row | {"version": version} for _, seeds in order["requests"] for _ in seeds]

    def close(self):
        pass


def test_each_call_hands_over_the_present_tensors_under_a_new_version():
    model, backend = policy(), Recording()
    engine = VllmEngine(model, Letters(), frozenset({2}), backend)
    for seed in range(3):
        set_adapter(model, seed)
        groups = ask(engine)
        assert [len(group.completions) for group in groups] == [2] * 4 and groups[1].prompt_ids == (1,)
        named = {name.replace(".default.", "."): value for name, value in trainable(model).items()}
        assert backend.files[-1].keys() == named.keys() and len(named) == 2 * 7 * 3  # A and B, 7 matrices, 3 layers
        assert all(torch.equal(backend.files[-1][name], value) for name, value in named.items())
    assert [order["version"] for order in backend.orders] == [1, 2, 3]
    folders = [order["adapter"] for order in backend.orders]
    assert len(set(folders)) == 3 and not any(map(os.path.exists, folders))  # nothing old is left
    # all-linear is written out as the matrices that it stands for
    wanted = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    for settings in backend.settings:
        assert set(settings["target_modules"]) == wanted
        assert (settings["r"], settings["lora_alpha"]) == (8, CONFIG.lora.alpha)


def test_what_is_handed_over_is_an_adapter_that_peft_reads(tmp_path):
    first, second = policy(), policy()
    set_adapter(first, 5)
    vllm_engine.write_adapter(first, tmp_path)
    settings = dataclasses.replace(CONFIG.lora, rank=8)
    found = read_adapter(tmp_path, second, settings, "lora.adapter")
    assert all(torch.equal(found[name], value) for name, value in trainable(first).items())


def test_the_folder_goes_also_where_vllm_fails(monkeypatch):
    made = []

    class Failing(Recording):
        def generate(self, order):
            made.append(order["adapter"])
            raise MachineError("out of memory")

    with pytest.raises(MachineError):
        ask(VllmEngine(policy(), Letters(), frozenset({2}), Failing()))
    assert made and not os.path.exists(made[0])


def test_answers_of_another_adapter_are_refused():
    engine = VllmEngine(policy(), Letters(), frozenset({2}), Recording(version=7))
    with pytest.raises(RuntimeError, match=r"adapters \[7\] instead of 1"):
        ask(engine)


def test_seeds_are_a_function_of_what_the_answer_is_for():
    backend = Recording()
    engine = VllmEngine(policy(), Letters(), frozenset({2}), backend)
    for sampling in (
        SAMPLING,
        SAMPLING,
        *(dataclasses.replace(SAMPLING, **other) for other in ({"step": 4}, {"seed": 1}, {"purpose": "evaluation"})),
    ):
        ask(engine, sampling)
    first, again, *others = [[seeds for _, seeds in order["requests"]] for order in backend.orders]
    assert first == again and all(other != first for other in others)
    flat = [seed for seeds in first for seed in seeds]
    assert len(set(flat)) == 8 and all(0 <= seed < 2**63 for seed in flat)
    assert first[2][1] == request_seed(SAMPLING, 2, 1)
    assert [tuple(ids) for ids, _ in backend.orders[0]["requests"]] == PROMPTS  # a prompt once, with G seeds


def test_an_answer_ends_by_the_rules_of_all_engines():
    def closed(ids, reason="stop", **parts):
        row = {"ids": ids, "logprobs": [-0.25] * len(ids), "reason": reason}
        return close(Letters(), row, frozenset({2, 9}), dataclasses.replace(SAMPLING, max_new_tokens=4, **parts))

    assert closed([5, 6, 2]).finish is Finish.EOS and closed([5, 6, 2]).text == "fg"
    assert closed([5, 9]).finish is Finish.EOS  # any of the EOS ids
    assert closed([2]).text == "" and closed([2]).token_ids == (2,)
    assert closed([5, 6, 7, 8], "length").finish is Finish.LENGTH
    stopped = closed([5, 6, 7], stop=("gh",))
    assert (stopped.finish, stopped.text, stopped.token_ids) == (Finish.STOP, "fgh", (5, 6, 7))
    assert closed([5, 6, 7], stop=("zz",)).finish is Finish.STOP  # found by vLLM in a text that it decodes otherwise
    assert stopped.entropy is None and stopped.logprobs == (-0.25,) * 3
    for reason, stop in (("abort", ("zz",)), ("length", ()), ("stop", ())):
        with pytest.raises(RuntimeError, match="broke an answer off after 2 tokens"):
            closed([5, 6], reason, stop=stop)


def test_our_eos_ids_alone_end_an_answer():
    given = sampling_params(dataclasses.replace(SAMPLING, stop=("x",)), frozenset({7, 2}))
    assert given["ignore_eos"] and given["stop_token_ids"] == [2, 7] and given["include_stop_str_in_output"]
    assert given["stop"] == ["x"] and given["detokenize"] and given["max_tokens"] == 12
    assert not sampling_params(SAMPLING, frozenset({2}))["detokenize"]


def test_settings_of_vllm_follow_the_configuration():
    made = llm_settings(CONFIG, True, 77)
    assert made["dtype"] == "float32" and made["max_model_len"] == 77 and made["gpu_memory_utilization"] == 0.15
    assert made["max_num_seqs"] == CONFIG.rollout.batch_rows and made["logprobs_mode"] == "raw_logprobs"
    assert llm_settings(changed(CONFIG, temperature=0.7), True, 77)["logprobs_mode"] == "processed_logprobs"
    for rank, reserved in ((1, 1), (2, 8), (16, 16), (17, 32), (512, 512)):
        assert llm_settings(changed(CONFIG, lora__rank=rank), True, 77)["max_lora_rank"] == reserved
    with pytest.raises(InputError, match="lora.rank=513"):
        llm_settings(changed(CONFIG, lora__rank=513), True, 77)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rollout=vllm", "lora=off", "optim.lr=1e-6"], "rollout=vllm with lora=off"),
        (["rollout=vllm", "rollout.top_p=0.9", "temperature=0.7"], "over the cut vocabulary"),
        (["rollout=vllm", "device=mps"], "no such device"),
        (["rollout.vllm_python=python3"], "rollout.vllm_python=python3 changes nothing with rollout=native"),
        (["rollout=transformers", "rollout.vllm_memory=0.3"], "changes nothing with rollout=transformers"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_loaded(words, said):
    with pytest.raises(InputError, match=said):
        checks.check(compose(words))
    checks.check(compose(["rollout=vllm", "rollout.top_p=0.9", "rollout.vllm_python=python3"]))


def test_a_vllm_process_sees_its_own_modules_and_one_gpu():
    ours = {
        "PYTHONPATH": "x",
        "RANK": "1",
        "WORLD_SIZE": "2",
        "PATH": "p",
        "VLLM_LOGGING_LEVEL": "INFO",
        "CUDA_VISIBLE_DEVICES": "4, 6",
    }
    made = environment(ours, torch.device("cuda", 1))
    assert not {"PYTHONPATH", "RANK", "WORLD_SIZE"} & made.keys()
    assert made["CUDA_VISIBLE_DEVICES"] == "6" and made["VLLM_LOGGING_LEVEL"] == "INFO" and made["PATH"] == "p"
    assert environment({}, torch.device("cuda", 1))["CUDA_VISIBLE_DEVICES"] == "1"
    assert "CUDA_VISIBLE_DEVICES" not in environment({}, CPU)


def test_a_vllm_that_splits_the_model_sees_as_many_gpus():
    """The trainer's and those after it; of a list that is too short, how many there are."""
    assert environment({}, torch.device("cuda", 0), 4)["CUDA_VISIBLE_DEVICES"] == "0,1,2,3"
    assert environment({"CUDA_VISIBLE_DEVICES": "4, 6,7"}, torch.device("cuda", 1), 2)["CUDA_VISIBLE_DEVICES"] == "6,7"
    with pytest.raises(InputError, match="vllm_tensor_parallel=4.*has fewer GPUs"):
        environment({"CUDA_VISIBLE_DEVICES": "0,1"}, torch.device("cuda", 0), 4)
    words = ["rollout=vllm", "rollout.vllm_tensor_parallel=2"]
    with pytest.raises(InputError, match="needs vLLM in a process of its own"):
        compose(words)
    config = compose([*words, "rollout.vllm_python=python3"])
    assert llm_settings(config, False, 77)["tensor_parallel_size"] == 2
    assert llm_settings(CONFIG, False, 77)["tensor_parallel_size"] == 1


def met(rank: int, meeting: Meeting) -> SimpleNamespace:
    """Stands for Ranks in a thread."""
    return SimpleNamespace(
        rank=rank,
        world=meeting.barrier.parties,
        gather=lambda values, where: [value for given in meeting(rank, values) for value in given],
    )


class Seeds:
    """A backend whose answers are the seeds, which tell whose they are."""

    def __init__(self) -> None:
        self.asked, self.closed = 0, False

    def generate(self, order):
        self.asked += 1
        return [{"ids": [seed], "version": order["version"]} for _, seeds in order["requests"] for seed in seeds]

    def close(self):
        self.closed = True


@pytest.mark.parametrize("counts, gpus", [([2, 3, 0, 1], 4), ([2, 3, 0, 1], 2), ([0, 2], 8), ([0, 0], 2)])
def test_a_shared_vllm_answers_each_process_what_it_asked(counts, gpus):
    """One for as many processes as it has GPUs; it is not asked where none of them asks."""
    asked = [
        [[[1, 2], [100 * rank + 10 * n, 100 * rank + 10 * n + 1]] for n in range(count)]
        for rank, count in enumerate(counts)
    ]
    backends, found = {}, {}

    def work(rank: int, meeting: Meeting) -> None:
        ranks = met(rank, meeting)
        those = sharing(ranks, gpus)
        if rank == those.start:
            backends[rank] = Seeds()
        shared = SharedVllm(backends.get(rank), ranks, those)
        rows = shared.generate({"adapter": "a", "version": 3, "sampling": {}, "requests": asked[rank]})
        found[rank] = [row["ids"][0] for row in rows]
        shared.close()

    assert not together(len(counts), work)
    # its own seeds in order: what another process asked is not among them
    wanted = {
        rank: [100 * rank + 10 * n + i for n in range(count) for i in (0, 1)] for rank, count in enumerate(counts)
    }
    assert found == wanted
    size = min(gpus, len(counts))
    assert sorted(backends) == list(range(0, len(counts), size))
    for first, backend in backends.items():
        assert backend.asked == (sum(counts[first : first + size]) > 0) and backend.closed


def test_answers_that_were_not_cut_by_process_would_be_seen(monkeypatch):
    """Negative control of the test above: each process takes the first rows."""
    right = SharedVllm.generate

    def wrong(self, order):
        rank, self.ranks.rank = self.ranks.rank, self.sharing.start
        try:
            return right(self, order)
        finally:
            self.ranks.rank = rank

    monkeypatch.setattr(SharedVllm, "generate", wrong)
    with pytest.raises(AssertionError):
        test_a_shared_vllm_answers_each_process_what_it_asked([2, 2], 2)


def test_a_process_without_questions_asks_a_shared_vllm_and_no_other():
    """All processes must come to its meetings; a vLLM of one's own has nothing to do."""
    calls = []
    ranks = SimpleNamespace(rank=0, world=1, gather=lambda values, where: calls.append(where) or values)
    model, backend = policy(), Recording()
    engine = VllmEngine(model, Letters(), frozenset({2}), SharedVllm(backend, ranks, range(1)))
    assert ask(engine, prompts=[]) == [] and calls == ["vllm", "vllm's answers"] and not backend.orders
    assert ask(VllmEngine(model, Letters(), frozenset({2}), backend), prompts=[]) == [] and not backend.orders
    with pytest.raises(InputError, match="3 processes are no multiple"):
        sharing(SimpleNamespace(rank=0, world=3), 2)


def process(python, sleeps=False):
    return VllmProcess(str(python), {"model": "m"}, sleeps, CPU)


def test_without_vllm_two_lines_say_how_to_install_it(tmp_path):
    if find_spec("vllm"):
        pytest.skip("vLLM is installed in this environment")
    with pytest.raises(InputError) as other:
        process(sys.executable)
    with pytest.raises(InputError) as own, ExitStack() as closing:
        vllm_engine.start(CONFIG, policy(), Letters(), frozenset({2}), 64, closing)
    for error, said in ((other, f"{sys.executable} -m pip install vllm"), (own, "pip install vllm")):
        lines = str(error.value).splitlines()
        assert len(lines) == 2 and said in lines[1] and "scripts/setup_vllm.sh" in lines[1]
    with pytest.raises(InputError, match="cannot be started"):
        process(tmp_path / "no_python")
    script(tmp_path / "dies", "echo 'something is amiss' >&2; exit 3")
    with pytest.raises(InputError, match=r"ended \(code 3\)\.\nsomething is amiss"):
        process(tmp_path / "dies")


@pytest.mark.parametrize("name", ["INT", "USR1"])
def test_ctrl_c_and_sigusr1_do_not_reach_vllm_beside_us(name):
    interrupts_itself = ["sh", "-c", f"kill -{name} $$; echo alive"]
    with vllm_engine._uninterrupted():
        assert subprocess.run(interrupts_itself, capture_output=True, text=True).stdout == "alive\n"
    assert subprocess.run(interrupts_itself, capture_output=True, text=True).stdout == ""  # negative control


STAND_IN = """
import json, os, sys, types
__version__ = "0"
print("noise on stdout")
class SamplingParams:
    def __init__(self, **parts): self.__dict__ |= parts
class LLM:
    def __init__(self, **settings):
        self.llm_engine, self.loaded, self.asleep, self.log = self, [], False, []
        self.log.append(["start", settings["model"], settings["enable_sleep_mode"]])
    def sleep(self, level): self.log.append(["sleep", level])
    def wake_up(self): self.log.append(["wake"])
    def remove_lora(self, number): self.log.append(["remove", number]); self.loaded.remove(number)
    def add_lora(self, request):
        self.log.append(["add", request.lora_name, request.lora_int_id, request.lora_path])
        if request.lora_path == "bad": return False
        self.loaded.append(request.lora_int_id)
        return True
    def generate(self, prompts, params, lora_request, use_tqdm):
        assert self.loaded == [lora_request.lora_int_id]
        if prompts[0]["prompt_token_ids"] == [0]: os._exit(9)
        print("more noise")
        row = types.SimpleNamespace
        return [row(lora_request=lora_request, outputs=[row(finish_reason=json.dumps(self.log), token_ids=[p.seed],
                logprobs=[{p.seed: row(logprob=-1.5)}])]) for p in params]
"""
REQUEST = (
    "class LoRARequest:\n    def __init__(self, *given): self.lora_name, self.lora_int_id, self.lora_path = given\n"
)


def script(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def stand_in(tmp_path) -> Path:
    """A Python in which `vllm` is a few lines."""
    package = tmp_path / "modules" / "vllm"
    (package / "lora").mkdir(parents=True)
    (package / "__init__.py").write_text(STAND_IN)
    (package / "lora" / "__init__.py").touch()
    (package / "lora" / "request.py").write_text(REQUEST)
    return script(tmp_path / "python", f'PYTHONPATH={tmp_path / "modules"} exec {sys.executable} "$@"')


def order(version, adapter="a", requests=(([1], [7, 8]), ([1, 2], [9]))):
    return {"adapter": adapter, "version": version, "sampling": {"temperature": 1.0}, "requests": requests}


@pytest.mark.parametrize("sleeps", [False, True])
def test_the_process_holds_one_adapter_and_sleeps_between_orders(stand_in, sleeps):
    backend = process(stand_in, sleeps)
    try:
        rows = backend.generate(order(1))
        assert [row["ids"] for row in rows] == [[7], [8], [9]] and rows[0]["logprobs"] == [-1.5]
        assert {row["version"] for row in rows} == {1}
        with pytest.raises(MachineError, match="the adapter of version 2 was not taken"):
            backend.generate(order(2, "bad"))
    finally:
        backend.close()
    assert backend.process.returncode == 0
    log = json.loads(rows[0]["reason"])
    middle = [["add", "step-1", 1, "a"]]
    assert log == (
        [["start", "m", True], ["sleep", 1], ["wake"], *middle] if sleeps else [["start", "m", False], *middle]
    )


def test_the_adapter_of_before_is_taken_out_first(stand_in):
    backend = process(stand_in)
    try:
        backend.generate(order(1))
        log = json.loads(backend.generate(order(2, "b"))[0]["reason"])
        assert log[-2:] == [["remove", 1], ["add", "step-2", 2, "b"]]
        with pytest.raises(MachineError, match=r"ended \(code 9\)"):
            backend.generate(order(3, requests=[([0], [1])]))
    finally:
        backend.close()


# ---- with vLLM --------------------------------------------------------------------------------------------------------

PYTHON = Path(os.environ.get("GRPO_RUNNER_VLLM_PYTHON") or Path(__file__).parents[2] / "build/vllm-env/bin/python")
with_vllm = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PYTHON.exists(),
        reason=f"no vLLM at {PYTHON}: bash scripts/setup_vllm.sh, or name another Python in GRPO_RUNNER_VLLM_PYTHON",
    ),
]


def marked(test):
    for mark in with_vllm:
        test = mark(test)
    return test


@pytest.fixture(scope="module")
def served():
    """(the trained model, its VllmEngine): one vLLM for all tests."""
    model, tokenizer = policy(), load_tokenizer(CONFIG.model)
    config = changed(CONFIG, lora__rank=8, rollout__vllm_python=str(PYTHON))
    with ExitStack() as closing:
        yield model, vllm_engine.start(config, model, tokenizer, eos_ids(model, tokenizer), 160, closing)


def native(model):
    tokenizer = load_tokenizer(CONFIG.model)
    return NativeEngine(model, tokenizer, eos_ids(model, tokenizer), 64)


@marked
def test_tokens_of_a_step_come_from_its_adapter(served, monkeypatch):
    model, engine = served
    seen, prompts = [], [*PROMPTS, LONG]
    for seed in (1, 2, 3):
        set_adapter(model, seed)
        found, wanted = (ask(one, GREEDY, 1, prompts) for one in (engine, native(model)))
        seen.append(tokens(found))
        assert seen[-1] == tokens(wanted)
        for mine, other in zip(found, wanted, strict=True):  # a cached prompt of another adapter shows itself here
            assert mine.completions[0].logprobs == pytest.approx(other.completions[0].logprobs, abs=1e-3)
    assert len(set(map(tuple, seen))) == 3
    set_adapter(model, 1)
    assert tokens(ask(engine, GREEDY, 1, prompts)) == seen[0]  # back again: no cached prompt of another adapter

    # negative control: the tensors of an earlier step are handed over
    write = vllm_engine.write_adapter

    def stale(model, folder):
        set_adapter(model, 1)
        write(model, folder)
        set_adapter(model, 2)

    monkeypatch.setattr(vllm_engine, "write_adapter", stale)
    assert tokens(ask(engine, GREEDY, 1, prompts)) == seen[0] != tokens(ask(native(model), GREEDY, 1, prompts))


@marked
def test_log_probabilities_are_the_trainers(served):
    model, engine = served
    set_adapter(model, 4, 0.1)
    for parts in ({}, {"top_k": 3}, {"top_p": 0.6}):  # always over the full vocabulary
        groups = ask(engine, dataclasses.replace(SAMPLING, **parts), 8)
        batch = Batch.of(groups)
        with torch.no_grad():
            padded = batch.pad(torch.arange(len(batch.mask_NT)), 0, CPU)
            trainers, others = (completion_logprobs(model, padded, temperature) for temperature in (1.0, 0.7))
        assert (trainers - batch.sampled_NT)[batch.mask_NT].abs().max() < 1e-4
        assert (others - batch.sampled_NT)[batch.mask_NT].abs().max() > 1e-2  # negative control
    assert all(len(set(tokens([group]))) > 1 for group in groups)  # eight seeds, not one answer eight times


@marked
def test_eos_stop_string_and_length_end_as_in_the_native_engine(served):
    model, engine = served
    set_adapter(model, 0, 0.0)
    finishes = set()
    for parts in ({}, {"stop": ("}",)}, {"stop": ("+", "1")}, {"max_new_tokens": 2}, {"max_new_tokens": 1}):
        sampling = dataclasses.replace(GREEDY, **parts)
        found = ends(ask(engine, sampling, 1))
        assert found == ends(ask(native(model), sampling, 1))
        finishes |= {finish for _, _, finish in found}
    assert finishes == set(Finish)


@marked
def test_a_repeated_step_draws_the_same(served):
    model, engine = served
    set_adapter(model, 4, 0.1)
    first = tokens(ask(engine, SAMPLING, 8))
    assert tokens(ask(engine, SAMPLING, 8)) == first
    assert tokens(ask(engine, dataclasses.replace(SAMPLING, step=4), 8)) != first


@marked
def test_a_training_run_with_importance_weights(tmp_path, monkeypatch):
    """Temperature 0.7, where vLLM's log-probabilities are those after the temperature."""
    words = [
        "debug=cpu_smoke",
        "tracking=off",
        "rollout=vllm",
        f"rollout.vllm_python={PYTHON}",
        "rollout.vllm_memory=0.15",
    ]
    words += [
        "temperature=0.7",
        "rollout.importance=token",
        "rollout.importance_cap=2",
        "dtype=float32",
        "optim.lr=1e-3",
    ]
    assert run(dataclasses.replace(compose(words), run_dir=str(tmp_path / "run"))).steps == 2
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) == 2 and any(line["updates"] for line in lines)
    for line in lines:
        assert line["entropy"] is None
        if line["updates"]:
            assert line["mismatch"] < 1e-4 and line["importance/mean"] == pytest.approx(1, abs=1e-4)


@marked
def test_in_the_same_process(tmp_path, served):
    """Without rollout.vllm_python: the backend in the process that asks, with vLLM's engine as it comes."""
    model, engine = served
    set_adapter(model, 2)
    vllm_engine.write_adapter(model, tmp_path)
    requests = [[list(prompt), [1]] for prompt in PROMPTS]
    asked = {
        "adapter": str(tmp_path),
        "version": 1,
        "sampling": sampling_params(GREEDY, engine.eos),
        "requests": requests,
    }
    settings = llm_settings(changed(CONFIG, lora__rank=8), True, 64)
    (tmp_path / "order.json").write_text(json.dumps({"settings": settings, "order": asked}))
    side = [str(PYTHON), "-P", str(Path(__file__).with_name("vllm_side.py")), str(SERVER)]
    made = [str(tmp_path / name) for name in ("order.json", "answer.json")]
    env = environment(os.environ, CPU) | {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    subprocess.run([*side, *made], check=True, env=env, capture_output=True, timeout=300)
    rows = json.loads((tmp_path / "answer.json").read_text())
    assert [tuple(row["ids"]) for row in rows] == tokens(ask(native(model), GREEDY, 1))
