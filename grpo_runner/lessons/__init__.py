"""`explain`: the articles' numbers, your own group's and a real step's, from the functions that train.

Every figure on these screens is computed by `grpo_runner.algorithm`; this room only asks and lays out. It imports no
torch before it needs one, and transformers never.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["explain"]


def explain(words: Sequence[str], console: Console | None = None) -> int:
    """Answer the words after `explain`; gives 0. Raises InputError in one line for what a user can mend.

    No words: one screen of worked numbers. `--rewards …`: the same for the user's own group. `methods`: every method as
    coefficient · ∇log π. `family`: what each gives the same answers. `length`: what each does to the lengths of right
    and wrong answers. `RUN_FOLDER --step N`: the answers of a real step, token by token where the run recorded them,
    and the same as a page of HTML. console: where to, stdout by default.
    """
    from .family_words import Family
    from .show import Screen
    from .words import Length, Methods, Own, Step, Usage, Worked, read

    wanted = read(words)
    console = console or Screen()
    match wanted:
        case Usage(text):
            console.print(text, soft_wrap=True)
        case Methods():
            from .methods import show

            show(console)
        case Length():
            from .length import show as show_length

            show_length(console, wanted)
        case Family():
            from .family_view import show as show_family

            show_family(console, wanted)
        case Worked():
            from .worked import show

            show(console)
        case Own():
            from .own import show as show_own

            show_own(console, wanted)
        case Step(folder, number, question, html, everything):
            from .page import put
            from .step import read as read_step
            from .step_view import show as show_step

            record = read_step(folder, number)
            page = put(record, folder, question, html)  # first: the screen's reader may go away
            show_step(console, record, question, everything)
            console.print()
            console.print(page, style="dim", soft_wrap=True)
    return 0
