#!/usr/bin/env python3
"""Fill docs/speed.md from the JSON files in docs/speed/: tables.py [--check]

What stands between `<!-- bench:NAME -->` and `<!-- /bench -->` is made from docs/speed/NAME.json; where there is
none it says "Not measured." --check changes nothing and exits 1 where the page is not what the files say.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"(<!-- bench:(\w+) -->\n).*?(<!-- /bench -->)", re.DOTALL)
BUSY = 0.5  # load average before a run above which its figures are marked
Rows = list[list[str]]


def markdown(header: list[str], rows: Rows) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def figure(value: float) -> str:
    """Three digits, thousands apart."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def spread(value: dict[str, float], scale: float = 1.0) -> str:
    low, high = figure(value["min"] * scale), figure(value["max"] * scale)
    return f"{figure(value['median'] * scale)}" + (f" ({low}–{high})" if low != high else "")


def where(made: dict[str, Any]) -> str:
    """The line under a table: command, machine, versions."""
    at = made["machine"]
    cpu = f"{at['cpu']}, {at['cores']} cores, {at['threads']} threads, {at['memory_gib']} GiB"
    libraries = f"torch {at['torch']}, transformers {at['transformers']}"
    busy = f" · **load {at['load']} before the run**" if at.get("load", 0) > BUSY else ""
    return f"`{made['command']}` · {cpu} · {libraries} · commit {at['commit']}, {at['date']}{busy}"


def compared(made: dict[str, Any]) -> str:
    found, names = made["summary"], {"ours": "grpo_runner", "trl": "TRL"}
    rows = []
    for side in [side for side in names if side in found]:
        own = found[side]
        version = own["versions"].get("trl", "")
        rows.append(
            [
                f"{names[side]} {version}".strip(),
                spread(own["step_s"]),
                spread(own["rollout_s"]),
                spread(own["peak_mib"], 1 / 1024),
                spread(own["first_rollout_s"]),
                f"{own['tokens_a_step']:,}",
                f"{own['trainable']:,}",
                str(own["runs"]),
            ]
        )
    if "ratio" in found:
        ratio = found["ratio"]
        rows.append(
            ["TRL ÷ grpo_runner", *(f"× {ratio[key]:.2f}" for key in ("step_s", "rollout_s", "peak_mib")), *[""] * 4]
        )
    header = [
        "",
        "step s",
        "of it sampling s",
        "peak GiB",
        "start to first rollout s",
        "tokens a step",
        "trained",
        "runs",
    ]
    notes = ["**The work was not equal:** " + "; ".join(made["unequal"])] if made["unequal"] else []
    return "\n\n".join([markdown(header, rows), *notes])


def sampled(made: dict[str, Any]) -> str:
    rows = []
    for row in made["rows"]:
        base = next((r for r in made["rows"] if r["engine"] == "generate" and r["work"] == row["work"]), None)
        times = "" if base is None else f"× {row['tokens_per_s']['median'] / base['tokens_per_s']['median']:.2f}"
        rows.append([row["engine"], row["work"], spread(row["tokens_per_s"]), times])
    return markdown(["engine", "prompts × samples × tokens", "tokens a second", "beside `generate`"], rows)


def profiled(made: dict[str, Any]) -> str:
    rows = [[row["part"], f"{1000 * row['seconds']:.1f}", f"{row['share']:.1%}"] for row in made["parts"]]
    rows.append(["a step", f"{1000 * made['step_s']:.1f}", "100%"])
    text = [markdown(["part", "ms a step", "share"], rows)]
    text.append(f"Logging, grading and checkpointing together: {made['overhead']:.1%}.")
    if made["missing"]:
        text.append("Not found in this version, so part of *rest*: " + ", ".join(made["missing"]) + ".")
    limit = made.get("limit")
    if limit:
        header = ["", "GFLOP", "GFLOP a second", "of the square limit", "of the limit of its own shapes"]
        text.append(
            markdown(
                header,
                [
                    [
                        row["what"],
                        figure(row["gflop"]),
                        figure(row["rate"]),
                        f"{row['of_square']:.0%}",
                        f"{row['of_own']:.0%}",
                    ]
                    for row in limit["rows"]
                ],
            )
        )
        text.append(
            f"Measured limits in {made['dtype']}: {limit['square']:.0f} GFLOP a second at 2048³, "
            f"{limit['own']:.0f} over the shapes of the update and {limit['decode']:.0f} over those of decoding."
        )
    return "\n\n".join(text)


def scaled(made: dict[str, Any]) -> str:
    rows = [
        [row["axis"], row["value"], f"{row['questions']} × {row['group_size']} × {row['new_tokens']}", row["model"]]
        + [spread(row[key]) for key in ("step_s", "rollout_s", "update_s")]
        + [figure(row["tokens"] / row["step_s"]["median"]), figure(row["peak_mib"])]
        for row in made["rows"]
    ]
    header = ["axis", "", "Q × G × T", "model", "step s", "sampling s", "update s", "tokens a second", "peak MiB"]
    return markdown(header, rows)


def plain(made: dict[str, Any]) -> str:
    """A table that a script made itself: header and rows of texts, and notes."""
    return "\n\n".join([markdown(made["header"], made["rows"]), *made.get("notes", [])])


KINDS: dict[str, Callable[[dict[str, Any]], str]] = {
    "compare": compared,
    "sampling": sampled,
    "profile": profiled,
    "scaling": scaled,
    "table": plain,
}


def block(path: Path) -> str:
    """What stands for one file."""
    if not path.is_file():
        return "Not measured.\n"
    made = json.loads(path.read_text())
    under = [where(made)] if "machine" in made else []
    return "\n\n".join([KINDS[made["kind"]](made), *under]) + "\n"


def filled(page: str, folder: Path) -> str:
    """The page with every block made anew."""
    return BLOCK.sub(lambda found: found[1] + block(folder / f"{found[2]}.json") + found[3], page)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "speed.md")
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "speed")
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    before = asked.page.read_text()
    after = filled(before, asked.folder)
    if asked.check:
        return int(before != after)
    asked.page.write_text(after)
    unused = {path.stem for path in asked.folder.glob("*.json")} - {found[1] for found in BLOCK.findall(after)}
    print(f"{asked.page}: filled" + (f"; no place for {', '.join(sorted(unused))}" if unused else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
