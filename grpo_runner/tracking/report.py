"""The words and figures that the terminal shows, as plain strings made from metrics and run folders."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from . import jsonl
from .base import Row
from .local import EVALS, METRICS, PAGE, PROBE, probe_rows
from .questions import PARQUET
from .texts import COMPLETIONS

if TYPE_CHECKING:
    import pyarrow as pa

_LABELS = (  # key of evals.jsonl (pass@k stands for any k), label, is it a share
    ("sampled/accuracy", "sampled accuracy", True),
    ("greedy/accuracy", "greedy accuracy", True),
    ("sampled/pass@", "sampled pass@", True),
    ("sampled/length_mean", "sampled length (tokens)", False),
    ("greedy/length_mean", "greedy length (tokens)", False),
    ("sampled/truncated", "sampled, truncated", True),
    ("sampled/no_answer", "sampled, no answer", True),
)

_RESIDUE = 1e-12


def duration(seconds: float) -> str:
    """1:05 for 65 seconds, 2:00:00 for two hours."""
    whole = max(0, round(seconds))
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def step_figures(metrics: Row) -> list[str]:
    """Reward, accuracy, lengths of right and wrong answers, tokens a second; `-` where there is no figure."""
    tokens, seconds = _number(metrics, "tokens/sampled"), _number(metrics, "time/step_s")
    # answers that were made before the first step took none of a step's time
    within = _number(metrics, "time/rollout_s") != 0
    speed = tokens / seconds if tokens and seconds and within else None
    return [
        f"reward {_fixed(_number(metrics, 'reward/mean'), 3)}",
        f"accuracy {_share(_number(metrics, 'accuracy'))}",
        (
            f"length right {_fixed(_number(metrics, 'length/correct'), 1)}"
            f" wrong {_fixed(_number(metrics, 'length/wrong'), 1)}"
        ),
        f"{'-' if speed is None else f'{speed:,.0f}'} tokens/s",
        # a step in which nothing had weight is no fault, and should not look like a step that trained
        *(["no update: no answer had weight"] if metrics.get("updates") == 0 else []),
    ]


def evaluation_line(metrics: Row) -> str:
    """Both accuracies and what they were measured on; of several sets the means, then each set's."""
    shown = [
        f"{label} {_share(_number(metrics, key))}" for key, label, _ in _LABELS[:2] if _number(metrics, key) is not None
    ]
    questions, samples = _number(metrics, "questions"), _number(metrics, "samples")
    some = "" if questions is None else f"{questions:.0f} question{'s' * (questions != 1)}"
    size = some and f" ({some}" + (f" x {samples:.0f})" if samples else ")")
    sets = set_names(metrics)
    if not sets:
        return ", ".join(shown) + size
    key = next((key for key, _, _ in reversed(_LABELS[:2]) if _number(metrics, key) is not None), "")
    each = ", ".join(f"{name} {_share(_number(metrics, f'{name}/{key}'))}" for name in sets)
    mean = f"mean of {len(sets)} sets: " if len(sets) > 1 else ""
    return f"{mean}{', '.join(shown)}{size}; {key.partition('/')[0]}: {each}"


def set_names(metrics: Row) -> list[str]:
    """The names of evaluation.sets that a row of evals.jsonl has figures of, in the row's order."""
    return [key.removesuffix("/questions") for key in metrics if key.endswith("/questions")]


def before_after(run_dir: Path) -> tuple[int, int, list[tuple[str, str, str, str]]] | None:
    """(first step, last step, lines of label, before, after, change) from evals.jsonl; None with under two rows."""
    rows = jsonl.rows(run_dir / EVALS)
    if len(rows) < 2:
        return None
    first, last = rows[0], rows[-1]
    of_sets = [
        (f"{name}/{key}", f"{name}, {label}", share) for name in set_names(first) for key, label, share in _LABELS[:2]
    ]
    lines = []
    for prefix, label, share in (*_LABELS, *of_sets):
        for key in first:
            exact = key == prefix or (prefix.endswith("@") and key.startswith(prefix))
            before, after = _number(first, key), _number(last, key)
            if not exact or before is None or after is None:
                continue
            name = label + key[len(prefix) :]
            if share:
                lines.append((name, _share(before), _share(after), f"{100 * (after - before):+.1f} points"))
            else:
                lines.append((name, _fixed(before, 1), _fixed(after, 1), f"{after - before:+.1f}"))
    return first["step"], last["step"], lines


WEIGHTIEST = (
    "weight: sum over steps, answers and tokens of |token weight|, what the question pushed in all; asked: in how many "
    "steps; success: the share of its answers that were right the first time and the last."
)


def weightiest(questions: pa.Table, count: int) -> list[tuple[str, str, str, str]]:
    """The questions with the largest weight summed over the run: (text, weight, times asked, success first -> last).

    None for a run in which no question had any weight.
    """
    columns = [questions[name].to_pylist() for name in ("question_id", "question", "weight", "success_rate")]
    text_of: dict[str, str] = {}
    total: dict[str, float] = {}
    rates: dict[str, list[float]] = {}
    for name, text, weight, rate in zip(*columns, strict=True):
        text_of[name] = text
        total[name] = total.get(name, 0.0) + weight
        rates.setdefault(name, []).append(rate)
    top = [name for name in sorted(total, key=lambda name: (-total[name], name))[:count] if total[name] > 0]
    return [
        (
            " ".join(text_of[name].split()),
            weight,
            str(len(rates[name])),
            f"{rates[name][0]:.2f} -> {rates[name][-1]:.2f}",
        )
        for name, weight in zip(top, aligned([total[name] for name in top]), strict=True)
    ]


def no_weight(questions: pa.Table) -> str:
    """That no question had any weight, and why where the rows show it; they may be of an older run, with nulls."""
    columns = [questions[name].to_pylist() for name in ("included", "group_size", "reward_mean", "reward_std")]
    counted = [row for row in zip(*columns, strict=True) if row[0] != 0]
    said = "No question had any weight"
    if not counted:
        return f"{said}: all answers were left out of the update."
    # what the order of a sum leaves is no difference
    if any(std is None or mean is None or std > _RESIDUE * abs(mean) for _, _, mean, std in counted):
        return f"{said}."
    some_left_out = len(counted) < questions.num_rows or any(row[0] not in (None, row[1]) for row in counted)
    return f"{said}: in every group, all answers{' in the update' * some_left_out} earned the same."


def probed(run_dir: Path) -> tuple[int, list[tuple[str, str, str, str]]]:
    """(number of probes, lines) from probe.jsonl: a line for each pair of objectives that has the first one in it.

    A line: the pair, the first in front; the mean cosine of the steps' gradients, and of the questions' gradients; the
    mean of the first's norm over the other's. Means are over what there is: a gradient of nothing has no cosine, and no
    quotient.
    """
    from .charts.probe import first_objective, pair_label

    rows = probe_rows(run_dir)
    first = first_objective(rows)
    pairs = dict.fromkeys(pair for row in rows for pair in row["cosine"] if first in pair.split("~"))
    others = list(dict.fromkeys(name for pair in pairs for name in pair.split("~") if name != first))
    steps, groups, quotients = [], [], []
    for other in others:
        keys = (f"{first}~{other}", f"{other}~{first}")
        steps.append(_mean([row["cosine"].get(key) for row in rows for key in keys]))
        of_groups = [group.get("cosine") or {} for row in rows for group in row.get("groups") or []]
        groups.append(_mean([cosines.get(key) for cosines in of_groups for key in keys]))
        norms = [(norm.get(first), norm.get(other)) for row in rows if (norm := row.get("norm"))]
        quotients.append(_mean([one / two for one, two in norms if one and two]))
    shown = [pair_label(f"{first}~{other}") for other in others]
    cosines = [[_fixed(value, 4) for value in values] for values in (steps, groups)]
    return len(rows), list(zip(shown, *cosines, aligned(quotients), strict=True))


def aligned(values: Sequence[float | None]) -> list[str]:
    """All with the same number of decimals: so many that the largest has four significant digits; `-` for None."""
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    digits = max(0, 3 - int(f"{largest:.3e}".split("e")[1]))  # 9.9996 is 10.00
    return [_fixed(value, digits) for value in values]


def paths(run_dir: Path) -> list[tuple[str, str]]:
    """(what, where) for what the run left, relative to the working directory where that is shorter."""
    names = (
        ("run", ""), ("adapter", "adapter"), ("model", "model"), ("metrics", METRICS), ("questions", PARQUET),
        ("probe", PROBE), ("charts", PAGE), ("answers", COMPLETIONS),
    )  # fmt: skip
    found = [(what, _short(run_dir / name)) for what, name in names if (run_dir / name).exists()]
    offline = sorted((run_dir / "wandb").glob("offline-run-*"))
    if offline:
        found.append(("W&B", f"offline; to upload it: wandb sync {_short(offline[-1])}"))
    return found


def _short(path: Path) -> str:
    return min((str(path), os.path.relpath(path)), key=len)


def _number(row: Row, key: str) -> float | None:
    value = row.get(key)
    return float(value) if isinstance(value, int | float) else None


def _mean(values: Sequence[float | None]) -> float | None:
    """Of those that are there; None where none is."""
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found else None


def _fixed(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"
