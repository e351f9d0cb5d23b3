"""docs/data.md against conf/: each set with its source, columns and revision; a revision is a whole commit or null."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
ROWS = {
    name: line
    for line in PAGE.splitlines()
    if line.startswith("| `")
    for name in re.findall(r"`(\w+)`", line.split("|")[1])
}


def settings(group: str) -> dict[str, dict]:
    return {
        path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in (ROOT / "conf" / group).glob("*.yaml")
    }


@pytest.mark.parametrize("name", sorted(settings("data")))
def test_a_training_set_has_its_row(name):
    data, row = settings("data")[name], ROWS[name]
    source = data["train"]
    for told in (source["hub_id"], source["revision"] and source["revision"][:7]):
        assert told is None or f"`{told}`" in row
    if data["kind"] == "table":
        for column in ("question_column", "answer_column"):
            assert f"`{source[column] or data[column]}`" in row
    if source["hub_id"] and not source["revision"]:
        assert "not known" in row


def test_evaluation_sets_have_their_rows():
    for name, evaluation in settings("evaluation").items():
        for source in evaluation["sets"].values():
            assert f"`{source['hub_id']}`" in ROWS[name]
        if not evaluation["sets"]:
            assert name in ROWS and "data.eval" in ROWS[name]


def test_a_revision_is_a_whole_commit():
    sources = [data[split] for data in settings("data").values() for split in ("train", "eval")]
    sources += [source for evaluation in settings("evaluation").values() for source in evaluation["sets"].values()]
    revisions = {source["revision"] for source in sources} - {None}
    assert len(revisions) >= 8 and all(re.fullmatch("[0-9a-f]{40}", revision) for revision in revisions)
    for hub_id in {source["hub_id"] for source in sources} - {None}:  # one commit of a set wherever it is used
        assert len({source["revision"] for source in sources if source["hub_id"] == hub_id}) == 1, hub_id
