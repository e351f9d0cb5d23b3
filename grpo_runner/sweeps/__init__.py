"""Sweeps: what each run's folder says of it, the tables, the live table, runs in processes of their own, the verb."""

from .command import sweep
from .states import RunState, read
from .value import value_of

__all__ = ["RunState", "read", "sweep", "value_of"]
