"""The text of `--help`, read from conf/ as it is: the groups with their choices, the keys with their comments."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .errors import InputError, nearest

EXAMPLES = {
    "python -m grpo_runner": "the default job: GRPO on the embedded model, a laptop CPU is enough",
    "python -m grpo_runner experiment=dr_grpo seed=1": "Dr. GRPO, another seed",
    "python -m grpo_runner beta=0.01 group_size=16": "numbers for groups that are one number",
    "python -m grpo_runner -m advantage=grpo,dr_grpo seed=0,1": "a sweep; typed again, it goes on where it stopped",
    "python -m grpo_runner sweep=two_by_two hydra/launcher=gpus": "a sweep of conf/sweep, a GPU or a core for each run",
    "python -m grpo_runner model=smollm2_135m data=gsm8k prompt=chat_boxed max_new_tokens=256": "a real model",
    "python -m grpo_runner --cfg job": "every key with its value",
    r"python -m grpo_runner check --response '\boxed{\frac{2}{4}}' --gold 0.5": "is this answer right, and why?",
    "python -m grpo_runner evaluate adapter=RUN_FOLDER --base evaluation=math500": "before and after, with intervals",
    "python -m grpo_runner merge RUN_FOLDER OUTPUT_FOLDER": "adapter and base as one model folder",
}
FLAGS = {
    "-m, --multirun": "run a sweep: every combination of key=a,b",
    "--cfg job": "print the configuration and stop",
    "--info": "print where the configuration comes from and stop",
    "-cd, --config-dir FOLDER": "your own choices and experiments beside those of conf/",
    "--help GROUP": "the choices of one group, such as --help experiment",
    "--version": "print the version and stop",
}
# The end of the name of a preset's twin that trains an adapter
TWIN = "_lora"


def choices(conf: Path) -> dict[str, dict[str, str]]:
    """{group: {choice: its one-line description}} in the order of conf/config.yaml, from each file's first comment."""
    files = {group: sorted((conf / group).glob("*.yaml")) for group in _defaults(conf)}
    return {group: {file.stem: _first_comment(file) for file in found} for group, found in files.items()}


def root_keys(conf: Path) -> dict[str, tuple[str, str]]:
    """{key: (default as written, comment above it)} of the keys of conf/config.yaml that are no groups."""
    found: dict[str, tuple[str, str]] = {}
    comment: list[str] = []
    for line in (conf / "config.yaml").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            comment.append(line.lstrip("# "))
            continue
        if match := re.match(r"(\w+): (\S.*)$", line):
            found[match[1]] = (match[2], " ".join(comment))
        comment = []
    return found


def show(conf: Path, verbs: dict[str, str], console: Console | None = None, only: str | None = None) -> None:
    """Print the help on standard output. only: the choices of one group. Raises InputError for a group not there."""
    console = console or Console(highlight=False)
    groups = choices(conf)
    if only is not None:
        if only not in groups:
            known = ", ".join(groups)
            raise InputError(f'--help {only}: there is no group "{only}".{nearest(only, groups)} Groups: {known}.')
        groups, verbs = {only: groups[only]}, {}
    else:
        console.print("Usage: python -m grpo_runner [VERB] [GROUP=CHOICE …] [KEY=VALUE …] [FLAG …]", markup=False)
        _section(console, "Verbs", verbs)
    defaults = _defaults(conf)
    for group, described in groups.items():
        _section(console, f"{group}=", _marked(described, defaults[group]))
    if only is not None:
        return
    keys = {f"{key}={value}": text for key, (value, text) in root_keys(conf).items()}
    _section(console, "Keys with their defaults (those of a group: optim.lr=1e-4; all of them: --cfg job)", keys)
    _section(console, "Flags", FLAGS)
    _section(console, "Examples", EXAMPLES)
    console.print("\n* is the default. Every key is explained above its line in conf/", end="", markup=False)
    console.print(f" ({conf}).", markup=False, soft_wrap=True)


def _marked(described: dict[str, str], default: str | None) -> dict[str, str]:
    """The rows of a group: its default with a star, and a preset's twin with an adapter in the preset's own row."""
    twins = {name for name in described if name.endswith(TWIN) and name.removesuffix(TWIN) in described}
    rows = {}
    for name, text in described.items():
        if name not in twins:
            mark = " *" if name == default else f" (…{TWIN})" if name + TWIN in twins else ""
            rows[name + mark] = text
    return rows | ({f"…{TWIN}": "the preset before it with an adapter, at ten times its rate: ours"} if twins else {})


def _section(console: Console, title: str, rows: dict[str, str]) -> None:
    console.print()
    console.print(Text(title, style="bold"))
    if max(map(len, rows)) > 40:
        for name, text in rows.items():
            console.print(Text("  " + name, style="cyan"), soft_wrap=True)
            console.print(Text("      " + text), soft_wrap=True)
        return
    table = Table.grid(padding=(0, 2))
    for name, text in rows.items():
        table.add_row(Text("  " + name, style="cyan", no_wrap=True), Text(text))
    console.print(table)


def _defaults(conf: Path) -> dict[str, str | None]:
    """{group: the choice that is made without an override}."""
    entries = yaml.safe_load((conf / "config.yaml").read_text(encoding="utf-8"))["defaults"]
    pairs = [pair for entry in entries if isinstance(entry, dict) for pair in entry.items()]
    return {group: choice for group, choice in pairs if not group.startswith("override ")}


def _first_comment(file: Path) -> str:
    """The first comment line, after a `# @package` line where there is one."""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("#") and not line.startswith("# @package"):
            return line.lstrip("# ").removesuffix(" (default)")
    return ""
