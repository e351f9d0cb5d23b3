"""The words of `evaluate` in the debug form, a line each: `debug.py PRESET WORD …`, with the script's own words.

The sets and the way of asking stay the script's: greedy or sampled, temperature, top-p. Each set is the four sums of
debug.jsonl, two samples are enough, and of the steps that are asked for there is the second alone.
"""

from __future__ import annotations

import sys

from grpo_runner.config import compose
from grpo_runner.errors import InputError

ROWS = "scripts/reproduce/debug.jsonl"


def debug_words(preset: str, words: list[str]) -> list[str]:
    """Raises InputError for words that the configuration does not take."""
    job, group = [f"experiment={preset}"], [word for word in words if word.startswith("evaluation=")]
    asked = compose([*job, *(word for word in words if "evaluation" in word)]).evaluation
    there = compose([*job, *group]).evaluation.sets if group else {}
    found = ["--steps", "2"] if "--steps" in words else []
    found += [*group, *(word for word in words if word.startswith("~"))]
    found += [f"evaluation.greedy={str(asked.greedy).lower()}", f"evaluation.samples={min(asked.samples, 2)}"]
    found += [f"evaluation.temperature={asked.temperature}", f"evaluation.top_p={asked.top_p}"]
    found += ["evaluation.max_new_tokens=32"]
    for name in asked.sets:
        new = "" if name in there else "+"
        found += [f"{new}evaluation.sets.{name}.path={ROWS}"]
        if not new:
            columns = ("question_column=question", "answer_column=answer", "answer_pattern=null")
            found += [f"evaluation.sets.{name}.{column}" for column in columns]
    return found


if __name__ == "__main__":
    try:
        print(*debug_words(sys.argv[1], sys.argv[2:]), sep="\n")
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
