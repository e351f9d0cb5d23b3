"""From a DataConfig to the questions of a run: which rows, which gold answers, and what should be said about them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any

from .. import rng
from ..errors import InputError
from ..schema import DataConfig, SourceConfig
from ..types import Question
from . import arithmetic, table


@dataclass(frozen=True)
class DataSets:
    """The questions to train on and to evaluate on, and notes that the run shows at its start. Neither is empty."""

    train: tuple[Question, ...]
    eval: tuple[Question, ...]
    notes: tuple[str, ...]


def load(config: DataConfig, seed: int, unreadable: Callable[[str], str | None], evaluated: bool = True) -> DataSets:
    """Read or make both sets, and check every gold answer that the run will use.

    evaluated: whether the held-out set is wanted at all; without it, `eval` of a table is empty and its key not read.

    unreadable: why a gold answer cannot be read by the checker, None when it can (`reward.unreadable`).
    Sizes of a table: `train_size` rows drawn by the seed, kept in file order; `eval_size` rows of an order that is
    shuffled once and is the same for every seed, so that runs which differ in seed are measured on the same questions
    and the first n of `eval` are a fair sample even of a file sorted by subject.
    Raises InputError naming the key, or the file and line.
    """
    notes: list[str] = []
    if config.kind == "arithmetic":
        sets = _arithmetic(config, seed)
    else:
        read_gold, dropped = _gold_reader(config), config.unreadable_gold == "drop"
        cached = cache(unreadable)  # golds repeat, and a symbolic one is slow to parse
        train = _table(config, config.train, "data.train", read_gold)
        held_out = _table(config, config.eval, "data.eval", read_gold) if evaluated else []
        if dropped:  # before the sizes are taken, so that those count rows that can be used
            train = _readable(train, "data.train", cached, notes)
            held_out = _readable(held_out, "data.eval", cached, notes) if evaluated else []
        sets = _subset(train, config.train_size, seed), _shuffled(held_out, config.eval_size if evaluated else None)
        for rows, key in zip(sets, ("data.train", "data.eval"), strict=True):
            _check_golds(rows, key, cached)
    chosen, eval_chosen = (tuple(question for _, question in rows) for rows in sets)
    return DataSets(chosen, eval_chosen, notes=(*notes, *_overlap(chosen, eval_chosen)))


Gold = str | tuple[str, ...]  # "" where a row has none
# A question with its place in its file, for messages; only the question leaves this module.
Placed = tuple[str, Question]


def _arithmetic(config: DataConfig, seed: int) -> tuple[list[Placed], list[Placed]]:
    """Both splits of the generator; disjoint by construction."""
    if config.train_size is None or config.eval_size is None:
        name = "train_size" if config.train_size is None else "eval_size"
        raise InputError(f"data.{name} is empty: the arithmetic generator must be told how many questions to make.")
    train = arithmetic.questions("train", seed, config.train_size)
    held_out = arithmetic.questions("eval", seed, config.eval_size)
    return [(question.id, question) for question in train], [(question.id, question) for question in held_out]


def _table(config: DataConfig, source: SourceConfig, key: str, read_gold: Callable[[str, Any], Gold]) -> list[Placed]:
    """All questions of one source. Every row must have a question and a gold, also rows that a size leaves out."""
    columns = {config.question_column: "data.question_column", config.answer_column: "data.answer_column"}
    placed = []
    for row in table.read(source, key, columns):
        text = row.cells[config.question_column]
        if not isinstance(text, str) or not text.strip():
            found = "empty" if text is None or isinstance(text, str) else f"a {type(text).__name__}, not text"
            raise InputError(f'{row.place}: the question (column "{config.question_column}") is {found}.')
        _check_utf8(f'{row.place}: the question (column "{config.question_column}")', text)
        placed.append((row.place, Question(row.id, text, read_gold(row.place, row.cells[config.answer_column]))))
    empty = [place for place, question in placed if not all(question.golds)]
    if empty and config.unreadable_gold == "error":
        raise InputError(
            f'{empty[0]}: the gold answer (column "{config.answer_column}") is empty.\n'
            f"{len(empty)} of {len(placed)} rows of {key} have none. Give one, remove the rows, "
            "or leave them out with data.unreadable_gold=drop."
        )
    return placed


def _gold_reader(config: DataConfig) -> Callable[[str, Any], Gold]:
    """A function (place, cell) -> gold, "" when there is none.

    Without `answer_pattern` the gold is the whole cell. With one it is the group of the last match; a cell without a
    match is the bare answer already when it is one line (so `18` and `… #### 18` both give 18), and refused when it
    spans several, since a worked solution is no gold. A list of several answers is a tuple of golds. An answer is
    text or a finite number: of other values (bytes, dates, true) Python's own spelling would become the gold.
    """
    column = f'column "{config.answer_column}"'
    pattern = _pattern(config.answer_pattern)

    def read_gold(place: str, cell: Any) -> Gold:
        if not isinstance(cell, list):
            return read_one(place, cell)
        golds = tuple(dict.fromkeys(read_one(place, value) for value in cell))
        return golds if len(golds) > 1 else golds[0] if golds else ""

    def read_one(place: str, value: Any) -> str:
        if value is None or (isinstance(value, float) and math.isnan(value)):
            value = ""  # NaN is how tables write a missing number
        if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
            raise InputError(f"{place}: the gold answer ({column}) is a {type(value).__name__}, not text or a number.")
        if not isinstance(value, str) and not Decimal(value).is_finite():
            raise InputError(f"{place}: the gold answer ({column}) is a {type(value).__name__} of {value}: not finite.")
        gold = str(value).strip()
        _check_utf8(f"{place}: the gold answer ({column})", gold)
        if pattern is not None and gold:
            matches = pattern.findall(gold)
            if not matches and "\n" in gold:
                raise InputError(
                    f"{place}: data.answer_pattern matches nothing in the gold answer ({column}), "
                    "which has several lines.\nA cell without a match must be the bare answer, on one line."
                )
            gold = matches[-1].strip() if matches else gold
        return gold

    return read_gold


def _check_utf8(what: str, text: str) -> None:
    """Raise for a lone surrogate, which a JSON escape can make: no tokenizer and no file of a run could take it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{what} holds the lone surrogate {text[error.start]!r} (character {error.start + 1}), which is no text."
        ) from error


def _pattern(text: str | None) -> re.Pattern[str] | None:
    """The compiled `data.answer_pattern`, which must have one group: the answer."""
    if text is None:
        return None
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise InputError(f"data.answer_pattern={text!r} is not a regular expression: {error}.") from error
    if pattern.groups != 1:
        raise InputError(
            f"data.answer_pattern={text!r} has {pattern.groups} groups; it needs one, which is the answer.\n"
            r"For example '####\s*(.+)'. A group that is not the answer is written (?:…)."
        )
    return pattern


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


def _check_golds(rows: Sequence[Placed], key: str, unreadable: Callable[[str], str | None]) -> None:
    """Raise when a gold cannot be read: a question that no answer can satisfy teaches nothing and looks hard."""
    bad = [fault for row in rows if (fault := _fault(row, unreadable)) is not None]
    if bad:
        raise InputError(
            f"{bad[0]}\n{len(bad)} of {len(rows)} questions of {key} have such a gold. "
            "Mend them, remove the rows, or leave them out with data.unreadable_gold=drop."
        )


def _fault(row: Placed, unreadable: Callable[[str], str | None]) -> str | None:
    """Where a row's first unreadable gold stands, and why it cannot be read; None for a row without one."""
    place, question = row
    for gold in question.golds:
        if (why := unreadable(gold)) is not None:
            return f"{place}: the gold answer {gold if len(gold) <= 80 else gold[:79] + '…'!r} cannot be read: {why}"
    return None


def _readable(
    rows: Sequence[Placed], key: str, unreadable: Callable[[str], str | None], notes: list[str]
) -> list[Placed]:
    """The rows whose golds can be read. Says how many others there were; raises when there is no other."""
    faults = [_fault(row, unreadable) for row in rows]
    bad = [fault for fault in faults if fault is not None]
    if bad and len(bad) == len(rows):
        raise InputError(f"{bad[0]}\nNo row of {key} has a gold that can be read.")
    if bad:
        notes.append(f"Left out {len(bad)} of {len(rows)} rows of {key}, whose gold cannot be read. First: {bad[0]}")
    return [row for row, fault in zip(rows, faults, strict=True) if fault is None]


def _overlap(train: Sequence[Question], held_out: Sequence[Question]) -> tuple[str, ...]:
    """A note when questions to evaluate on are also trained on (same text but for white space)."""
    trained = {" ".join(question.text.split()) for question in train}
    shared = sum(" ".join(question.text.split()) in trained for question in held_out)
    if not shared:
        return ()
    which = f"{shared} of {len(held_out)} evaluation questions are also in the training set"
    return (f"Warning: {which}, so they are not held out.",)
