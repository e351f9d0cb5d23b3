"""Where the figures come from: commands, commits, libraries, machine, seeds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..table import seeds
from ..types import Analysis, Run
from .markup import safe, safe_line


def described(analysis: Analysis, command: str | None, beside: tuple[str, ...] = ()) -> str:
    """A list of what is known. beside: files in the page's folder."""
    rows = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>\n" for name, value in _rows(analysis, command, beside))
    return f'<h3>How they were made</h3>\n<dl class="facts">\n{rows}</dl>'


def _rows(analysis: Analysis, command: str | None, beside: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Name and HTML of each fact."""
    arms = analysis.comparison.arms
    runs = [run for arm in arms for run in arm.runs.values()]
    summaries = [_summary(run) for run in runs]
    if command:
        yield "This page", f"<code>{safe_line(command)}</code>"
    yield from _listed("Runs in", (run.folder.parent for run in runs if run.source != "wandb"), code=True)
    made = (one.get("command") or _of_sweep(run) for run, one in zip(runs, summaries, strict=True))
    yield from _listed("Training", made, code=True)
    yield from _listed("Code", (run.commit for run in runs), code=True)
    yield from _listed("Libraries", (_libraries(one) for one in summaries))
    yield from _listed("Machine", (one.get("machine") for one in summaries))
    yield "Seeds", "; ".join(
        safe_line(f"{arm.label}: {seeds(arm.runs)}" if len(arms) > 1 else seeds(arm.runs)) for arm in arms
    )  # fmt: skip
    yield from _listed("Training questions (sha256)", (run.data for run in runs), code=True)
    took = [one["seconds"] for one in summaries if type(one.get("seconds")) in (int, float)]
    if took:
        yield "Time", safe_line(f"{sum(took):,.0f} s" + (f" over {len(took)} runs" if len(took) > 1 else ""))
    if beside:
        yield "Files", " ".join(f'<a href="{safe(quote(name))}">{safe(name)}</a>' for name in beside)


def _listed(name: str, values: Iterable[object], code: bool = False) -> Iterator[tuple[str, str]]:
    """The distinct values that there are, or nothing."""
    found = list(dict.fromkeys(str(value) for value in values if value))
    shown = [f"<code>{safe_line(one)}</code>" if code else safe_line(one) for one in found]
    if shown:
        yield name, "<br>".join(shown)


def _libraries(summary: dict[str, Any]) -> str:
    known = summary.get("versions")
    if not isinstance(known, dict):
        return ""
    return ", ".join(f"{name} {version}" for name, version in known.items() if name != "commit" and version)


def _summary(run: Run) -> dict[str, Any]:
    """summary.json of a run of ours; {} where there is none."""
    return _json(run.folder / "summary.json") if run.source == "folder" else {}


def _of_sweep(run: Run) -> object:
    """The command of the sweep, of a run that had a process of its own."""
    return _json(run.folder.parent / "sweep.json").get("command") if run.source == "folder" else None


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
