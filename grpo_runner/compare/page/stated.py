"""Which measures the page shows first."""

from __future__ import annotations

from collections.abc import Sequence

from ..types import Analysis, Measure


def primary(analysis: Analysis) -> list[Measure]:
    """The measures that were stated beforehand; those that come first where there is no effect."""
    keys = {effect.measure.key for effect in analysis.effects if effect.primary}
    return [one for one in analysis.measures if one.key in keys] or list(valued(analysis)[:2])


def valued(analysis: Analysis) -> Sequence[Measure]:
    """Those that some run has a value of."""
    own = [analysis.values[arm.name] for arm in analysis.comparison.arms]
    return [one for one in analysis.measures if any(value is not None for by in own for value in by[one.key].values())]
