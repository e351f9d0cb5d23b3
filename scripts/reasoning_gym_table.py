#!/usr/bin/env python3
"""Questions of a task of the reasoning-gym library as two JSONL tables, for data=reasoning_gym.

    pip install 'grpo-runner[reasoning]'
    python scripts/reasoning_gym_table.py chain_sum --train 2000 --eval 200 --folder chain_sum
    python -m grpo_runner data=reasoning_gym data.train.path=chain_sum/train.jsonl data.eval.path=chain_sum/eval.jsonl

Both tables come from one data set of the library, and no question is in both: two of its data sets with neighbouring
seeds would share most of their entries, since it draws entry i from seed + i. Entries without a text as their answer
are left out. Several right answers are not known to the tables: take tasks with one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

_AT_MOST = 10  # entries gone through for each row that is wanted


def distinct(entries: Iterable[Mapping[str, Any]], wanted: int) -> list[dict[str, str]]:
    """The first rows with question and answer; a question that comes again, and one without an answer, is left out."""
    rows: dict[str, dict[str, str]] = {}
    for entry in entries:
        question, answer = entry["question"], entry["answer"]
        if isinstance(answer, str) and answer.strip():
            rows.setdefault(question, {"question": question, "answer": answer})
        if len(rows) == wanted:
            break  # the library makes an entry when it is asked for
    return list(rows.values())


def write(rows: list[dict[str, str]], train: int, held_out: int, folder: Path) -> None:
    """train.jsonl with the first rows, eval.jsonl with the next."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in (("train", rows[:train]), ("eval", rows[train : train + held_out])):
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in part]
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", help="its name in the library, such as chain_sum")
    parser.add_argument("--train", type=int, required=True, help="training questions")
    parser.add_argument("--eval", type=int, required=True, help="questions to evaluate on")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, required=True, help="where train.jsonl and eval.jsonl go")
    asked = parser.parse_args(words)
    try:
        import reasoning_gym
    except ImportError:
        sys.exit("reasoning-gym is not installed: pip install 'grpo-runner[reasoning]'")
    wanted = asked.train + asked.eval
    size = _AT_MOST * wanted
    rows = distinct(reasoning_gym.create_dataset(asked.task, size=size, seed=asked.seed), wanted)
    if len(rows) < wanted:
        sys.exit(
            f"{asked.task}: {size} entries have only {len(rows)} different questions with an answer; ask for less."
        )
    write(rows, asked.train, asked.eval, asked.folder)
    print(f"{asked.folder}: {asked.train} training questions, {asked.eval} to evaluate on")


if __name__ == "__main__":
    main()
