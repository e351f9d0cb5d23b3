"""The sizes of the model that a run names, without loading it: from the table here, or a folder's config.json."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from safetensors import safe_open

from ..sizes import Sizes, read, read_folder

EMBEDDED = Path(__file__).parents[1] / "policy" / "embedded"


@dataclass(frozen=True)
class Model:
    """sizes: None where they are not known, or would not tell what the model needs. why: then the reason, in words.

    parameters: None where not known.
    """

    path: str
    parameters: int | None
    sizes: Sizes | None
    why: str = ""


def find(path: str) -> Model:
    """The model of `model.path`: embedded, a local folder, or a hub id of models.json. Never asks the network."""
    if path == "embedded":
        return _of(path, read_folder(EMBEDDED), "")
    folder = Path(path).expanduser()
    if folder.is_dir():
        return _of(path, read_folder(folder), "its config.json is of a family whose sizes are not read here")
    entry = table().get(path, {})
    entry = table()[entry["as"]] if "as" in entry else entry
    if "parameters" in entry:
        return Model(path, entry["parameters"], None, entry["why"])
    return _of(path, read(entry), "it is not in planning/models.json; a local copy is read: model.path=FOLDER")


def weights_of(path: str | None) -> int | None:
    """How many numbers the safetensors files of a local folder hold, by their heads; None where there are none."""
    files_of = sorted(Path(path).expanduser().glob("*.safetensors")) if path else []
    total = 0
    for file in files_of:
        with safe_open(file, "np") as tensors:
            total += sum(math.prod(tensors.get_slice(name).get_shape()) for name in tensors.keys())  # noqa: SIM118
    return total or None


@cache
def table() -> dict[str, dict[str, Any]]:
    """{hub id: what its config.json says of its sizes}."""
    text = (files(__package__) / "models.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, Any]] = json.loads(text)["models"]
    return found


def _of(path: str, sizes: Sizes | None, why: str) -> Model:
    return Model(path, sizes.parameters if sizes else None, sizes, "" if sizes else why)
