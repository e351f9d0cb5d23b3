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
from .figures import Figure, export, figures_of, theme
from .markup import safe, safe_line, script_json

Specs = Mapping[str, dict[str, Any]]


def specs(analysis: Analysis) -> dict[str, dict[str, Any]]:
    """Of each figure that the runs have something for, in order; {} of what is 0 throughout."""
    made = {name: figure.function(analysis) for name, figure in figures_of(analysis).items()}
    return {name: spec for name, spec in made.items() if spec is not None}


def save(drawn: Specs, folder: Path) -> None:
    """NAME.png and NAME.svg of each that is drawn. Raises MachineError where the disk refuses."""
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for name, spec in _seen(drawn).items():
        write_atomic(folder / f"{name}.png", export.png(spec))
        write_atomic(folder / f"{name}.svg", export.svg(spec).encode("utf-8"))


def figures(analysis: Analysis, drawn: Specs, links_to: str | None) -> str:
    """A figure element each, empty until page.js draws it. links_to: the folder of the files, as the page sees it."""
    known = figures_of(analysis)
    made = [_figure(name, known[name], links_to) for name in _seen(drawn)]
    if flat := [known[name].title for name, spec in drawn.items() if not spec]:
        made.append(f'<p class="dim">0 throughout, and so not drawn: {safe_line("; ".join(flat))}.</p>')
    return "\n".join(made)


def _seen(drawn: Specs) -> Specs:
    return {name: spec for name, spec in drawn.items() if spec}


def _figure(name: str, figure: Figure, links_to: str | None) -> str:
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
    if not (seen := _seen(drawn)):
        return ""
    data = script_json({"specs": seen, "light": theme.LIGHT, "dark": theme.DARK})
    return f'<script type="application/json" id="figures-data">{data}</script>\n<script>\n{bundle()}\n</script>\n'


def seen_from(page: Path, folder: Path) -> str:
    """The folder as a link of the page leads to it."""
    return os.path.relpath(folder.absolute(), page.absolute().parent).replace(os.sep, "/")
