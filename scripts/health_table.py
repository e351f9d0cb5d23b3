"""The rules of docs/health.md, from the code.

python scripts/health_table.py            write them into the page, between its two marks
"""

from __future__ import annotations

from pathlib import Path

from grpo_runner.health import RULES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "health.md"
BEGIN, END = "<!-- rules: scripts/health_table.py -->\n", "<!-- end of rules -->"


def table() -> str:
    """A Markdown table with a line a rule."""
    lines = ["| name | what it looks at | it holds where | source | to try |", "| --- | --- | --- | --- | --- |"]
    for name, rule in RULES.items():
        cells = (f"`{name}`", rule.looks_at, rule.threshold, rule.source, rule.tries)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def filled(text: str) -> str:
    """The page with its table as the code has it."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
