"""From conf/ and command-line overrides to RunConfig. Only this room, jobs.py and cli.py know Hydra."""

from .composing import VERSION_BASE, Plan, Source, compose, compose_sweep, find, own_label, plan, resolve, to_show
from .hydra_errors import explain
from .names import label
from .overlay import compose_over

__all__ = [
    "VERSION_BASE",
    "Plan",
    "Source",
    "compose",
    "compose_over",
    "compose_sweep",
    "explain",
    "find",
    "label",
    "own_label",
    "plan",
    "resolve",
    "to_show",
]
