"""What the base of the length-bias miniature does: answers sampled from it, their tails, and its chances to stop."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from grpo_runner import data, rng
from grpo_runner.policy.batch import Batch
from grpo_runner.policy.models import eos_ids, load_tokenizer
from grpo_runner.policy.scorer import differentiated
from grpo_runner.policy.update import Trainer
from grpo_runner.prompts import Prompter
from grpo_runner.reward import check, unreadable
from grpo_runner.rollout import Sampling
from grpo_runner.schema import RunConfig
from grpo_runner.train.loading import load_policy, start_engine
from grpo_runner.types import Group

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Policy:
    """A policy with its trainer; the adapter's draw is that of the config's seed."""

    config: RunConfig
    model: nn.Module
    tokenizer: Any
    trainer: Trainer

    @classmethod
    def of(cls, config: RunConfig) -> Policy:
        """The base with a fresh adapter, which changes nothing yet."""
        model, autocast = load_policy(config, CPU)
        tokenizer = load_tokenizer(config.model)
        return cls(config, model, tokenizer, Trainer(model, tokenizer.pad_token_id, config, CPU, autocast))

    def sample(self, count: int, step: int) -> list[Group]:
        """Groups of answers to `count` questions of the training set, drawn by (seed, step)."""
        config, prompter = self.config, Prompter(self.config.prompt, self.tokenizer)
        known = data.load(config.data, config.seed, unreadable, evaluated=False).train
        chosen = rng.generator(config.seed, "length bias", "questions", step).permutation(len(known))[:count]
        questions = [known[i] for i in chosen]
        prompts = [prompter.encode(question) for question in questions]
        sampling = Sampling(1.0, 1.0, 0, config.max_new_tokens, (), config.seed, "length bias", step)
        with ExitStack() as closing:
            eos = eos_ids(self.model, self.tokenizer)
            longest = max(map(len, prompts)) + config.max_new_tokens
            engine = start_engine(config, self.model, self.tokenizer, eos, longest, lambda _: None, closing)
            return engine.sample(questions, prompts, config.group_size.value, sampling)


def right(groups: Sequence[Group]) -> Tensor:
    """(Q, G) float64: 1 for an answer that is right and whole, by the checker that trains, else 0."""
    return torch.tensor(
        [[float(check(a.text, g.question.gold).correct and not a.truncated) for a in g.completions] for g in groups],
        dtype=torch.float64,
    )


@dataclass(frozen=True)
class Decisions:
    """The decisions to stop of N answers. made_NT: bool, where one was; stopped_NT, chance_NT: taken, and P(EOS)."""

    made_NT: Tensor
    stopped_NT: Tensor
    chance_NT: Tensor

    @property
    def score_N(self) -> Tensor:
        """Σ(1{stop} - s) of each answer: the derivative of its log-probability by the logit to stop."""
        return ((self.stopped_NT - self.chance_NT) * self.made_NT).sum(dim=1)

    def rate(self, rows_N: Tensor) -> float:
        """Mean chance to stop over the decisions of some answers."""
        return float(self.chance_NT[rows_N][self.made_NT[rows_N]].mean())


@torch.no_grad()
def decisions(policy: Policy, batch: Batch) -> Decisions:
    """A decision follows each sign of a tail. The chances are those of the policy as it stands."""
    tokenizer, eos = policy.tokenizer, policy.tokenizer.eos_token_id
    signs = torch.tensor(tokenizer.convert_tokens_to_ids(["+", "-"]))
    shape = batch.mask_NT.shape
    made_NT, stopped_NT = torch.zeros(shape, dtype=torch.bool), torch.zeros(shape, dtype=torch.float64)
    chance_NT = torch.zeros(shape, dtype=torch.float64)
    rows = [torch.cat([prompt, reply]) for prompt, reply in zip(batch.prompts, batch.completions, strict=True)]
    for piece in torch.arange(len(rows)).split(256):
        ids = nn.utils.rnn.pad_sequence([rows[i] for i in piece.tolist()], batch_first=True)
        eos_BT = (
            policy.model(input_ids=ids).logits.double().log_softmax(dim=-1)[:, :, eos].exp()
        )  # right padding: causal
        for line, i in enumerate(piece.tolist()):
            reply, start = batch.completions[i], len(batch.prompts[i])
            made_NT[i, 1 : len(reply)] = torch.isin(reply[:-1], signs)
            stopped_NT[i, : len(reply)] = (reply == eos).double()
            chance_NT[i, : len(reply)] = eos_BT[line, start - 1 : start - 1 + len(reply)]
    return Decisions(made_NT, stopped_NT, chance_NT)


def gradients(policy: Policy, batch: Batch, weights: Sequence[Tensor]) -> list[list[Tensor]]:
    """The gradient of each objective's loss by the adapter, at the policy as it stands; weights (N, T) of each."""
    parameters = list(policy.trainer.named.values())
    sums = [[torch.zeros_like(parameter) for parameter in parameters] for _ in weights]
    rows = torch.arange(len(batch.completions))
    with torch.enable_grad(), differentiated(policy.model):
        for piece in policy.trainer.score.cut(batch, rows, policy.trainer.budget.tokens):
            logprobs_BT, _ = policy.trainer.score(batch, piece)
            for total, weights_NT in zip(sums, weights, strict=True):
                loss = -(weights_NT[piece, : logprobs_BT.shape[1]].to(logprobs_BT) * logprobs_BT).sum()
                found = torch.autograd.grad(loss, parameters, retain_graph=True)
                torch._foreach_add_(total, found)
    return sums
