"""Settings that work but are not what they look like, in words.

Pure functions of a RunConfig; what cannot work at all is refused in checks.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from . import prompt_advice
from .later import LATER
from .method import CLIP_HIGHER, DYNAMIC, EXTRAS, METHODS, OVERLONG, placed
from .schema import RunConfig
from .validate import shown


def warnings(config: RunConfig) -> list[str]:
    """Sentences about settings that work but may not be what was meant, most important first."""
    return [warning for find in _WARNINGS for warning in find(config)]


# each function yields one sentence for each thing to know


def _half_of_dr_grpo(config: RunConfig) -> Iterator[str]:
    advantage = config.advantage
    if advantage.baseline != "group_mean" or advantage.scale == "group_mean" or advantage.credit != "outcome":
        return
    missing = {
        "advantage=dr_grpo": config.advantage.scale != "none",
        "loss_norm=constant": config.loss_norm.kind != "constant",
        "beta=no_kl": config.beta.value > 0,
    }
    if not missing["advantage=dr_grpo"] and config.loss_norm.kind == "sequence_sum":
        return  # the same gradient times a constant: both biases are out
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
    method = next(method for method in METHODS if method.name == "DAPO")
    has = [words for words in method.needs if EXTRAS[words](config)]
    if len(has) != len(method.needs) - 1 or not method._replace(needs=()).is_made_by(config, has):
        return
    keys = {
        CLIP_HIGHER: "clip=clip_higher",
        DYNAMIC: "rollout.dynamic_sampling=10",
        OVERLONG: "reward.truncated=soft",
    }
    missing = next(words for words in method.needs if words not in has)
    yield f"This is not DAPO: it lacks {missing}. For the whole method add {keys[missing]}."


def _kl_without_weight(config: RunConfig) -> Iterator[str]:
    if config.beta.value > 0:
        return
    asked = {
        "beta.estimator": config.beta.estimator != "k3",
        "beta.placement": config.beta.placement != "loss",
        "beta.reference": config.beta.reference != "initial",
        "beta.refresh_every": config.beta.refresh_every > 0,
    }
    for key in (key for key, set_ in asked.items() if set_):
        yield f"{key} changes nothing with beta=0: there is no KL term."


def _kl_in_the_reward(config: RunConfig) -> Iterator[str]:
    if placed(config) != "reward":
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


def _rate_of_success(config: RunConfig) -> Iterator[str]:
    """MaxRL divides by the group's mean, which is a rate of success where rewards are 0 or more."""
    if config.advantage.scale != "group_mean":
        return
    negative = {
        "reward.truncated=soft": config.reward.truncated == "soft",
        "beta.placement=reward": placed(config) == "reward",
        "reward.parts": any(weight < 0 for weight in config.reward.parts.values()),
    }
    for key in (key for key, can in negative.items() if can):
        yield (
            f"advantage.scale=group_mean with {key}: rewards may be negative, and the mean is no rate of success. A "
            "group whose mean is near 0 weighs any size, one below 0 nothing."
        )


def _moved_on(config: RunConfig) -> Iterator[str]:
    """Without a ratio nothing weighs an answer by how far the policy has gone from the one that sampled it."""
    if config.clip.kind == "none" and config.samples.source == "policy" and config.optim.updates_per_rollout > 1:
        yield (
            f"clip.kind=none with optim.updates_per_rollout={config.optim.updates_per_rollout}: from the second update "
            "on the answers are another policy's, and no ratio weighs them by it. For a ratio take clip=ppo."
        )


def _reference_that_stays(config: RunConfig) -> Iterator[str]:
    if config.beta.value > 0 and config.beta.refresh_every >= config.steps:
        yield f"beta.refresh_every={config.beta.refresh_every} is not reached in {config.steps} steps."


def _rewards_without_say(config: RunConfig) -> Iterator[str]:
    others = [part for part, weight in config.reward.parts.items() if weight and part not in ("correct", "countdown")]
    if config.advantage.credit == "pairs" and others:
        yield (
            f"advantage.credit=pairs goes by the checker's right and wrong alone: reward.parts.{others[0]} is logged, "
            "and trains nothing."
        )


def _groups_left_out(config: RunConfig) -> Iterator[str]:
    if not config.rollout.dynamic_sampling:
        return
    keeps_all = config.samples.keep == "all"  # else a group is left out for having nothing to train on
    # of a function of the user's own nothing is known; the group's std takes the weight of such a group by itself
    if (
        keeps_all
        and config.advantage.baseline in ("none", "batch_mean")
        and config.advantage.scale in ("none", "batch_std")
    ):
        yield (
            f"rollout.dynamic_sampling with advantage.baseline={config.advantage.baseline}: groups whose answers all "
            "earned the same would carry weight here, and are left out."
        )
    size, step = config.data.train_size, config.questions_per_step
    if size is not None and size <= step:
        yield (
            f"rollout.dynamic_sampling with data.train_size={size} and questions_per_step={step}: a step takes every "
            "question there is, so none is left to be sampled in place of another."
        )


def _parts_of_groups(config: RunConfig) -> Iterator[str]:
    split = config.optim.minibatch == "response" and config.optim.updates_per_rollout > 1 < config.group_size.value
    if config.loss_norm.kind == "group_token_mean" and split:
        yield (
            "loss_norm.kind=group_token_mean with optim.minibatch=response: an optimizer step has parts of groups, and "
            "the tokens of a group are those of its part. For whole groups take optim.minibatch=group."
        )


def _overlong(config: RunConfig) -> Iterator[str]:
    buffer, budget = config.reward.overlong_buffer, config.max_new_tokens
    correct = config.reward.parts.get("correct", 0.0)
    if config.reward.truncated != "soft":
        if buffer is not None:
            yield f"reward.overlong_buffer changes nothing with reward.truncated={config.reward.truncated}."
        return
    acts_on = min(buffer or max(1, budget // 5), budget)
    if budget < 5 or 2 * acts_on > budget:
        yield (
            f"reward.truncated=soft takes something off every answer of more than {budget - acts_on} tokens, with "
            f"max_new_tokens={budget} that may be nearly all of them. DAPO: the last fifth of the budget."
        )
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
    kind, cap, ahead = config.rollout.importance, config.rollout.importance_cap, config.rollout.ahead
    if kind == "none" and ahead:
        yield "rollout.ahead: answers are one update old, and rollout.importance=none does not weigh by it (try token)."
    if kind == "none":
        return
    if config.rollout.engine != "vllm" and not ahead:
        yield (
            f"rollout.importance={kind}: rollout={config.rollout.engine} samples with the very weights that train, so "
            "that the ratio is 1 up to rounding (metrics.jsonl: mismatch)."
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
    if config.clip.kind != "none":
        yield "optim.updates_per_rollout=1: the probability ratio is 1 throughout, so the clip range cannot act."


def _cut_vocabulary(config: RunConfig) -> Iterator[str]:
    if config.optim.updates_per_rollout > 1 and (config.rollout.top_p < 1 or config.rollout.top_k > 0):
        yield (
            "rollout.top_p or rollout.top_k cuts the vocabulary that is sampled from, "
            "while log-probabilities and ratios are over all of it."
        )


def _warm_up(config: RunConfig) -> Iterator[str]:
    total = config.steps * config.optim.updates_per_rollout
    if config.optim.warmup_steps >= total:
        yield (
            f"optim.warmup_steps={config.optim.warmup_steps} outlasts the run's {total} optimizer steps: "
            "the rate never reaches optim.lr before the end."
        )


def _probe(config: RunConfig) -> Iterator[str]:
    names = config.tracking.probe
    if not config.tracking.probe_every and list(names) != LATER["tracking.probe"]:
        yield (
            f"tracking.probe={shown(names)} changes nothing with tracking.probe_every=0: nothing is compared. "
            "For every tenth step add tracking.probe_every=10."
        )


def _dropout(config: RunConfig) -> Iterator[str]:
    if config.lora.enabled and config.lora.dropout > 0:
        yield f"lora.dropout={config.lora.dropout}: the policy that is trained differs from the one that samples."


_WARNINGS: tuple[Callable[[RunConfig], Iterator[str]], ...] = (
    _half_of_dr_grpo,
    _part_of_dapo,
    _kl_without_weight,
    _kl_in_the_reward,
    _rate_of_success,
    _moved_on,
    _reference_that_stays,
    _rewards_without_say,
    _groups_left_out,
    _parts_of_groups,
    _overlong,
    _importance,
    _rate_for_all_weights,
    _pairs,
    _cut_vocabulary,
    *prompt_advice.FINDERS,
    _warm_up,
    _probe,
    _dropout,
    _single_update,
)
