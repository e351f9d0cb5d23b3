"""A typed choice beside a preset: `debug=cpu_smoke group_size=medium` is of medium groups.

Presets (`experiment=`, `debug=`) set keys of many groups, and Hydra merges them last, over choices that were typed too.
Here a typed choice means the same as without a preset: key typed > group typed > preset > defaults.
"""

from __future__ import annotations

import json
from typing import Any

import hydra
from hydra.core.override_parser.types import Override, OverrideType, Quote, QuotedString
from omegaconf import DictConfig, OmegaConf

from . import names
from .hydra_errors import explain
from .overrides import parse


def typed_choices(settings: DictConfig) -> dict[str, Any]:
    """{group: its node as it is without presets}, for groups whose choice was typed beside a preset.

    `settings`: Hydra's own node of the composed config. Hydra must be open, as it is while it composes or runs a job.
    """
    chosen = settings.runtime.choices
    presets = [group for group in names.PRESETS if chosen.get(group) is not None]
    if not presets:
        return {}
    typed = parse(typed_texts(settings))
    own = settings.sweeper.get("params") or {}  # an experiment's sweep is not typed: its other keys are meant for it
    groups = {group for group in map(_choice, typed) if group and group in chosen and group not in own}
    if not groups:
        return {}
    added = {override.key_or_group for override in typed if override.is_add()}
    plain = [
        *(f"~{preset}" for preset in presets if preset not in added),
        *(override.input_line or "" for override in typed if _choice(override) in groups),
        *(
            _key(override)
            for override in typed
            if override.key_or_group.split(".")[0] in groups and not _choice(override)
        ),
        *(text for text in settings.overrides.hydra if text.startswith("hydra.searchpath")),
    ]
    try:
        composed = hydra.compose(settings.job.config_name, plain)
    except Exception as error:
        raise explain(error, typed=plain) from error
    return {group: composed[group] for group in sorted(groups) if group in composed}


def typed_texts(settings: DictConfig) -> list[str]:
    """The overrides as typed: read item by item, OmegaConf would look up `optim.lr=${steps}` among Hydra's own keys."""
    texts: Any = OmegaConf.to_container(settings.overrides.task, resolve=False)
    return [str(text) for text in texts]


def spelled_out(composed: DictConfig) -> list[str]:
    """The same as overrides of single keys, for what Hydra shows by itself (--cfg)."""
    result = []
    for group, node in typed_choices(composed.hydra).items():
        before, after = _leaves(group, composed[group]), _leaves(group, node)
        result += [f"~{key}" for key in before if key not in after]
        result += [
            f"++{key}={_text(value)}" for key, value in after.items() if key not in before or before[key] != value
        ]
    return result


def _choice(override: Override) -> str | None:
    """The group whose choice this override is, if it is one; presets are none."""
    group = override.key_or_group
    is_choice = override.type == OverrideType.CHANGE and override.package is None and "." not in group
    return group if is_choice and group not in names.PRESETS else None


def _key(override: Override) -> str:
    """The override of a key, for a config that may lack what a preset has added."""
    text = override.input_line or ""
    return text if override.is_delete() else f"++{text.lstrip('+ ')}"


def _leaves(key: str, value: Any) -> dict[str, Any]:
    """{dotted key: value} under a key."""
    if isinstance(value, DictConfig):
        value = OmegaConf.to_container(value, resolve=False)
    if not isinstance(value, dict):
        return {key: value}
    return {name: leaf for part, inner in value.items() for name, leaf in _leaves(f"{key}.{part}", inner).items()}


def _text(value: Any) -> str:
    """A value in Hydra's grammar."""
    if isinstance(value, list):
        return f"[{','.join(map(_text, value))}]"
    return QuotedString(value, Quote.single).with_quotes() if isinstance(value, str) else json.dumps(value)
