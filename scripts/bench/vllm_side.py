"""vLLM's side of sampling.py, run by the Python of vLLM's environment: vllm_side.py MODEL PROMPTS.jsonl DTYPE N

64 tokens for each prompt, all at once, no early end; the last line of the output is JSON with tokens a second of N
calls after one that is not counted.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

TOKENS = 64


def main() -> None:
    import vllm

    model, data, dtype, repetitions = sys.argv[1:]
    texts = [json.loads(line)["question"] for line in Path(data).read_text().splitlines()]
    llm = vllm.LLM(model, dtype=dtype, enforce_eager=True, max_model_len=1024)
    rates = []
    for repetition in range(int(repetitions) + 1):
        sampling = vllm.SamplingParams(temperature=1.0, max_tokens=TOKENS, ignore_eos=True, seed=repetition)
        began = time.perf_counter()
        made = llm.generate(texts, sampling, use_tqdm=False)
        seconds = time.perf_counter() - began
        tokens = sum(len(answer.token_ids) for request in made for answer in request.outputs)
        if tokens != TOKENS * len(texts):
            sys.exit(f"{tokens} tokens, not {TOKENS * len(texts)}")
        if repetition:
            rates.append(tokens / seconds)
    print(json.dumps({"tokens_per_s": rates, "version": vllm.__version__}))


if __name__ == "__main__":  # vLLM starts processes that import this file again
    main()
