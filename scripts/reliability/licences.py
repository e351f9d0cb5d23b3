#!/usr/bin/env python3
"""The licences of all that is installed with the package, from its own metadata: licences.py [FILE], or on the screen.

Goes from the installed `grpo-runner` over its dependencies and theirs, the extras too as far as they are installed. A
licence that is not permissive, or that a package does not state, is flagged; EXPLAINED says what it means for a user.
Exit code 1 where a flag has no explanation.
"""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PACKAGE = "grpo-runner"
EXTRAS = ("vllm", "qlora", "hub", "sweep", "reasoning", "docs", "dev")
PERMISSIVE = {  # of SPDX, and how older metadata spells them
    "mit", "mit license", "mit-cmu", "mit-0", "apache-2.0", "apache 2.0", "apache license 2.0",
    "apache license, version 2.0", "apache 2", "apache", "apache software license", "apache license",
    "apache 2.0 license", "bsd", "bsd license", "bsd-2-clause", "bsd-3-clause", "3-clause bsd", "3-clause bsd license",
    "bsd 3-clause license", "bsd-3-clause license", "new bsd", "isc", "isc license", "psf", "psf-2.0", "python-2.0",
    "python software foundation license", "hpnd", "historical permission notice and disclaimer", "unlicense",
    "the unlicense", "zlib", "0bsd", "cc0-1.0", "bsl-1.0", "cnri-python", "apache-2.0 with llvm-exception",
}  # fmt: skip
WEAK = (
    "copyleft of its own files alone: nothing to do for who uses it unchanged; "
    "who changes these files and passes them on shares them"
)
CUDA = "comes with the CUDA build of torch alone, under NVIDIA's terms; the CPU build has none of it"
EXPLAINED = {
    "certifi": WEAK,
    "tqdm": WEAK,
    "hypothesis": f"{WEAK}; for tests",
    "pathspec": f"{WEAK}; for development",
}


class Row(NamedTuple):
    """One installed package. by: what needs it, `run` or extras' names. flag: why it is told, "" where permissive."""

    name: str
    version: str
    licence: str
    by: str
    flag: str


def closure(root: str, extra: str = "") -> set[str]:
    """Names of what is installed for a package, with one of its extras; what other systems need is left out."""
    seen: set[tuple[str, str]] = set()
    todo = [(canonicalize_name(root), extra)]
    while todo:
        name, asked = todo.pop()
        if (name, asked) in seen:
            continue
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        seen.add((name, asked))
        for need in map(Requirement, needs):
            if need.marker is None or need.marker.evaluate({"extra": asked}):
                todo += [(canonicalize_name(need.name), one) for one in ("", *need.extras)]
    return {name for name, _ in seen} - {canonicalize_name(root)}


def licence_of(name: str) -> str:
    """The SPDX expression, else the classifiers, else the first line of the field; "" where there is nothing."""
    about = metadata.metadata(name)
    if expression := about.get("License-Expression"):
        return expression
    classified = [one.split(" :: ")[-1] for one in about.get_all("Classifier") or [] if one.startswith("License :: ")]
    if classified := [one for one in classified if one != "OSI Approved"]:
        return " OR ".join(classified)
    field = (about.get("License") or "").strip().splitlines()
    return field[0].strip() if field else ""


def explained(name: str) -> str:
    """What the flag of a package means for a user; "" where nobody has looked at it."""
    return CUDA if name.startswith(("nvidia-", "cuda-")) else EXPLAINED.get(name, "")


def flag_of(licence: str) -> str:
    """Why a licence is told; "" where one may take it under permissive terms alone."""
    if not licence:
        return "not stated"
    choices = [re.split(r"\s+AND\s+|\s*&\s*|;\s*", choice) for choice in re.split(r"\s+OR\s+", licence)]
    free = [all(_plain(part) in PERMISSIVE for part in choice) for choice in choices]
    return (
        ""
        if any(free)
        else "not permissive"
        if re.search(r"GPL|MPL|proprietary|NVIDIA|EULA", licence, re.I)
        else "look"
    )


def _plain(part: str) -> str:
    """Without brackets around it or a short name in brackets behind it."""
    return re.sub(r"\s*\([^()]*\)$", "", part.strip()).strip(" ()").lower()


def rows() -> list[Row]:
    """All packages that are installed for ours, by name."""
    needed = {"run": closure(PACKAGE)}
    needed |= {extra: closure(PACKAGE, extra) - needed["run"] for extra in EXTRAS}
    found = []
    for name in sorted(set().union(*needed.values())):
        licence = licence_of(name)
        by = ", ".join(one for one, names in needed.items() if name in names)
        found.append(Row(name, metadata.version(name), licence, by, flag_of(licence)))
    return found


def page(found: list[Row]) -> str:
    """The table as Markdown, what is flagged above it."""
    flagged = [row for row in found if row.flag]
    lines = [
        "# Licences of what is installed with grpo_runner",
        "",
        (
            "Made by `python scripts/reliability/licences.py docs/licences.md` from the metadata of "
            f"{len(found)} installed packages (`run`: needed to run; else the extras of pyproject.toml that need it; "
            "extras that were not installed are left out). Ours is Apache-2.0 (LICENSE). "
            "What a package states is listed, not checked "
            "against its files."
        ),
        "",
        (
            "The CUDA build of torch, which is installed where there is an NVIDIA GPU, brings NVIDIA's libraries "
            "(`nvidia-*`) under NVIDIA's own terms (`LicenseRef-NVIDIA-Proprietary`); the CPU build, whose "
            "packages these are, does not."
        ),
        "",
        f"**{len(found) - len(flagged)} are permissive, {len(flagged)} are not, or do not say:**",
        "",
        "| package | licence as stated | flag | what it means |",
        "| --- | --- | --- | --- |",
        *(f"| {row.name} | {row.licence or '–'} | {row.flag} | {explained(row.name)} |" for row in flagged),
        "",
        "| package | version | licence as stated | for |",
        "| --- | --- | --- | --- |",
        *(f"| {row.name} | {row.version} | {row.licence or '–'} | {row.by} |" for row in found),
    ]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Exit code: 0; 1 where a flag has no explanation, or the package is not installed."""
    found = rows()
    text = page(found)
    if arguments:
        Path(arguments[0]).write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    unexplained = [row for row in found if row.flag and not explained(row.name)]
    for row in unexplained:
        stated = row.licence or "no licence stated"
        print(f"licences.py: {row.name}: {stated} ({row.flag}) is not explained", file=sys.stderr)
    return int(bool(unexplained) or not found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
