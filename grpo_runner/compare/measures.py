"""What is compared: the catalogue of measures, and the value of each run in the final window. Never the best value.

A logged figure counts as its mean over the window's steps, an evaluation as the last one in the window. A run that did
not make all steps of the window has no value: where it stopped says nothing of where it would have come to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..errors import InputError, nearest
from . import spent
from .types import Arm, Comparison, Measure, Run
from .window import DEFAULT, EVAL, Window, bounds, last, made, over

Values = dict[str, dict[str, dict[int, float | None]]]
PRIMARY = ("accuracy", "length/wrong")
_LONGER, _MORE = ("longer", "shorter"), ("higher", "lower")
SLOWER = ("slower", "faster")


@dataclass(frozen=True)
class Source:
    """Where a measure's values come from. keys: series, the first that all runs have; of: where it is no series."""

    keys: tuple[str, ...] = ()
    of: Callable[[Run, Window], float | None] | None = None
    median: bool = False


MEASURES: dict[str, Measure] = {
    one.key: one
    for one in (
        Measure("accuracy", "accuracy, sampled", "accuracy", "points", 100, 1, 1),
        Measure("length/wrong", "length of wrong answers", "wrong answers", "tokens", 1, 1, 0, _LONGER),
        Measure("accuracy/greedy", "accuracy, greedy", "greedy accuracy", "points", 100, 1, 1),
        Measure("pass@k", "pass@k", "pass@k", "points", 100, 1, 1),
        Measure("maj@k", "maj@k", "maj@k", "points", 100, 1, 1),
        Measure("length/right", "length of right answers", "right answers", "tokens", 1, 1, 0, _LONGER),
        Measure("truncated", "truncated answers", "the share of truncated answers", "points", 100, 1, -1),
        Measure("no_answer", "without an answer", "the share without an answer", "points", 100, 1, -1),
        Measure("reward", "reward in training", "reward in training", "", 1, 3, 1),
        Measure("entropy", "entropy", "entropy", "nats", 1, 3),
        Measure("kl", "KL to the reference", "KL to the reference", "nats", 1, 4),
        Measure("grad_norm", "gradient norm", "gradient norm", "", 1, 3),
        Measure("weight/easy", "weight on easy questions", "the weight on easy questions", "points", 100),
        Measure("weight/medium", "weight on medium ones", "the weight on medium questions", "points", 100),
        Measure("weight/hard", "weight on hard questions", "the weight on hard questions", "points", 100),
        Measure("weight/gini", "Gini of the weights", "the concentration of weights (Gini)", "", 1, 3),
        Measure("time", "time of a step", "a step", "s", 1, 3, -1, SLOWER),
        Measure("memory", "peak memory", "peak memory", "MB", 1, 0, -1),
        Measure("time_to", "time to the target", "the way to the target", "s", 1, 1, -1, _LONGER),
        Measure("tokens_to", "tokens to the target", "the way to the target", "tokens", 1, 0, -1, _LONGER),
    )
}
TO_TARGET = ("time_to", "tokens_to")
OF_MOST = ("pass@k", "maj@k")  # of the largest k that there is
_CLASSES = ("easy", "medium", "hard")


def sources(target: float | None = None) -> dict[str, Source]:
    """Of each measure of the catalogue; those of the way to a target only where one is given."""
    found = {
        "accuracy": Source(("eval/sampled/accuracy",)),
        "accuracy/greedy": Source(("eval/greedy/accuracy",)),
        "length/wrong": Source(("eval/sampled/length_wrong", "eval/greedy/length_wrong", "length/wrong")),
        "length/right": Source(("eval/sampled/length_right", "eval/greedy/length_right", "length/correct")),
        "truncated": Source(("eval/sampled/truncated", "eval/greedy/truncated", "truncated")),
        "no_answer": Source(("eval/sampled/no_answer", "eval/greedy/no_answer", "no_answer")),
        "reward": Source(("reward/mean",)),
        "entropy": Source(("entropy",)),
        "kl": Source(("kl",)),
        "grad_norm": Source(("grad_norm",)),
        "weight/gini": Source(("weight/gini",)),
        "time": Source(("time/step_s",), median=True),
        "memory": Source(of=lambda run, window: run.peak_memory_mb),
        **{f"weight/{name}": Source(of=partial(weight_share, name)) for name in _CLASSES},
    }
    if target is not None:
        found["time_to"] = Source(of=lambda run, window: spent.to_target(spent.TIME, target, run))
        found["tokens_to"] = Source(of=lambda run, window: spent.to_target(spent.TOKENS, target, run))
    return found


def values(
    comparison: Comparison, measures: Sequence[Measure], window: Window = DEFAULT, target: float | None = None
) -> Values:
    """[arm.name][measure.key][seed]: the raw value of each run, None where it has none."""
    runs = runs_of(comparison)
    chosen = {measure.key: source_of(measure.key, runs, target) for measure in measures}
    return {
        arm.name: {
            key: {seed: _value(run, source, window) for seed, run in arm.runs.items()} for key, source in chosen.items()
        }
        for arm in comparison.arms
    }


def choose(
    comparison: Comparison, names: Sequence[str] = (), target: float | None = None
) -> tuple[tuple[Measure, ...], tuple[str, ...]]:
    """The measures that some run has, those of `names` first, and the keys of the primary ones: the named, else
    accuracy and the length of wrong answers, else the first that is there. Raises InputError for a name that is none.
    """
    runs = runs_of(comparison)
    names = list(dict.fromkeys(canonical(name, runs) for name in names))
    wanted = [_named(name, runs, target) for name in names]
    others = [MEASURES[key] for key in MEASURES if key not in names]
    there = [one for one in (*wanted, *others) if _is_there(one.key, runs, target)]
    primary = tuple(names) or tuple(key for key in PRIMARY if any(one.key == key for one in there))
    if not primary:
        greedy = [one.key for one in there if one.key in ("accuracy/greedy", "reward")]
        primary = tuple(greedy[:1] or [one.key for one in there[:1]])
    return tuple(_titled(one, runs, target) for one in there), primary


def canonical(name: str, runs: Sequence[Run]) -> str:
    """The measure of the catalogue whose values are those of a logged key: accuracy for eval/sampled/accuracy."""
    same = (key for key, source in sources().items() if source.keys and not source.median)
    passes = [key for key in OF_MOST if name in _of_most(key, runs)[:1]]
    return next(
        (key for key in (*same, *passes) if name not in MEASURES and source_of(key, runs).keys == (name,)), name
    )


def runs_of(comparison: Comparison) -> list[Run]:
    return [run for arm in comparison.arms for run in arm.runs.values()]


def unreached(comparison: Comparison, found: Values, key: str) -> str | None:
    """What to say where some run did not come to the target: those that did are no fair choice of runs."""

    def missing(arm: Arm) -> int:
        return sum(value is None for value in found[arm.name][key].values())

    if key not in next(iter(found.values())) or not any(map(missing, comparison.arms)):
        return None
    counts = ", ".join(f"{missing(arm)} of {len(arm.runs)} ({arm.label})" for arm in comparison.arms if missing(arm))
    return f"{MEASURES[key].title}: runs that did not reach it: {counts}. So no difference is worked out."


# --- one value


def source_of(key: str, runs: Sequence[Run], target: float | None = None) -> Source:
    """Of a measure's candidates the first that all runs have: some from evaluations and some from training would
    compare two things. Where none is in all, the first that is in any.
    """
    source = sources(target).get(key) or Source(_of_most(key, runs) if key in OF_MOST else (key,))
    if source.of is not None:
        return source
    common = [one for one in source.keys if all(one in run.series for run in runs)]
    there = common or [one for one in source.keys if any(one in run.series for run in runs)]
    return replace(source, keys=tuple(there[:1]))


def _value(run: Run, source: Source, window: Window) -> float | None:
    if source.of is not None:
        return source.of(run, window)
    series = run.series.get(source.keys[0]) if source.keys else None
    if series is None:
        return None
    if source.keys[0].startswith(EVAL):
        # of ours, steps without which there is no evaluation after them: the record is not whole
        cut = run.source == "folder" and made(run) < bounds(run, window)[1]
        return None if cut else last(run, series, window)
    return over(run, series, window, np.median if source.median else np.mean)


def weight_share(name: str, run: Run, window: Window) -> float | None:
    """Share of the window's weight that questions of a class had: hard p <= 1/3, easy p >= 2/3 at that step."""
    first, end = bounds(run, window)
    if run.source != "folder" or made(run) < end or not any(run.folder.glob("questions.*")):
        return None
    steps_N, weights_N, classes_N = _questions(run)
    inside = (steps_N >= first) & (steps_N < end)
    total = weights_N[inside].sum()
    return float(weights_N[inside & (classes_N == name)].sum() / total) if total > 0 else None


_READ: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}


def _questions(run: Run) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Steps, weights and classes of the run's question rows; read once a run, for three measures."""
    from ..tracking import read_questions

    place = str(run.folder.absolute())
    if place not in _READ:
        table = read_questions(run.folder)
        steps_N, weights_N, right_N, size_N = (
            # through lists: to_numpy of pyarrow imports pandas
            np.array(table[name].to_pylist())
            for name in ("step", "weight", "successes", "group_size")
        )
        classes_N = np.select([3 * right_N <= size_N, 3 * right_N >= 2 * size_N], ["hard", "easy"], "medium")
        _READ[place] = steps_N, weights_N, classes_N
    return _READ[place]


# --- which measures there are


def _is_there(key: str, runs: Sequence[Run], target: float | None) -> bool:
    if key in TO_TARGET:
        return target is not None and any("eval/" in name for run in runs for name in run.series)
    source = source_of(key, runs, target)
    if key == "memory":
        return any(run.peak_memory_mb is not None for run in runs)
    if source.of is not None:
        return any(run.source == "folder" and any(run.folder.glob("questions.*")) for run in runs)
    return bool(source.keys)


def _named(name: str, runs: Sequence[Run], target: float | None) -> Measure:
    """A measure of the catalogue, or any logged key. Raises InputError, with the nearest name."""
    if name in MEASURES:
        if name in TO_TARGET and target is None:
            raise InputError(f"--metric {name}: it needs --target, an accuracy such as 0.8.")
        if not _is_there(name, runs, target):
            raise InputError(f"--metric {name}: no run has it.{_there(runs)}")
        return MEASURES[name]
    logged = {key for run in runs for key in run.series}
    if name not in logged:
        raise InputError(f"--metric {name}: no run has it.{nearest(name, {*MEASURES, *logged})}{_there(runs)}")
    return Measure(name, name.removeprefix(EVAL), name, "", digits=_digits(name, runs))


def _there(runs: Sequence[Run]) -> str:
    return f"\nMeasures: {', '.join(MEASURES)}; or a key of metrics.jsonl, or eval/ and a key of evals.jsonl."


def _digits(name: str, runs: Iterable[Run]) -> int:
    """Decimals that leave three digits of a typical value."""
    sizes = [float(np.median(np.abs(run.series[name].values_N))) for run in runs if name in run.series]
    size = max(sizes, default=0.0)
    return min(8, max(0, 2 - int(np.floor(np.log10(size))))) if size > 0 else 3


def _of_most(key: str, runs: Sequence[Run]) -> tuple[str, ...]:
    """The keys of pass@k or maj@k of sampled answers, the largest k first."""
    start = f"eval/sampled/{key.removesuffix('k')}"
    keys = {name for run in runs for name in run.series if name.startswith(start)}
    return tuple(sorted(keys, key=lambda name: -int(name.rpartition("@")[2])))


def _titled(measure: Measure, runs: Sequence[Run], target: float | None) -> Measure:
    """With what the runs make of it: the k of pass@k, the target, and where a figure is of training alone."""
    if measure.key in OF_MOST:
        name = source_of(measure.key, runs).keys[0].rpartition("/")[2]
        return replace(measure, title=name, subject=name)
    if measure.key in TO_TARGET and target is not None:
        to = f"{100 * target:g} % accuracy"
        return replace(measure, title=f"{measure.title.split()[0]} to {to}", subject=f"the way to {to}")
    source = sources().get(measure.key)
    if source is not None and any(key.startswith(EVAL) for key in source.keys):
        if not source_of(measure.key, runs).keys[0].startswith(EVAL):
            return replace(measure, title=f"{measure.title}, in training", subject=f"{measure.subject} in training")
        if "/greedy/" in source_of(measure.key, runs).keys[0] and measure.key != "accuracy/greedy":
            return replace(measure, title=f"{measure.title}, greedy", subject=f"greedy: {measure.subject}")
    return measure


def by_question(
    comparison: Comparison, window: Window = DEFAULT
) -> Mapping[str, dict[str, dict[int, dict[str, float]]]]:
    """[arm.name]["accuracy"][seed][question_id]: the share of a question's sampled answers that were right.

    Of the evaluation that `values` takes; runs without question rows are left out.
    """
    from .read import evaluated_steps, question_rows

    found: dict[str, dict[str, dict[int, dict[str, float]]]] = {}
    for arm in comparison.arms:
        own: dict[int, dict[str, float]] = {}
        for seed, run in arm.runs.items():
            first, end = bounds(run, window)
            steps = [step for step in evaluated_steps(run) if first <= step <= end]
            rows = question_rows(run, max(steps)) if steps else []
            if rows and "sampled/answers" in rows[0]:
                own[seed] = {
                    f"{row['set']}/{row['question_id']}/{row['question']}": row["sampled/right"]
                    / row["sampled/answers"]
                    for row in rows
                }
        found[arm.name] = {"accuracy": own}
    return found
