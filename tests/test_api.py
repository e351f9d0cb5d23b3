"""What is public: every module imports, every function says what it takes and gives, and the pages of it can be made."""

from __future__ import annotations

import ast
import importlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
script = importlib.import_module("api_docs")


def untyped(source: str) -> list[str]:
    """Public functions and methods, of any class, that lack the type of a parameter or of what they give."""
    return [
        f"{function.name}:{function.lineno}"
        for function, method in _public(ast.parse(source), False)
        if _lacks(function, method)
    ]


def _public(node: ast.AST, method: bool) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            if not child.name.startswith("_") or child.name in ("__init__", "__call__"):
                yield child, method
        elif not isinstance(child, ast.Lambda):
            yield from _public(child, isinstance(child, ast.ClassDef))


def _lacks(function: ast.FunctionDef | ast.AsyncFunctionDef, method: bool) -> bool:
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    own = method and not any(ast.unparse(name) == "staticmethod" for name in function.decorator_list)
    return function.returns is None or any(one.annotation is None for one in every[1 if own else 0 :])


def test_every_public_function_of_the_package_and_of_the_scripts_is_typed():
    files = [file for folder in ("grpo_runner", "hydra_plugins", "scripts") for file in (ROOT / folder).rglob("*.py")]
    found = {
        str(file.relative_to(ROOT)): wrong for file in files if (wrong := untyped(file.read_text(encoding="utf-8")))
    }
    assert len(files) > 300 and found == {}


def test_an_untyped_one_is_seen():
    """Negative control."""
    wrong = "def a(x): ...\ndef b(x: int): ...\ndef c(*x) -> int: ...\nclass D:\n    def d(self, y): ...\n    def __init__(self, y) -> None: ..."
    right = "def a(x: int) -> int: ...\ndef _b(x): ...\nclass D:\n    def d(self) -> None:\n        def inner(x): ...\n"
    assert untyped(wrong) == ["a:1", "b:2", "c:3", "d:5", "__init__:6"] and untyped(right) == []


def test_every_public_module_imports_without_a_warning_and_says_what_it_is():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=DeprecationWarning)  # of libraries
        made = {name: importlib.import_module(name) for name in script.modules()}
    assert len(made) > 250 and "grpo_runner.__main__" not in made
    assert [name for name, module in made.items() if not (module.__doc__ or "").strip()] == []


@pytest.mark.slow
def test_the_pages_are_made_without_a_warning(tmp_path):
    pytest.importorskip("pdoc")
    count, warned = script.make(tmp_path)
    assert warned == [] and len(list(tmp_path.rglob("*.html"))) == count + 1  # the index
    assert "GRPO" in (tmp_path / "grpo_runner" / "algorithm" / "advantages.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_broken_annotation_is_warned_of(tmp_path):
    """Negative control: what pdoc says of a module that is wrong reaches the script."""
    pdoc = pytest.importorskip("pdoc")
    (tmp_path / "wrong_one.py").write_text("from __future__ import annotations\ndef f(x: NoSuchType) -> None: ...\n")
    with pytest.warns(UserWarning, match="NoSuchType"):
        pdoc.pdoc(tmp_path / "wrong_one.py", output_directory=tmp_path)
