"""What keys mean together: combinations that cannot work, that change nothing, or that are not what they look like.

Pure functions of a RunConfig, called when it is composed and when a run starts. Types and ranges are the schema's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .errors import InputError
from .schema import RunConfig


def check(config: RunConfig) -> None:
    """Raise InputError for keys that contradict each other or would change nothing: one line each, five at most."""
    faults = [fault for find in _FAULTS for fault in find(config)]
    if faults:
        raise InputError("\n".join(faults[:5]))


def warnings(config: RunConfig) -> list[str]:
    """Sentences about settings that work but may not be what was meant, most important first."""
    return [warning for find in _WARNINGS for warning in find(config)]


def method_name(config: RunConfig) -> str:
    """The method that the switches make: "GRPO", "Dr. GRPO", "RLOO", "REINFORCE", or "between the two: …"."""
    ratio = {"sequence": ", with GSPO's sequence ratio", "cispo": ", with CISPO's weights"}.get(config.clip.kind, "")
    return _objective(config) + ratio


def _objective(config: RunConfig) -> str:
    advantage, norm, kl = config.advantage, config.loss_norm.kind, config.beta.value > 0
    match advantage.baseline, advantage.scale, norm:
        case "group_mean", "group_std", "sequence_mean":
            return "GRPO" if kl else "GRPO without its KL term"
        case "group_mean", "group_std", "constant":
            return "between the two: GRPO's advantage (over the group's std) with Dr. GRPO's loss norm (a constant)"
        case "group_mean", "none", "sequence_mean":
            return "between the two: Dr. GRPO's advantage (no std) with GRPO's loss norm (each response's length)"
    own = f"baseline {advantage.baseline} and scale {advantage.scale}"  # a variant that no paper here has named
    return (
        _ADVANTAGES.get((advantage.baseline, advantage.scale), own)
        + _NORMS.get(norm, f" with loss norm {norm}")
        + (" and a KL term" if kl else "")
    )


_ADVANTAGES = {
    ("group_mean", "group_std"): "GRPO's advantage",
    ("group_mean", "none"): "Dr. GRPO",
    ("leave_one_out", "group_std"): "RLOO over the group's std",
    ("leave_one_out", "none"): "RLOO",
    ("none", "group_std"): "REINFORCE over the group's std",
    ("none", "none"): "REINFORCE",
    ("group_mean", "batch_std"): "the group mean over the step's std",
    ("batch_mean", "none"): "REINFORCE with the step's mean as baseline",
}
_NORMS = {
    "constant": "",
    "sequence_mean": " with GRPO's loss norm (each response's length)",
    "token_mean": " with DAPO's loss norm (the token mean)",
    "sequence_sum": " with summed responses (no length normaliser)",
}


# --- faults: each yields one line for each


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
    if config.advantage.scale == "none" and config.advantage.ddof:
        yield "advantage.ddof changes nothing with advantage.scale=none: nothing is divided by a std. Leave it out."


def _eps(config: RunConfig) -> Iterator[str]:
    if config.advantage.scale == "none" and config.advantage.eps:
        yield "advantage.eps changes nothing with advantage.scale=none: nothing is divided by a std. Leave it out."


def _dual(config: RunConfig) -> Iterator[str]:
    if config.clip.dual is not None and config.clip.kind == "cispo":
        yield "clip.dual changes nothing with clip.kind=cispo, which clips a weight and no term. Leave it out."


def _divisor(config: RunConfig) -> Iterator[str]:
    if config.loss_norm.divisor is not None and config.loss_norm.kind != "constant":
        kind = config.loss_norm.kind
        yield f"loss_norm.divisor changes nothing with loss_norm.kind={kind}. Leave it out, or take loss_norm=constant."


def _reward(config: RunConfig) -> Iterator[str]:
    parts, function = config.reward.parts, config.reward.function
    if not any(parts.values()):
        yield "reward.parts: no part has a weight, so every reward would be 0. Allowed: a weight other than 0."
    if function is None and "function" in parts:
        yield "reward.parts has `function`, but reward.function is null. Set reward.function=package.module:function."
    if function is not None and "function" not in parts:
        yield "reward.function is set, but has no weight. Add +reward.parts.function=1.0, or take reward=custom."


def _data_source(config: RunConfig) -> Iterator[str]:
    if config.data.kind != "arithmetic":
        return
    for split, source in {"train": config.data.train, "eval": config.data.eval}.items():
        for key in ("path", "hub_id"):
            if getattr(source, key) is not None:
                yield (
                    f"data.{split}.{key} changes nothing with data.kind=arithmetic, which makes up its questions. "
                    "Take data=jsonl, data=parquet or data=hub."
                )


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


def _empty_evaluation(config: RunConfig) -> Iterator[str]:
    evaluation = config.evaluation
    if evaluation.every and not evaluation.samples and not evaluation.greedy:
        yield "evaluation.samples=0 with evaluation.greedy=false evaluates nothing. For none: evaluation=never."


# --- warnings


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


Find = Callable[[RunConfig], Iterator[str]]
_FAULTS: tuple[Find, ...] = (
    _group_of_one,
    _ddof,
    _eps,
    _dual,
    _divisor,
    _reward,
    _data_source,
    _minibatches,
    _no_targets,
    _empty_evaluation,
)
_WARNINGS: tuple[Find, ...] = (
    _half_of_dr_grpo,
    _rate_for_all_weights,
    _pairs,
    _cut_vocabulary,
    _answer_tags,
    _warm_up,
    _dropout,
    _single_update,
)
