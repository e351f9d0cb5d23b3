"""What a run is, in words: the method that its switches make, and settings that are not what they look like.

Pure functions of a RunConfig; what cannot work at all is refused in checks.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from .schema import RunConfig


def warnings(config: RunConfig) -> list[str]:
    """Sentences about settings that work but may not be what was meant, most important first."""
    return [warning for find in _WARNINGS for warning in find(config)]


def method_name(config: RunConfig) -> str:
    """The method that the switches make: "GRPO", "Dr. GRPO", "DAPO", "between the two: …", or what there is of each.

    Whatever else a run has, such as dynamic sampling, is told behind it, unless it is part of the method.
    """
    extras = [words for words, has in _EXTRAS.items() if has(config)]
    method = next((method for method in _METHODS if method.is_made_by(config, extras)), None)
    if method is None:
        return _described(config) + _joined([*_RATIOS.get(config.clip.kind, ()), *extras])
    own = [words for words in extras if words not in (*method.needs, *method.may_have)]
    return method.name + method.norms[config.loss_norm.kind] + method.kl.get(_placed(config), "") + _joined(own)


# --- methods


class Method(NamedTuple):
    """norms, kl: the loss norms and the places of the KL term under which it has its name, with what is added to that.

    needs: extras without which it is not the method; may_have: extras that its paper trains with.
    """

    name: str
    advantage: tuple[str, str]
    ratio: str
    norms: dict[str, str]
    kl: dict[str, str]
    needs: tuple[str, ...] = ()
    may_have: tuple[str, ...] = ()

    def is_made_by(self, config: RunConfig, extras: list[str]) -> bool:
        return (
            (config.advantage.baseline, config.advantage.scale) == self.advantage
            and config.clip.kind == self.ratio
            and config.loss_norm.kind in self.norms
            and set(self.needs) <= set(extras)
        )


CLIP_HIGHER, DYNAMIC, OVERLONG = "clip-higher", "dynamic sampling", "the overlong penalty"
_EXTRAS: dict[str, Callable[[RunConfig], bool]] = {
    CLIP_HIGHER: lambda config: config.clip.kind == "token" and config.clip.high > config.clip.low,
    DYNAMIC: lambda config: config.rollout.dynamic_sampling > 0,
    OVERLONG: lambda config: config.reward.truncated == "soft",
    "truncated answers left out": lambda config: config.reward.truncated == "mask",
    "importance weights": lambda config: config.rollout.importance != "none",
    "an entropy bonus": lambda config: config.entropy_bonus > 0,
}
_GRPO, _DR_GRPO, _RLOO = ("group_mean", "group_std"), ("group_mean", "none"), ("leave_one_out", "none")
_ADDED = {"loss": " and a KL term", "reward": " with the KL in the reward"}  # to a method that has none
_OF_GROUPS = {"group_token_mean": "", "token_mean": " with the token mean of the optimizer batch"}
_METHODS = (
    Method(
        "GRPO", _GRPO, "token", {"sequence_mean": ""},
        {"none": " without its KL term", "reward": " with the KL in the reward"},
    ),
    Method("Dr. GRPO", _DR_GRPO, "token", {"constant": ""}, _ADDED),
    Method("RLOO", _RLOO, "token", {"sequence_sum": "", "constant": ""}, _ADDED),
    Method("DAPO", _GRPO, "token", _OF_GROUPS, _ADDED, needs=(CLIP_HIGHER, DYNAMIC, OVERLONG)),
    Method("GSPO", _GRPO, "sequence", {"sequence_mean": ""}, _ADDED),
    Method("CISPO", _GRPO, "cispo", _OF_GROUPS, _ADDED, may_have=(DYNAMIC, OVERLONG)),
)  # fmt: skip


# --- what has no name of its own


def _described(config: RunConfig) -> str:
    """By its advantage and its loss norm."""
    advantage, norm = (config.advantage.baseline, config.advantage.scale), config.loss_norm.kind
    kl = _ADDED.get(_placed(config), "")
    if between := _BETWEEN.get((*advantage, norm)):
        return between + ("" if _placed(config) != "reward" else kl)
    own = f"baseline {advantage[0]} and scale {advantage[1]}"  # a variant that no paper here has named
    return _ADVANTAGES.get(advantage, own) + _NORMS.get(norm, f" with loss norm {norm}") + kl


_BETWEEN = {
    (*_GRPO, "constant"): (
        "between the two: GRPO's advantage (over the group's std) with Dr. GRPO's loss norm (a constant)"
    ),
    (*_DR_GRPO, "sequence_mean"): (
        "between the two: Dr. GRPO's advantage (no std) with GRPO's loss norm (each response's length)"
    ),
}
_ADVANTAGES = {
    _GRPO: "GRPO's advantage",
    _DR_GRPO: "Dr. GRPO",
    ("leave_one_out", "group_std"): "RLOO over the group's std",
    _RLOO: "RLOO",
    ("none", "group_std"): "REINFORCE over the group's std",
    ("none", "none"): "REINFORCE",
    ("group_mean", "batch_std"): "the group mean over the step's std",
    ("batch_mean", "none"): "REINFORCE with the step's mean as baseline",
}
_NORMS = {
    "constant": "",
    "sequence_mean": " with GRPO's loss norm (each response's length)",
    "token_mean": " with the token mean of DAPO's code",
    "group_token_mean": " with DAPO's loss norm (the token mean of each group)",
    "sequence_sum": " with summed responses (no length normaliser)",
}
_RATIOS = {"sequence": ("GSPO's sequence ratio",), "cispo": ("CISPO's weights",)}


def _placed(config: RunConfig) -> str:
    return config.beta.placement if config.beta.value > 0 else "none"


def _joined(extras: list[str]) -> str:
    """ ", with a, b and c"; nothing of nothing."""
    if not extras:
        return ""
    return f", with {', '.join(extras[:-1])}{' and ' * (len(extras) > 1)}{extras[-1]}"


# each function yields one sentence for each thing to know


def _half_of_dr_grpo(config: RunConfig) -> Iterator[str]:
    if config.advantage.baseline != "group_mean":
        return
    missing = {
        "advantage=dr_grpo": config.advantage.scale != "none",
        "loss_norm=constant": config.loss_norm.kind != "constant",
        "beta=no_kl": config.beta.value > 0,
    }
    # one of the two switches that tell the methods apart is set; the KL term alone is a choice of its own
    halves = [key for key in ("advantage=dr_grpo", "loss_norm=constant") if not missing[key]]
    if len(halves) == 1:
        wanted = " ".join(key for key, absent in missing.items() if absent)
        yield (
            f"This is not Dr. GRPO: {halves[0]} is half of it. "
            f"For the whole method add {wanted}, or take experiment=dr_grpo."
        )
    elif len(halves) == 2 and missing["beta=no_kl"]:
        yield f"Dr. GRPO as published has no KL term, this run has one (beta={config.beta.value}): add beta=no_kl."


def _part_of_dapo(config: RunConfig) -> Iterator[str]:
    """Where most of DAPO is there. A typed choice such as rollout=transformers sets back what a preset had set."""
    method = next(method for method in _METHODS if method.name == "DAPO")
    has = [words for words in method.needs if _EXTRAS[words](config)]
    if len(has) != len(method.needs) - 1 or not method._replace(needs=()).is_made_by(config, has):
        return
    keys = {
        CLIP_HIGHER: "clip=clip_higher",
        DYNAMIC: "rollout.dynamic_sampling=10",
        OVERLONG: f"reward.truncated=soft reward.overlong_buffer={max(1, config.max_new_tokens // 5)}",
    }
    missing = next(words for words in method.needs if words not in has)
    yield f"This is not DAPO: it lacks {missing}. For the whole method add {keys[missing]}."


def _kl_without_weight(config: RunConfig) -> Iterator[str]:
    if config.beta.value > 0:
        return
    asked = {
        "beta.placement": config.beta.placement != "loss",
        "beta.reference": config.beta.reference != "initial",
        "beta.refresh_every": config.beta.refresh_every > 0,
    }
    for key in (key for key, set_ in asked.items() if set_):
        yield f"{key} changes nothing with beta=0: there is no KL term."


def _kl_in_the_reward(config: RunConfig) -> Iterator[str]:
    if _placed(config) != "reward":
        return
    if config.beta.estimator != "k1":
        yield (
            f"beta.placement=reward with beta.estimator={config.beta.estimator}: its policy gradient is not the "
            "KL's, as that of k1 is. For RLOO's take beta.estimator=k1, or beta=in_reward."
        )
    if config.advantage.scale == "group_std":
        yield (
            "beta.placement=reward with advantage.scale=group_std: the std divides the KL too, and a group whose "
            "answers all earned the same is weighed at full size by its KL alone."
        )


def _reference_that_stays(config: RunConfig) -> Iterator[str]:
    if config.beta.value > 0 and config.beta.refresh_every >= config.steps:
        yield f"beta.refresh_every={config.beta.refresh_every} is not reached in {config.steps} steps."


def _groups_left_out(config: RunConfig) -> Iterator[str]:
    if config.rollout.dynamic_sampling and config.advantage.baseline not in ("group_mean", "leave_one_out"):
        yield (
            f"rollout.dynamic_sampling with advantage.baseline={config.advantage.baseline}: groups whose answers all "
            "earned the same would carry weight here, and are left out."
        )


def _overlong(config: RunConfig) -> Iterator[str]:
    buffer, budget = config.reward.overlong_buffer, config.max_new_tokens
    correct = config.reward.parts.get("correct", 0.0)
    if config.reward.truncated != "soft":
        if buffer is not None:
            yield f"reward.overlong_buffer changes nothing with reward.truncated={config.reward.truncated}."
        return
    if 0 < correct < 2:
        yield (
            f"reward.truncated=soft takes up to 1 off where a right answer earns {correct:g}: DAPO's right and wrong "
            "answers are 2 apart. For its proportions take reward.parts.correct=2."
        )
    if buffer is not None and 20 * buffer < budget:
        yield (
            f"reward.overlong_buffer={buffer} of max_new_tokens={budget}: the penalty acts on the last "
            f"{100 * buffer / budget:.1g} % of the budget alone. DAPO: a fifth, here {budget // 5}."
        )


def _importance(config: RunConfig) -> Iterator[str]:
    kind, cap = config.rollout.importance, config.rollout.importance_cap
    if kind == "none":
        return
    yield (
        f"rollout.importance={kind}: both engines sample with the very weights that train, so that the ratio is 1 up "
        "to rounding (metrics.jsonl: mismatch)."
    )
    if cap is not None and cap < 1:
        yield f"rollout.importance_cap={cap:g} cuts the ratio also where engine and trainer agree, which is 1."


def _rate_for_all_weights(config: RunConfig) -> Iterator[str]:
    if not config.lora.enabled and config.optim.lr >= 1e-4:
        yield (
            f"optim.lr={config.optim.lr} is a rate for adapters, but lora=off trains all weights. "
            "The papers use 1e-6 (optim=full_finetune)."
        )


def _pairs(config: RunConfig) -> Iterator[str]:
    if config.group_size.value == 2 and config.advantage.scale == "group_std":
        yield (
            "group_size=2 over the group's std: with rewards of 0 and 1 an advantage is 0 or always the same size, "
            "and most groups will have no variance."
        )


def _single_update(config: RunConfig) -> Iterator[str]:
    if config.optim.updates_per_rollout > 1:
        return
    if config.optim.minibatch != "whole":
        yield f"optim.minibatch={config.optim.minibatch} changes nothing with optim.updates_per_rollout=1."
    yield "optim.updates_per_rollout=1: the probability ratio is 1 throughout, so the clip range cannot act."


def _cut_vocabulary(config: RunConfig) -> Iterator[str]:
    if config.optim.updates_per_rollout > 1 and (config.rollout.top_p < 1 or config.rollout.top_k > 0):
        yield (
            "rollout.top_p or rollout.top_k cuts the vocabulary that is sampled from, "
            "while log-probabilities and ratios are over all of it."
        )


def _answer_tags(config: RunConfig) -> Iterator[str]:
    if any("</answer>" in stop for stop in config.prompt.stop) and config.reward.extract != "answer_tag":
        yield (
            f"prompt.stop ends answers at </answer>, but reward.extract={config.reward.extract} looks elsewhere: "
            "for the R1 template add reward.extract=answer_tag."
        )


def _warm_up(config: RunConfig) -> Iterator[str]:
    total = config.steps * config.optim.updates_per_rollout
    if config.optim.warmup_steps >= total:
        yield (
            f"optim.warmup_steps={config.optim.warmup_steps} outlasts the run's {total} optimizer steps: "
            "the rate never reaches optim.lr before the end."
        )


def _dropout(config: RunConfig) -> Iterator[str]:
    if config.lora.enabled and config.lora.dropout > 0:
        yield f"lora.dropout={config.lora.dropout}: the policy that is trained differs from the one that samples."


_WARNINGS: tuple[Callable[[RunConfig], Iterator[str]], ...] = (
    _half_of_dr_grpo,
    _part_of_dapo,
    _kl_without_weight,
    _kl_in_the_reward,
    _reference_that_stays,
    _groups_left_out,
    _overlong,
    _importance,
    _rate_for_all_weights,
    _pairs,
    _cut_vocabulary,
    _answer_tags,
    _warm_up,
    _dropout,
    _single_update,
)
