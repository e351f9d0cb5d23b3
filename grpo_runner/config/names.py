"""Names of run and sweep folders, made from what was overridden, so that the same command finds the same folder."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b

from ..errors import InputError
from ..validate import shown_key

LONGEST = 80
# a name does not name itself
UNNAMED = ("run_name", "sweep_name")
# groups that set keys of other groups, in the order in which they are merged; in a name they are known by their choice
# alone: `cpu_smoke`, not `debug=cpu_smoke`
PRESETS = ("experiment", "method", "sweep", "debug")


def label(overrides: Iterable[str], exclude: Iterable[str] = ()) -> str:
    """A folder's name from overrides: `cpu_smoke,advantage=dr_grpo,seed=1`, sorted; `default` for none.

    Left out are Hydra's own keys, names, and `exclude`. A long name, or one with characters unfit for a folder, ends in
    a hash of the whole.
    """
    left_out = {plain_key(key) for key in exclude} | {*UNNAMED, *(f"~{preset}" for preset in PRESETS)}
    chosen: dict[str, str] = {}
    for text in overrides:
        key, _, value = text.partition("=")
        key = plain_key(key)
        if key not in left_out and not key.startswith(("hydra.", "hydra/")):
            chosen[key] = value.strip("'\"")
    options = [chosen.pop(key) for key in PRESETS if key in chosen]
    return _fit(",".join([*options, *(f"{key}={value}" for key, value in sorted(chosen.items()))])) or "default"


def sweep_label(fixed: Iterable[str], swept: Iterable[str]) -> str:
    """A sweep's folder from the overrides that all its runs share and the keys that it sweeps, not their values.

    So `seed=0,1,2` goes on in the folder of `seed=0,1`: `cpu_smoke,by-advantage-seed`.
    """
    by = "-".join(sorted(plain_key(key) for key in swept))
    shared = label(fixed)
    return _fit(",".join([*([] if by and shared == "default" else [shared]), *([f"by-{by}"] if by else [])]))


def check(key: str, name: str) -> None:
    """Raise InputError for a run_name or sweep_name that cannot be one folder's name."""
    if not name or name.startswith(".") or re.search(r"[^\w.,=+~@ -]", name):
        elsewhere = {"run_name": "hydra.run.dir", "sweep_name": "hydra.sweep.dir"}[key]
        raise InputError(
            f"{key}={name} is not allowed: it names a folder. Allowed: letters, digits, blanks and . , = + ~ @ - _\n"
            f"{elsewhere}=FOLDER puts it anywhere else."
        )


def plain_key(key: str) -> str:
    """`beta` for `beta`, `++beta` and `beta.value`."""
    return shown_key(key.strip().lstrip("+"))


def _fit(name: str) -> str:
    fit = re.sub(r"[^\w.,=+~@-]", "_", name, flags=re.ASCII)
    if fit == name and len(name) <= LONGEST:
        return name
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return f"{fit[: LONGEST - 9]}-{digest}"
