"""The words after `doctor` as one wish, or an InputError of a few lines. Pure, but for a look at the file of --json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError, nearest
from ..files import json_file

USAGE = """\
doctor                       versions, devices, disk, memory, keys (present or not), clock, and a short self test
        [--folder FOLDER]    where runs are written; left out: outputs
        [--quick]            leave the self test out
        [--json [FILE]]      the same as JSON, in a file, or on standard output in place of the table

Each line is ok, a warning (a run may still go well) or a failure, with what to do. Exit code 0; 1 for a failure."""
FLAGS = ("--folder", "--quick", "--json")
STDOUT = Path("-")


@dataclass(frozen=True)
class Asked:
    """folder: where runs are written. json: a file, STDOUT, or None for neither."""

    folder: Path = Path("outputs")
    quick: bool = False
    json: Path | None = None


def read(words: Sequence[str]) -> Asked | None:
    """What is asked for; None for the usage."""
    if {"-h", "--help"} & set(words):
        return None
    folder, quick, json, rest = Asked.folder, False, Asked.json, list(words)
    while rest:
        flag, equals, value = rest.pop(0).partition("=")
        if flag not in FLAGS:
            raise InputError(f'doctor has no "{flag}".{nearest(flag, FLAGS)} All that it takes: doctor --help')
        if not equals and flag != "--quick" and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        if flag == "--quick":
            quick = True
        elif flag == "--json":
            json = json_file(value) if value or equals else STDOUT
        elif not value.strip():
            raise InputError("--folder needs the name of a folder. All that doctor takes: doctor --help")
        else:
            folder = Path(value).expanduser()
    return Asked(folder, quick, json)
