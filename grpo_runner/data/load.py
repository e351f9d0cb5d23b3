"""From a DataConfig to the questions of a run: which rows, which gold answers, and what should be said about them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

from .. import rng
from ..errors import InputError
from ..schema import DataConfig, SetConfig, SourceConfig
from ..types import Question
from . import arithmetic, countdown, filters, golds, table
from .golds import Gold, Placed

Make = Callable[[Literal["train", "eval"], int, int], tuple[Question, ...]]
Unreadable = Callable[[str], str | None]
_CALCULATOR = re.compile(r"<<[^<>]*>>")
_MEND = "Mend them, remove the rows, or leave them out with data.unreadable_gold=drop."
# data.kind -> questions(split, seed, count) of an embedded generator; "table" reads a file or the hub
GENERATORS: Mapping[str, Make] = {"arithmetic": arithmetic.questions, "countdown": countdown.questions}


@dataclass(frozen=True)
class DataSets:
    """The questions to train on and to evaluate on, and notes that the run shows at its start.

    digest: sha256 of the training questions and golds in order, in hexadecimal: the same for the same questions,
    wherever they were read from.
    """

    train: tuple[Question, ...]
    eval: tuple[Question, ...]
    notes: tuple[str, ...]
    digest: str


def load(
    config: DataConfig, seed: int, unreadable: Unreadable, evaluated: bool = True, solved: bool = False
) -> DataSets:
    """Read or make both sets, and check every gold answer that the run will use.

    evaluated: whether data.eval is wanted at all; without it, `eval` of a table is empty and its key not read.

    solved: whether the training questions need a worked solution (data.solution_column; a generator's own).

    unreadable: why a gold answer cannot be read by the checker, None when it can (`reward.unreadable`).
    The training rows are those of `levels` with at most `max_question_characters`. Sizes of a table: `train_size` of
    these drawn by the seed, kept in file order; `eval_size` rows of an order that is shuffled once and is the same for
    every seed, so that runs which differ in seed are measured on the same questions and the first n of `eval` are a
    fair sample even of a file sorted by subject.
    Raises InputError naming the key, or the file and line.
    """
    if config.kind in GENERATORS:
        made, made_eval = _made(config, GENERATORS[config.kind], seed)
        return DataSets(made, made_eval, (), digest(made))
    notes: list[str] = []
    cached = cache(unreadable)  # golds repeat, and a symbolic one is slow to parse
    drop = config.unreadable_gold == "drop"
    columns = _columns(config, config.train, "data.train", drop=drop)
    more = {config.level_column: "data.level_column"} if config.levels else {}
    if solved:
        more |= {_solutions(config): "data.solution_column"}
    rows = _rows(columns, more)
    if config.levels:
        rows = filters.by_level(rows, config.level_column, config.levels, notes)
    if config.max_question_characters is not None:
        rows = filters.by_length(rows, columns.question, config.max_question_characters, notes)
    train = _questions(rows, columns)
    if solved:
        train = [
            _solved(place, question, row.cells[_solutions(config)])
            for (place, question), row in zip(train, rows, strict=True)
        ]
    if drop:  # before the size is taken, so that it counts rows that can be used
        train = golds.readable(train, "data.train", cached, notes)
    train = _subset(train, config.train_size, seed)
    golds.check(train, "data.train", cached, _MEND)
    chosen = _without_places(train)
    return DataSets(chosen, _eval(config, cached, notes) if evaluated else (), tuple(notes), digest(chosen, solved))


def eval_questions(config: DataConfig, seed: int, unreadable: Unreadable) -> tuple[Question, ...]:
    """`eval` of `load`, without a look at data.train. Raises InputError naming the key, or the file and line."""
    if config.kind in GENERATORS:
        return _made(config, GENERATORS[config.kind], seed)[1]
    return _eval(config, cache(unreadable), [])


def held_out(config: DataConfig, name: str, source: SetConfig, unreadable: Unreadable) -> tuple[Question, ...]:
    """All questions of one set of evaluation.sets, by its name and source, in the order that `eval` of `load` has.

    A column that the source leaves null is that of `config`, and so is a pattern, unless the source has an answer
    column of its own: the pattern belongs to the column. No filter, size or data.unreadable_gold acts here: published
    figures count every row, so one that cannot be read is refused.
    Raises InputError naming the key, or the file and line.
    """
    key = f"evaluation.sets.{name}"
    columns = _columns(config, source, key, drop=False)
    if source.answer_pattern is not None or source.answer_column is not None:
        read_gold = golds.reader(source.answer_pattern, f"{key}.answer_pattern", columns.answer, drop=False)
        columns = replace(columns, read_gold=read_gold)
    found = _questions(_rows(columns), columns)
    golds.check(found, key, cache(unreadable), "Every row of a set counts: mend them, or give a file without them.")
    return _without_places(_shuffled(found, None))


def held_out_sets(
    config: DataConfig, sets: Mapping[str, SetConfig], unreadable: Unreadable
) -> dict[str, tuple[Question, ...]]:
    """`held_out` of each of evaluation.sets, by name."""
    known = cache(unreadable)  # golds repeat, and a symbolic one is slow to parse
    return {name: held_out(config, name, source, known) for name, source in sets.items()}


def glance(config: DataConfig, source: SourceConfig, key: str) -> None:
    """Raise InputError where the beginning of a local file already tells that it cannot be read as `key` asks."""
    table.glance(source, key, _keys(config, source, key))


def digest(questions: Iterable[Question], solved: bool = False) -> str:
    """sha256 over a JSON line for each question, `[text, gold, …]`; ids and places have no part in it.

    solved: a line more for each, its worked solution.
    """
    told = hashlib.sha256()
    for question in questions:
        told.update(json.dumps([question.text, *question.golds], ensure_ascii=False).encode() + b"\n")
        if solved:
            told.update(json.dumps(question.solution, ensure_ascii=False).encode() + b"\n")
    return told.hexdigest()


def _eval(config: DataConfig, unreadable: Unreadable, notes: list[str]) -> tuple[Question, ...]:
    """The questions of data.eval of a table."""
    drop = config.unreadable_gold == "drop"
    columns = _columns(config, config.eval, "data.eval", drop=drop)
    rows = _questions(_rows(columns), columns)
    if drop:
        rows = golds.readable(rows, "data.eval", unreadable, notes)
    rows = _shuffled(rows, config.eval_size)
    golds.check(rows, "data.eval", unreadable, _MEND)
    return _without_places(rows)


@dataclass(frozen=True)
class _Columns:
    """One source with all that tells how it is read: its key for messages, its columns and the keys that name them."""

    source: SourceConfig
    key: str
    question: str
    answer: str
    keys: Mapping[str, str]
    read_gold: Callable[[str, Any], Gold]
    drop: bool


def _columns(config: DataConfig, source: SourceConfig, key: str, drop: bool) -> _Columns:
    """What to read of a source: its own columns, or those of `data` where it names none."""
    question = source.question_column or config.question_column
    answer = source.answer_column or config.answer_column
    read_gold = golds.reader(config.answer_pattern, "data.answer_pattern", answer, drop)
    return _Columns(source, key, question, answer, _keys(config, source, key), read_gold, drop)


def _keys(config: DataConfig, source: SourceConfig, key: str) -> dict[str, str]:
    """The columns of a question and its gold, each with the key that names it."""
    question, answer = source.question_column, source.answer_column
    return {
        question or config.question_column: f"{key}.question_column" if question else "data.question_column",
        answer or config.answer_column: f"{key}.answer_column" if answer else "data.answer_column",
    }


def _rows(columns: _Columns, more: Mapping[str, str] | None = None) -> list[table.Row]:
    return table.read(columns.source, columns.key, {**columns.keys, **(more or {})})


def _questions(rows: Sequence[table.Row], columns: _Columns) -> list[Placed]:
    """The rows as questions. Each must have a question and a gold, also rows that a size leaves out."""
    placed = []
    for row in rows:
        text = row.cells[columns.question]
        if not isinstance(text, str) or not text.strip():
            found = "empty" if text is None or isinstance(text, str) else f"a {type(text).__name__}, not text"
            raise InputError(f'{row.place}: the question (column "{columns.question}") is {found}.')
        golds.check_utf8(f'{row.place}: the question (column "{columns.question}")', text)
        placed.append((row.place, Question(row.id, text, columns.read_gold(row.place, row.cells[columns.answer]))))
    empty = [place for place, question in placed if not all(question.golds)]
    if empty and not columns.drop:
        raise InputError(
            f'{empty[0]}: the gold answer (column "{columns.answer}") is empty.\n'
            f"{len(empty)} of {len(placed)} rows of {columns.key} have none. Give one, or remove the rows"
            + (", or leave them out with data.unreadable_gold=drop." if columns.key.startswith("data.") else ".")
        )
    return placed


def _solutions(config: DataConfig) -> str:
    if config.solution_column is None:
        raise InputError(
            "samples=solutions needs worked solutions, and data.solution_column is null.\n"
            "Allowed: the column that has them, such as data.solution_column=solution, or data=arithmetic."
        )
    return config.solution_column


def _solved(place: str, question: Question, cell: Any) -> Placed:
    """With its solution, without the calculator's marks of GSM8K (<<48/2=24>>), which are no part of the text."""
    if not isinstance(cell, str) or not cell.strip():
        raise InputError(f"{place}: the worked solution (data.solution_column) is empty or not text.")
    if cell.strip() in question.golds:  # of a file whose answers are bare, where those of the set's own are worked
        raise InputError(
            f"{place}: the worked solution (data.solution_column) is the bare answer {cell.strip()!r}.\n"
            "Allowed: a column of worked solutions (data.solution_column=NAME), or a file that has them."
        )
    golds.check_utf8(f"{place}: the worked solution (data.solution_column)", cell)
    return place, replace(question, solution=_CALCULATOR.sub("", cell).strip())


def _made(config: DataConfig, make: Make, seed: int) -> tuple[tuple[Question, ...], tuple[Question, ...]]:
    """Both splits of a generator; disjoint by construction."""
    if config.train_size is None or config.eval_size is None:
        name = "train_size" if config.train_size is None else "eval_size"
        raise InputError(f"data.{name} is empty: the {config.kind} generator must be told how many questions to make.")
    return make("train", seed, config.train_size), make("eval", seed, config.eval_size)


def _without_places(rows: Sequence[Placed]) -> tuple[Question, ...]:
    return tuple(question for _, question in rows)


def _subset(rows: list[Placed], size: int | None, seed: int) -> list[Placed]:
    """`size` rows drawn by the seed, in file order; a larger size contains a smaller one's rows."""
    if size is None:
        return rows
    _enough(rows, size, "train")
    chosen = rng.generator(seed, "data", "train_size").permutation(len(rows))[:size]
    return [rows[i] for i in sorted(chosen)]


def _shuffled(rows: list[Placed], size: int | None) -> list[Placed]:
    """The first `size` rows of an order that depends on the number of rows alone."""
    _enough(rows, size or 0, "eval")
    return [rows[i] for i in rng.generator(0, "data", "eval_order").permutation(len(rows))[:size]]


def _enough(rows: Sequence[Placed], size: int, split: str) -> None:
    if size > len(rows):
        raise InputError(
            f"data.{split}_size={size} is more than the {len(rows)} questions there are. "
            f"Use {len(rows)} or less, or data.{split}_size=null for all."
        )
