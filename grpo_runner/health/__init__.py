"""Rules on the logged series of a run: what may be going wrong, told once with what to try. No torch.

A rule is a pure function of the rows of metrics.jsonl up to a step. `Watched` asks all of them at each step of a run,
`health` the rows of a run folder.
"""

from __future__ import annotations

from collections.abc import Sequence

from .rules import RULES, Rule
from .watch import Watched, firing

__all__ = ["RULES", "Rule", "Watched", "firing", "health"]


def health(words: Sequence[str]) -> int:
    """Answer the words after `health`, a run folder; gives 0. Raises InputError for what a user can mend."""
    from .show import show

    return show(words)
