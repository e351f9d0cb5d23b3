"""Where a run departs: from the preset that it names, and, as a library's convention or ours, from the papers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from ..facts import Fact
from ..objectives import budget_of
from ..schema import RunConfig
from ..validate import shown, shown_key

# of these a difference says nothing of what is computed
_ASIDE = ("run_dir", "run_name", "sweep_name", "tracking", "checkpoint", "device", "health")
_SAME_NUMBERS = ("model.gradient_checkpointing", "optim.microbatch_tokens", "rollout.batch_rows", "reward.workers")
# whose code or logs a source is, by its first word; a source without a paper and none of these is just "the source"
_LIBRARIES = {
    "TRL": "TRL's",
    "verl": "verl's",
    "verl's": "verl's",
    "verl-data": "verl's",
    "oat": "oat's",
    "sail-sg/oat": "oat's",
    "open-r1": "open-r1's",
    "tinker-cookbook": "tinker-cookbook's",
    "Unsloth's": "Unsloth's",
}
# keys that one choice changes are told apart up to so many, and in one line where there are more
_APART = 2
_LONGEST = 60  # characters of a value


def departures(
    config: RunConfig, plain: RunConfig, known: Mapping[str, Fact], chosen: Mapping[str, frozenset[str]]
) -> Iterator[str]:
    """A sentence for each key in which the run differs from the named preset; for many that one choice sets, one.

    chosen: {a choice as it was typed, such as `model=tiny`: the keys that it sets}.
    """
    before, after = leaves(asdict(plain)), leaves(asdict(config))
    differing = [
        key
        for key in [*after, *(key for key in before if key not in after)]
        if before.get(key) != after.get(key) and not _aside(key, before)
    ]
    told: set[str] = set()
    for words, keys in chosen.items():
        own = [key for key in differing if key in keys and key not in told]
        if len(own) > _APART:
            told |= set(own)
            yield f"{words}: {', '.join(map(shown_key, own))}{_stated(own, known)}"
    for key in differing:
        if key not in told:
            change = f"{_short(before.get(key))} → {_short(after.get(key))}"
            yield f"{shown_key(key)} {change}{_tail(known.get(key))}"


def _stated(keys: list[str], known: Mapping[str, Fact]) -> str:
    """Of many keys: in which of them it is nobody's any more whose the preset was."""
    lost: dict[str, list[str]] = {}
    for key in keys:
        if (fact := known.get(key)) is not None and fact.kind != "our choice":
            lost.setdefault(_whose(fact), []).append(shown_key(key))
    return "".join(f"; no longer {whose} in {', '.join(of)}" for whose, of in lost.items())


def _tail(fact: Fact | None) -> str:
    if fact is None:
        return ""
    return ": our choice in the preset" if fact.kind == "our choice" else f": no longer {_whose(fact)} ({fact.source})"


def _whose(fact: Fact) -> str:
    """Whom a fact's value is from: a paper, or the library or other source whose run was taken as it is."""
    if "arXiv" in fact.source:
        return "the paper's"
    return _LIBRARIES.get(fact.source.split()[0].rstrip(":"), "the source's")


def _short(value: Any) -> str:
    """A value on one line; of a long one, such as a template, its beginning."""
    text = " ".join(shown(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 2]} …"


def _aside(key: str, before: dict[str, Any]) -> bool:
    return key.split(".")[0] in _ASIDE or key in _SAME_NUMBERS or _left_to_the_user(key, before)


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
        to = "mean" if advantage.scale == "group_mean" else "std"
        yield f"advantage.eps={advantage.eps:g} is added to the {to}, as libraries do; the papers' formula has none."
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


def leaves(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """{dotted key: value}; a mapping whose names are the user's own, such as reward.parts, is one value."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and key not in ("reward.parts", "evaluation.sets"):
            found |= leaves(value, f"{key}.")
        else:
            found[key] = value
    return found
