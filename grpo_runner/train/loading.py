"""What training and the `evaluate` command load alike: the policy, the engine, the grader, the held-out questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .. import data
from ..errors import InputError
from ..evaluation import Grade, Suite
from ..parallel import Ranks
from ..policy.decoder import causal_of, unsupported
from ..policy.models import attach_lora, choose_dtype, load_model
from ..policy.shards import split
from ..prompts import Prompter, fit
from ..reward import Grader, policy_of, unreadable
from ..rng import key
from ..rollout import ENGINES, Engine, vllm_engine
from ..schema import RunConfig
from ..types import Group, Question, Verdict


def load_policy(config: RunConfig, device: torch.device, ranks: Ranks | None = None) -> tuple[nn.Module, bool]:
    """(model, autocast). LoRA: frozen base in the chosen dtype with an fp32 adapter. Full fine-tuning: fp32 parameters,
    computing in bf16 under autocast where that was chosen, since AdamW's steps are too small for bf16 parameters.

    ranks: those that may share out the base by `shard_base`; it is then read into the machine's memory first.
    """
    if ranks is not None and ranks.world > 1 and config.shard_base != "none":
        return _shared_out(config, device, ranks), False
    dtype = choose_dtype(config.dtype, device)
    full = not config.lora.enabled
    model = load_model(config.model, device, torch.float32 if full else dtype)
    _checkpointing(config, model)
    if full:
        return model.requires_grad_(True), dtype is torch.bfloat16
    return attach_lora(model, config.lora, key(config.seed, "lora") % 2**63).eval(), False


def _checkpointing(config: RunConfig, model: Any) -> None:
    if config.model.gradient_checkpointing:
        # renamed in the course of transformers 5; the first argument is the same
        enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
        enable({"use_reentrant": False})


def _shared_out(config: RunConfig, device: torch.device, ranks: Ranks) -> nn.Module:
    base = load_model(config.model, torch.device("cpu"), choose_dtype(config.dtype, device))
    _checkpointing(config, base)
    policy = attach_lora(base, config.lora, key(config.seed, "lora") % 2**63).eval()
    if reason := unsupported(policy):
        raise InputError(
            f"shard_base={config.shard_base} does not know this model ({reason}).\nAllowed: shard_base=none."
        )
    # now: of a slice there is nothing to compare
    ranks.check_same({"model.path": fingerprint(policy.named_parameters())})
    split(causal_of(policy), config.shard_base, device, ranks)
    return policy


def positions(model_config: Any, needed: int, remedy: str) -> str | None:
    """A note where a prompt and its answer may run past the positions that the model was made for.

    remedy: what to do about it, as a sentence. Raises InputError where positions are learned: such a model has no
    vector for the next one.
    """
    limit = getattr(model_config, "max_position_embeddings", None)
    if not isinstance(limit, int) or needed <= limit:
        return None
    said = f"the longest prompt with its answer needs {needed} positions, the model has {limit}. {remedy}"
    if any(getattr(model_config, name, None) for name in ("rope_parameters", "rope_scaling", "rope_theta")):
        return said  # rotary positions go on past it, only worse
    raise InputError(f"max_new_tokens: {said}")


def start_engine(
    config: RunConfig,
    model: Any,
    tokenizer: Any,
    eos: frozenset[int],
    longest: int,
    say: Callable[[str], None],
    closing: ExitStack,
    ranks: Ranks | None = None,
) -> Engine:
    """The engine of rollout.engine. longest: tokens of the longest prompt with its answer. ranks: who share it."""
    if config.rollout.engine == "vllm":
        return vllm_engine.start(config, model, tokenizer, eos, longest, closing, ranks)
    return ENGINES[config.rollout.engine](model, tokenizer, eos, config.rollout, say)


def start_grader(config: RunConfig, closing: ExitStack) -> Grade:
    """Grades groups by the keys of `reward`; its processes end with `closing`."""
    grader = Grader(config.reward.workers, config.reward.deadline_s, policy_of(config.reward))
    return partial(_grade, closing.enter_context(grader))


def _grade(grader: Grader, groups: Sequence[Group]) -> list[list[Verdict]]:
    """Verdicts in the shape of the groups. Only completions are read, never prompts."""
    flat = iter(grader.grade([(answer.text, group.question.gold) for group in groups for answer in group.completions]))
    return [[next(flat) for _ in group.completions] for group in groups]


def named_sets(config: RunConfig) -> dict[str, tuple[Question, ...]]:
    """The questions of evaluation.sets by name, evaluation.questions of each at most; {} where none is named."""
    return {name: questions[: config.evaluation.questions] for name, questions in whole_sets(config).items()}


def whole_sets(config: RunConfig) -> dict[str, tuple[Question, ...]]:
    """All questions of evaluation.sets by name; {} where none is named."""
    return data.held_out_sets(config.data, config.evaluation.sets, unreadable)


def eval_set(config: RunConfig, seed: int) -> tuple[Question, ...]:
    """The questions of data.eval, data.eval_size of them at most; data.train is not read."""
    return data.eval_questions(config.data, seed, unreadable)


def suites(
    config: RunConfig, prompter: Prompter, sets: dict[str, tuple[Question, ...]], seed: int, limit: int | None
) -> tuple[list[Suite], list[str]]:
    """Sets of questions with their prompts, and notes. Sets without a question that fits are refused by `fit`.

    limit: tokens that a prompt may have; None: all questions are asked, whole.
    """
    made, notes = [], []
    for name, questions in sets.items():
        kept, prompts, note = fit(questions, prompter, limit, config.data.long_prompt)
        ids = [prompts[question.id] for question in kept]
        made.append(Suite(name, kept, ids, config.prompt.stop, config.evaluation_tokens, seed))
        if note:
            notes.append(f"{name}: {note}" if name else note)
    return made, notes


def longest(sets: Sequence[Suite]) -> int:
    """Tokens of the longest prompt with its answer; 0 of nothing."""
    return max((len(prompt) + suite.max_new_tokens for suite in sets for prompt in suite.prompts), default=0)


def fingerprint(named: Iterable[tuple[str, Tensor]]) -> str:
    """Tells models apart without reading all of them: some numbers of each tensor."""
    pieces = [(name, value.detach().flatten()[:: max(1, value.numel() // 64)].tolist()) for name, value in named]
    return f"{key(0, repr(pieces)):032x}"
