"""docs/settings.md names every choice of every group, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
GROUPS = sorted(folder.name for folder in (ROOT / "conf").iterdir() if folder.is_dir())
ELSEWHERE = {"experiment", "sweep", "debug", "hydra"}  # too many, or described in words


@pytest.mark.parametrize("group", [group for group in GROUPS if group not in ELSEWHERE])
def test_every_choice_is_named_where_its_group_is(group: str) -> None:
    found = re.search(rf"`{group}=`(.*?)(?=\n- |\n\n|`[a-z_]+=`)", PAGE, re.DOTALL)
    assert found, f"no line about {group}="
    choices = {file.stem for file in (ROOT / "conf" / group).glob("*.yaml")}
    assert choices <= set(re.findall(r"\w+", found.group(1))), choices - set(re.findall(r"\w+", found.group(1)))


def test_a_choice_that_is_not_there_would_be_missed() -> None:
    assert "no_such_choice" not in re.findall(r"\w+", PAGE)
    assert set(GROUPS) >= {"advantage", "loss_norm", "model", "reward"}
