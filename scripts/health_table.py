"""The rules of docs/health.md, from the code, and how near to them runs that learned have come.

PYTHONPATH=. python scripts/health_table.py            write both into the page, between their marks
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from grpo_runner.health import RULES, rules
from grpo_runner.health.series import LONG, WINDOW, Rows, known, mean, middle, of
from tests.health.record import recorded

PAGE = Path(__file__).resolve().parents[1] / "docs" / "health.md"
BEGIN, END = "<!-- rules: scripts/health_table.py -->\n", "<!-- end of rules -->"
NEAR, NEAR_END = "<!-- nearest: scripts/health_table.py -->\n", "<!-- end of nearest -->"


def table() -> str:
    """A Markdown table with a line a rule."""
    lines = ["| name | what it looks at | it holds where | source | to try |", "| --- | --- | --- | --- | --- |"]
    for name, rule in RULES.items():
        cells = (f"`{name}`", rule.looks_at, rule.threshold, rule.source, rule.tries)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _entropy(rows: Rows) -> float | None:
    """What is missing of the entropy, so that the most is the nearest, as of the other figures."""
    first, now = mean(rows[:WINDOW], of("entropy")), mean(rows, of("entropy"), LONG)
    return None if first is None or now is None else 1 - now / first


def _growth(rows: Rows) -> float | None:
    now, before = (mean(rows, of("length/wrong"), LONG, back) for back in (0, rules.LAG))
    return now / before if now and before else None


def _spike(rows: Rows) -> float | None:
    """Of the last steps the third largest norm, over the usual."""
    if len(rows) < LONG + WINDOW:
        return None
    usual = middle(rows, of("grad_norm"), min(rules.BASELINE, len(rows) - WINDOW), WINDOW)
    norms = sorted(known(rows, of("grad_norm"), WINDOW))
    return norms[-rules.SPIKES] / usual if usual and len(norms) >= rules.SPIKES else None


def _wasted(rows: Rows) -> float | None:
    return None if "refills" in rows[-1] else mean(rows, of("zero_variance_fraction"), LONG)


# rule, figure, how it is shown, its threshold
FIGURES: tuple[tuple[str, str, Callable[[Rows], float | None], str, float], ...] = (
    ("truncation", "share cut off", lambda rows: mean(rows, of("truncated")), ".1%", rules.TRUNCATED),
    ("no_answer", "share without an answer", lambda rows: mean(rows, rules.without_answer), ".1%", rules.NO_ANSWER),
    ("zero_variance", "share of the groups", _wasted, ".1%", rules.ZERO_VARIANCE),
    ("entropy_collapse", "entropy lost", _entropy, ".1%", 1 - rules.ENTROPY_LEFT),
    ("kl_runaway", "KL", lambda rows: middle(rows, of("kl")), ".3g", rules.KL),
    ("ratio", "largest ratio", lambda rows: middle(rows, of("ratio/max")), ".3g", rules.RATIO),
    ("ratio", "share clipped", lambda rows: mean(rows, of("clip_fraction")), ".2%", rules.CLIPPED),
    ("wrong_longer", "growth of wrong answers", _growth, ".3g", rules.GROWTH),
    ("grader", "share not graded", lambda rows: mean(rows, rules.ungraded), ".1%", rules.UNGRADED),
    ("grad_spikes", "third largest norm / usual", _spike, ".3g", rules.SPIKE),
)


def nearest() -> str:
    """A Markdown table: of each figure the most that it came to at any step of each recorded run."""
    runs = recorded()
    lines = [f"| rule | figure | {' | '.join(runs)} | limit |", f"| --- | --- |{' ---: |' * (len(runs) + 1)}"]
    for rule, figure, asked, shown, limit in FIGURES:
        most = [
            max((value for end in range(1, len(rows) + 1) if (value := asked(rows[:end])) is not None), default=None)
            for rows in runs.values()
        ]
        cells = ["-" if value is None else format(value, shown) for value in (*most, limit)]
        lines.append(f"| `{rule}` | {figure} | {' | '.join(cells)} |".replace("%", " %"))
    return "\n".join(lines) + "\n"


def _between(text: str, begin: str, made: str, end: str) -> str:
    before, _, rest = text.partition(begin)
    return f"{before}{begin}{made}{end}{rest.partition(end)[2]}"


def filled(text: str) -> str:
    """The page with its tables as the code has them."""
    return _between(_between(text, BEGIN, table(), END), NEAR, nearest(), NEAR_END)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
