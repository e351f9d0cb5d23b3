"""Runs -> arms: grouped by what they differ in, paired by seed; and what there is to be said against comparing them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path

from ..errors import InputError, nearest
from ..files import conf_folder
from ..validate import shown_key
from .choices import ABSENT, METHOD, Item, differing, items, method, typed
from .labels import labelled, worded
from .naming import find as find_arm
from .types import Arm, Comparison, Run
from .window import made

# settings that change nothing of what is computed: names, what is kept, when to stop
NAMES = ("seed", "run_dir", "run_name", "sweep_name", "tracking", "checkpoint", "health")
# those that change it by rounding at most, and the time that it takes
ROUNDING = (
    *("optim.microbatch_tokens", "optim.packing", "optim.fused", "rollout.merge_lora"),
    *("rollout.batch_rows", "rollout.vllm_python", "rollout.vllm_memory"),
)
MEASURING = ("evaluation",)  # how held-out figures are made: other settings, other figures
DATA = "data"  # in --allow: training questions that differ though their settings do not
_MOST = 4


def arrange(
    runs: Sequence[Run],
    by: Sequence[str] | None = None,
    baseline: str | None = None,
    allow: Sequence[str] = (),
) -> Comparison:
    """The comparison of runs. by: the settings to compare, a group or a key each; by default all that differ.

    Raises InputError where runs differ in more than that and `allow` does not name it, where two runs are of one arm
    and seed, and for names that are none.
    """
    if not runs:
        raise InputError("There is no run to compare.")
    unequal = differing(runs)
    found = [key for key in unequal if not below(key, NAMES) and not _is_seed(key, runs)]
    _known([*(name for name in by or () if name != METHOD), *(key for key in allow if key != DATA)], runs)
    compared = _compared(runs, found, by, allow)
    left = [key for key in found if key not in {key for item in compared for key in item.keys}]
    _hold(runs, left, compared, by, allow)
    groups: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(tuple(typed(item.of(run)) for item in compared), []).append(run)
    arms = _ordered([_arm(compared, own) for own in groups.values()], baseline)
    data = _data(arms, compared, allow)
    shared = {key: runs[0].settings[key] for key in runs[0].settings if key not in unequal}
    warnings = [*_said(left, runs), *data, *_unpaired(arms), *_unfinished(runs), *_code(runs), *_unknown(runs)]
    return Comparison(_title(runs), tuple(item.name for item in compared), arms, shared, tuple(warnings))


# --- what is compared, and what must not differ beside it


def _compared(runs: Sequence[Run], found: Sequence[str], by: Sequence[str] | None, allow: Sequence[str]) -> list[Item]:
    if by is None:
        keys = [key for key in found if not below(key, (*ROUNDING, *MEASURING, *allow))]
        return items(runs, keys, conf_folder())
    keys = [key for name in by for key in found if below(key, (name,))]
    if not keys and METHOD not in by and len(runs) > 1:
        if any(name == "seed" for name in by):
            raise InputError("--by seed: seeds make the pairs. The runs of one arm differ in nothing else.")
        others = ", ".join(dict.fromkeys(map(shown_key, found))) or "nothing but the seed"
        raise InputError(f"--by {','.join(by)}: the runs do not differ in it. They differ in: {others}.")
    made = items(runs, dict.fromkeys(keys), conf_folder())
    return [method(runs, found, made), *made] if METHOD in by else made


def _hold(
    runs: Sequence[Run], left: Sequence[str], compared: Sequence[Item], by: Sequence[str] | None, allow: Sequence[str]
) -> None:
    refused = [key for key in left if not below(key, (*ROUNDING, *allow))]
    if not refused:
        return
    beside = f"beside {', '.join(item.name for item in compared)}" if by else "in how they were evaluated"
    lines = [f"  {shown_key(key)}: {_values(runs, key)}" for key in refused[:3]]
    more = f"  … and {len(refused) - 3} more ({', '.join(refused[3:6])})\n" if len(refused) > 3 else ""
    raise InputError(
        f"The runs differ {beside}:\n" + "\n".join(lines) + f"\n{more}"
        f"--allow {_to_allow(refused)} compares them all the same, or --by names it."
    )


def _to_allow(refused: Sequence[str]) -> str:
    """Keys, or their groups where they are many."""
    return ",".join(refused if len(refused) <= 2 else dict.fromkeys(key.partition(".")[0] for key in refused))


def _known(names: Iterable[str], runs: Sequence[Run]) -> None:
    keys = {key for run in runs for key in run.settings}
    names_of_groups = {key.rpartition(".")[0] for key in keys if "." in key} | {key.partition(".")[0] for key in keys}
    for name in names:
        if name not in keys | names_of_groups:
            raise InputError(f'"{name}" is no setting of these runs.{nearest(name, keys | names_of_groups)}')


def below(key: str, names: Iterable[str]) -> bool:
    """Whether a key is one of the names, or lies below one."""
    return any(key == name or key.startswith(f"{name}.") for name in names)


def _is_seed(key: str, runs: Sequence[Run]) -> bool:
    """Whether a setting of another's config is its seed by another name."""
    return all(run.settings.get(key) == run.seed and type(run.settings.get(key)) is int for run in runs)


# --- arms


def _arm(compared: Sequence[Item], runs: Sequence[Run]) -> Arm:
    values = {item.name: item.of(runs[0]) for item in compared}
    name = ", ".join(f"{key}={worded(value)}" for key, value in values.items()) or (runs[0].method or "all runs")
    by_seed: dict[int, Run] = {}
    for run in sorted(runs, key=lambda run: run.seed):
        if run.seed in by_seed:
            raise InputError(
                f"Two runs of {name} with seed {run.seed}:\n  {by_seed[run.seed].folder}\n  {run.folder}\n"
                "A seed counts once: name one of them, or --by what tells them apart."
            )
        by_seed[run.seed] = run
    return Arm(name, name, values, by_seed)


def _ordered(arms: list[Arm], baseline: str | None) -> tuple[Arm, ...]:
    """With labels, the baseline first: the one that is named, else GRPO, else the first by value."""
    arms = labelled(arms)
    ranks = [(rank, arm) for arm in arms if (rank := _rank(arm)) is not None]
    if len(ranks) == len(arms):
        arms = [arm for _, arm in sorted(ranks, key=lambda pair: pair[0])]
    if baseline is not None:
        first = find_arm(baseline, arms, "--baseline")
    else:
        first = next((arm for arm in arms if arm.label == "GRPO"), None) or _plainest(arms)
    return (first, *(arm for arm in arms if arm is not first))


def _rank(arm: Arm) -> tuple[float, ...] | None:
    """Arms that differ in numbers alone stand in their order."""
    values = list(arm.values.values())
    numbers = [float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    return tuple(numbers) if len(numbers) == len(values) else None


def _plainest(arms: Sequence[Arm]) -> Arm:
    """The arm with the most of what a run has by itself: advantage=grpo, loss_norm=sequence_mean."""
    usual = {"grpo", "sequence_mean"}
    return max(arms, key=lambda arm: sum(value in usual for value in arm.values.values()))


# --- what there is to be said against it


def _said(left: Sequence[str], runs: Sequence[Run]) -> list[str]:
    """Of keys that differ and were let pass."""
    rounding = [key for key in left if below(key, ROUNDING)]
    others = [key for key in left if key not in rounding]
    said = [f"{shown_key(key)} differs as well ({_values(runs, key)}), as --allow lets it." for key in others]
    if rounding:
        said.append(f"{', '.join(rounding)} differs: the same figures to rounding, but not the same times.")
    return said


def _data(arms: Sequence[Arm], compared: Sequence[Item], allow: Sequence[str]) -> list[str]:
    """Pairs whose training questions differ though nothing that is compared says so."""
    odd = []
    for arm in arms[1:]:
        for seed in sorted(set(arm.runs) & set(arms[0].runs)):
            mine, other = arm.runs[seed], arms[0].runs[seed]
            if mine.data and other.data and mine.data != other.data:
                odd.append(f"sha256 {other.data[:8]}… in {arms[0].label}, {mine.data[:8]}… in {arm.label}")
    if not odd:
        return []
    said = f"{len(odd)} pair{'s' * (len(odd) > 1)} had different training questions: {odd[0]}"
    if any(below(key, (DATA,)) for item in compared for key in item.keys) or below(DATA, allow):
        return [f"{said}."]
    raise InputError(f"{said}.\nThey are no pairs then. --allow {DATA} compares them all the same.")


def _unpaired(arms: Sequence[Arm]) -> list[str]:
    said = []
    base = arms[0]
    for arm in arms[1:]:
        for mine, other in ((arm, base), (base, arm)):
            if alone := sorted(set(mine.runs) - set(other.runs)):
                seeds = f"Seed{'s' * (len(alone) > 1)} {_listed(alone)} of {mine.label}"
                said.append(f"{seeds}: without a pair in {other.label}, and so in no difference.")
    return list(dict.fromkeys(said))


def _unfinished(runs: Sequence[Run]) -> list[str]:
    """Of runs that are not marked as finished: what they lack, steps or the mark alone."""
    late = [(run, made(run)) for run in runs if not run.finished]
    short = [f"{run.name} ({count} of {run.steps or '?'} steps)" for run, count in late if count < (run.steps or 1)]
    whole = [(run, count) for run, count in late if count >= (run.steps or 1)]
    unmarked = [run.name for run, _ in whole if run.source == "folder"]
    so_far = [f"{run.name} ({count} steps so far)" for run, count in whole if run.source != "folder"]
    head = "Not finished, {} of " + f"{len(runs)} runs: {{}}."
    said = []
    if short:
        said.append(f"{head.format(len(short), _listed(short))} They have no figures of the window.")
    if so_far:
        said.append(f"{head.format(len(so_far), _listed(so_far))} Their window is that of the steps that they have.")
    if unmarked:
        said.append(
            f"Without the mark of a finished run (DONE), but with its last step: {_listed(unmarked)}. They count."
        )
    return said


def _code(runs: Sequence[Run]) -> list[str]:
    """Runs of more than one version of the code; changes beyond a commit are told apart by what code.diff holds."""
    versions = Counter(version for run in runs if (version := _version(run)))
    if len(versions) < 2:
        return []
    return [
        f"The runs are of {len(versions)} versions of the code: {_listed([f'{v} ({n})' for v, n in versions.items()])}."
    ]


def _version(run: Run) -> str | None:
    if run.commit is None:
        return None
    if not run.commit.endswith("+"):
        return run.commit[:7]
    diff = Path(run.folder) / "code.diff"
    changes = sha256(diff.read_bytes()).hexdigest()[:4] if diff.is_file() else "changes"
    return f"{run.commit[:7]}+{changes}"


def _unknown(runs: Sequence[Run]) -> list[str]:
    others = [run for run in runs if run.source == "columns"]
    if not others:
        return []
    return [f"What else the runs differ in is not known: {len(others)} of {len(runs)} are logs without a config."]


# --- words


def _values(runs: Sequence[Run], key: str) -> str:
    counted = Counter(worded(run.settings.get(key, ABSENT)) for run in runs)
    return _listed([f"{value} ({count})" for value, count in counted.items()])


def _listed(values: Sequence[object]) -> str:
    shown_values = [str(value) for value in values[:_MOST]]
    return ", ".join([*shown_values, *([f"… ({len(values)} in all)"] if len(values) > _MOST else [])])


def _title(runs: Sequence[Run]) -> str:
    """The sweep's name, the folder that all lie in, or how many runs there are."""
    sweeps: set[object] = {run.settings.get("sweep_name") for run in runs}
    if len(sweeps) == 1 and (name := sweeps.pop()):
        return str(name)
    if len(runs) == 1:
        return runs[0].name
    parents = {run.folder.absolute().parent for run in runs}
    return parents.pop().name if len(parents) == 1 else f"{len(runs)} runs"
