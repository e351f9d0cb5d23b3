"""vLLM behind three calls: in this process, or started as a file by the Python of another environment.

Such a process reads orders from stdin and answers on stdout, a line of JSON each: first the settings, answered by
`{"ready": VERSION}`, then as many orders as there are; an error is `{"error": "..."}`. It ends when stdin does.
Nothing of the package is imported here, since the other environment need not have it.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


class Backend:
    """A `vllm.LLM` that holds one adapter at a time.

    settings: keyword arguments of vllm.LLM. sleeps: whether its memory on the GPU is given back between orders (the
    weights wait in the machine's memory; the KV cache is dropped). Raises ImportError without vLLM, and what vLLM
    raises.
    """

    def __init__(self, settings: dict[str, Any], sleeps: bool) -> None:
        from vllm import LLM

        self.sleeps, self.loaded = sleeps, 0
        self.llm = LLM(**settings, enable_sleep_mode=sleeps)
        if sleeps:
            self.llm.sleep(level=1)

    def generate(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        """One row for each (prompt, seed) of an order, in order: ids, logprobs, reason, and the adapter's version.

        order: `adapter` (a folder) and `version` (never given before), `sampling` (keywords of SamplingParams),
        `requests` ([ids, seeds] of each prompt). The adapter of before is taken out first, so that nothing but the one
        that was handed over can be used; the version is part of its name, which keys vLLM's cache of prompts too.
        """
        from vllm import SamplingParams
        from vllm.lora.request import LoRARequest

        if self.sleeps:
            self.llm.wake_up()
        try:
            version = order["version"]
            if self.loaded:
                self.llm.llm_engine.remove_lora(self.loaded)
            adapter = LoRARequest(f"step-{version}", version, order["adapter"])
            if not self.llm.llm_engine.add_lora(adapter):
                raise RuntimeError(f"the adapter of version {version} was not taken")
            self.loaded = version
            flat = [(ids, seed) for ids, seeds in order["requests"] for seed in seeds]
            outputs = self.llm.generate(
                [{"prompt_token_ids": ids} for ids, _ in flat],
                [SamplingParams(**order["sampling"], seed=seed, logprobs=0) for _, seed in flat],
                lora_request=adapter,
                use_tqdm=False,
            )
            return [_row(output) for output in outputs]
        finally:
            if self.sleeps:
                self.llm.sleep(level=1)

    def close(self) -> None:
        """Let the engine's processes and memory go."""
        self.llm.llm_engine.engine_core.shutdown()


def _row(output: Any) -> dict[str, Any]:
    answer = output.outputs[0]
    ids = [int(token) for token in answer.token_ids]
    return {
        "ids": ids,
        "logprobs": [place[token].logprob for token, place in zip(ids, answer.logprobs, strict=True)],
        "reason": answer.finish_reason,
        "version": output.lora_request.lora_int_id,
    }


def serve() -> None:
    """Answer the orders on stdin. Whatever vLLM prints goes to stderr, so that stdout holds answers alone."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    backend = None
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if backend is None:
                backend = Backend(order["settings"], order["sleeps"])
                import vllm

                said: Any = {"ready": vllm.__version__}
            else:
                said = backend.generate(order)
        except Exception as error:
            said = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(said), file=answers, flush=True)


if __name__ == "__main__":
    serve()
