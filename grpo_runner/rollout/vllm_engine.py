"""The vLLM engine: the trained adapter handed over before every call, vLLM's draws, our rules for an answer's end."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from .. import rng
from ..errors import InputError, in_a_line
from ..files import disk_errors
from ..parallel import Ranks
from ..policy.models import choose_device, choose_dtype, locate, peft_name, trainable
from ..schema import RunConfig
from ..types import Completion, Finish, Group, Question
from .engine import Sampling, completion
from .vllm_process import SWITCHES, VllmProcess, refused
from .vllm_shared import SharedVllm, sharing

# the ranks that vLLM reserves memory for
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)


class Generates(Protocol):
    """What the engine asks of vLLM: vllm_server.Backend, or VllmProcess, which is the same in another process."""

    def generate(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        """See Backend.generate."""
        ...

    def close(self) -> None:
        """Let processes and memory go."""
        ...


class VllmEngine:
    """Samples with vLLM from the policy as it stands.

    model: a PEFT model with the adapter that is trained. Before each call its tensors are written to a folder of their
    own, in PEFT's format, and handed over under a version that was never used before, so that no answer can come from
    an older adapter; the folder is deleted after the call. vLLM draws for itself: each answer has a seed that is a
    function of (seed, purpose, step, slot, sample), but not the same tokens as the other engines. Entropies are None.
    """

    def __init__(self, model: Any, tokenizer: Any, eos: frozenset[int], backend: Generates) -> None:
        self.model, self.tokenizer, self.eos, self.backend = model, tokenizer, eos, backend
        self.version = 0

    def sample(
        self, questions: Sequence[Question], prompts: Sequence[tuple[int, ...]], group_size: int, sampling: Sampling
    ) -> list[Group]:
        """See Engine.sample. Raises MachineError where vLLM fails or the disk is full."""
        if not questions and not isinstance(self.backend, SharedVllm):
            return []
        self.version += 1
        folder = Path(tempfile.mkdtemp(prefix="grpo_runner_adapter_"))
        try:
            write_adapter(self.model, folder)
            rows = self.backend.generate(
                {
                    "adapter": str(folder),
                    "version": self.version,
                    "sampling": sampling_params(sampling, self.eos),
                    "requests": [
                        [
                            list(prompt),
                            [
                                request_seed(sampling, sampling.first_slot + slot, sample)
                                for sample in range(group_size)
                            ],
                        ]
                        for slot, prompt in enumerate(prompts)
                    ],
                }
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if used := {row["version"] for row in rows} - {self.version}:
            raise RuntimeError(f"vLLM sampled from the adapters {sorted(used)} instead of {self.version}")
        answers = [close(self.tokenizer, row, self.eos, sampling) for row in rows]
        return [
            Group(question, tuple(prompts[slot]), tuple(answers[slot * group_size : (slot + 1) * group_size]))
            for slot, question in enumerate(questions)
        ]


def write_adapter(model: Any, folder: Path) -> None:
    """adapter_config.json and adapter_model.safetensors of the adapter that is trained. Raises MachineError."""
    tensors = {peft_name(name): value.detach().cpu().contiguous() for name, value in trainable(model).items()}
    with disk_errors(folder):
        try:
            model.peft_config["default"].save_pretrained(str(folder))
            save_file(tensors, folder / "adapter_model.safetensors")
        except SafetensorError as error:  # how a full disk shows itself there
            raise OSError(str(error)) from error


def request_seed(sampling: Sampling, slot: int, sample: int) -> int:
    """The seed of one answer, a function of what it is for; 63 bits, since vLLM's are signed."""
    return rng.key(sampling.seed, sampling.purpose, sampling.step, slot, sample) % 2**63


def sampling_params(sampling: Sampling, eos: frozenset[int]) -> dict[str, Any]:
    """Keywords of vLLM's SamplingParams: our EOS ids alone end an answer, and a stop string stays in it."""
    return {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "max_tokens": sampling.max_new_tokens,
        "ignore_eos": True,  # vLLM's own notion of it; ours are among the next
        "stop_token_ids": sorted(eos),
        "stop": list(sampling.stop),
        "include_stop_str_in_output": True,
        "detokenize": bool(sampling.stop),
    }


def close(tokenizer: Any, row: dict[str, Any], eos: frozenset[int], sampling: Sampling) -> Completion:
    """One row of the backend as a Completion, its text and end by the rules of all engines.

    Raises RuntimeError for an answer that vLLM broke off: neither ended nor as long as it may be.
    """
    ids = row["ids"]
    made = completion(tokenizer, ids, row["logprobs"], [0.0], eos, sampling.stop)
    if made.finish is Finish.LENGTH and len(ids) < sampling.max_new_tokens:
        if row["reason"] != "stop" or not sampling.stop:
            raise RuntimeError(f"vLLM broke an answer off after {len(ids)} tokens ({row['reason']})")
        made = replace(made, finish=Finish.STOP)  # it was found in the text as vLLM decodes it
    return replace(made, entropy=None)


def llm_settings(config: RunConfig, eager: bool, longest: int) -> dict[str, Any]:
    """Keyword arguments of vllm.LLM. longest: tokens of the longest prompt with its answer. Raises InputError."""
    if config.lora.rank > RANKS[-1]:
        raise InputError(f"lora.rank={config.lora.rank} is more than vLLM takes. Allowed: at most {RANKS[-1]}.")
    # raw: before temperature and cuts, which is what is wanted at temperature 1 whatever is cut (checks.py for others)
    mode = "raw_logprobs" if config.temperature == 1 else "processed_logprobs"
    return {
        "model": locate(config.model.path),
        "revision": config.model.revision,
        "dtype": str(choose_dtype(config.dtype, choose_device(config.device))).removeprefix("torch."),
        "max_model_len": longest,
        "max_num_seqs": config.rollout.batch_rows,
        "gpu_memory_utilization": config.rollout.vllm_memory,
        "enable_lora": True,
        "max_loras": 1,
        "max_cpu_loras": 1,
        "max_lora_rank": next(rank for rank in RANKS if rank >= config.lora.rank),
        "enable_prefix_caching": True,  # the prompt is computed once for its G answers
        "generation_config": "vllm",  # none of the model's own settings
        "logprobs_mode": mode,
        "tensor_parallel_size": config.rollout.vllm_tensor_parallel,
        "enforce_eager": eager,
        "seed": config.seed % 2**31,
    }


def start(
    config: RunConfig,
    model: Any,
    tokenizer: Any,
    eos: frozenset[int],
    longest: int,
    closing: ExitStack,
    ranks: Ranks | None = None,
) -> VllmEngine:
    """A VllmEngine by `rollout.vllm_python`, its vLLM closed with `closing`. Raises InputError, MachineError.

    On a GPU vLLM sleeps between calls, so that the update has its memory; a CPU has nothing that could. Each process of
    a run has its own, on its own GPU, but one that splits the model over several is shared by as many processes.
    """
    device = next(model.parameters()).device
    on_gpu, python = device.type == "cuda", config.rollout.vllm_python
    settings = llm_settings(config, not on_gpu, longest)
    width = config.rollout.vllm_tensor_parallel
    backend: Generates
    if python and width > 1 and ranks is not None and ranks.world > 1:
        those = sharing(ranks, width)
        own = VllmProcess(python, settings, on_gpu, device, width) if ranks.rank == those.start else None
        backend = SharedVllm(own, ranks, those)
    elif python:
        backend = VllmProcess(python, settings, on_gpu, device, width)
    else:
        backend = _in_process(settings, on_gpu, device)
    closing.callback(backend.close)
    return VllmEngine(model, tokenizer, eos, backend)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Processes that are started in it get neither Ctrl-C nor SIGUSR1, which are for us alone: the step is finished."""
    resource_tracker.ensure_running()  # multiprocessing's own, which lets Ctrl-C through again when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGUSR1})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _in_process(settings: dict[str, Any], sleeps: bool, device: torch.device) -> Generates:
    from .vllm_server import Backend

    if device.index:
        raise InputError(
            f"rollout=vllm in the trainer's process uses the first GPU alone, the trainer is on {device}.\n"
            "Allowed: rollout.vllm_python=PYTHON, which gives each process of the run a vLLM on its own GPU."
        )
    for name, value in SWITCHES.items():
        os.environ.setdefault(name, value)
    try:
        with _uninterrupted():
            return Backend(settings, sleeps)
    except Exception as error:
        raise refused(in_a_line(error, 300), None) from error
