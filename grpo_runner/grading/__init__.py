"""`check`: the checker on the command line. One answer, the rows of a file, or a run's answers once more.

Exit codes: 0 right, 1 not right, 2 for what a user can mend. Of a file: 0 when every row could be graded, 1 when some
could not. Of a run: 0 when every verdict stands, 1 when some would change. This room asks the reward room
and lays out; neither torch nor sympy is imported here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["check"]


def check(words: Sequence[str], console: Console | None = None) -> int:
    """Answer the words after `check`; gives the exit code. Raises InputError in a few lines for what a user can mend.

    console: where to, stdout by default.
    """
    from ..lessons.show import Screen
    from .words import Pair, Rows, Run, Usage, read

    wanted = read(words)
    console = console or Screen()
    match wanted:
        case Usage(text):
            console.print(text, soft_wrap=True)
            return 0
        case Pair():
            from .pair import grade as grade_pair

            return grade_pair(wanted, console)
        case Rows():
            from .file import grade as grade_file

            return grade_file(wanted, console)
        case Run():
            from .regrade import regrade

            return regrade(wanted, console)
