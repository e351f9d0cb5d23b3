"""What a comparison carries along: the policy, the algebra that it may ask, and how two shapes are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from .policy import Policy
from .shapes import Shape


class NeedsAlgebra(Exception):
    """No exact rule decides this pair; it needs computer algebra."""


class Algebra(Protocol):
    """Decides about two expressions in tidied LaTeX. Every method may be slow, so it runs where it can be killed."""

    def equal(self, answer: str, gold: str, tolerance: float) -> bool:
        """Are they equal wherever both are defined? tolerance: relative, 0 for exact."""

    def proportional(self, answer: tuple[str, str], gold: tuple[str, str], positive: bool) -> bool:
        """Is answer[0]-answer[1] a constant (positive, if asked) multiple of gold[0]-gold[1]?"""

    def plain(self, answer: str, gold: str) -> bool:
        """Does math-verify, on two untouched texts, call them equal?"""


@dataclass(frozen=True)
class Judge:
    """Compares two shapes under a policy. Without an algebra, NeedsAlgebra is raised where only one could tell."""

    policy: Policy
    algebra: Algebra | None
    compare: Callable[[Shape, Shape, Judge], bool]

    def equal(self, answer: Shape, gold: Shape) -> bool:
        return self.compare(answer, gold, self)

    def cheap(self) -> Judge:
        """The same without computer algebra."""
        return self if self.algebra is None else replace(self, algebra=None)
