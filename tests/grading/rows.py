"""What the tests of `check` share: files of rows, and what it prints."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from grpo_runner.grading import check

DOC = Path(__file__).resolve().parents[2] / "docs" / "checker.md"  # where `check` is documented


def printed(*words: str, width: int = 100) -> tuple[int, str]:
    """Exit code and what `check` prints on stdout."""
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False)
    code = check(words, console)
    return code, console.file.getvalue()


def fields(text: str) -> dict[str, list[str]]:
    """The left column of what is printed of one answer -> its lines, a continued one under the name above it."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        name = line[:8].strip() or name
        found.setdefault(name, []).append(line[8:].strip())
    return found


def row(response: object = r"\boxed{2}", gold: object = "2", **other: object) -> dict:
    """One row."""
    return {"response": response, "gold": gold} | other


def jsonl(path: Path, rows: Sequence[object]) -> Path:
    """A JSONL file; what is bytes stands as it is."""
    path.write_bytes(b"".join((one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n" for one in rows))
    return path


def read(path: Path) -> list[dict]:
    """The rows of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
