"""A learned reward model: any sequence classifier of transformers, which scores a question with an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..errors import InputError, NonFiniteError
from ..schema import ModelConfig, RunConfig
from .models import choose_dtype, from_pretrained

ROWS = 16  # scored at once


class RewardModel:
    """`reward.model`, loaded by `load` once all that is cheaper was looked at; safetensors only, no code of the hub.

    A model with one label gives its logit, one with two the probability of the second (label 1, "right"). A tokenizer
    with a chat template gets question and answer as a chat, another one as a pair. What is too long for the model loses
    its beginning.
    """

    def __init__(self, path: str, device: torch.device, dtype: torch.dtype, revision: str | None = None) -> None:
        self.path, self.revision, self.device, self.dtype = path, revision, device, dtype
        self.model: Any = None
        self.tokenizer: Any = None

    def load(self) -> None:
        """Raises InputError for what cannot be loaded or is no classifier of one or two labels."""
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        options = {"key": "reward.model"}
        source = ModelConfig(
            path=self.path, revision=self.revision, gradient_checkpointing=False, quantize="none",
            attn_implementation="auto",
        )  # fmt: skip
        self.tokenizer = from_pretrained(AutoTokenizer, source, ": its tokenizer", **options)
        self.tokenizer.padding_side, self.tokenizer.truncation_side = "right", "left"
        if self.tokenizer.pad_token_id is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token or self.tokenizer.unk_token
        model, loaded = from_pretrained(
            AutoModelForSequenceClassification, source, "", dtype=self.dtype, use_safetensors=True,
            output_loading_info=True, **options,
        )  # fmt: skip
        if missing := sorted(loaded["missing_keys"]):  # transformers would fill them with random numbers
            raise InputError(
                f"reward.model={self.path} is no sequence classifier: {missing[0]} is not in its weights.\n"
                "Allowed: a model trained to score answers (…ForSequenceClassification)."
            )
        if model.config.num_labels > 2:
            raise InputError(f"reward.model={self.path} has {model.config.num_labels} labels. Allowed: one, or two.")
        model.config.pad_token_id = self.tokenizer.pad_token_id  # where an answer ends is told by what is padding
        self.model = model.to(self.device).eval().requires_grad_(False)

    @torch.no_grad()
    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The score of each (question, answer), in order. Equal lengths are scored together."""
        encoded = [self._encode(question, answer) for question, answer in pairs]
        order = sorted(range(len(pairs)), key=lambda at: len(encoded[at]["input_ids"]))
        scores = [0.0] * len(pairs)
        for first in range(0, len(order), ROWS):
            chosen = order[first : first + ROWS]
            logits = self._logits([encoded[at] for at in chosen])
            found = logits[:, 0] if logits.shape[1] == 1 else logits.softmax(dim=1)[:, 1]
            for at, score in zip(chosen, found.tolist(), strict=True):
                scores[at] = score
        return scores

    def state(self) -> Mapping[str, torch.Tensor]:
        """All its tensors that may change, for a checkpoint."""
        return dict(self.model.named_parameters())

    @torch.no_grad()
    def load_state(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Inverse of `state`."""
        for name, parameter in self.model.named_parameters():
            parameter.copy_(tensors[name])

    def train_on(self, pairs: Sequence[tuple[str, str]], right: Sequence[bool], lr: float) -> float | None:
        """One pass of AdamW, of its own, over the pairs in their order, ROWS at a time; gives the mean loss.

        The loss is the cross-entropy of "right": of the logit's sigmoid with one label, of the softmax with two.
        """
        self.model.requires_grad_(True)
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr, weight_decay=0.0)
        total = 0.0
        for first in range(0, len(pairs), ROWS):
            chosen = pairs[first : first + ROWS]
            labels = torch.tensor([float(one) for one in right[first : first + ROWS]], device=self.device)
            logits = self._logits([self._encode(question, answer) for question, answer in chosen])
            # with two labels, the difference is the logit of the second's probability
            logit = logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
            loss = torch.nn.functional.binary_cross_entropy_with_logits(logit, labels)
            if not bool(loss.isfinite()):
                raise NonFiniteError(f"reward.model={self.path}: its loss is {loss.item()}. Lower reward.model_lr.")
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()
            total += loss.item() * len(chosen)
        self.model.requires_grad_(False)
        return total / len(pairs) if pairs else None

    def _logits(self, encoded: Sequence[dict[str, list[int]]]) -> torch.Tensor:
        batch = self.tokenizer.pad(list(encoded), return_tensors="pt").to(self.device)
        logits: torch.Tensor = self.model(**batch).logits.float()
        return logits

    def _encode(self, question: str, answer: str) -> dict[str, list[int]]:
        """Ids and mask, and whatever else the tokenizer gives its model (token types)."""
        limit = getattr(self.model.config, "max_position_embeddings", None) or self.tokenizer.model_max_length
        cut = {"truncation": True, "max_length": min(limit, self.tokenizer.model_max_length)}
        if getattr(self.tokenizer, "chat_template", None):
            turns = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
            text = self.tokenizer.apply_chat_template(turns, tokenize=False)
            made = self.tokenizer(text, add_special_tokens=False, **cut)
        else:
            made = self.tokenizer(question, answer, **cut)
        return {name: list(values) for name, values in made.items()}


def reward_model(config: RunConfig, device: torch.device) -> RewardModel | None:
    """That of the run, not loaded yet; None without `reward.model`."""
    path = config.reward.model
    if path is None:
        return None
    # a step of AdamW is too small for parameters in bfloat16
    dtype = torch.float32 if config.reward.refresh_every else choose_dtype(config.dtype, device)
    return RewardModel(path, device, dtype, config.reward.model_revision)
