"""docs/template.md: every method has its row, and every function and file that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "template.md").read_text()


def named(page: str) -> set[str]:
    """What the page names and the repository lacks."""
    lacks = set()
    for file, thing in re.findall(r"`((?:\w+/)+\w+\.py):(\w+)`", page):
        path = ROOT / "grpo_runner" / file
        if not path.exists() or not re.search(rf"^(def|class) {thing}\b|^{thing}\b.*=", path.read_text(), re.MULTILINE):
            lacks.add(f"{file}:{thing}")
    for file in re.findall(r"`((?:tests|scripts)/[\w/]+\.(?:py|sh))`", page):
        if not (ROOT / file).exists():
            lacks.add(file)
    for file in re.findall(r"\]\(([\w.]+)\)", page):
        if not (ROOT / "docs" / file).exists():
            lacks.add(file)
    return lacks


def test_all_that_it_names_is_there() -> None:
    assert named(PAGE) == set()
    assert len(re.findall(r"\.py:\w+`", PAGE)) > 20


def test_a_name_that_is_gone_is_seen() -> None:
    gone = "`algorithm/gae.py:gone` `no/where.py:gae` `tests/no/test_where.py` ![x](nothing.png)"
    assert named(gone) == {"algorithm/gae.py:gone", "no/where.py:gae", "tests/no/test_where.py", "nothing.png"}


def test_every_method_has_a_row() -> None:
    rows = " ".join(line.partition("|")[2].partition("|")[0] for line in PAGE.splitlines() if line.startswith("| `"))
    assert {path.stem for path in (ROOT / "conf" / "method").glob("*.yaml")} <= set(re.findall(r"`(\w+)`", rows))
