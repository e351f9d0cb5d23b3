"""What a run is: its method, the formula with the values in, where each switch comes from, and what departs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..facts import Fact
from ..method import method_name, placed
from ..objectives import budget_of
from ..schema import RunConfig
from ..validate import shown, shown_key

# of these a difference says nothing of what is computed
_ASIDE = ("run_dir", "run_name", "sweep_name", "tracking", "checkpoint", "device", "health")
_SAME_NUMBERS = ("model.gradient_checkpointing", "optim.microbatch_tokens", "rollout.batch_rows", "reward.workers")


@dataclass(frozen=True)
class Switch:
    """One key that makes the method what it is. source: who says so, in words."""

    key: str
    value: str
    source: str


@dataclass(frozen=True)
class What:
    """preset: the experiment's name, '' for none. halves: what there is of Dr. GRPO where that is half of it.

    departures: from the preset, one sentence a key. conventions: where the run follows a library and not the formula.
    """

    preset: str
    method: str
    halves: str
    formula: str
    symbols: str
    switches: tuple[Switch, ...]
    departures: tuple[str, ...]
    conventions: tuple[str, ...]


def what(
    config: RunConfig,
    preset: str = "",
    plain: RunConfig | None = None,
    facts: Iterable[Fact] = (),
    typed: Sequence[str] = (),
) -> What:
    """plain: the preset without the user's overrides; facts: its rows of docs/facts.csv; typed: the keys typed."""
    known = {fact.key: fact for fact in facts}
    return What(
        preset=preset,
        method=method_name(config),
        halves=halves(config),
        formula=formula(config),
        symbols=symbols(config),
        switches=tuple(_switches(config, preset, plain, known, typed)),
        departures=tuple(departures(config, plain, known)) if plain is not None else (),
        conventions=tuple(conventions(config, known, twin=preset.endswith("_lora"))),
    )


def halves(config: RunConfig) -> str:
    """ "half of Dr. GRPO: …" where just one of the two biases is taken out."""
    if config.advantage.baseline != "group_mean" or config.clip.kind != "token":
        return ""
    no_std, constant = config.advantage.scale == "none", config.loss_norm.kind == "constant"
    if no_std and config.loss_norm.kind == "sequence_mean":
        return "half of Dr. GRPO: the std is gone, the division by each answer's length is still there"
    if constant and config.advantage.scale == "group_std":
        return "half of Dr. GRPO: the division by each answer's length is gone, the std is still there"
    return ""


# --- the formula


def formula(config: RunConfig) -> str:
    """The objective that is maximised, on one line."""
    terms = [_surrogate(config)]
    if placed(config) == "loss":
        terms.append(f"− {config.beta.value:g} {_KL[config.beta.estimator]}")
    if config.entropy_bonus > 0:
        terms.append(f"+ {config.entropy_bonus:g} H")
    inner = terms[0] if len(terms) == 1 else f"[ {' '.join(terms)} ]"
    reward = _reward(config)
    return f"J = {_norm(config)} {inner}, A = {_advantage(config)}" + (f", R = {reward}" if reward else "")


def symbols(config: RunConfig) -> str:
    """What the letters stand for, those that are there."""
    name = {"token": "r = π/π_old of a token", "sequence": "s = (π/π_old)^(1/|o|) of an answer"}
    said = [name.get(config.clip.kind, "r = π/π_old of a token, held fixed in the gradient"), "R the reward"]
    if placed(config) == "loss":
        said.append("ρ = π_ref/π")
    if config.rollout.importance != "none":
        said.append("μ the sampling engine's policy")
    if config.entropy_bonus > 0:
        said.append("H the entropy")
    return "; ".join(said)


_KL = {"k3": "(ρ − log ρ − 1)", "k2": "½(log ρ)²", "k1": "(−log ρ)"}


def _norm(config: RunConfig) -> str:
    """What stands before the sums: over the responses of one optimizer step."""
    rows = config.questions_per_step * config.group_size.value
    parts = 1 if config.optim.minibatch == "whole" else config.optim.updates_per_rollout
    count, groups = f"{rows / parts:g}", f"{config.questions_per_step / parts:g}"
    kind = config.loss_norm.kind
    return {
        "sequence_mean": f"1/{count} Σ_i 1/|o_i| Σ_t",
        "constant": f"1/({count}·{budget_of(config):g}) Σ_i Σ_t",
        "token_mean": "1/Σ|o_i| Σ_i Σ_t",
        "group_token_mean": f"1/{groups} Σ_q 1/Σ_i|o_i| Σ_i Σ_t",
        "sequence_sum": f"1/{count} Σ_i Σ_t",
    }.get(kind, f"{kind} of Σ_i Σ_t")


def _surrogate(config: RunConfig) -> str:
    clip = config.clip
    high = f"{1 + clip.high:g}"
    if clip.kind == "cispo":
        bound = f"min(r, {high})" if clip.low >= 1 else f"clip(r, {1 - clip.low:g}, {high})"
        made = f"{bound} A log π"
    else:
        ratio = "s" if clip.kind == "sequence" else "r"
        made = f"min({ratio} A, clip({ratio}, {1 - clip.low:g}, {high}) A)"
    if clip.dual is not None:
        made = f"max({made}, {clip.dual:g} A where A < 0)"
    if config.rollout.importance == "none":
        return made
    cap = config.rollout.importance_cap
    return f"π_old/μ · {made}" if cap is None else f"min(π_old/μ, {cap:g}) · {made}"


def _advantage(config: RunConfig) -> str:
    advantage = config.advantage
    baseline = {
        "group_mean": "R − mean(R)",
        "leave_one_out": "R − mean of the others' R",
        "batch_mean": "R − mean of the step's R",
        "none": "R",
    }.get(advantage.baseline, f"R − {advantage.baseline}(R)")
    if advantage.scale == "none":
        return baseline
    std = {"group_std": "std(R)", "batch_std": "std of the step's R"}.get(advantage.scale, f"{advantage.scale}(R)")
    if advantage.eps > 0:
        std = f"({std} + {advantage.eps:g})"
    return f"({baseline})/{std}" if advantage.baseline != "none" else f"R/{std}"


def _reward(config: RunConfig) -> str:
    """What R is, where it is more than 1 for a right answer."""
    parts = config.reward.parts
    terms = [name if weight == 1 else f"{weight:g} {name}" for name, weight in parts.items() if weight]
    if config.reward.truncated == "soft":
        terms.append("overlong penalty")
    said = " + ".join(terms)
    if placed(config) == "reward":
        return f"{said} − {config.beta.value:g} Σ_t log π/π_ref"
    return "" if said == "correct" else said


# --- the switches, and where they come from


def _switches(
    config: RunConfig, preset: str, plain: RunConfig | None, known: dict[str, Fact], typed: Sequence[str]
) -> Iterator[Switch]:
    values, before = _leaves(asdict(config)), _leaves(asdict(plain)) if plain is not None else {}
    for key in _shown_keys(config):
        fact, value = known.get(key), values[key]
        if plain is not None and before.get(key) != value:
            source = f"typed; experiment={preset} has {shown(before.get(key))}"
        elif any(key == word or key.startswith(f"{word}.") for word in typed):  # the key, or its group
            source = "typed"
        elif fact is not None:
            source = fact.source if fact.kind == "stated" else f"{fact.source} ({fact.kind})"
        else:
            source = f"as in experiment={preset}" if preset else "default"
        yield Switch(shown_key(key), shown(value), source)


def _shown_keys(config: RunConfig) -> list[str]:
    """The keys that make the method and its step, without those that have no say here."""
    advantage, clip, rollout = config.advantage, config.clip, config.rollout
    several = config.optim.updates_per_rollout > 1
    wanted = {
        "advantage.baseline": True,
        "advantage.scale": True,
        "advantage.ddof": advantage.scale != "none",
        "advantage.eps": advantage.scale != "none",
        "loss_norm.kind": True,
        "loss_norm.divisor": config.loss_norm.kind == "constant",
        "beta.value": True,
        "beta.estimator": config.beta.value > 0,
        "beta.placement": config.beta.value > 0,
        "beta.refresh_every": config.beta.refresh_every > 0,
        "clip.kind": clip.kind != "token",
        "clip.low": True,
        "clip.high": True,
        "clip.dual": clip.dual is not None,
        "group_size.value": True,
        "questions_per_step": True,
        "optim.updates_per_rollout": True,
        "optim.minibatch": several,
        "reward.truncated": True,
        "rollout.dynamic_sampling": rollout.dynamic_sampling > 0,
        "rollout.importance": rollout.importance != "none",
        "entropy_bonus": config.entropy_bonus > 0,
        "temperature": True,
        "max_new_tokens": True,
        "optim.lr": True,
        "lora.enabled": True,
        "lora.rank": config.lora.enabled,
    }
    return [key for key, has in wanted.items() if has]


# --- what departs


def departures(config: RunConfig, plain: RunConfig, known: dict[str, Fact]) -> Iterator[str]:
    """One sentence for each key in which the run differs from the named preset."""
    before, after = _leaves(asdict(plain)), _leaves(asdict(config))
    for key in [*after, *(key for key in before if key not in after)]:
        old, new = before.get(key), after.get(key)
        if old == new or key.split(".")[0] in _ASIDE or key in _SAME_NUMBERS or _left_to_the_user(key, before):
            continue
        fact = known.get(key)
        if fact is None:
            tail = ""
        elif fact.kind == "our choice":
            tail = ": our choice in the preset"
        else:
            tail = f": no longer the paper's ({fact.source})"
        yield f"{shown_key(key)} {shown(old)} → {shown(new)}{tail}"


def _left_to_the_user(key: str, before: dict[str, Any]) -> bool:
    """Whether it says where questions are, in a preset that cannot know that."""
    source, _, name = key.rpartition(".")
    empty = before.get(f"{source}.path") is None and before.get(f"{source}.hub_id") is None
    return source in ("data.train", "data.eval") and name in ("path", "hub_id") and empty


def conventions(config: RunConfig, known: dict[str, Fact], twin: bool = False) -> Iterator[str]:
    """Where the run follows a library, or is a twin of ours, and not the formula of the papers. twin: of a preset."""
    advantage, rollout, size = config.advantage, config.rollout, config.group_size.value
    if advantage.scale != "none" and advantage.ddof == 1 and size > 1:
        factor = math.sqrt((size - 1) / size)
        yield (
            f"advantage.ddof=1: the std divides by G − 1, as TRL, verl and oat have it (advantages × {factor:.3f} at "
            f"G = {size}). The papers write std alone; their worked examples divide by G."
        )
    if advantage.scale != "none" and advantage.eps > 0:
        yield f"advantage.eps={advantage.eps:g} is added to the std, as libraries do; the papers' formula has none."
    if config.clip.dual is not None:
        yield f"clip.dual={config.clip.dual:g}: verl's bound for answers pushed down; the papers' objective has none."
    if rollout.importance != "none":
        cap = "" if rollout.importance_cap is None else f", cut at {rollout.importance_cap:g}"
        yield (
            f"rollout.importance={rollout.importance}{cap}: weighs by trainer over engine (oat since August 2025); the "
            "papers' objective has none."
        )
    if config.loss_norm.kind == "token_mean":
        yield (
            "loss_norm.kind=token_mean: the mean over all tokens of the optimizer step, as in DAPO's code and verl's "
            "default. DAPO's eq. 8 as printed takes each group's; GRPO's eq. 3 each answer's."
        )
    if config.loss_norm.kind == "constant" and config.clip.kind == "token" and advantage.scale == "none":
        yield (
            f"loss_norm.kind=constant: over {budget_of(config):g} tokens for each answer, as in Dr. GRPO's Listing 1 "
            "and code. Its equation has no such constant, which is one of the gradient's size alone."
        )
    full = known.get("lora.enabled")
    if config.lora.enabled and (twin or (full is not None and full.value == "false")):
        ours = "; this twin is ours" if twin else ""
        yield f"lora.rank={config.lora.rank}: an adapter, where the source trains all weights{ours}."


def _leaves(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """{dotted key: value}; a mapping whose names are the user's own, such as reward.parts, is one value."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and key not in ("reward.parts", "evaluation.sets"):
            found |= _leaves(value, f"{key}.")
        else:
            found[key] = value
    return found
