"""Paths of a configuration that are on this machine, looked at before anything is loaded or the hub is waited for.

A question file that is not there would otherwise be told after the model's tokenizer has come, and an adapter's folder
after the questions. No torch.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from . import data, prompts
from .errors import InputError, nearest
from .schema import LoraConfig, RunConfig, SourceConfig

_WEIGHTS = "adapter_model.safetensors"


def check(config: RunConfig, training: bool = True) -> None:
    """Raise InputError, naming the key, for the first path that cannot be used.

    Looked at are question files (their beginning: kind and columns), the template, the folders of model.path,
    reward.model and lora.adapter. training: data.train is read; without it, evaluation alone, whatever evaluation.every
    is. What does not look like a path is the hub's, and is not asked for.
    """
    for key, source in sources(config, training).items():
        data.glance(config.data, source, key)
    prompts.check(config.prompt)
    check_model(config.model.path)
    if training and config.reward.model is not None:
        check_model(config.reward.model, "reward.model")
    if config.lora.enabled and config.lora.adapter is not None:
        adapter_settings(Path(config.lora.adapter), config.lora, "lora.adapter")


def sources(config: RunConfig, training: bool = True) -> dict[str, SourceConfig]:
    """{key: source} of all questions that are read from a file or the hub: `data.train`, `evaluation.sets.x`.

    training: as for `check`.
    """
    table, evaluation = config.data.kind == "table", config.evaluation
    found = {"data.train": config.data.train} if table and training else {}
    if evaluation.every > 0 or not training:
        if table and not evaluation.sets:
            found["data.eval"] = config.data.eval
        found |= {f"evaluation.sets.{name}": source for name, source in evaluation.sets.items()}
    return found


def check_model(path: str, key: str = "model.path") -> None:
    """Raise InputError, naming `key`, for a folder that is no model, or for what can only be a folder and is none."""
    folder = Path(path).expanduser()
    if path == "embedded":
        return
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise InputError(f"{key}={path}: the folder has no config.json, so it is no Hugging Face model folder.")
        if not list(folder.glob("*.safetensors")):
            raise InputError(f"{key}={path}: the folder has no weights (no *.safetensors in it).")
    elif path.startswith((".", "/", "~")) or path.count("/") > 1 or folder.is_file():
        raise InputError(f"{key}={path}: no such folder.\nAllowed: a model folder, a hub id (owner/name), or embedded.")


def adapter_settings(folder: Path, config: LoraConfig, key: str) -> dict[str, Any]:
    """The adapter_config.json of a LoRA adapter's folder. Raises InputError, naming `key`, unless the folder is one, of
    the rank and the alpha that the configuration has.
    """
    folder = folder.expanduser()
    near = ""
    if not folder.is_dir() and folder.parent.is_dir():
        near = nearest(folder.name, [one.name for one in folder.parent.iterdir() if one.is_dir()])
    try:
        settings: dict[str, Any] = json.loads((folder / "adapter_config.json").read_text())
        with (folder / _WEIGHTS).open("rb"):
            pass
    except (OSError, ValueError) as error:
        raise no_adapter(
            folder, key, "no such folder" if not folder.is_dir() else type(error).__name__, near
        ) from error
    for ours, theirs, wanted in (("rank", "r", config.rank), ("alpha", "lora_alpha", config.alpha)):
        if settings.get(theirs) != wanted:
            raise InputError(f"{key}={folder}: the adapter has lora.{ours}={settings.get(theirs)}, the run {wanted}.")
    return settings


def no_adapter(folder: Path, key: str, why: str, near: str = "") -> InputError:
    """The error for a folder that is not an adapter's."""
    return InputError(
        f"{key}={folder}: not the folder of a LoRA adapter ({why}).{near}\n"
        f"It needs adapter_config.json and {_WEIGHTS}, such as a run's adapter/."
    )
