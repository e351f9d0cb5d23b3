"""`prompt`: the prompts that a run would give its model, token by token, and how long those of its sets are.

Only the tokenizer is loaded, never the model's weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["prompt"]


def prompt(words: Sequence[str], console: Console | None = None) -> int:
    """Answer the words after `prompt`; gives 0. Raises InputError in a few lines for what a user can mend.

    console: where to, stdout by default.
    """
    from ..lessons.show import Screen
    from .words import USAGE, read

    wanted = read(words)
    console = console or Screen()
    if wanted is None:
        console.print(USAGE, soft_wrap=True)
        return 0
    from ..tracking import quiet_libraries

    quiet_libraries()
    from .report import as_json, report
    from .show import show

    found = report(wanted)
    show(console, found)
    if wanted.json is not None:
        from ..files import write_json

        write_json(wanted.json, as_json(found))
        console.print(f"\n{wanted.json}: the same as JSON", soft_wrap=True)
    return 0
