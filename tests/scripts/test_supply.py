"""What an installation takes: the pins with hashes are those without, and the page of licences has all that is needed."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
needed = {
    canonicalize_name(Requirement(line).name)
    for line in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
}


def pins(text: str) -> dict[str, str]:
    return {canonicalize_name(name): version for name, version in PIN.findall(text)}


def unlike(hashed: str) -> list[str]:
    """What is wrong with a file of hashed pins: another version than constraints.txt, no hash, a package that is missing."""
    plain, found = pins((ROOT / "constraints.txt").read_text()), pins(hashed)
    wrong = [
        f"{name}: {found[name]} and {plain[name]}" for name in found if plain.get(name, found[name]) != found[name]
    ]
    for block in re.split(r"\n(?=\S)", hashed):
        if PIN.match(block) and not re.search(r"--hash=sha256:[0-9a-f]{64}\b", block):
            wrong.append(f"{block.split('==')[0]}: no hash")
    return wrong + [f"{name}: missing" for name in sorted(needed - set(found))]


def test_the_pins_with_hashes_are_those_without():
    text = (ROOT / "constraints-hashed.txt").read_text()
    assert len(pins(text)) > 100 and unlike(text) == []
    # negative controls
    assert unlike(text.replace("filelock==4.", "filelock==3.")) == [
        f"filelock: 3.{pins(text)['filelock'][2:]} and {pins(text)['filelock']}"
    ]
    assert unlike(text.replace("\nfilelock==", "\nother=="))[-1] == "filelock: missing"
    assert unlike(re.sub(r"(?<=\nfilelock)(==\S+)[^#]*", r"\1\n", text)) == ["filelock: no hash"]


@pytest.fixture(scope="module")
def licences():
    spec = importlib.util.spec_from_file_location("licences", ROOT / "scripts/reliability/licences.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "licence, flag",
    [
        ("MIT", ""),
        ("Apache-2.0 AND MIT", ""),
        ("ISC License (ISCL)", ""),
        ("(MIT OR GPL-3.0-only)", ""),
        ("MPL-2.0 AND MIT", "not permissive"),
        ("GPL-3.0-or-later", "not permissive"),
        ("LicenseRef-NVIDIA-Proprietary", "not permissive"),
        ("As you wish", "look"),
        ("", "not stated"),
    ],
)
def test_what_is_no_permissive_licence_is_flagged(licences, licence, flag):
    assert licences.flag_of(licence) == flag


def test_the_page_of_licences_has_all_that_is_needed():
    page = (ROOT / "docs/licences.md").read_text()
    listed = {line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")}
    assert needed <= listed
    assert "| GPL" not in page and "not explained" not in page
