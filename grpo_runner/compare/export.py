"""A comparison as files: CSV (a row a run and measure), JSON (all of it), Markdown and LaTeX (a paper's tables)."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..files import write_atomic
from .table import counted, difference, mean_and_spread, seeds, tests
from .types import Analysis, Arm, Effect, Measure
from .verdict import digits_of, number

CELLS = ("measure", "difference", "p", "p (Holm)", "seen from")


def as_csv(analysis: Analysis) -> str:
    """arm,seed,run,measure,unit,value: one row a run and measure in shown units; empty where a run has no value."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    keys = list(analysis.comparison.by)
    rows.writerow(["arm", *keys, "seed", "run", "measure", "unit", "value"])
    for arm in analysis.comparison.arms:
        for measure in analysis.measures:
            for seed, run in arm.runs.items():
                value = analysis.values[arm.name][measure.key].get(seed)
                shown = "" if value is None else repr(value * measure.scale)
                own = [arm.values.get(key) for key in keys]
                rows.writerow([arm.label, *own, seed, run.name, measure.key, measure.unit, shown])
    return out.getvalue()


def as_json(analysis: Analysis) -> str:
    """Arms, values by seed, effects, warnings and the verdict, in shown units."""
    comparison = analysis.comparison
    found = {
        "title": comparison.title,
        "by": list(comparison.by),
        "baseline": comparison.baseline.name,
        "window": analysis.window,
        "verdict": list(analysis.verdict),
        "warnings": list(comparison.warnings),
        "measures": [
            {"key": one.key, "title": one.title, "unit": one.unit, "better": one.better} for one in analysis.measures
        ],
        "arms": [_arm(analysis, arm) for arm in comparison.arms],
        "effects": [_effect(effect) for effect in analysis.effects],
        "shared": {key: _plain(value) for key, value in comparison.shared.items()},
    }
    return json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def as_markdown(analysis: Analysis) -> str:
    """Verdict, arms and differences, as tables of GitHub's Markdown."""
    lines = [f"## {_md(analysis.comparison.title)}", "", f"{analysis.window}", ""]
    lines += [line for sentence in analysis.verdict for line in (_md(sentence), "")]
    lines += [line for warning in analysis.comparison.warnings for line in (f"> Warning: {_md(warning)}", "")]
    head, rows = arms_table(analysis)
    lines += [*_md_table(head, rows), ""]
    for title, table in difference_tables(analysis):
        lines += [f"**{_md(title)}**", "", *_md_table(list(CELLS), table), ""]
    return "\n".join(lines)


def as_latex(analysis: Analysis) -> str:
    """The same two tables with booktabs; the caption says how they were made."""
    head, rows = arms_table(analysis)
    parts = [_latex_table(head, rows, f"{analysis.comparison.title}: mean ± standard deviation over seeds.")]
    for title, table in difference_tables(analysis):
        level = f"{100 * analysis.effects[0].level:g} %"
        caption = f"{title}: difference with its {level} interval over seeds; p of the exact sign-flip test."
        parts.append(_latex_table(list(CELLS), table, caption))
    return "\n".join(parts)


FORMATS: dict[str, Callable[[Analysis], str]] = {
    "csv": as_csv,
    "json": as_json,
    "md": as_markdown,
    "latex": as_latex,
}


def write(analysis: Analysis, kind: str, path: Path) -> None:
    """One file; "-" is standard output. Raises MachineError where the disk refuses."""
    text = FORMATS[kind](analysis)
    if str(path) == "-":
        print(text, end="")
        return
    write_atomic(path, text.encode())


# --- tables


def arms_table(analysis: Analysis) -> tuple[list[str], list[list[str]]]:
    """Head and rows: mean ± SD of each measure that some run has a value of, with a column an arm."""
    arms = analysis.comparison.arms
    measures = [one for one in analysis.measures if _valued(analysis, one)]
    counts = [(arm, counted(analysis, arm, measures)) for arm in arms]
    rows = [
        [one.title]
        + [mean_and_spread(one, analysis.values[arm.name][one.key].values(), len(own)) for arm, own in counts]
        for one in measures
    ]
    return ["measure", *(arm.label for arm in arms)], [["seeds", *(seeds(own) for _, own in counts)], *rows]


def difference_tables(analysis: Analysis) -> list[tuple[str, list[list[str]]]]:
    """Of each arm its title and rows."""
    found = []
    for arm in analysis.comparison.arms[1:]:
        own = [effect for effect in analysis.effects if effect.arm.name == arm.name]
        if own:
            pairs = max(len(effect.seeds) for effect in own)
            title = f"{arm.label} minus {analysis.comparison.baseline.label}, {pairs} pairs"
            found.append((title, [_cells(effect) for effect in own]))
    return found


def _cells(effect: Effect) -> list[str]:
    seen = "-" if effect.detectable is None else number(effect.detectable, digits_of(effect))
    unit = f" ({effect.measure.unit})" if effect.measure.unit else ""
    name = f"{effect.measure.title}{unit}"
    return [name, difference(effect), *tests(effect), seen]


def _valued(analysis: Analysis, measure: Measure) -> bool:
    found = (analysis.values[arm.name][measure.key] for arm in analysis.comparison.arms)
    return any(value is not None for by_seed in found for value in by_seed.values())


def _md_table(head: list[str], rows: list[list[str]]) -> list[str]:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return ["| " + " | ".join(map(_md, row)) + " |" for row in (head, rule, *rows)]


def _md(text: str) -> str:
    """Text with what Markdown would take for itself written out; on one line."""
    kept = " ".join(text.split())
    return "".join(f"\\{character}" if character in "|<>`*_" else character for character in kept)


_TEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "^": r"\textasciicircum{}",
    "_": r"\_", "~": r"\textasciitilde{}", "%": r"\%", "±": r"$\pm$", "−": "$-$", "<": "$<$", ">": "$>$",
}  # fmt: skip


def _latex_table(head: list[str], rows: list[list[str]], caption: str) -> str:
    def tex(text: str) -> str:
        return "".join(_TEX.get(character, character) for character in " ".join(text.split()))

    def row(cells: list[str]) -> str:
        return "    " + " & ".join(map(tex, cells)) + r" \\"

    body = [row(head), r"    \midrule", *map(row, rows)]
    columns = "l" + "r" * (len(head) - 1)
    return "\n".join(
        [
            r"% \usepackage{booktabs}",
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{tex(caption)}}}",
            rf"  \begin{{tabular}}{{{columns}}}",
            r"    \toprule",
            *body,
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
            "",
        ]
    )


# --- JSON


def _arm(analysis: Analysis, arm: Arm) -> dict[str, Any]:
    values = {
        one.key: {
            str(seed): None if (value := analysis.values[arm.name][one.key].get(seed)) is None else value * one.scale
            for seed in arm.runs
        }
        for one in analysis.measures
    }
    return {
        "name": arm.name,
        "label": arm.label,
        "settings": {key: _plain(value) for key, value in arm.values.items()},
        "runs": {str(seed): str(run.folder) for seed, run in arm.runs.items()},
        "values": values,
    }


def _effect(effect: Effect) -> dict[str, Any]:
    return {
        "arm": effect.arm.name,
        "measure": effect.measure.key,
        "unit": effect.measure.unit,
        "primary": effect.primary,
        "seeds": list(effect.seeds),
        "differences": [_plain(float(one)) for one in effect.differences_S],
        **{
            name: _plain(getattr(effect, name))
            for name in (
                "mean", "low", "high", "level", "method", "p", "p_holm", "detectable", "power", "improvement", "iqm",
            )
        },
    }  # fmt: skip


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
