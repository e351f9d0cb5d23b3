"""Text made safe for HTML, and tables that page.js can sort. What stands in a run's files may be hostile."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from ...lessons.show import clean, one_line


class Cell(NamedTuple):
    """What a cell shows, as text, and the number it is sorted by; without one it is sorted as text, or as missing where
    others of its column have one. figure: it is a number all the same, and stands right.
    """

    text: str
    key: float | None = None
    strong: bool = False
    figure: bool = False


def safe(text: object) -> str:
    """Any text as HTML, quotes too; what could reorder a line or is no character is written out."""
    return escape(clean(str(text)), quote=True)


def safe_line(text: object) -> str:
    """The same on one line."""
    return escape(one_line(str(text)), quote=True)


def script_json(value: object) -> str:
    """JSON that may stand in a script element: no end of it and no comment can be read from a text."""
    text = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate is no character


def _finite(value: object) -> object:
    """What JSON has no word for (NaN, infinity) as null."""
    if isinstance(value, dict):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    if hasattr(value, "item"):  # numpy's scalars
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def table(name: str, caption: str, head: Sequence[str], rows: Sequence[Sequence[Cell]], sortable: bool = True) -> str:
    """A table that scrolls by itself where the screen is narrow; the first column names its row, figures stand right.

    sortable: each heading is a button; page.js does the rest.
    """
    classes = [
        ' class="n"' if rows and all(_is_figure(row[place]) for row in rows) else "" for place in range(len(head))
    ]
    titles = "".join(
        f'<th scope="col"{kind}>'
        + (f'<button type="button">{safe(title)}</button>' if sortable else safe(title))
        + "</th>"
        for title, kind in zip(head, classes, strict=True)
    )
    body = "\n".join(f"<tr>{_row(row, classes)}</tr>" for row in rows)
    sort = " data-sort" if sortable else ""
    return (
        # no caption element: it would be as wide as the table, and on a phone scroll away with it
        f'<p class="caption" id="{name}-caption">{safe(caption)}</p>\n'
        f'<div class="wide" role="region" aria-labelledby="{name}-caption">'
        f'<table id="{name}-table" aria-labelledby="{name}-caption"{sort}>\n'
        f"<thead><tr>{titles}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def _is_figure(cell: Cell) -> bool:
    return cell.figure or cell.text in ("", "-") or (cell.key is not None and cell.text[0] in "−+-<.0123456789")


def _row(row: Sequence[Cell], classes: Sequence[str]) -> str:
    made = ""
    for place, (cell, kind) in enumerate(zip(row, classes, strict=True)):
        key = "" if cell.key is None or not math.isfinite(cell.key) else f' data-key="{cell.key!r}"'
        text = f"<b>{safe_line(cell.text)}</b>" if cell.strong else safe_line(cell.text)
        if not place:  # the name of a run is broken at its commas
            made += f'<th scope="row"{kind}{key}>{text.replace(",", ",<wbr>")}</th>'
        else:
            made += f"<td{kind}{key}>{text}</td>"
    return made
