"""The reference engine: `generate` of transformers, which every causal LM runs on, with our own draws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..types import Completion, Group, Question
from .engine import Sampling, choose, completion, ended_by_stop


class TransformersEngine:
    """Same draws, same rules and the same answers as NativeEngine, through `model.generate`."""

    def __init__(self, model: Any, tokenizer: Any, eos: frozenset[int], batch_rows: int) -> None:
        self.model, self.tokenizer, self.eos, self.batch_rows = model, tokenizer, eos, batch_rows
        self.device = next(model.parameters()).device

    @torch.no_grad()
    def sample(
        self, questions: Sequence[Question], prompts: Sequence[tuple[int, ...]], group_size: int, sampling: Sampling
    ) -> list[Group]:
        """See Engine.sample."""
        keys = [(slot, sample) for slot in range(len(questions)) for sample in range(group_size)]
        answers: list[Completion] = []
        for first in range(0, len(keys), self.batch_rows):
            answers += self._generate(prompts, keys[first : first + self.batch_rows], sampling)
        return [
            Group(question, tuple(prompts[slot]), tuple(answers[slot * group_size : (slot + 1) * group_size]))
            for slot, question in enumerate(questions)
        ]

    def _generate(
        self, prompts: Sequence[tuple[int, ...]], keys: list[tuple[int, int]], sampling: Sampling
    ) -> list[Completion]:
        from transformers import GenerationConfig

        width = max(len(prompts[slot]) for slot, _ in keys)
        pad = self.tokenizer.pad_token_id
        ids = torch.full((len(keys), width), pad)
        mask = torch.zeros_like(ids)
        for line, (slot, _) in enumerate(keys):
            ids[line, width - len(prompts[slot]) :] = torch.tensor(prompts[slot])
            mask[line, width - len(prompts[slot]) :] = 1
        drawn = _Drawn(np.stack([sampling.draws(*key) for key in keys]), sampling)
        settings = GenerationConfig(
            max_new_tokens=sampling.max_new_tokens, do_sample=False, eos_token_id=sorted(self.eos), pad_token_id=pad
        )
        with self._without_own_settings():
            output = self.model.generate(
                input_ids=ids.to(self.device),
                attention_mask=mask.to(self.device),
                generation_config=settings,
                logits_processor=[drawn],
                stopping_criteria=[_StopStrings(self.tokenizer, sampling.stop, width)] if sampling.stop else None,
            )
        return [self._close(line, drawn, output[line, width:].tolist(), sampling.stop) for line in range(len(keys))]

    @contextmanager
    def _without_own_settings(self) -> Iterator[None]:
        """Put the model's generation_config aside: `generate` takes from it whatever a call leaves out.

        A repetition penalty there would change the distribution that is sampled from, a minimum length the samples.
        """
        from transformers import GenerationConfig

        model = self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model
        own, model.generation_config = model.generation_config, GenerationConfig()
        try:
            yield
        finally:
            model.generation_config = own

    def _close(self, line: int, drawn: _Drawn, ids: list[int], stop: tuple[str, ...]) -> Completion:
        """Cut one line of `generate` where its answer ended; what follows is padding."""
        length = next((t + 1 for t, token in enumerate(ids) if token in self.eos), len(ids))
        if stop:
            length = next((t for t in range(1, length) if ended_by_stop(self.tokenizer, ids[:t], stop)), length)
        logprobs = [float(step[line]) for step in drawn.logprobs[:length]]
        entropies = [float(step[line]) for step in drawn.entropies[:length]]
        return completion(self.tokenizer, ids[:length], logprobs, entropies, self.eos, stop)


class _Drawn:
    """A logits processor that makes the draw itself and leaves greedy search one token to take."""

    def __init__(self, uniforms_BT: np.ndarray, sampling: Sampling) -> None:
        self.uniforms_BT, self.sampling = torch.from_numpy(uniforms_BT), sampling
        self.logprobs: list[Tensor] = []
        self.entropies: list[Tensor] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        uniforms_B = self.uniforms_BT[:, len(self.logprobs)].to(
            scores.device, torch.float32 if scores.device.type == "mps" else None
        )
        tokens_B, logprobs_B, entropy_B = choose(scores, uniforms_B, self.sampling)
        self.logprobs.append(logprobs_B.cpu())
        self.entropies.append(entropy_B.cpu())
        return torch.full_like(scores, -torch.inf).scatter(1, tokens_B[:, None], 0.0)


class _StopStrings:
    """A stopping criterion for the rows whose newest token completed a stop string."""

    def __init__(self, tokenizer: Any, stop: tuple[str, ...], prompt_width: int) -> None:
        self.tokenizer, self.stop, self.prompt_width = tokenizer, stop, prompt_width

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        written = input_ids[:, self.prompt_width :].tolist()
        return torch.tensor([ended_by_stop(self.tokenizer, ids, self.stop) for ids in written], device=input_ids.device)
