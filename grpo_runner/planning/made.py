"""A whole plan from what was asked: the run is composed and checked as it would be, and nothing of it is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .. import config as composing
from ..config.names import PRESETS
from ..errors import InputError
from ..facts import Fact, of_preset, typed
from ..schema import RunConfig
from ..validate import NUMERIC_GROUPS
from . import devices, models, prompt_length, speed
from .bites import Bite, bites
from .departs import leaves
from .happens import Happens, happens
from .what import Typed, What, what
from .words import Asked

GROUPS = ("experiment", "method")  # what a run departs from: of two that are named the first


@dataclass(frozen=True)
class Shortage:
    """What to change on a device on which the run does not fit, the first first; fits: whether it then does."""

    changes: tuple[str, ...]
    fits: bool


@dataclass(frozen=True)
class Made:
    """A plan. runs: of the sweep, None for a single run (the plan is then of its first).

    prompt: tokens of a prompt that memory was counted for, prompt_said: where that is from. needs: one a device, none
    where the model's sizes are not known. short: by the device's name. estimate: None where no speed was measured.
    price: of an hour of one device.
    """

    command: str
    config: RunConfig
    runs: int | None
    what: What
    happens: Happens
    model: models.Model
    prompt: int
    prompt_said: str
    processes: int
    needs: tuple[devices.Needs, ...]
    short: dict[str, Shortage]
    estimate: speed.Estimate | None
    price: float | None
    bites: tuple[Bite, ...]

    def plain(self) -> dict[str, Any]:
        """The plan as plain values, for JSON. Bytes, tokens, hours."""
        told = self.what
        return {
            "command": self.command,
            "runs": self.runs,
            "what": asdict(told),
            "happens": {**asdict(self.happens), "even": {str(p): share for p, share in self.happens.even.items()}},
            "needs": {
                "model": self.model.path,
                "parameters": self.model.parameters,
                "why_not": self.model.why,
                "prompt_tokens": self.prompt,
                "processes": self.processes,
                "devices": [
                    {
                        "name": found.place.name,
                        "size": found.place.size,
                        "fits": found.fits,
                        "peaks": found.peaks,
                        "always": found.lasting,
                        "sampling": found.sampling,
                        "update": found.updating,
                        "saving": found.saving,
                        "microbatch_tokens": found.micro,
                        "change": asdict(self.short[found.place.name]) if found.place.name in self.short else None,
                    }
                    for found in self.needs
                ],
            },
            "time": asdict(self.estimate) if self.estimate else None,
            "bites": [asdict(bite) for bite in self.bites],
        }


def composed(asked: Asked) -> tuple[RunConfig, int | None]:
    """(the run, or a sweep's first; how many runs, None for a single one). Raises InputError."""
    planned = composing.plan(asked.overrides, asked.sweep, first_only=True)
    if not planned.configs:
        raise InputError("plan: this sweep decides its runs as it goes. Give the keys of one run, without the sweeper.")
    return planned.configs[0], planned.runs if planned.sweep else None


def make(asked: Asked, memory: int | None = None, remembered: bool = True) -> Made:
    """memory: bytes of this machine's, None: asked of it. remembered: look for measured speeds. Raises InputError."""
    config, runs = composed(asked)
    group = next((name for name in GROUPS if _preset(asked.overrides, name)), GROUPS[0])
    preset = _preset(asked.overrides, group)
    plain = _preset_alone(group, preset, asked, config)
    model = models.find(config.model.path)
    length = prompt_length.usual(config)
    prompt = asked.prompt or length.tokens
    memory = devices.own_memory() if memory is None else memory
    found: list[devices.Needs] = []
    short: dict[str, Shortage] = {}
    if model.sizes is not None:
        for place in devices.places(config.device, memory):
            need = devices.needs(config, model.sizes, place, prompt, asked.processes)
            found.append(need)
            if need.fits is False:
                short[place.name] = Shortage(*devices.to_fit(config, model.sizes, place, prompt, asked.processes))
    counts = happens(config, asked.success)
    facts, own = of_preset(preset) if preset else (), _typed(asked.overrides)
    told = what(config, preset, plain, facts, Typed(own, _chosen(group, preset, plain, asked)), group)
    measured = speed.known(config) if remembered else None
    return Made(
        command=" ".join(["python -m grpo_runner", *(["-m"] if asked.sweep else []), *asked.overrides]),
        config=config,
        runs=runs,
        what=told,
        happens=counts,
        model=model,
        prompt=prompt,
        prompt_said="as given" if asked.prompt else length.said,
        processes=asked.processes,
        needs=tuple(found),
        short=short,
        estimate=speed.estimate(config, counts, measured, asked.processes) if measured else None,
        price=asked.price,
        bites=tuple(bites(config, asked.success, own, () if told.departures else _stated(facts))),
    )


def _preset(overrides: Sequence[str], group: str) -> str:
    """The choice of that group that is named, of several that are swept the first; '' for none."""
    named = [word.partition("=")[2] for word in overrides if word.partition("=")[0].lstrip("+") == group]
    first = named[-1].strip("'\"").split(",")[0].strip() if named else ""
    return first if first != "null" else ""


def _preset_alone(group: str, preset: str, asked: Asked, config: RunConfig) -> RunConfig | None:
    """The preset without the user's overrides; None without one."""
    if not preset:
        return None
    own = _alone(f"{group}={preset}", asked)
    return config if own.overrides == asked.overrides else composed(own)[0]


def _alone(preset: str, asked: Asked, *more: str) -> Asked:
    return Asked((preset, *more, *(o for o in asked.overrides if o.startswith("hydra.searchpath"))))


def _chosen(group: str, preset: str, plain: RunConfig | None, asked: Asked) -> dict[str, frozenset[str]]:
    """{`model=tiny`: the keys of that group}, of all groups whose choice was typed beside a preset, and of presets
    that were typed beside the first one: {`debug=cpu_smoke`: the keys in which it differs from that}.
    """
    if plain is None:
        return {}
    before, found = leaves(asdict(plain)), {}
    for word in asked.overrides:
        key_of, _, name = word.partition("=")
        keys = frozenset(key for key in before if key.startswith(f"{key_of}."))
        if keys and not (key_of in NUMERIC_GROUPS and isinstance(typed(name), int | float)):
            found[word] = keys
    for other in ("method", "debug"):
        if other != group and (named := _preset(asked.overrides, other)):
            after = leaves(asdict(composed(_alone(f"{group}={preset}", asked, f"{other}={named}"))[0]))
            found[f"{other}={named}"] = frozenset(key for key in after if after[key] != before.get(key))
    return found


def _stated(facts: Sequence[Fact]) -> list[str]:
    """The keys whose value the preset's source states."""
    return [fact.key for fact in facts if fact.kind in ("stated", "derived")]


def _typed(overrides: Sequence[str]) -> list[str]:
    """The keys and groups that were typed, presets aside; a group that is given a number is its key `value`."""
    named = []
    for word in overrides:
        key, _, value = word.partition("=")
        key = key.lstrip("+~")
        named.append(f"{key}.value" if key in NUMERIC_GROUPS and isinstance(typed(value), int | float) else key)
    return [key for key in named if key not in PRESETS and not key.startswith("hydra.")]
