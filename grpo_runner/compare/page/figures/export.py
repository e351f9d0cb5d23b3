"""A figure as PNG or SVG, for papers: the spec of the page, drawn by vl-convert on white."""

from __future__ import annotations

import copy
from typing import Any

from . import theme
from .theme import Spec

WIDTH = 640


def png(spec: Spec, config: dict[str, Any] | None = None, scale: float = 2.0) -> bytes:
    """PNG, `scale` pixels a point. config: LIGHT on white, unless another is given (with its `background`)."""
    import vl_convert

    return bytes(vl_convert.vegalite_to_png(fixed(spec), config=config or _white(), scale=scale))


def svg(spec: Spec, config: dict[str, Any] | None = None) -> str:
    import vl_convert

    return str(vl_convert.vegalite_to_svg(fixed(spec), config=config or _white()))


def fixed(spec: Spec) -> Spec:
    """Of WIDTH points: outside a page there is no container."""
    found = copy.deepcopy(spec)
    if found.get("width") == "container":
        found["width"] = WIDTH
    return found


def _white() -> dict[str, Any]:
    return theme.LIGHT | {"background": "white", "font": "Liberation Sans, Arial, sans-serif", "padding": 8}
