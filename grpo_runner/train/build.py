"""From a configuration to the parts of the loop, each part from its own keys."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from .. import advice, data, local_paths
from ..algorithm import plug_in
from ..data import DataSets, order, overlap
from ..errors import InputError
from ..evaluation import Suite, evaluate
from ..files import disk_errors, write_atomic, write_json
from ..method import method_name
from ..parallel import Ranks
from ..policy.critic import Critic
from ..policy.models import choose_device, choose_dtype, eos_ids, load_tokenizer
from ..policy.reward_model import RewardModel, reward_model
from ..policy.update import Trainer
from ..prompts import Prompter, fit, mismatches, token_texts
from ..reward import compose, unreadable
from ..rng import key
from ..rollout import NativeEngine
from ..schema import RunConfig
from ..tracking import Tracker
from ..types import Question
from .checkpoint import Checkpoint, Checkpoints
from .folder import RunFolder
from .loading import fingerprint, load_policy, longest, named_sets, positions, start_engine, start_grader, suites
from .parts import Parts
from .rounds import Rounds


@dataclass(frozen=True)
class Built:
    """The loop's parts, where to start, and what the terminal should say first."""

    parts: Parts
    start: int
    plan: dict[str, str]
    notes: list[str]
    save_model: Callable[[], None]
    data: DataSets


def build(
    config: RunConfig, folder: Path, tracker: Tracker, say: Callable[[str], None], closing: ExitStack, ranks: Ranks
) -> Built:
    """Load data, model and state; cheap checks come before the expensive loading. Raises InputError, MachineError."""
    device = ranks.device(choose_device(config.device))
    local_paths.check(config)
    plug_in(config.advantage, config.loss_norm)
    learned = reward_model(config, device)
    reward_of = compose.build(config.reward, config.max_new_tokens, learned)
    measured = config.evaluation.every > 0
    sets = data.load(
        config.data,
        config.seed,
        unreadable,
        evaluated=measured and not config.evaluation.sets,
        solved=config.samples.source == "solutions",
    )
    ranks.by_first(lambda: RunFolder(config).check_data(sets), "data")
    order.check_size(len(sets.train), config.questions_per_step, config.data.small_set)
    tokenizer = load_tokenizer(config.model)
    prompter = Prompter(config.prompt, tokenizer)
    questions, prompts, note = fit(sets.train, prompter, config.data.max_prompt_tokens, config.data.long_prompt)
    named = (named_sets(config) or {"": sets.eval[: config.evaluation.questions]}) if measured else {}
    held_out, held_notes = suites(config, prompter, named, config.seed, config.data.max_prompt_tokens)
    small_note = order.check_size(len(questions), config.questions_per_step, config.data.small_set)

    model, autocast = load_policy(config, device, ranks)
    needed = max(max(map(len, prompts.values())) + config.max_new_tokens, longest(held_out))
    position_note = positions(model.config, needed, "Lower max_new_tokens or data.max_prompt_tokens.")
    if learned is not None:
        learned.load()
    trainer = Trainer(model, tokenizer.pad_token_id, config, device, autocast, say, ranks)
    policy_file = "adapter" if config.lora.enabled else "policy"
    checkpoints = Checkpoints(folder / "checkpoints", config.checkpoint.keep, policy_file, ranks.leads)
    critic = Critic(trainer, config) if config.critic.kind != "none" else None
    start, sampler = restore(checkpoints, trainer, critic, learned, say)
    refreshed = learned is not None and config.reward.refresh_every > 0
    if refreshed and ranks.world > 1:
        raise InputError("reward.refresh_every: needs one process. Allowed: reward.refresh_every=0.")
    if ranks.world > 1:
        ranks.check_same(
            {
                "the configuration": repr(replace(config, run_dir=".")),
                "data and prompts": repr(key(0, repr((questions, prompts, held_out)))),
                # a base that is shared out was looked at before that
                "model.path": fingerprint(
                    (trainer.named if trainer.shards.on else dict(model.named_parameters())).items()
                ),
                "beta.reference": fingerprint(trainer.reference.state().items()) if trainer.reference else "",
            }
        )
    eos = eos_ids(model, tokenizer)
    engine = start_engine(config, model, tokenizer, eos, needed, say, closing, ranks)
    if config.rollout.ahead and (ranks.world > 1 or not isinstance(engine, NativeEngine)):
        raise InputError("rollout.ahead=true: needs one process, and a model that rollout=native knows.")
    grade = start_grader(config, closing)

    def evaluate_at(step: int) -> None:
        figures, rows = evaluate(engine, grade, held_out, config.evaluation, ranks)
        tracker.evaluated_questions(step, rows)
        tracker.evaluation(step, figures)

    parts = Parts(
        config=config,
        questions=questions,
        prompts=[prompts[question.id] for question in questions],
        engine=engine,
        grade=grade,
        reward_of=reward_of,
        trainer=trainer,
        critic=critic,
        evaluate=evaluate_at,
        tracker=tracker,
        checkpoints=checkpoints,
        pieces=partial(token_texts, tokenizer),
        encode=partial(_answer_ids, tokenizer),
        say=say,
        rounds=Rounds(config, learned, start, ranks.leads) if refreshed and learned is not None else None,
        ranks=ranks,
        sampler=sampler,
    )
    notes = [
        *sets.notes,
        *_not_held_out(config, sets.train, named),
        *(
            text
            for text in (note, *held_notes, small_note, position_note, _idle(config, ranks), _alone(config, ranks))
            if text
        ),
        *mismatches(prompter),
        *advice.warnings(config),
    ]
    return Built(
        parts,
        start,
        plan(parts, _held_out(held_out), device, start),
        notes,
        partial(save_model, model, tokenizer, folder, config),
        sets,
    )


def _answer_ids(tokenizer: Any, text: str) -> tuple[int, ...]:
    """The tokens of an answer, without a BOS and with the EOS."""
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return (*ids, *([] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]))


def restore(
    checkpoints: Checkpoints,
    trainer: Trainer,
    critic: Critic | None,
    learned: RewardModel | None,
    say: Callable[[str], None],
) -> tuple[int, Mapping[str, Tensor]]:
    """Put the newest sound checkpoint into the trainer; gives the step to make next, and what it samples from.

    The first of several processes looks for it. All begin from its tensors, at a fresh start too, bit by bit.
    """
    found, ranks = checkpoints.latest(say), trainer.ranks
    if found is None and ranks.world > 1:
        found = Checkpoint(0, dict(trainer.named), {}, {}, {}, critic.state() if critic else {}, {})
    start = ranks.by_first(lambda: found.step if found else 0, "checkpoint")
    if found is None:
        return start, {}
    with torch.no_grad():
        for name, value in ranks.from_first(found.policy, "policy").items():
            trainer.named[name].copy_(value)
    trainer.load_state(ranks.from_first(found.optimizer, "optimizer"))
    if critic is not None:
        critic.load(ranks.from_first(found.critic, "critic"))
    reference = ranks.from_first(found.reference, "reference")
    if reference and trainer.reference is not None:
        trainer.reference.load(reference)
    if found.reward_model and learned is not None:
        learned.load_state(found.reward_model)
    return start, found.sampler


def _not_held_out(
    config: RunConfig, train: Sequence[Question], named: Mapping[str, Sequence[Question]]
) -> tuple[str, ...]:
    """What to say where questions to evaluate on are trained on as well. A generator's own two sets are disjoint."""
    made = config.data.kind != "table"
    sets = {name or "data.eval": questions for name, questions in named.items() if name or not made}
    return overlap.warnings(overlap.overlaps(train, sets)) if sets else ()


def _idle(config: RunConfig, ranks: Ranks) -> str | None:
    idle = ranks.world - config.questions_per_step
    return f"{idle} of {ranks.world} processes sample nothing: a step has fewer questions." if idle > 0 else None


def _alone(config: RunConfig, ranks: Ranks) -> str | None:
    if config.shard_base == "none" or ranks.world > 1:
        return None
    return f"shard_base={config.shard_base}: one process, which holds the whole base. Several: torchrun."


CARD = """---
library_name: {library}
base_model: {base}
---
# {what} of a grpo_runner run

{method}, seed {seed}, {steps} steps of {questions} questions × {group_size} answers, on the questions of `data.kind`
{data}. Base: `{base}`. Every setting is in the run's `config.yaml`, what it reached in its `summary.json`.

    {load}
"""


def save_model(model: Any, tokenizer: Any, folder: Path, config: RunConfig) -> None:
    """`adapter/` (for PeftModel.from_pretrained) or, after full fine-tuning, `model/`; with tokenizer and card."""
    lora = config.lora.enabled
    target = folder / ("adapter" if lora else "model")
    card = CARD.format(
        library="peft" if lora else "transformers",
        what="LoRA adapter" if lora else "Model",
        base=config.model.path,
        method=method_name(config),
        seed=config.seed,
        steps=config.steps,
        questions=config.questions_per_step,
        group_size=config.group_size.value,
        data=config.data.kind,
        load=f'PeftModel.from_pretrained(base, "{target.name}")'
        if lora
        else f'AutoModelForCausalLM.from_pretrained("{target.name}")',
    )
    with disk_errors(target):
        try:
            # PEFT would add the base's own embedding and head where an adapter is on them
            model.save_pretrained(str(target), **({"save_embedding_layers": False} if lora else {}))
            tokenizer.save_pretrained(str(target))
            if lora:  # a set is written in any order; equal runs leave equal files
                settings = json.loads((target / "adapter_config.json").read_text())
                if isinstance(settings["target_modules"], list):
                    settings["target_modules"].sort()
                write_json(target / "adapter_config.json", settings)
        except SafetensorError as error:  # how a full disk shows itself there
            raise OSError(str(error)) from error
    write_atomic(target / "README.md", card.encode())


def plan(parts: Parts, held_out: str, device: torch.device, start: int) -> dict[str, str]:
    """What the run will do, in words, before it does it."""
    config, optim = parts.config, parts.config.optim
    trained = sum(parameter.numel() for parameter in parts.trainer.named.values())
    every = config.evaluation.every
    rows = config.questions_per_step * config.group_size.value
    what = f"LoRA rank {config.lora.rank}" if config.lora.enabled else "all of the model"
    return {
        "steps": f"{config.steps}" + (f", going on from {start}" if start else ""),
        "optimizer steps": f"{config.steps * optim.updates_per_rollout} ({optim.updates_per_rollout} a rollout)",
        "questions": order.plan(len(parts.questions), config.questions_per_step, config.data.short_batch),
        "samples": f"{rows} a step ({config.group_size.value} a question), up to {config.max_new_tokens} tokens each",
        "trained": f"{trained:,} parameters ({what})",
        **({"overlong penalty": _overlong_plan(config)} if config.reward.truncated == "soft" else {}),
        **({"begins from": config.lora.adapter} if config.lora.adapter else {}),
        **({"KL": _kl_plan(config)} if config.beta.value > 0 else {}),
        "evaluation": f"every {every} steps on {held_out}" if every else "never",
        "device": f"{device.type}, {choose_dtype(config.dtype, device)}".replace("torch.", "")
        + (f", {parts.ranks.world} processes" if parts.ranks.world > 1 else "")
        + (", the base shared out" if parts.trainer.shards.on else ""),
    }


def _held_out(sets: Sequence[Suite]) -> str:
    total = f"{sum(len(suite.questions) for suite in sets)} held-out questions"
    named = ", ".join(f"{len(suite.questions)} of {suite.name}" for suite in sets if suite.name)
    return f"{total}: {named}" if named else total


def _overlong_plan(config: RunConfig) -> str:
    buffer = compose.overlong_buffer(config.reward, config.max_new_tokens)
    return f"from token {config.max_new_tokens - buffer + 1} on, up to 1 at the end of the budget, on right answers too"


def _kl_plan(config: RunConfig) -> str:
    beta = config.beta
    whom = {"initial": "the initial policy", "base": "the base"}.get(beta.reference, beta.reference)
    renewed = f", renewed every {beta.refresh_every} steps".replace(" 1 steps", " step") if beta.refresh_every else ""
    return f"{beta.value:g} × {beta.estimator} in the {beta.placement}, against {whom}{renewed}"
