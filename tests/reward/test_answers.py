"""The project's own labelled answers (answers.jsonl): the checker against labels that policy and mathematics gave.

A row: id, kind, response, gold, expected, note; `policy: debatable` where the policy does not settle the label. Those
rows say in their note what is open, and stay out of the score. How each verdict came about (rule, what was read) is
held by a golden file; after a wanted change: `python -m tests.reward.test_answers`, and read the diff.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grpo_runner.reward import Grader
from grpo_runner.types import Status, Verdict

HERE = Path(__file__).resolve().parent
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in (HERE / "answers.jsonl").read_text(encoding="utf-8").splitlines()
]
SETTLED = [row for row in ROWS if "policy" not in row]
DEBATABLE = [row for row in ROWS if "policy" in row]
GOLDEN = HERE.parent / "golden" / "verdicts.jsonl"


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(workers=2) as grader:
        yield grader


@pytest.fixture(scope="module")
def verdicts(grader: Grader) -> dict[str, Verdict]:
    """The verdict of every row, by id."""
    given = grader.grade([(row["response"], row["gold"]) for row in ROWS])
    return {row["id"]: verdict for row, verdict in zip(ROWS, given, strict=True)}


def missed(rows: list[dict[str, Any]], verdicts: dict[str, Verdict]) -> list[dict[str, Any]]:
    """The rows whose label the checker does not give."""
    return [row for row in rows if verdicts[row["id"]].correct is not row["expected"]]


def listed(rows: list[dict[str, Any]], verdicts: dict[str, Verdict]) -> str:
    return "\n".join(
        f"{row['id']} {row['kind']}: {row['response'][-80:]!r} against {row['gold'][:40]!r} is "
        f"{'right' if row['expected'] else 'wrong'}, not {verdicts[row['id']].status.value} "
        f"({verdicts[row['id']].extracted!r:.60}, {verdicts[row['id']].rule})"
        for row in rows
    )


def test_the_checker_agrees_with_the_labels(verdicts: dict[str, Verdict]) -> None:
    wrong = missed(SETTLED, verdicts)
    assert not wrong, listed(wrong, verdicts)


def how(row: dict[str, Any], verdict: Verdict) -> str:
    """A line of the golden file: the rule that decided, and what was read of the answer and of the gold."""
    return json.dumps([row["id"], verdict.rule, verdict.extracted, verdict.gold_value], ensure_ascii=False)


def test_verdicts_come_about_as_they_did(verdicts: dict[str, Verdict]) -> None:
    given = [how(row, verdicts[row["id"]]) for row in ROWS]
    kept = GOLDEN.read_text(encoding="utf-8").splitlines()
    changed = [f"{new}\n  was {old}" for new, old in zip(given, kept, strict=True) if new != old]
    assert not changed, "\n".join(changed[:20])


def test_no_attack_is_rewarded(verdicts: dict[str, Verdict]) -> None:
    attacks = [row for row in SETTLED if row["kind"].startswith(("hack", "resource")) and not row["expected"]]
    accepted = missed(attacks, verdicts)
    assert len(attacks) > 600
    assert not accepted, listed(accepted, verdicts)


def test_no_honest_answer_runs_into_the_deadline(verdicts: dict[str, Verdict]) -> None:
    slow = [row for row in ROWS if row["kind"] != "resource_bomb" and verdicts[row["id"]].status is Status.TIMEOUT]
    assert not slow, listed(slow, verdicts)


def test_nothing_in_a_response_is_executed(verdicts: dict[str, Verdict]) -> None:
    payloads = [row for row in ROWS if "CANARY_FILE" in row["response"]]
    assert len(payloads) > 30 and all(row["id"] in verdicts for row in payloads)
    # the workers run in the folder that pytest was started in
    assert not any((folder / "CANARY_FILE").exists() for folder in (Path.cwd(), HERE, *HERE.parents[:2]))


def test_every_gold_equals_itself(grader: Grader) -> None:
    golds = sorted({row["gold"] for row in ROWS})
    given = grader.grade([(f"\\boxed{{{gold}}}", gold) for gold in golds])
    unequal = [(gold, verdict.rule) for gold, verdict in zip(golds, given, strict=True) if not verdict.correct]
    assert not unequal


def test_rows_are_whole() -> None:
    assert len(ROWS) >= 800
    repeated = [key for key, count in Counter(row["id"] for row in ROWS).items() if count > 1]
    assert not repeated
    texts = Counter((row["response"], row["gold"]) for row in ROWS)
    assert not [pair for pair, count in texts.items() if count > 1]
    for row in ROWS:
        assert set(row) - {"policy"} == {"id", "kind", "response", "gold", "expected", "note"}, row["id"]
        assert isinstance(row["expected"], bool) and row.get("policy", "debatable") == "debatable", row["id"]


def test_every_kind_has_right_and_wrong_rows() -> None:
    labels: dict[str, Counter[bool]] = defaultdict(Counter)
    for row in SETTLED:
        labels[row["kind"]][row["expected"]] += 1
    assert len(labels) == 36
    assert all(count[True] >= 8 and count[False] >= 8 for count in labels.values()), labels


def test_debatable_rows_are_few_and_say_what_is_open() -> None:
    assert len(DEBATABLE) < 0.05 * len(ROWS)
    assert not [row["id"] for row in DEBATABLE if len(row["note"]) < 4]


def test_a_false_label_is_found(verdicts: dict[str, Verdict]) -> None:
    """The negative control: a row that agrees is missed once its label is turned round."""
    agreeing = [row for row in SETTLED if verdicts[row["id"]].correct is row["expected"]]
    for row in (next(row for row in agreeing if row["expected"]), next(row for row in agreeing if not row["expected"])):
        turned = {**row, "expected": not row["expected"]}
        assert missed([turned], verdicts) == [turned]


def main() -> None:
    with Grader(workers=2) as grader:
        given = grader.grade([(row["response"], row["gold"]) for row in ROWS])
    lines = "".join(how(row, verdict) + "\n" for row, verdict in zip(ROWS, given, strict=True))
    GOLDEN.write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()
