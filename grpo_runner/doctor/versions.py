"""Versions against the ranges that pyproject.toml states, read from it or from what an installed package says of it."""

from __future__ import annotations

import platform
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from .. import __version__
from .lines import FAILURE, OK, WARNING, Line

NAME = "grpo-runner"
# those whose version is shown where it is right too
SHOWN = ("torch", "transformers", "peft", "hydra-core", "omegaconf", "wandb", "math-verify")
_CHECKOUT = Path(__file__).resolve().parents[2]
_UNSHOWN_EXTRAS = ("dev", "docs")


@dataclass(frozen=True)
class Ranges:
    """python: of Python. needed: every package that a run needs. extras: those that only some settings need."""

    python: SpecifierSet
    needed: tuple[Requirement, ...]
    extras: tuple[Requirement, ...]


def ranges(checkout: Path = _CHECKOUT) -> Ranges:
    """The ranges of this very code: pyproject.toml in a checkout, else the installed package's own metadata.

    Raises PackageNotFoundError where there is neither.
    """
    file = checkout / "pyproject.toml"
    if file.is_file():
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        extras = [text for name, texts in project["optional-dependencies"].items() for text in _shown(name, texts)]
        return Ranges(SpecifierSet(project["requires-python"]), _all(project["dependencies"]), _all(extras))
    listed = _all(metadata.requires(NAME) or ())
    names = [name for name in metadata.metadata(NAME).get_all("Provides-Extra") or () if name not in _UNSHOWN_EXTRAS]
    extra = [one for one in listed if one.marker and any(one.marker.evaluate({"extra": name}) for name in names)]
    needed = [one for one in listed if one.marker is None or one.marker.evaluate({"extra": ""})]
    python = SpecifierSet(metadata.metadata(NAME)["Requires-Python"])
    return Ranges(python, tuple(needed), tuple(one for one in extra if one not in needed))


def lines(found: Callable[[], Ranges] = ranges, version_of: Callable[[str], str | None] | None = None) -> list[Line]:
    """A line for Python and ours, one for all packages, and one for each that is missing or outside its range."""
    version_of = version_of or installed
    own = f"grpo_runner {__version__}, Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    try:
        stated = found()
    except metadata.PackageNotFoundError:
        return [Line("versions", WARNING, f"{own}; its ranges are not known here", "install it: pip install .")]
    python = platform.python_version()
    wrong_python = [] if stated.python.contains(python, prereleases=True) else [_old_python(stated.python)]
    packages, faults = compared(stated.needed, version_of)
    return [Line("versions", OK, own), *wrong_python, *packages, *faults, *_extras(stated.extras, version_of)]


def compared(needed: Sequence[Requirement], version_of: Callable[[str], str | None]) -> tuple[list[Line], list[Line]]:
    """(the line with the shown versions, a line for each package that is missing or outside its range)."""
    faults = [line for one in needed if (line := _fault(one, version_of(one.name)))]
    shown = [f"{name} {version}" for name in SHOWN if (version := version_of(name))]
    right = f"all {len(needed)} in their ranges" if not faults else f"{len(faults)} of {len(needed)} not as needed"
    return [Line("packages", OK if not faults else WARNING, f"{', '.join(shown)}; {right}", _more(faults))], faults


def installed(name: str) -> str | None:
    """The version of a package as installed, without importing it; None where there is none."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _fault(needed: Requirement, version: str | None) -> Line | None:
    wanted = f"{needed.name}{needed.specifier}"
    if version is None:
        return Line(needed.name, FAILURE, f"not installed; needed: {wanted}", f"python -m pip install '{wanted}'")
    if needed.specifier.contains(version, prereleases=True):
        return None
    found = f"{version} is outside the supported range {needed.specifier}"
    return Line(needed.name, WARNING, found, f"python -m pip install '{wanted}'")


def _extras(extras: Sequence[Requirement], version_of: Callable[[str], str | None]) -> list[Line]:
    there = {one.name: version for one in extras if (version := version_of(one.name))}
    absent = ", ".join(dict.fromkeys(one.name for one in extras if one.name not in there))
    said = [f"{name} {version}" for name, version in there.items()] + ([f"not installed: {absent}"] if absent else [])
    faults = [line for one in extras if one.name in there and (line := _fault(one, there[one.name]))]
    return [Line("extras", OK, "; ".join(said) or "none"), *faults]


def _old_python(wanted: SpecifierSet) -> Line:
    found = f"{platform.python_version()} is outside the supported range {wanted}"
    return Line("python", FAILURE, found, "another one: make setup PYTHON=python3.12")


def _more(faults: Sequence[Line]) -> str:
    return "see the lines below" if faults else ""


def _shown(extra: str, texts: Sequence[str]) -> Sequence[str]:
    return () if extra in _UNSHOWN_EXTRAS else texts


def _all(texts: Sequence[str]) -> tuple[Requirement, ...]:
    return tuple(map(Requirement, texts))
