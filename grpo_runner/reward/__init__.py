"""The reward room: extract an answer, decide equivalence, grade in killable worker processes, compose the reward.

Importing it loads neither torch nor sympy. `check` grades one response in this process; `Grader` grades many with a
deadline; `unreadable` says why a gold cannot be used; `compose.build` makes the reward of a run.
"""

from __future__ import annotations

from .check import check, unreadable
from .policy import Policy, policy_of
from .workers import Grader

__all__ = ["Grader", "Policy", "check", "policy_of", "unreadable"]
