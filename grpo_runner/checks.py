"""What keys mean together: combinations that cannot work or that change nothing.

Pure functions of a RunConfig, called when it is composed and when a run starts. Types and ranges are the schema's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from . import critic_checks, pair_checks, reward_checks, sample_checks
from .errors import InputError, nearest
from .later import LATER
from .objectives import NAMED
from .schema import RunConfig
from .validate import RULES, shown

# Names that mean something else in evals.jsonl or in the tables
RESERVED = ("greedy", "sampled", "average", "questions", "samples", "probe", "time", "reward")


def check(config: RunConfig) -> None:
    """Raise InputError for keys that contradict each other or would change nothing: one line each, five at most."""
    faults = [fault for find in (*_FAULTS, *reward_checks.FAULTS) for fault in find(config)]
    if faults:
        raise InputError("\n".join(faults[:5]))


# each function yields one line for each fault


def _quantize(config: RunConfig) -> Iterator[str]:
    if config.model.quantize != "none" and not config.lora.enabled:
        yield "model.quantize=nf4 with lora=off: a quantised base cannot be trained. Allowed: an adapter."
    if config.model.quantize != "none" and config.rollout.engine == "vllm":
        yield "model.quantize=nf4 with rollout=vllm: vLLM would sample from the base as it was stored."


def shard_base(config: RunConfig) -> Iterator[str]:
    """What needs the whole base in each process, or passes that the processes do not make together."""
    refused = {
        "lora=off": (not config.lora.enabled, "an adapter; all weights are trained whole"),
        "model.quantize": (config.model.quantize != "none", "none"),
        "optim.packing=false": (not config.optim.packing, "true"),
        "rollout=transformers": (config.rollout.engine == "transformers", "native or vllm"),
        "critic=own_model": (config.critic.kind == "own_model", "shared_base or none"),
        "tracking.probe_every": (config.tracking.probe_every > 0, "0"),
    }
    for what, (given, allowed) in refused.items():
        if given and config.shard_base != "none":
            yield f"shard_base={config.shard_base} does not work with {what}. Allowed: {allowed}; or shard_base=none."


def _ahead(config: RunConfig) -> Iterator[str]:
    rollout = config.rollout
    copied = rollout.engine == "native" and rollout.merge_lora and config.lora.enabled
    if rollout.ahead and not (copied and config.model.quantize == "none"):
        yield "rollout.ahead=true samples from a copy. Allowed: rollout=native, merge_lora, an adapter, quantize=none."


def _group_of_one(config: RunConfig) -> Iterator[str]:
    if config.group_size.value > 1:
        return
    if config.advantage.baseline in ("group_mean", "leave_one_out"):
        yield (
            f"group_size=1 with advantage.baseline={config.advantage.baseline}: there is nothing to compare "
            "with, so no advantage. Allowed: group_size of at least 2, or advantage=reinforce."
        )
    elif config.advantage.scale == "group_std":
        yield "group_size=1 with advantage.scale=group_std: one answer has no std. Allowed: group_size of at least 2."


def _ddof(config: RunConfig) -> Iterator[str]:
    if config.advantage.scale in ("none", "group_mean") and config.advantage.ddof:
        scale = config.advantage.scale
        yield f"advantage.ddof changes nothing with advantage.scale={scale}: nothing is divided by a std. Leave it out."


def _eps(config: RunConfig) -> Iterator[str]:
    if config.advantage.scale == "none" and config.advantage.eps:
        yield "advantage.eps changes nothing with advantage.scale=none: nothing is divided by a std. Leave it out."


def _dual(config: RunConfig) -> Iterator[str]:
    if config.clip.dual is not None and config.clip.kind == "cispo":
        yield "clip.dual changes nothing with clip.kind=cispo, which clips a weight and no term. Leave it out."


def _divisor(config: RunConfig) -> Iterator[str]:
    kind = config.loss_norm.kind
    if config.loss_norm.divisor is not None and kind != "constant" and ":" not in kind:
        yield (
            f"loss_norm.divisor changes nothing with loss_norm.kind={kind}. Allowed: loss_norm=constant, or "
            f"loss_norm={kind}, which sets both."
        )


def _kl(config: RunConfig) -> Iterator[str]:
    beta = config.beta
    if beta.value > 0 and beta.placement == "loss" and beta.estimator == "k1":
        yield (
            "beta.estimator=k1 with beta.placement=loss: its gradient is ∇log π whatever the reference is, so it "
            "cannot hold the policy near it. Allowed: k2 or k3, or beta.placement=reward."
        )
    if not config.lora.enabled and beta.reference not in ("initial", "base"):
        yield f"beta.reference={beta.reference} is an adapter's folder, but lora.enabled=false. Allowed: initial, base."
    if beta.refresh_every and beta.reference != "initial":
        yield (
            f"beta.reference={beta.reference} with beta.refresh_every={beta.refresh_every}: a reference is held fixed "
            "or refreshed. Allowed: beta.reference=initial, or beta.refresh_every=0."
        )


def _adapter(config: RunConfig) -> Iterator[str]:
    if config.lora.adapter is not None and not config.lora.enabled:
        yield f"lora.adapter={config.lora.adapter} changes nothing with lora.enabled=false. Leave one of them out."


def _dynamic_sampling(config: RunConfig) -> Iterator[str]:
    if config.rollout.when_short != "smaller" and not config.rollout.dynamic_sampling:
        yield "rollout.when_short changes nothing with rollout.dynamic_sampling=0. Leave it out, or allow some rounds."
    if config.rollout.dynamic_sampling and config.group_size.value == 1:
        yield (
            "rollout.dynamic_sampling with group_size=1: one answer never differs, so every group would be left out. "
            "Allowed: group_size of at least 2, or rollout.dynamic_sampling=0."
        )


def _importance(config: RunConfig) -> Iterator[str]:
    rollout = config.rollout
    if rollout.importance == "none":
        if rollout.importance_cap is not None:
            yield "rollout.importance_cap changes nothing with rollout.importance=none. Leave it out, or take token."
    elif config.lora.enabled and config.lora.dropout > 0:
        yield (
            f"rollout.importance={rollout.importance} with lora.dropout={config.lora.dropout}: the ratio would measure "
            "the dropout of the training pass. Allowed: lora.dropout=0, or rollout.importance=none."
        )
    elif rollout.top_p < 1 or rollout.top_k > 0:
        cut = f"rollout.top_p={rollout.top_p:g}" if rollout.top_p < 1 else f"rollout.top_k={rollout.top_k}"
        yield (
            f"rollout.importance={rollout.importance} with {cut}: answers are drawn from a cut vocabulary, while both "
            "log-probabilities are over all of it. Allowed: rollout.top_p=1 rollout.top_k=0, or importance=none."
        )


def _vllm(config: RunConfig) -> Iterator[str]:
    rollout = config.rollout
    if rollout.engine != "vllm":
        for name in ("vllm_python", "vllm_memory", "vllm_tensor_parallel"):
            value = getattr(rollout, name)
            if value != LATER[f"rollout.{name}"]:
                yield f"rollout.{name}={value} changes nothing with rollout={rollout.engine}. Allowed: rollout=vllm."
        return
    if rollout.vllm_tensor_parallel > 1 and rollout.vllm_python is None:
        yield (
            f"rollout.vllm_tensor_parallel={rollout.vllm_tensor_parallel} needs vLLM in a process of its own. "
            "Allowed: rollout.vllm_python=PYTHON, or 1."
        )
    if not config.lora.enabled:
        yield (
            "rollout=vllm with lora=off: vLLM is handed the adapter of each step, not all weights. "
            "Allowed: lora=default, or rollout=native."
        )
    if config.device == "mps":
        yield "rollout=vllm with device=mps: vLLM has no such device. Allowed: cuda or cpu, or rollout=native."
    if config.temperature != 1 and (rollout.top_p < 1 or rollout.top_k > 0):
        cut = f"rollout.top_p={rollout.top_p:g}" if rollout.top_p < 1 else f"rollout.top_k={rollout.top_k}"
        yield (
            f"rollout=vllm with {cut} and temperature={config.temperature:g}: its log-probabilities would be over the "
            "cut vocabulary. Allowed: temperature=1, or rollout.top_p=1 rollout.top_k=0, or rollout=native."
        )


def _probe(config: RunConfig) -> Iterator[str]:
    names = config.tracking.probe
    for name in dict.fromkeys(names):
        if name not in NAMED:
            yield f"tracking.probe: there is no objective {name!r}.{nearest(name, NAMED)} Allowed: {', '.join(NAMED)}."
        if names.count(name) > 1:
            yield f"tracking.probe={shown(names)} names {name!r} {names.count(name)} times. Allowed: each name once."
    if config.tracking.probe_every and len(names) < 2:
        yield "tracking.probe: a comparison takes two objectives. Allowed: two or more names, such as [grpo,dr_grpo]."


def _data_source(config: RunConfig) -> Iterator[str]:
    """A generator makes up its questions: what reads or chooses rows of a table has nothing to act on."""
    data = config.data
    if data.kind == "table":
        return
    for split, source in {"train": data.train, "eval": data.eval}.items():
        for key in ("path", "hub_id", "revision", "question_column", "answer_column"):
            if getattr(source, key) is not None:
                yield (
                    f"data.{split}.{key} changes nothing with data.kind={data.kind}, which makes up its questions. "
                    "Take data=jsonl, data=parquet or data=hub."
                )
    for key in ("levels", "max_question_characters"):
        if getattr(data, key):
            yield f"data.{key} changes nothing with data.kind={data.kind}, which makes up its questions. Leave it out."


def _minibatches(config: RunConfig) -> Iterator[str]:
    updates, kind = config.optim.updates_per_rollout, config.optim.minibatch
    groups = config.questions_per_step
    most = {"group": groups, "response": groups * config.group_size.value}.get(kind)
    if most is not None and updates > most:
        yield (
            f"optim.updates_per_rollout={updates} with optim.minibatch={kind}: a step has {most} {kind}s to share. "
            f"Allowed: at most {most}."
        )


def _no_targets(config: RunConfig) -> Iterator[str]:
    if config.lora.enabled and not config.lora.targets:
        yield "lora.targets=[] leaves nothing to train. Allowed: all-linear, or a list such as [q_proj,v_proj]."


def _evaluation_sets(config: RunConfig) -> Iterator[str]:
    for name, source in config.evaluation.sets.items():
        if not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) or name in RESERVED:
            taken = ", ".join(RESERVED)
            yield f"evaluation.sets: {name!r} names no set. Allowed: a letter, then letters, digits and _; not {taken}."
        if source.path is None and source.hub_id is None:
            where = f"evaluation.sets.{name}"
            yield f"{where} has no questions. Allowed: {where}.path=FILE, or {where}.hub_id=OWNER/NAME."


def _empty_evaluation(config: RunConfig) -> Iterator[str]:
    evaluation = config.evaluation
    if evaluation.every and not evaluation.samples and not evaluation.greedy:
        yield "evaluation.samples=0 with evaluation.greedy=false evaluates nothing. For none: evaluation=never."


def _health(config: RunConfig) -> Iterator[str]:
    for name in dict.fromkeys(config.health.stop_on):
        if name not in RULES:
            yield f"health.stop_on: there is no rule {name!r}.{nearest(name, RULES)} Allowed: {', '.join(RULES)}."


_FAULTS: tuple[Callable[[RunConfig], Iterator[str]], ...] = (
    _quantize,
    shard_base,
    _ahead,
    _group_of_one,
    _ddof,
    _eps,
    _dual,
    *sample_checks.FAULTS,
    pair_checks.faults,
    critic_checks.faults,
    _divisor,
    _kl,
    _adapter,
    _dynamic_sampling,
    _importance,
    _vllm,
    _probe,
    _data_source,
    _minibatches,
    _no_targets,
    _evaluation_sets,
    _empty_evaluation,
    _health,
)
