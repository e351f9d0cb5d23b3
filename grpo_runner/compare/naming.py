"""Which arm a word names: in --baseline and --check alike."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InputError, nearest
from .labels import choice, worded
from .types import Arm

_MOST = 4


def find(name: str, arms: Sequence[Arm], where: str) -> Arm:
    """The arm of a label, a name, one value, or key=value pairs in any order, if one arm alone has it; case aside.

    where: begins the sentence of an error. Raises InputError, with the nearest name and the arms by their labels.
    """
    wanted = name.strip().casefold()
    known = {arm.name: _names(arm) for arm in arms}
    found = [arm for arm in arms if wanted in known[arm.name]] or [
        arm for arm in arms if _has_all(wanted, known[arm.name])
    ]
    whole = [arm for arm in found if wanted in (arm.name.casefold(), arm.label.casefold())]
    if len(whole or found) == 1:
        return (whole or found)[0]
    if found:
        why = f"{name} names {len(found)} arms. Name one by what no other has:"
    else:
        every = {word for words in known.values() for word in words}
        why = f"no arm is named {name}.{nearest(wanted, every)} The arms:"
    lines = [arm.name if arm.label == arm.name else f"{arm.label}: {arm.name}" for arm in found or arms]
    if len(lines) > _MOST:
        lines = [*lines[: _MOST - 1], f"… and {len(lines) - _MOST + 1} more"]
    raise InputError("\n  ".join([f"{where}: {why}", *lines]))


def _has_all(wanted: str, names: set[str]) -> bool:
    """Whether each of several key=value pairs is one of the arm's names."""
    pairs = [part.strip() for part in wanted.split(",")]
    return all("=" in pair and pair in names for pair in pairs)


def _names(arm: Arm) -> set[str]:
    """All that may stand for an arm, in lower case: of a key also its last part, of a method its choice of conf/."""
    found = {arm.name, arm.label, choice(arm) or arm.label}
    for key, value in arm.values.items():
        for form in _forms(value):
            found |= {form, f"{key}={form}", f"{key.rsplit('.', 1)[-1]}={form}"}
    return {name.casefold() for name in found}


def _forms(value: object) -> set[str]:
    """As Python and as YAML write a value, and a float without idle zeros."""
    forms = {str(value), worded(value)}
    if isinstance(value, float):
        forms.add(f"{value:g}")
    return forms
