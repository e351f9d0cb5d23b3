"""What the tests of `evaluate` share: sets as files, made records, and what the command prints."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from grpo_runner.suite import evaluate

# greedy and 2 samples of short answers by the embedded model; two questions go to the engine at a time
SMALL = (
    "device=cpu", "max_new_tokens=16", "evaluation.samples=2", "evaluation.questions=5", "rollout.batch_rows=6",
    "data.train_size=16", "data.eval_size=8",
)  # fmt: skip


def printed(*words: str, width: int = 160) -> str:
    """What `evaluate` prints on stdout."""
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False)
    assert evaluate(words, console) == 0
    return console.file.getvalue()


def set_file(path: Path, rows: Sequence[tuple[str, object]]) -> Path:
    """A set as a JSONL file with the columns question and answer."""
    path.write_text("".join(json.dumps({"question": text, "answer": gold}) + "\n" for text, gold in rows))
    return path


def files(folder: Path) -> dict[str, bytes]:
    """The content of every file below a folder."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def journal(folder: Path) -> list[dict]:
    """The records of the one policy in an evaluation's folder."""
    [file] = (folder / "answers").glob("*.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()][1:]


def made(status: str, extracted: str | None = "1", tokens: int = 5, finish: str = "eos", text: str = "") -> dict:
    """An answer of a record."""
    return {
        "text": text, "tokens": tokens, "finish": finish, "status": status, "extracted": extracted, "rule": "",
    }  # fmt: skip


def record(number: int, greedy: str = "", sampled: Sequence[dict] = (), name: str = "a") -> dict:
    """The record of one question; greedy: the status of its greedy answer."""
    found = {"set": name, "id": f"{name}/{number}", "question": f"{number}=?", "golds": ["1"], "prompt_tokens": 4}
    return found | ({"greedy": [made(greedy)]} if greedy else {}) | ({"sampled": list(sampled)} if sampled else {})
