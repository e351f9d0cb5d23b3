#!/usr/bin/env python3
"""The package's API as pages, from its docstrings: api_docs.py [FOLDER], by default build/api/.

Made by pdoc, of the extra `docs` (`pip install -e '.[docs]'`); the pages are no part of the repository. What pdoc warns
of (an annotation that it cannot read, a name that is not there) ends it with exit code 1, as does a module that cannot
be imported.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
import typing
import warnings
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("MPLBACKEND", "Agg")


def modules() -> list[str]:
    """Every public module of the package, itself first; importing `__main__` would run it."""
    import grpo_runner

    found = pkgutil.walk_packages(grpo_runner.__path__, "grpo_runner.")
    return ["grpo_runner", *sorted(one.name for one in found if "._" not in one.name)]


def make(folder: Path) -> tuple[int, list[str]]:
    """Write a page for each module and a search over them; gives (how many, what pdoc warned of)."""
    import pdoc

    import grpo_runner

    names = modules()
    for name in names:
        for thing in vars(importlib.import_module(name)).values():
            if isinstance(thing, type) and issubclass(thing, tuple) and hasattr(thing, "_fields"):
                # a NamedTuple's own __new__ has lost the module in which its annotations mean something
                thing.__new__.__annotations__ = typing.get_type_hints(thing)
    for name in grpo_runner.__all__:  # pdoc looks into the module itself, which imports these when they are asked for
        setattr(grpo_runner, name, getattr(grpo_runner, name))
    pdoc.render.configure(docformat="markdown", footer_text="grpo_runner")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        # a package with __all__ has its modules left out unless they are named; one without has them twice then
        warnings.filterwarnings("ignore", "The module specification")
        # pydantic's own module, which types a class by what is there for type checkers alone
        warnings.filterwarnings("ignore", "Failed to run TYPE_CHECKING code while parsing PydanticDataclass")
        warnings.filterwarnings("ignore", "Error parsing type annotation PydanticDataclass")
        pdoc.pdoc(*names, "!grpo_runner.__main__", output_directory=folder)
    return len(names), [str(one.message) for one in said]


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0; 1 where something warns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "api")
    folder = parser.parse_args(arguments).folder
    try:
        count, warned = make(folder)
    except ImportError as error:
        print(f"api_docs.py: {error}", file=sys.stderr)
        return 1
    for line in warned:
        print(f"api_docs.py: {line}", file=sys.stderr)
    print(f"{folder / 'index.html'}: {count} modules")
    return int(bool(warned))


if __name__ == "__main__":
    sys.exit(main())
