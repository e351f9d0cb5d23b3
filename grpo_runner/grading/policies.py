"""The policy that a command grades under: the default or a run's own, changed by overrides of the group `reward`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from ..reward import Policy, policy_of


def changed(base: Policy, overrides: Sequence[str]) -> Policy:
    """The policy with overrides such as reward.units=ignored, composed as a run's are; reward=PRESET takes its place.

    Raises InputError for what a run would refuse as well.
    """
    if not overrides:
        return base
    from ..config import compose  # late: Hydra costs more than grading an answer does
    from ..validate import shown

    chosen = any(text.lstrip("+").startswith("reward=") for text in overrides)
    own = [] if chosen else [f"reward.{name}={shown(value)}" for name, value in asdict(base).items()]
    return policy_of(compose([*own, *overrides]).reward)
