"""What `samples`, the methods without a ratio and worked solutions cannot go with; a part of checks.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .schema import RunConfig


def samples(config: RunConfig) -> Iterator[str]:
    samples, source = config.samples, config.samples.source
    if samples.per_question is not None and samples.keep == "all":
        yield (
            "samples.per_question changes nothing with samples.keep=all. Leave it out; it goes with keep=right "
            "(method=rft) and keep=pairs (method=dpo)."
        )
    yield from _right_alone(config)
    if source == "policy":
        return
    if source == "solutions" and config.group_size.value != 1:
        yield f"samples=solutions with group_size={config.group_size.value}: a question has one. Allowed: group_size=1."
    if source == "solutions" and (config.advantage.baseline, config.advantage.scale) != ("none", "none"):
        yield "samples=solutions: every coefficient is 1, with nothing to compare. Allowed: advantage=reinforce."
    if config.clip.kind != "none":
        yield (
            f"samples={source} with clip.kind={config.clip.kind}: answers of another policy have no π_old. "
            "Allowed: clip=none."
        )
    for key, asked in {
        "rollout.ahead": config.rollout.ahead,
        "rollout.dynamic_sampling": config.rollout.dynamic_sampling > 0,
        "rollout.importance": config.rollout.importance != "none",
    }.items():
        if asked:
            yield f"{key} changes nothing with samples={source}: no answers are sampled in the steps. Leave it out."


def _right_alone(config: RunConfig) -> Iterator[str]:
    """Where right answers are all that is kept, they have all earned the same."""
    baseline, scale = config.advantage.baseline, config.advantage.scale
    if config.samples.keep != "right":
        return
    if baseline in ("group_mean", "leave_one_out", "batch_mean"):
        yield (
            f"samples.keep=right with advantage.baseline={baseline}: right answers beside right ones have nothing to "
            "be better than. Allowed: advantage=reinforce."
        )
    elif scale in ("group_std", "batch_std", "group_mean"):
        yield (
            f"samples.keep=right with advantage.scale={scale}: right answers have all earned the same. "
            "Allowed: advantage=reinforce."
        )
    if config.samples.source == "policy" and config.rollout.dynamic_sampling:
        yield (
            "samples.keep=right with rollout.dynamic_sampling: groups of right answers alone never differ, so all are "
            "turned down. Leave it out."
        )


def no_clip(config: RunConfig) -> Iterator[str]:
    clip = config.clip
    if clip.kind == "none" and (clip.low, clip.high, clip.dual) != (0.0, 0.0, None):
        yield "clip.low, clip.high, clip.dual change nothing with clip.kind=none. Allowed: clip=none, which sets them."


def solutions(config: RunConfig) -> Iterator[str]:
    kind = config.data.kind
    if kind != "table" and config.data.solution_column is not None:
        yield f"data.solution_column changes nothing with data.kind={kind}. Leave it out."
    if kind == "countdown" and config.samples.source == "solutions":
        yield "samples=solutions with data.kind=countdown, which makes none. Allowed: data=arithmetic, or a table."


FAULTS: tuple[Callable[[RunConfig], Iterator[str]], ...] = (samples, no_clip, solutions)
