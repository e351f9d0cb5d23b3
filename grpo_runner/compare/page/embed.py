"""The figures in the page: specs inside it, drawn by its own copy of Vega; as files too where a folder is given."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ...files import disk_errors, write_atomic
from ..types import Analysis
from .bundle import bundle
from .figures import FIGURES, export, theme
from .markup import safe, script_json

Specs = Mapping[str, dict[str, Any]]


def specs(analysis: Analysis) -> dict[str, dict[str, Any]]:
    """Of each figure that the runs have something for, in order."""
    made = {name: figure.function(analysis) for name, figure in FIGURES.items()}
    return {name: spec for name, spec in made.items() if spec is not None}


def save(drawn: Specs, folder: Path) -> None:
    """NAME.png and NAME.svg of each. Raises MachineError where the disk refuses."""
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for name, spec in drawn.items():
        write_atomic(folder / f"{name}.png", export.png(spec))
        write_atomic(folder / f"{name}.svg", export.svg(spec).encode("utf-8"))


def figures(drawn: Specs, links_to: str | None) -> str:
    """A figure element each, empty until page.js draws it. links_to: the folder of the files, as the page sees it."""
    return "\n".join(_figure(name, links_to) for name in drawn)


def _figure(name: str, links_to: str | None) -> str:
    figure = FIGURES[name]
    links = ""
    if links_to is not None:
        places = {kind: safe(quote(f"{links_to}/{name}.{kind.lower()}")) for kind in ("PNG", "SVG")}
        links = " ".join(f'<a href="{place}">{kind}</a>' for kind, place in places.items())
        links = f' <span class="links">{links}</span>'
    return (
        f'<figure id="figure-{name}">\n<h3>{safe(figure.title)}</h3>\n'
        f'<div class="plot" data-figure="{name}" role="group" aria-label="{safe(figure.title)}"></div>\n'
        f"<figcaption>{safe(figure.caption)}{links}</figcaption>\n</figure>"
    )


def scripts(drawn: Specs) -> str:
    """The specs and themes as data, and Vega; nothing where there is no figure."""
    if not drawn:
        return ""
    data = script_json({"specs": drawn, "light": theme.LIGHT, "dark": theme.DARK})
    return f'<script type="application/json" id="figures-data">{data}</script>\n<script>\n{bundle()}\n</script>\n'


def seen_from(page: Path, folder: Path) -> str:
    """The folder as a link of the page leads to it."""
    return os.path.relpath(folder.absolute(), page.absolute().parent).replace(os.sep, "/")
