"""`doctor`: whether this machine and this environment can run grpo_runner, line by line, and what to do where not.

One module each: versions.py, machine.py, places.py, selftest.py; show.py lays their lines out. A check that breaks down
is a line too: `doctor` is for environments that are broken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["doctor"]


def doctor(words: Sequence[str], console: Console | None = None) -> int:
    """Answer the words after `doctor`. Gives 0 where no line is a failure, else 1. Raises InputError.

    console: where to, stdout by default.
    """
    from ..lessons.show import Screen
    from .words import STDOUT, USAGE, read

    asked = read(words)
    console = console or Screen()
    if asked is None:
        console.print(USAGE, soft_wrap=True)
        return 0
    from ..tracking import quiet_libraries

    quiet_libraries()
    from .lines import FAILURE
    from .look import look
    from .show import as_json, show

    with console.status("Looking at this machine …"):
        lines = look(asked.folder, selftest=not asked.quick)
    if asked.json == STDOUT:
        console.print(as_json(lines), soft_wrap=True)
    else:
        show(console, lines)
        if asked.json is not None:
            from ..files import write_atomic

            write_atomic(asked.json, (as_json(lines) + "\n").encode())
            console.print(f"\n{asked.json}: the same as JSON", soft_wrap=True)
    return int(any(line.state == FAILURE for line in lines))
