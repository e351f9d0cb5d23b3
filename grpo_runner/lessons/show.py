"""What the lesson screens share: the console, headings, tables, figures as text, and text made safe to print."""

from __future__ import annotations

import os
import re
import sys
import unicodedata

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH = 100  # where stdout is no terminal; the tables fit 80
_WIDEST = 10_000
_LARGE = 1e5


class Screen(Console):
    """stdout, in colour where that is a terminal and NO_COLOR is unset. A reader that goes away is not a fault."""

    def __init__(self) -> None:
        width = WIDTH if not sys.stdout.isatty() and "COLUMNS" not in os.environ else None
        # a terminal that cannot show π gets a question mark, not a crash
        if hasattr(sys.stdout, "reconfigure") and "utf" not in (sys.stdout.encoding or "").lower():
            sys.stdout.reconfigure(errors="replace")
        super().__init__(highlight=False, markup=False, emoji=False, width=width)

    def on_broken_pipe(self) -> None:
        """Hand BrokenPipeError on: the command line ends with 0 there; rich would end the process with 1."""
        raise BrokenPipeError


def table(*columns: str) -> Table:
    """A plain table: the first column to the left, figures to the right."""
    made = Table(box=None, header_style="dim", padding=(0, 2, 0, 0), pad_edge=False)
    for place, name in enumerate(columns):
        made.add_column(name, justify="left" if place == 0 else "right", no_wrap=True)
    return made


def fits(console: Console, made: Table) -> bool:
    """Whether the table, all of its cells whole, is no wider than the console."""
    return _whole(console, made) <= console.width


def put(console: Console, made: Table) -> None:
    """Print a table with no cell cut: closer together where it is too wide, and past the edge where that is too."""
    if not fits(console, made):
        made.padding = (0, 1, 0, 0)
    made.width = _whole(console, made)
    console.print(made, crop=False)


def _whole(console: Console, made: Table) -> int:
    return console.measure(made, options=console.options.update(max_width=_WIDEST)).maximum


def hanging(console: Console, head: Text, body: Text) -> None:
    """`body` behind `head`; what is wrapped stands below its beginning. No word is broken: a file's name that is longer
    than the room for it goes past the edge, and can be copied.
    """
    room, place, breaks, taken = max(console.width - head.cell_len, 1), 0, [], 0
    for word in re.findall(r"\s*\S+\s*", body.plain):
        if taken and taken + cell_len(word.rstrip()) > room:
            breaks.append(place)
            taken = 0
        place, taken = place + len(word), taken + cell_len(word)
    for number, line in enumerate(body.divide(breaks)):
        line.rstrip()
        console.print(Text.assemble(" " * head.cell_len if number else head, line), soft_wrap=True)


def section(console: Console, title: str, source: str, body: Table) -> None:
    """A bold title, its source in dim (on the same line where both fit), and a table, set off by an empty line."""
    console.print()
    gap = "  " if len(title) + len(source) + 2 <= console.width else "\n"
    console.print(Text.assemble((title, "bold"), gap, (source, "dim")))
    put(console, body)


def signed(value: float, digits: int = 4) -> str:
    """+1.7321; +1.73205e+06 for what is large; 0 without a sign."""
    text = f"{value:+.{digits}f}" if abs(value) < _LARGE else f"{value:+.6g}"
    return "0" if float(text) == 0 and value == 0 else text


def fixed(value: float, digits: int = 4) -> str:
    """1.7321."""
    return f"{value:.{digits}f}"


def compact(value: float, digits: int = 4) -> str:
    """+0.0025 or +2.5e-06; 0 without a sign."""
    return "0" if value == 0 else f"{value:+.{digits}g}"


def share(value: float | None) -> str:
    """25.0 %; a dash where nothing is shared."""
    return "-" if value is None else f"{100 * value:.1f} %"


def clean(text: str) -> str:
    """Text of a model or a file with what could steer a terminal written out: `\\x1b` for an escape.

    Control characters (line feed and tab aside), marks that reorder a line, separators of lines and lone surrogates.
    """
    return "".join(
        character
        if character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")
        else _written(character)
        for character in text
    )


def one_line(text: str) -> str:
    """The same on one line."""
    return " ".join(clean(text).split())


def _written(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
