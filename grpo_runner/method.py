"""Which method a run is: the name that its switches make together, or what there is of each."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from .objectives import HALVES
from .schema import RunConfig


def method_name(config: RunConfig) -> str:
    """The method that the switches make: "GRPO", "Dr. GRPO", "DAPO", "between the two: …", or what there is of each.

    Whatever else a run has, such as dynamic sampling, is told behind it, unless it is part of the method.
    """
    extras = [words for words, has in EXTRAS.items() if has(config)]
    if config.advantage.credit == "pairs":
        return _of_pairs(config) + _joined(extras)
    method = next((method for method in METHODS if method.is_made_by(config, extras)), None)
    if method is None:
        return _described(config) + _joined([*_RATIOS.get(config.clip.kind, ()), *extras])
    own = [words for words in extras if words not in (*method.needs, *method.may_have)]
    return method.name + method.norms[config.loss_norm.kind] + method.kl.get(placed(config), "") + _joined(own)


def short_name(name: str) -> str:
    """A method's name for a label: what lies between GRPO and Dr. GRPO in a few words, and nothing in brackets."""
    for long, short in _SHORT.items():
        name = name.replace(long, short)
    return re.sub(r" \([^)]*\)", "", name)


# --- methods

# what a run calls itself that was made by `method=CHOICE` alone, by the choices of conf/method
OF_CHOICE = {
    "sft": "SFT",
    "rft": "RFT",
    "online_rft": "Online RFT",
    "dpo": "DPO",
    "online_dpo": "online DPO",
    "reinforce": "REINFORCE",
    "reinforce_baseline": "REINFORCE with the step's mean as baseline",
    "rloo": "RLOO with the KL in the reward",
    "ppo": "PPO",
    "grpo": "GRPO",
    "grpo_process": "GRPO with process rewards",
    "grpo_iterative": "Iterative GRPO",
    "dr_grpo": "Dr. GRPO",
    "maxrl": "MaxRL",
    "dapo": "DAPO",
    "gspo": "GSPO",
    "cispo": "CISPO",
}


class Method(NamedTuple):
    """norms, kl: the loss norms and the places of the KL term under which it has its name, with what is added to that.

    ratios: the kinds of ratio. needs: extras without which it is not the method; may_have: extras that its paper trains
    with. source, credit: whose answers (samples.source), and which tokens are credited (advantage.credit).
    """

    name: str
    advantage: tuple[str, str]
    ratios: tuple[str, ...]
    norms: dict[str, str]
    kl: dict[str, str]
    needs: tuple[str, ...] = ()
    may_have: tuple[str, ...] = ()
    source: str = "policy"
    credit: str = "outcome"

    def is_made_by(self, config: RunConfig, extras: list[str]) -> bool:
        return (
            (config.advantage.baseline, config.advantage.scale) == self.advantage
            and config.clip.kind in self.ratios
            and (config.samples.source, config.advantage.credit) == (self.source, self.credit)
            and config.loss_norm.kind in self.norms
            and set(self.needs) <= {*extras, *([BY_RULE] if _by_rule(config) else [])}
        )


CLIP_HIGHER, DYNAMIC, OVERLONG = "clip-higher", "dynamic sampling", "the overlong penalty"
PROCESS, RENEWED, CRITIC = "process rewards", "a renewed reference", "a critic"
BY_RULE, KEPT = "rewards of 0 and 1", "distinct right answers alone"
EXTRAS: dict[str, Callable[[RunConfig], bool]] = {
    KEPT: lambda config: config.samples.keep == "right",
    "wrong answers in the normaliser": lambda config: _rejects(config) and config.samples.keep == "all",
    "the base's own answers": lambda config: (
        config.samples.source == "base" and config.advantage.credit != "pairs" and not _rejects(config)
    ),
    CLIP_HIGHER: lambda config: config.clip.kind == "token" and config.clip.high > config.clip.low,
    DYNAMIC: lambda config: config.rollout.dynamic_sampling > 0,
    OVERLONG: lambda config: config.reward.truncated == "soft",
    PROCESS: lambda config: config.advantage.credit == "process",
    CRITIC: lambda config: config.advantage.credit == "gae",
    RENEWED: lambda config: placed(config) != "none" and config.beta.refresh_every > 0,
    "truncated answers left out": lambda config: config.reward.truncated == "mask",
    "importance weights": lambda config: config.rollout.importance != "none",
    "k2 for its KL": lambda config: placed(config) == "loss" and config.beta.estimator == "k2",
    "a dual clip": lambda config: config.clip.dual is not None,
    "an entropy bonus": lambda config: config.entropy_bonus > 0,
}
_GRPO, _DR_GRPO, _RLOO = ("group_mean", "group_std"), ("group_mean", "none"), ("leave_one_out", "none")
_REINFORCE, _OF_STEP, _MAXRL = ("none", "none"), ("batch_mean", "none"), ("group_mean", "group_mean")
_ADDED = {"loss": " and a KL term", "reward": " with the KL in the reward"}  # to a method that has none
_EACH = {
    "sequence_mean": "",
    "constant": " over a constant",
    "token_mean": " with the token mean of the optimizer batch",
    "group_token_mean": " with the token mean of each question's answers",
    "sequence_sum": " with summed answers (no length normaliser)",
}
_OF_GROUPS = {"group_token_mean": "", "token_mean": " with the token mean of the optimizer batch"}
_OF_GRPO = {"none": " without its KL term", "reward": " with the KL in the reward"}
METHODS = (
    Method(
        "GRPO with process rewards", _GRPO, ("token",), {"sequence_mean": ""}, _OF_GRPO, needs=(PROCESS,),
        credit="process",
    ),
    Method("Iterative GRPO", _GRPO, ("token",), {"sequence_mean": ""}, _OF_GRPO, needs=(RENEWED,)),
    Method("GRPO", _GRPO, ("token",), {"sequence_mean": ""}, _OF_GRPO),
    Method(
        "PPO", _REINFORCE, ("token",), {"sequence_mean": ""},
        {"none": " without its KL", "loss": " with the KL in the loss"}, credit="gae", may_have=(CRITIC,),
    ),
    Method("Dr. GRPO", _DR_GRPO, ("token",), {"constant": ""}, _ADDED),
    Method("RLOO", _RLOO, ("token", "none"), {"sequence_sum": "", "constant": ""}, _ADDED),
    Method("DAPO", _GRPO, ("token",), _OF_GROUPS, _ADDED, needs=(CLIP_HIGHER, DYNAMIC, OVERLONG)),
    Method("GSPO", _GRPO, ("sequence",), {"sequence_mean": ""}, _ADDED),
    Method("MaxRL", _MAXRL, ("token", "none"), {"token_mean": ""}, _ADDED),
    Method("SFT", _REINFORCE, ("none",), _EACH, _ADDED, source="solutions"),
    Method("RFT", _REINFORCE, ("none",), _EACH, _ADDED, source="base", may_have=(KEPT,)),
    Method("Online RFT", _REINFORCE, ("none",), {"sequence_mean": ""}, _ADDED, needs=(BY_RULE,)),
    Method("REINFORCE", _REINFORCE, ("none",), {"sequence_sum": "", "constant": ""}, _ADDED),
    Method(
        "REINFORCE with the step's mean as baseline", _OF_STEP, ("none",), {"sequence_sum": "", "constant": ""}, _ADDED
    ),
    Method(
        "PPO", _REINFORCE, ("token",), _EACH,
        {"none": " without its KL in the reward", "loss": " with the KL in the loss"}, credit="gae",
    ),
    Method("CISPO", _GRPO, ("cispo",), _OF_GROUPS, _ADDED, may_have=(DYNAMIC, OVERLONG)),
)  # fmt: skip


def _of_pairs(config: RunConfig) -> str:
    """Named alike under each of its loss norms: what Δ of an answer is, is told."""
    name = "DPO" if config.samples.source == "base" else "online DPO"
    return name + {"sequence_mean": " with the mean over each answer's tokens"}.get(config.loss_norm.kind, "")


# --- what has no name of its own


def _described(config: RunConfig) -> str:
    """By its advantage and its loss norm."""
    advantage, norm = (config.advantage.baseline, config.advantage.scale), config.loss_norm.kind
    kl = _ADDED.get(placed(config), "")
    if config.advantage.credit == "gae":
        return "a critic's advantages" + _EACH.get(norm, f" with loss norm {norm}") + kl
    if between := _BETWEEN.get((*advantage, norm)):
        return between + kl
    own = f"baseline {advantage[0]} and scale {advantage[1]}"  # a variant that no paper here has named
    summed = norm == "sequence_sum" and advantage in _SUMMED
    with_norm = "" if summed else _NORMS.get(norm, f" with loss norm {norm}")
    return _ADVANTAGES.get(advantage, own) + with_norm + kl


_BETWEEN = {
    (*_GRPO, "constant"): (
        "between the two: GRPO's advantage (over the group's std) with Dr. GRPO's loss norm (a constant)"
    ),
    (*_DR_GRPO, "sequence_mean"): (
        "between the two: Dr. GRPO's advantage (no std) with GRPO's loss norm (each response's length)"
    ),
}
_SHORT = {
    _BETWEEN[*_GRPO, "constant"]: HALVES["no_length_norm"].label,
    _BETWEEN[*_DR_GRPO, "sequence_mean"]: HALVES["no_std"].label,
}
_ADVANTAGES = {
    _GRPO: "GRPO's advantage",
    _DR_GRPO: "Dr. GRPO",
    ("leave_one_out", "group_std"): "RLOO over the group's std",
    _RLOO: "RLOO",
    _MAXRL: "MaxRL's advantage",
    ("none", "group_std"): "REINFORCE over the group's std",
    _REINFORCE: "REINFORCE",
    ("group_mean", "batch_std"): "the group mean over the step's std",
    _OF_STEP: "REINFORCE with the step's mean as baseline",
}
_SUMMED = {("leave_one_out", "group_std"), ("none", "group_std"), _REINFORCE, _OF_STEP}
_NORMS = {
    "constant": "",
    "sequence_mean": " with GRPO's loss norm (each response's length)",
    "token_mean": " with the token mean of DAPO's code",
    "group_token_mean": " with DAPO's loss norm (the token mean of each group)",
    "sequence_sum": " with summed responses (no length normaliser)",
}
_RATIOS = {"sequence": ("GSPO's sequence ratio",), "cispo": ("CISPO's weights",), "none": ("no ratio",)}


def _rejects(config: RunConfig) -> bool:
    """Whether answers of the base are taken or not by what they earned alone: RFT."""
    advantage = (config.advantage.baseline, config.advantage.scale)
    return config.samples.source == "base" and config.advantage.credit == "outcome" and advantage == _REINFORCE


def _by_rule(config: RunConfig) -> bool:
    """Whether a right answer earns 1 and another 0."""
    parts = {name: weight for name, weight in config.reward.parts.items() if weight}
    return parts == {"correct": 1.0} and config.reward.truncated != "soft" and placed(config) != "reward"


def placed(config: RunConfig) -> str:
    return config.beta.placement if config.beta.value > 0 else "none"


def _joined(extras: list[str]) -> str:
    """ ", with a, b and c"; nothing of nothing."""
    if not extras:
        return ""
    return f", with {', '.join(extras[:-1])}{' and ' * (len(extras) > 1)}{extras[-1]}"
