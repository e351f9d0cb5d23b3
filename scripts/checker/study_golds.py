#!/usr/bin/env python3
r"""What the checker says about real golds: each equal to itself, none to another, all to their other spellings.

    python scripts/checker/study_golds.py math_train.jsonl gsm8k_test.jsonl
    python scripts/checker/study_golds.py math500.jsonl --limit 300 --output study.json

Three studies of the field `answer` of each row, graded by reward.Grader in two processes:

    itself     every gold, boxed, after "The answer is" and after "####"; golds that are refused, with the reason
    another    pairs of different golds of one kind, and golds with one thing changed (gold_pairs.py):
               a hit is a pair that is accepted
    rewritten  other spellings of one gold (gold_rewrites.py), alone and two rules at once: a miss is one not accepted

Pairs that an oracle of its own finds equal (gold_oracle.py) are no wrong answers. --output keeps every hit and miss, to
be looked at one by one. The exit status is 1 when a gold is not equal to itself.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from gold_pairs import different, kind_of, wrong_pairs
from gold_rewrites import LAYOUT, RULES, rewrites
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from grpo_runner.reward import Grader, unreadable
from grpo_runner.types import Status

FORMS = {"boxed": "So we have $\\boxed{%s}$.", "after a marker": "The answer is %s", "after ####": "#### %s"}
BATCH = 2000


@dataclass(frozen=True)
class Trial:
    """One graded pair. way: the form, change or rule that made the answer."""

    way: str
    answer: str
    gold: str
    status: str = ""
    rule: str = ""

    @property
    def accepted(self) -> bool:
        return self.status == Status.CORRECT.value


def read_golds(files: Sequence[str]) -> dict[str, list[str]]:
    """Data set (the file's name) -> its golds in order. Ends the program with the file and line that cannot be read."""
    golds: dict[str, list[str]] = {}
    for file in map(Path, files):
        golds[file.stem] = []
        try:
            for line in file.read_text(encoding="utf-8").rstrip("\n").split("\n"):
                golds[file.stem].append(json.loads(line)["answer"])
        except OSError as error:
            sys.exit(f"{file}: {error.strerror}.")
        except (ValueError, KeyError, TypeError):
            sys.exit(f"{file}, line {len(golds[file.stem]) + 1}: no JSON object with the key answer.")
    return golds


def themselves(golds: Sequence[str]) -> Iterator[Trial]:
    """Each gold in each form: after #### only numbers, as GSM8K has them; after a marker no text with line breaks."""
    for gold in golds:
        for form, words in FORMS.items():
            bare = gold.strip().replace(",", "").removeprefix("-").replace(".", "").isdigit()
            if form == "boxed" or (bare if form == "after ####" else "\n" not in gold.strip() and gold.strip()):
                yield Trial(form, words % gold, gold)


def others(golds: Sequence[str], seed: int) -> Iterator[Trial]:
    """Wrong answers in a box; one in three of the changed ones in another layout as well."""
    for way, answer, gold in wrong_pairs(golds, seed):
        yield Trial(way, f"\\boxed{{{answer}}}", gold)
        draw = random.Random(f"{seed} {answer} {gold}")
        if draw.random() < 1 / 3:
            disguised = [
                (rule, text) for rule in LAYOUT if (text := RULES[rule](answer)) is not None and different(text, gold)
            ]
            if disguised:
                rule, text = draw.choice(disguised)
                yield Trial(f"{way}, {rule}", f"\\boxed{{{text}}}", gold)


def spellings(golds: Sequence[str], seed: int, twice: int = 6) -> Iterator[Trial]:
    """Every rewrite of every gold, and up to `twice` of a layout rule on top of another rule."""
    for gold in golds:
        draw = random.Random(f"{seed} {gold}")
        once = list(rewrites(gold))
        for rule, answer in once:
            yield Trial(rule, f"\\boxed{{{answer}}}", gold)
        for rule, answer in draw.sample(once, min(twice, len(once))):
            again = [
                (f"{rule} + {further}", text)
                for further in LAYOUT
                if further != rule
                and (further != "Answer:" or "answer" not in rule.lower())
                and (text := RULES[further](answer)) is not None
            ]
            if again:
                way, text = draw.choice(again)
                yield Trial(way, f"\\boxed{{{text}}}", gold)


def graded(trials: Sequence[Trial], grader: Grader, progress: Progress, title: str) -> list[Trial]:
    """The trials with the checker's verdicts, in batches under one progress bar."""
    done: list[Trial] = []
    for start in progress.track(range(0, len(trials), BATCH), description=title):
        batch = trials[start : start + BATCH]
        verdicts = grader.grade([(trial.answer, trial.gold) for trial in batch])
        done += [
            Trial(trial.way, trial.answer, trial.gold, verdict.status.value, verdict.rule)
            for trial, verdict in zip(batch, verdicts, strict=True)
        ]
    return done


def by_group(trials: Sequence[Trial], groups: dict[str, list[str]]) -> dict[str, tuple[int, int]]:
    """Group -> (accepted, all) of its members' trials; a gold of several data sets counts in each."""
    counts: dict[str, tuple[int, int]] = {}
    for name, members in groups.items():
        known = set(members)
        inside = [trial.accepted for trial in trials if trial.gold in known]
        counts[name] = (sum(inside), len(inside))
    return counts


def table(title: str, rows: dict[str, tuple[int, int]], wanted: bool) -> Table:
    """One line a group: how many, how many against expectation, and the share accepted."""
    made = Table("", "pairs", "missed" if wanted else "hits", "accepted", title=title, title_justify="left")
    for column in made.columns[1:]:
        column.justify = "right"
    for name, (accepted, total) in rows.items():
        if total:
            made.add_row(name, f"{total:,}", f"{total - accepted if wanted else accepted:,}", f"{accepted / total:.3%}")
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="JSON lines with the key answer")
    parser.add_argument("--limit", type=int, help="only so many different golds, drawn evenly over the files")
    parser.add_argument("--seed", type=int, default=0, help="of the changes and of what is combined (0)")
    parser.add_argument("--workers", type=int, default=2, help="grading processes (2)")
    parser.add_argument("--output", type=Path, help="JSON file for the figures, the hits and the misses")
    parser.add_argument("--all", action="store_true", help="a line for every way and rule, not only those with hits")
    args = parser.parse_args()
    console = Console()
    sets = read_golds(args.files)
    golds = list(dict.fromkeys(gold for rows in sets.values() for gold in rows))
    if args.limit and args.limit < len(golds):
        golds = golds[:: len(golds) // args.limit][: args.limit]
    refused = {gold: why for gold in golds if (why := unreadable(gold)) is not None}
    golds = [gold for gold in golds if gold not in refused]
    started = time.monotonic()
    studies = {
        "itself": themselves(golds),
        "another": others(golds, args.seed),
        "rewritten": spellings(golds, args.seed),
    }
    done: dict[str, list[Trial]] = {}
    with Grader(workers=args.workers) as grader, Progress(console=console) as progress:
        for name, made in studies.items():
            done[name] = graded(list(made), grader, progress, name)
    kinds: dict[str, list[str]] = defaultdict(list)
    for gold in golds:
        kinds[kind_of(gold)].append(gold)
    rows = Counter(gold for members in sets.values() for gold in members)
    console.print(
        f"{sum(rows.values()):,} rows, {len(golds) + len(refused):,} different golds looked at, {len(refused)} refused"
    )
    for gold, why in refused.items():
        console.print(f"  refused: {gold!r}: {why}", markup=False)
    for name, trials in done.items():
        wanted = name != "another"
        groups = {"all": golds, **sets} if wanted else {"all": golds, **sets, **kinds}
        console.print(table(f"gold and {name}", by_group(trials, groups), wanted))
        ways: dict[str, list[bool]] = defaultdict(list)
        for trial in trials:
            ways[trial.way.split(" + ")[0].split(", ")[0]].append(trial.accepted)
        lines = {way: (sum(each), len(each)) for way, each in ways.items() if args.all or not wanted or not all(each)}
        if not args.all and not wanted:
            lines = {way: counts for way, counts in lines.items() if counts[0]}
        if lines:
            console.print(table("by way", dict(sorted(lines.items())), wanted))
        odd = [trial for trial in trials if trial.accepted != wanted]
        for trial in islice(odd, 20):
            console.print(
                f"  {trial.way}: {trial.answer}  |  {trial.gold}  |  {trial.status}, {trial.rule}", markup=False
            )
        if len(odd) > 20:
            console.print(
                f"  and {len(odd) - 20:,} more" + (f" in {args.output}" if args.output else "; --output keeps all")
            )
    console.print(f"{sum(map(len, done.values())):,} pairs in {time.monotonic() - started:.0f} s")
    if args.output:
        kept = {
            name: {
                "pairs": len(trials),
                "accepted": sum(trial.accepted for trial in trials),
                "status": Counter(trial.status for trial in trials),
                "to look at": [asdict(trial) for trial in trials if trial.accepted != (name != "another")],
            }
            for name, trials in done.items()
        }
        args.output.write_text(json.dumps({"refused": refused, **kept}, indent=1, ensure_ascii=False))
    sys.exit(any(not trial.accepted for trial in done["itself"]))


if __name__ == "__main__":
    main()
