"""What the keys of `reward` mean together, and beside what makes use of them; the other rules are in checks.py.

Pure functions of a RunConfig, each of which yields one line for each fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .later import LATER
from .schema import RunConfig
from .validate import shown

# What only reward.equality=value asks for
_OF_VALUES = ("units", "percent", "decimal_tolerance", "rounded_golds", "numeric_tolerance", "letters", "lists")


def _overlong(config: RunConfig) -> Iterator[str]:
    buffer, soft = config.reward.overlong_buffer, config.reward.truncated == "soft"
    if soft and buffer is not None and buffer > config.max_new_tokens:  # left over from soft, advice.py tells of it
        most = config.max_new_tokens
        yield f"reward.overlong_buffer={buffer} is more than the budget. Allowed: at most max_new_tokens={most}."


def _steps(config: RunConfig) -> Iterator[str]:
    """Rewards of steps, and what makes use of them."""
    advantage, steps, beta = config.advantage, config.reward.steps, config.beta
    if advantage.credit != "process":
        if steps != "none":
            yield (
                f"reward.steps={steps} changes nothing with advantage.credit={advantage.credit}. "
                "Allowed: reward.steps=none, or advantage=process."
            )
        return
    if steps == "none":
        yield "advantage.credit=process with reward.steps=none: no step has a reward. Allowed: reward.steps=lines."
    if advantage.baseline != "group_mean" or advantage.scale not in ("group_std", "none"):
        yield (
            f"advantage.credit=process with baseline {advantage.baseline} and scale {advantage.scale}: both are over "
            "the steps of a group. Allowed: baseline=group_mean with scale=group_std or none."
        )
    if beta.value > 0 and beta.placement != "loss":
        yield (
            f"advantage.credit=process with beta.placement={beta.placement}: a KL taken off the whole answer is no "
            "step's. Allowed: beta.placement=loss, or beta=no_kl."
        )


def _reward(config: RunConfig) -> Iterator[str]:
    parts, function, reward_model = config.reward.parts, config.reward.function, config.reward.model
    if not any(parts.values()):
        yield "reward.parts: no part has a weight, so every reward would be 0. Allowed: a weight other than 0."
    if function is None and "function" in parts:
        yield "reward.parts has `function`, but reward.function is null. Set reward.function=package.module:function."
    if function is not None and "function" not in parts:
        yield "reward.function is set, but has no weight. Add +reward.parts.function=1.0, or take reward=custom."
    if reward_model is None and "model" in parts:
        yield "reward.parts has `model`, but reward.model is null. Set reward.model to a hub id or a folder."
    if reward_model is not None and "model" not in parts:
        yield "reward.model is set, but has no weight. Add +reward.parts.model=1.0, or take reward=model."
    if config.reward.model_revision is not None and reward_model is None:
        yield "reward.model_revision changes nothing without reward.model. Leave it out."


def _refreshed(config: RunConfig) -> Iterator[str]:
    """A reward model that is trained on."""
    reward = config.reward
    if not reward.refresh_every:
        for name in ("model_lr", "replay"):
            if getattr(reward, name) != LATER[f"reward.{name}"]:
                yield f"reward.{name} changes nothing with reward.refresh_every=0. Leave it out."
        return
    if reward.model is None:
        yield "reward.refresh_every: there is no reward.model to train. Allowed: reward=model, or refresh_every=0."
    if config.samples.source != "policy" or config.rollout.ahead:
        other = "rollout.ahead=true" if config.rollout.ahead else f"samples={config.samples.source}"
        yield f"reward.refresh_every with {other}: answers are scored before a round is over. Leave one of them out."


def _grading(config: RunConfig) -> Iterator[str]:
    """Keys of the checker that have no say beside the others."""
    reward = config.reward
    idle = {name: f"reward.equality={reward.equality}" for name in _OF_VALUES if reward.equality != "value"}
    if reward.extract in ("hash", "whole"):
        idle["boxes"] = f"reward.extract={reward.extract}"
    if reward.extract == "whole" and "format" in reward.parts:
        yield "reward.parts.format is the same for every answer with reward.extract=whole. Leave it out."
    for name, beside in idle.items():
        default = LATER[f"reward.{name}"]
        if getattr(reward, name) != default:
            yield (
                f"reward.{name}={shown(getattr(reward, name))} changes nothing beside {beside}. "
                f"Allowed: reward.{name}={shown(default)}, or another {beside.split('=')[0]}."
            )


def _countdown(config: RunConfig) -> Iterator[str]:
    if config.data.kind == "arithmetic" and "countdown" in config.reward.parts:
        yield "reward.parts.countdown with data.kind=arithmetic: none of its questions is one. Take data=countdown."


FAULTS: tuple[Callable[[RunConfig], Iterator[str]], ...] = (
    _overlong,
    _steps,
    _reward,
    _refreshed,
    _grading,
    _countdown,
)
