"""`data contamination`: how many questions of each evaluation set are also in the training set. No torch, no model.

The rules are those of data/overlap.py; what is held against what is said by the same overrides as for a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import InputError, nearest
from .files import json_file

if TYPE_CHECKING:
    from rich.console import Console

    from .data.load import DataSets
    from .data.overlap import Match, Overlap
    from .schema import RunConfig
    from .types import Question

USAGE = """\
data contamination [OVERRIDE …]   hold the training questions of a run against
                                  its evaluation sets: data=… evaluation=… and
                                  any other override of a run; of each set
                                  evaluation.questions at most, as in a run
        [--json FILE]             write all matches

same text: the same but for white space, case and marks at its end.
close: at least half of the question's 8-grams (eight words in a row) are in
one training question. some 8-grams: at least one, but less than half. 8-grams
of more than 20 questions of a set are instructions, and do not count.
Exit code 0, whatever is found; 2 for what you can mend."""
LEGEND = """\
questions: evaluation.questions of each set at most, as a run takes them
same text: but for white space, case and marks at its end
close: half of its 8-grams (eight words in a row) or more are in one training
question; some 8-grams: one at least, and less than half"""
_EXAMPLES, _SHOWN = 3, 160  # matches of a kind, and characters of a question


def data(words: Sequence[str], console: Console | None = None) -> int:
    """Answer the words after `data`; gives the exit code. Raises InputError in a few lines for what a user can mend."""
    from .lessons.show import Screen

    console = console or Screen()
    if {"-h", "--help"} & set(words):
        console.print(USAGE, soft_wrap=True)
        return 0
    if not words or words[0] != "contamination":
        asked = f' and not "{words[0]}".{nearest(words[0], ["contamination"])}' if words else "."
        raise InputError(f"The verb data takes the word contamination{asked}\nAll that it takes: data --help")
    overrides, file = _words(words[1:])
    from .config import compose
    from .data import glance
    from .local_paths import sources

    config = compose(overrides)
    for key, source in (sources(config) | sources(config, training=False)).items():
        glance(config.data, source, key)
    with _at_work(console):
        loaded, sets = questions(config)
        from .data.overlap import overlaps

        found = overlaps(loaded.train, sets)
    _show(console, loaded, found)
    if file is not None:
        from .files import write_json

        write_json(file, _as_json(len(loaded.train), found))
        console.print(f"\n{file}: all matches", soft_wrap=True)
    return 0


def questions(config: RunConfig) -> tuple[DataSets, Mapping[str, tuple[Question, ...]]]:
    """The training set of a run, and what it is evaluated on of each set: evaluation.sets, or data.eval,
    evaluation.questions of each at most.

    Read as a run reads them.
    """
    from .data import held_out_sets, load
    from .reward import unreadable

    named = config.evaluation.sets
    loaded = load(config.data, config.seed, unreadable, evaluated=not named)
    whole = held_out_sets(config.data, named, unreadable) if named else {"data.eval": loaded.eval}
    return loaded, {name: found[: config.evaluation.questions] for name, found in whole.items()}


def _words(words: Sequence[str]) -> tuple[list[str], Path | None]:
    """Overrides, and the file of --json."""
    overrides: list[str] = []
    file: Path | None = None
    rest = list(words)
    while rest:
        word = rest.pop(0)
        flag, equals, value = word.partition("=")
        if flag == "--json":
            if not equals and not rest:
                raise InputError("--json needs the name of a file.")
            file = json_file(value if equals else rest.pop(0))
        elif word.startswith("-"):
            raise InputError(f'data contamination has no "{flag}".{nearest(flag, ["--json", "--help"])}')
        elif not equals and not word.startswith("~"):
            raise InputError(f'"{word}" is not an override: write key=value. All that it takes: data --help')
        else:
            overrides.append(word)
    return overrides, file


@contextmanager
def _at_work(console: Console) -> Iterator[None]:
    """A sign of life while questions are read and compared, where stdout is a terminal."""
    if not console.is_terminal:
        yield
        return
    with console.status("reading and comparing questions"):
        yield


def _show(console: Console, loaded: DataSets, found: Sequence[Overlap]) -> None:
    from rich.text import Text

    from .lessons.show import one_line, put, table

    made = table("evaluation set", "questions", "same text", "close", "some 8-grams")
    for one in found:
        counts = (one.questions, len(one.same), len(one.close), len(one.some))
        made.add_row(one.name, *(f"{count:,}" for count in counts))
    for note in loaded.notes:
        console.print(one_line(note), soft_wrap=True)
    console.print(f"{len(loaded.train):,} training questions, sha256 {loaded.digest[:16]}…")
    put(console, made)
    console.print(Text(LEGEND, style="dim"), soft_wrap=True)
    for one in found:
        for kind, matches in (("same", one.same), ("close", one.close)):
            for match in matches[:_EXAMPLES]:
                console.print(f"\n{one.name}: {kind}, {match.share:.0%} of the 8-grams", soft_wrap=True)
                for question in (match.question, match.trained):
                    console.print(f"  {one_line(question.id)}: {_cut(one_line(question.text))}", soft_wrap=True)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 2] + " …"


def _as_json(trained: int, found: Sequence[Overlap]) -> dict[str, Any]:
    sets = {
        one.name: {
            "questions": one.questions,
            "same": _matches(one.same),
            "close": _matches(one.close),
            "some": _matches(one.some),
        }
        for one in found
    }
    return {"training_questions": trained, "sets": sets}


def _matches(matches: Sequence[Match]) -> list[dict[str, Any]]:
    return [
        {
            "question_id": match.question.id,
            "training_id": match.trained.id,
            "share": round(match.share, 4),
            "question": match.question.text,
            "training_question": match.trained.text,
        }
        for match in matches
    ]
