"""`plan`: what a run is, what will happen, what it needs and what will bite, before anything is loaded. No torch.

One module each: what.py, happens.py, needs.py with devices.py, speed.py, bites.py; page.py lays them out. Only
`--calibrate` loads the model, to time two steps of the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["plan"]


def plan(words: Sequence[str], console: Console | None = None) -> int:
    """Answer the words after `plan`; gives 0. Raises InputError in one to five lines for what a user can mend.

    words: overrides as for a run, and the flags of words.py. console: where to, stdout by default.
    """
    from ..lessons.show import Screen
    from .words import USAGE, read

    console = console or Screen()
    asked = read(words)
    if asked.help:
        console.print(USAGE, soft_wrap=True)
        return 0
    from .made import composed, make

    if asked.calibrate:
        from .speed import calibrate

        calibrate(composed(asked)[0], console)
    made = make(asked)
    if asked.json is not None:
        from ..files import disk_errors, write_json

        with disk_errors(asked.json):
            write_json(asked.json, made.plain())
    from .page import show

    show(made, console)
    if asked.json is not None:
        console.print(f"written: {asked.json}", style="dim", soft_wrap=True)
    return 0
