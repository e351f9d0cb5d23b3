#!/usr/bin/env python3
"""Sampling alone, tokens a second: sampling.py [--model tiny|FOLDER] [--dtype …] [--vllm-env FOLDER]

The engines as training calls them (`Engine.sample`), with a LoRA adapter where the name says so, beside plain
`model.generate(do_sample=True)`: all rows at once, every prompt given once for each of its samples. No answer ends
early. vLLM runs in its own environment, the 64 × 64 work alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

from cases import model_folder, prompts, write_questions  # noqa: E402
from compare import spread  # noqa: E402
from running import HERE, ROOT, command_line, environment, machine, write  # noqa: E402

WORKS = {"64 × 1 × 64": (64, 1, 64), "4 × 8 × 64": (4, 8, 64)}


def load(folder: Path, dtype: str, rank: int) -> Any:
    """The model, with an adapter of this rank whose B is not 0, or without one for rank 0."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()
    if rank == 0:
        return model
    torch.manual_seed(0)
    model = get_peft_model(model, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear")).eval()
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=1e-3)
    return model


def engine(name: str, model: Any, tokenizer: Any) -> Callable[[list[str], int, int, int], int]:
    """A function that samples (texts, group size, tokens, seed) once and gives the number of tokens."""
    import torch

    from grpo_runner import compose
    from grpo_runner.policy.models import eos_ids
    from grpo_runner.rollout import ENGINES, Sampling
    from grpo_runner.types import Question

    def ours(texts: list[str], size: int, tokens: int, seed: int) -> int:
        sampling = Sampling(1.0, 1.0, 0, tokens, (), seed, "rollout", seed)
        questions = [Question(str(i), text, "1") for i, text in enumerate(texts)]
        ids = [tuple(tokenizer(text)["input_ids"]) for text in texts]
        groups = made.sample(questions, ids, size, sampling)
        return sum(len(answer.token_ids) for group in groups for answer in group.completions)

    def generate(texts: list[str], size: int, tokens: int, seed: int) -> int:
        torch.manual_seed(seed)
        rows = [text for text in texts for _ in range(size)]
        inputs = tokenizer(rows, return_tensors="pt", padding=True, return_token_type_ids=False)
        with torch.no_grad():
            output = model.generate(**inputs, do_sample=True, top_k=0, top_p=1.0, max_new_tokens=tokens)
        return (output.shape[1] - inputs["input_ids"].shape[1]) * len(rows)

    if name == "generate":
        return generate
    config = compose([f"rollout={name}"]).rollout
    made = ENGINES[name](model, tokenizer, eos_ids(model, tokenizer), config, print)
    return ours


def measure(folder: Path, texts: list[str], dtype: str, rank: int, repetitions: int) -> list[dict[str, Any]]:
    """Every engine at every work; engines take turns, and each is called once before it counts."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    rates: dict[tuple[str, str], list[float]] = {}
    for with_lora in (0, rank):
        model = load(folder, dtype, with_lora)
        engines = {name: engine(name, model, tokenizer) for name in ("native", "transformers", "generate")}
        for work, (count, size, tokens) in WORKS.items():
            for repetition in range(repetitions + 1):
                for name, sample in engines.items():
                    began = time.perf_counter()
                    made = sample(texts[:count], size, tokens, repetition)
                    seconds = time.perf_counter() - began
                    if made != count * size * tokens:
                        sys.exit(f"{name}: {made} tokens, not {count * size * tokens}")
                    if repetition:
                        key = name + f" + LoRA r{with_lora}" * bool(with_lora), work
                        rates.setdefault(key, []).append(made / seconds)
    return [{"engine": name, "work": work, "tokens_per_s": spread(values)} for (name, work), values in rates.items()]


def vllm(python: Path, folder: Path, data: Path, dtype: str, threads: int, repetitions: int) -> dict[str, Any]:
    """vLLM's own figure, from its own environment."""
    command = [str(python), str(HERE / "vllm_side.py"), str(folder), str(data), dtype, str(repetitions)]
    done = subprocess.run(command, env=os.environ | environment(threads), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"vllm_side.py ended with {done.returncode}:\n{done.stderr[-2000:]}")
    made = json.loads(done.stdout.splitlines()[-1])
    name = f"vLLM {made['version']}, eager"
    return {"engine": name, "work": "64 × 1 × 64", "tokens_per_s": spread(made["tokens_per_s"])}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny", help="tiny or a model folder")
    parser.add_argument("--name", help="of the output; default: tiny or smollm2")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--vllm-env", type=Path, help="an environment with vllm; without it vLLM is left out")
    parser.add_argument("--output", type=Path, help="default: docs/speed/sampling_NAME_DTYPE.json")
    asked = parser.parse_args()
    import torch

    torch.set_num_threads(asked.threads)
    name = asked.name or ("tiny" if asked.model == "tiny" else "smollm2")
    at = machine(asked.threads)
    texts = prompts(64, 16 if asked.model == "tiny" else 64)
    with tempfile.TemporaryDirectory() as where:
        folder = model_folder(asked.model, Path(where))
        rows = measure(folder, texts, asked.dtype, asked.rank, asked.repetitions)
        if asked.vllm_env:
            python = asked.vllm_env.absolute() / "bin" / "python"
            source = folder if asked.model == "tiny" else Path(asked.model).absolute()  # it has its own ignore_eos
            data = write_questions(Path(where), texts)
            rows.append(vllm(python, source, data, asked.dtype, asked.threads, asked.repetitions))
    for row in rows:
        print(f"{row['engine']:28} {row['work']:12} {row['tokens_per_s']['median']:10,.0f} tokens/s")
    made = {"kind": "sampling", "model": name, "dtype": asked.dtype, "command": command_line()}
    output = asked.output or ROOT / "docs" / "speed" / f"sampling_{name}_{asked.dtype}.json"
    write(output, made | {"machine": at, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
