"""What a run is, in words: the method that its switches make, and settings that are not what they look like.

Pure functions of a RunConfig; what cannot work at all is refused in checks.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .schema import RunConfig


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
    "token_mean": " with the token mean of DAPO's code",
    "group_token_mean": " with DAPO's loss norm (the token mean of each group)",
    "sequence_sum": " with summed responses (no length normaliser)",
}


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
    _kl_without_weight,
    _rate_for_all_weights,
    _pairs,
    _cut_vocabulary,
    _answer_tags,
    _warm_up,
    _dropout,
    _single_update,
)
