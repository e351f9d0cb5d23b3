"""What does not go with `advantage.credit=pairs`: DPO's three keys go together, the rest must leave its gradient."""

from __future__ import annotations

from collections.abc import Iterator

from .schema import RunConfig
from .validate import shown


def faults(config: RunConfig) -> Iterator[str]:
    """One line for each key that does not go with pairs, or for what pairs lack."""
    three = {
        "advantage.credit=pairs": config.advantage.credit == "pairs",
        "samples.keep=pairs": config.samples.keep == "pairs",
        "beta.placement=preference": config.beta.placement == "preference",
    }
    if not any(three.values()):
        return
    if missing := [words for words, has in three.items() if not has]:
        has = " ".join(words for words in three if words not in missing)
        yield f"{has} without {' and '.join(missing)}: pairs are DPO's, which is all three. Take method=dpo."
        return
    norms = ("sequence_sum", "sequence_mean", "constant")  # in which no answer's tokens weigh by another's length
    advantage, kind = config.advantage, config.loss_norm.kind
    unused = "a pair is a right answer and a wrong one, whatever they earned"
    wanted = {  # key: its value, whether that will do, why it must, what is allowed
        "beta": (config.beta.value, config.beta.value > 0, "every weight would be 0", "a number above 0"),
        "beta.estimator": (config.beta.estimator, config.beta.estimator == "k1", "DPO has log π/π_ref itself", "k1"),
        "loss_norm.kind": (kind, kind in norms, "answers would weigh by each other's lengths", ", ".join(norms)),
        "clip.kind": (config.clip.kind, config.clip.kind == "none", "DPO has no ratio", "clip=none"),
        "advantage.baseline": (advantage.baseline, advantage.baseline == "none", unused, "none"),
        "advantage.scale": (advantage.scale, advantage.scale == "none", unused, "none"),
        "reward.truncated": (config.reward.truncated, config.reward.truncated != "soft", unused, "zero, keep, mask"),
        "group_size": (config.group_size.value, config.group_size.value > 1, "a pair is two answers", "at least 2"),
        "samples.source": (
            config.samples.source, config.samples.source != "solutions", "no solution is wrong", "base, policy",
        ),
        "optim.updates_per_rollout": (
            config.optim.updates_per_rollout, config.optim.updates_per_rollout == 1,
            "weights are made anew for each optimizer step", "1",
        ),
        "rollout.importance": (
            config.rollout.importance, config.rollout.importance == "none", "pairs may be any policy's", "none",
        ),
    }  # fmt: skip
    for key, (value, will_do, why, what) in wanted.items():
        if not will_do:
            yield f"{key}={shown(value)} with advantage.credit=pairs: {why}. Allowed: {what}."
