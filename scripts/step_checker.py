"""What `reward.steps=lines` makes of worked solutions: the lines that it recognises, and those it calls wrong.

    python scripts/step_checker.py train.jsonl [--wrong]

FILE: GSM8K's own, one JSON object a line with the solution under "answer" (openai/grade-school-math,
grade_school_math/data/train.jsonl). The line with #### and empty lines are left out.
--wrong prints each line that is called wrong.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from grpo_runner.reward.statements import holds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--wrong", action="store_true")
    given = parser.parse_args()
    found: list[tuple[str, bool | None]] = []
    for row in given.file.read_text(encoding="utf-8").splitlines():
        lines = json.loads(row)["answer"].splitlines()
        found += [(line, holds(line)) for line in lines if line.strip() and not line.startswith("####")]
    if not found:
        raise SystemExit(f"{given.file}: no line of a solution in it.")
    for what, which in (("all", found), ("with <<…>>", [pair for pair in found if "<<" in pair[0]])):
        right, wrong = (sum(verdict is wanted for _, verdict in which) for wanted in (True, False))
        print(f"{what}: {len(which)} lines, {right + wrong} recognised, {right} right, {wrong} wrong")
    if given.wrong:
        print(*(line for line, verdict in found if verdict is False), sep="\n")


if __name__ == "__main__":
    main()
