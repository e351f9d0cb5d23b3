"""Gold answers: from the cell of a table to one text or several, and what is done with those that cannot be read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from ..errors import InputError
from ..types import Question

Gold = str | tuple[str, ...]  # "" where a row has none
# A question with its place in its file, for messages; only the question leaves this room.
Placed = tuple[str, Question]


def reader(pattern: str | None, key: str, column: str, drop: bool) -> Callable[[str, Any], Gold]:
    """A function (place, cell) -> gold, "" when there is none. Raises InputError for a bad pattern or a bad cell.

    Without a pattern the gold is the whole cell. With one it is the group of the last match; a cell without a match is
    the bare answer already when it is one line (so `18` and `… #### 18` both give 18). One that spans several is a
    worked solution and no gold: refused, or none when `drop`. A list of several answers is a tuple of golds. An
    answer is text or a finite number: of other values (bytes, dates, true) Python's own spelling would become the gold.

    pattern, key: the regular expression and the key that holds it. column: the column's name, for messages.
    """
    column = f'column "{column}"'
    compiled = _pattern(pattern, key)

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
        gold = _written(value)
        check_utf8(f"{place}: the gold answer ({column})", gold)
        if compiled is None or not gold:
            return gold
        if matches := compiled.findall(gold):
            return str(matches[-1]).strip()
        if "\n" not in gold:
            return gold
        if drop:
            return ""
        raise InputError(
            f"{place}: {key} matches nothing in the gold answer ({column}), which has several lines.\n"
            "A cell without a match must be the bare answer, on one line; data.unreadable_gold=drop leaves such rows out."
        )

    return read_gold


def _written(value: str | int | float | Decimal) -> str:
    """A cell as text. A float without a fraction is the whole number that it stands for: AMC's 27.0 is 27."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return str(int(value) if whole else value).strip()


def _pattern(text: str | None, key: str) -> re.Pattern[str] | None:
    """The compiled pattern, which must have one group: the answer."""
    if text is None:
        return None
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise InputError(f"{key}={text!r} is not a regular expression: {error}.") from error
    if pattern.groups != 1:
        raise InputError(
            f"{key}={text!r} has {pattern.groups} groups; it needs one, which is the answer.\n"
            r"For example '####\s*(.+)'. A group that is not the answer is written (?:…)."
        )
    return pattern


def check_utf8(what: str, text: str) -> None:
    """Raise for a lone surrogate, which a JSON escape can make: no tokenizer and no file of a run could take it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{what} holds the lone surrogate {text[error.start]!r} (character {error.start + 1}), which is no text."
        ) from error


def check(rows: Sequence[Placed], key: str, unreadable: Callable[[str], str | None], advice: str) -> None:
    """Raise when a gold cannot be read: a question that no answer can satisfy teaches nothing and looks hard.

    advice: what can be done about it, the end of the message.
    """
    bad = [fault for row in rows if (fault := _fault(row, unreadable)) is not None]
    if bad:
        raise InputError(f"{bad[0]}\n{len(bad)} of {len(rows)} questions of {key} have such a gold. {advice}")


def readable(
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


def _fault(row: Placed, unreadable: Callable[[str], str | None]) -> str | None:
    """Where a row's first unreadable gold stands, and why it cannot be read; None for a row without one."""
    place, question = row
    for gold in question.golds:
        if (why := unreadable(gold)) is not None:
            return f"{place}: the gold answer {gold if len(gold) <= 80 else gold[:79] + '…'!r} cannot be read: {why}"
    return None
