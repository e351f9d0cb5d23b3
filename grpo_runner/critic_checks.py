"""What does not go with a critic, and with `advantage.credit=gae`, which needs one."""

from __future__ import annotations

from collections.abc import Iterator

from .schema import RunConfig


def faults(config: RunConfig) -> Iterator[str]:
    """One line for each key that does not go with a critic, or would change nothing without one."""
    critic, advantage = config.critic, config.advantage
    settings = {"lr": critic.lr, "gamma": critic.gamma, "lam": critic.lam, "clip": critic.clip}
    if critic.kind == "none":
        if advantage.credit == "gae":
            yield "advantage.credit=gae with critic=none: it needs values. Allowed: critic=shared_base or own_model."
        for name in (name for name, value in settings.items() if value is not None):
            yield f"critic.{name} changes nothing with critic.kind=none. Leave it out, or take critic=shared_base."
        return
    if advantage.credit != "gae":
        yield (
            f"critic={critic.kind} changes nothing with advantage.credit={advantage.credit}. "
            "Allowed: critic=none, or advantage=gae (method=ppo)."
        )
    for name in (name for name, value in settings.items() if value is None and name != "clip"):
        yield f"critic.{name}=null with critic.kind={critic.kind}. Allowed: a number; only critic.clip may be null."
    if critic.kind == "shared_base" and not config.lora.enabled:
        yield "critic=shared_base with lora=off: there is no frozen base to share. Allowed: critic=own_model."
    if (advantage.baseline, advantage.scale) != ("none", "none") and advantage.credit == "gae":
        yield "advantage.credit=gae: the critic is the baseline. Allowed: advantage=gae, baseline and scale none."
    if config.samples.source != "policy":
        yield f"samples={config.samples.source} with a critic: its values are of the policy. Allowed: samples=policy."
