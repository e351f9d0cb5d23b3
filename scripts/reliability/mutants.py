"""Mutation check: small faults planted one at a time, and the share of them that the tests catch.

    python scripts/reliability/mutants.py --seed 0 --drawn 60

The HAND written faults come first; the others are drawn by seed over the modules of algorithm/ and reward/ and what
stands near checkpoints in train/, equally many of each. They are planted in a copy of the last commit, so that
processes that the tests start have them too and the tree may change meanwhile. A child process forked after the slow
imports runs the tests that could catch a fault, the nearest file first, up to the first failure. A fault under which
they do not end within --limit seconds counts as caught, and is told as `time`.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import io
import os
import random
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parents[2]
# The test files of a room, cheap ones first; those of NEAR come before them.
ROOMS = {
    "algorithm": "advantages excluded weights kl surrogates importance kept pairs process question_weights gae "
    "stop_model",
    "reward": "extract numbers statements check comparison compose mended answers policy steps countdown "
    "policy_properties",
}
TRAIN = ("checkpoint", "folder", "credit", "rounds", "fixed", "collect")  # modules of train/
NEAR = {  # of a module the test files that stand nearest; a path has its own room
    "advantages": "advantages excluded",
    "loss_norm": "weights excluded",
    "token_weights": "weights excluded",
    "surrogate": "surrogates",
    "calculation": "steps",
    "expressions": "countdown",
    "worker": "workers",
    "rules": "policy",
    "labels": "policy extract",
    "units": "mended answers",
    "normalize": "numbers",
    "folder": "data_digest run tests/crash/test_resume.py",
    "credit": "process_run ppo every_method",
    "rounds": "rounds",
    "fixed": "fixed",
    "collect": "collect",
    "checkpoint": "checkpoint",
}
SWAPS: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
TYPES = re.compile(r"((None|str|int|float|bool|bytes|dict|list|tuple|set|\w*\.?[A-Z]\w*)(\[.*\])?( \| )?)+")
PATHS = re.compile(r"""['"]|Path\(|path|folder|root|FILE|_dir""")
DROPPED = {"detach", "clamp", "masked_fill", "abs", "nan_to_num", "sorted", "flip", "cumsum", "double", "sqrt"}

# (module, line as it stands, line with the fault)
HAND = (
    ("algorithm/advantages.py", "(count_Q1 - ddof)", "(count_Q1 - 1)"),
    ("algorithm/advantages.py", "dim=1, keepdim=True) - 1\n", "dim=1, keepdim=True)\n"),
    ("algorithm/advantages.py", "centred_QG = rewards_QG - BASELINES[baseline](rewards_QG)", "centred_QG = rewards_QG"),
    ("algorithm/kl.py", "torch.expm1(log_rho) - log_rho", "torch.expm1(log_rho) + log_rho"),
    ("algorithm/kl.py", "log_rho = reference - logprobs", "log_rho = logprobs - reference"),
    ("algorithm/kl.py", "(logprobs_NT, reference_NT) * mask_NT", "(logprobs_NT, reference_NT)"),
    ("algorithm/surrogate.py", "torch.minimum(ratio_NT", "torch.maximum(ratio_NT"),
    ("algorithm/surrogate.py", "clamp(1 - low, 1 + high)", "clamp(1 - high, 1 + low)"),
    ("algorithm/surrogate.py", "(logprobs_NT - old_NT) * mask_NT", "(logprobs_NT - old_NT)"),
    ("algorithm/surrogate.py", "held_NT = ratio_NT.detach()", "held_NT = ratio_NT"),
    ("algorithm/loss_norm.py", "mask_NT.sum(dim=1, keepdim=True).clamp(min=1)", "mask_NT.shape[1]"),
    ("algorithm/loss_norm.py", "(budget * responses(mask_NT))", "(budget * len(mask_NT))"),
    ("algorithm/importance.py", "torch.exp(old_NT - sampled_NT)", "torch.exp(sampled_NT - old_NT)"),
    ("algorithm/importance.py", "ratio_NT.clamp(max=cap)", "ratio_NT.clamp(min=cap)"),
    ("algorithm/gae.py", "gamma * lam * running_N", "gamma * running_N"),
    ("algorithm/gae.py", "reversed(range(mask_NT.shape[1]))", "range(mask_NT.shape[1])"),
    ("train/checkpoint.py", "if _hash(folder / name) != digest", "if False"),
    ("train/checkpoint.py", "if made <= step]", "]"),
    ("train/checkpoint.py", "[-self.keep :]", "[: self.keep]"),
    ("train/checkpoint.py", "fsync(file)", "pass"),
    ("train/checkpoint.py", "fsync(self.root)", "pass"),
    ("train/checkpoint.py", "aside.rename(final)", "shutil.copytree(aside, final)"),
)


class Fault(NamedTuple):
    """file: below grpo_runner/. line: where; text: what. source: the module with the fault in it."""

    file: str
    line: int
    text: str
    source: str


def by_hand() -> list[Fault]:
    """The written faults. Raises ValueError where a line is no longer there, so that none is passed over."""
    made = []
    for file, there, planted in HAND:
        source = (HERE / "grpo_runner" / file).read_text()
        if there not in source:
            raise ValueError(f"{file}: there is no {there!r}")
        line = source[: source.index(there)].count("\n") + 1
        made.append(Fault(file, line, f"{there.strip()} -> {planted.strip()}", source.replace(there, planted, 1)))
    return made


@cache
def sites(source: str) -> list[tuple[int, str, str]]:
    """(place in the walk of the tree, kind of the fault, in words) of every fault that a module has a place for."""
    return [(at, *kind) for at, node in enumerate(ast.walk(ast.parse(source))) for kind in _kinds(node)]


def planted_at(file: str, source: str, at: int, kind: str, text: str) -> Fault:
    """One of `sites` with its fault in it."""
    tree = ast.parse(source)
    place: Any = next(node for i, node in enumerate(ast.walk(tree)) if i == at)
    line = place.lineno
    _plant(place, kind)
    return Fault(file, line, text, ast.unparse(tree))


def _kinds(node: ast.AST) -> list[tuple[str, str]]:
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPS:
        if isinstance(node.op, ast.BitOr) and TYPES.fullmatch(ast.unparse(node)):
            return []  # of types: most are annotations, which nothing evaluates
        if isinstance(node.op, ast.Div) and PATHS.search(ast.unparse(node)):
            return []  # ends with a TypeError at once, which says nothing about the tests
        return [("op", f"{ast.unparse(node)[:60]}: {SWAPS[type(node.op)].__name__}")]
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        return [("compare", f"{ast.unparse(node)[:60]}: {SWAPS[type(node.ops[0])].__name__}")]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Invert | ast.Not):
        return [("unary", f"{ast.unparse(node)[:60]}: without its sign")]
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return [("number", f"{node.value} -> {node.value + 1}")]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in DROPPED:
        return [("dropped", f"{ast.unparse(node)[:60]}: without {node.func.attr}")]
    return []


def _plant(node: Any, kind: str) -> None:
    """Put the fault into the node itself."""
    if kind == "op":
        node.op = SWAPS[type(node.op)]()
    elif kind == "compare":
        node.ops[0] = SWAPS[type(node.ops[0])]()
    elif kind == "number":
        node.value += 1
    else:  # the node becomes what it was made of
        left = node.operand if kind == "unary" else node.func.value
        node.__class__ = left.__class__
        node.__dict__.clear()
        node.__dict__.update(left.__dict__)


def drawn(count: int, seed: int, only: str = "") -> list[Fault]:
    """`count` faults, drawn by seed: the modules in a drawn order, one of each and then one more of each.

    only: of modules alone whose name, as reward/units.py, has this in it.
    """
    package = HERE / "grpo_runner"
    files = [file for room in ROOMS for file in sorted((package / room).glob("*.py"))]
    files = [file for file in files if file.name not in ("__init__.py", "own.py", "examples.py")]
    files += [package / "train" / f"{name}.py" for name in TRAIN]
    files = [file for file in files if only in str(file.relative_to(package))]
    chance, places = random.Random(seed), []
    for file in files:
        source = file.read_text()
        found = sites(source)
        order = chance.sample(found, len(found))
        name = str(file.relative_to(package))
        places += [(turn, chance.random(), (name, source, *site)) for turn, site in enumerate(order)]
    return [planted_at(*place) for _, _, place in sorted(places)[:count]]


def tests_of(file: str) -> list[str]:
    """The test files that could catch a fault of this module, nearest first."""
    room, name = file.split("/")[0], Path(file).stem
    near = NEAR.get(name, name).split()
    order = dict.fromkeys([*near, *ROOMS.get(room, "").split()])
    paths = [name if "/" in name else f"tests/{room}/test_{name}.py" for name in order]
    return [path for path in paths if (HERE / path).exists()]


def copied(folder: str) -> str:
    """The last commit as a folder with its modules compiled, to be taken for as long as a source has not changed."""
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=HERE, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    made = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "grpo_runner"]
    subprocess.run(made, cwd=folder, check=True)
    return subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=HERE, check=True, capture_output=True, text=True
    ).stdout.strip()


def caught_by(tests: list[str], limit: int) -> str | None:
    """The first of these tests that fails in the folder that we are in, or `time`; None: all pass."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(limit)
        try:
            os.write(write, _run(tests).encode()[:400])
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as said:
        found = said.read()
    _, status = os.waitpid(child, 0)
    if status:
        return "time" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM else "crash"
    return None if found == "none" else found or "crash"


def _run(tests: list[str]) -> str:
    import pytest

    os.setsid()  # what a test leaves behind does not read our terminal
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    first = First()
    rc = pytest.main([*tests, "-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not slow"], [first])
    return "none" if rc == 0 else first.name or f"pytest {int(rc)}"


class First:
    """The pytest plugin that keeps the first test, or file, that fails."""

    name = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.name = self.name or (report.nodeid if report.failed else "")

    pytest_collectreport = pytest_runtest_logreport


def main() -> int:
    """Print a line for each fault, then the share. Exit code 1 where tests fail without one."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--drawn", type=int, default=40)
    asked.add_argument("--only", default="", help="modules with this in their name, as reward/units")
    asked.add_argument("--limit", type=int, default=120, help="seconds for a fault")
    asked.add_argument("--no-hand", action="store_true", help="leave the written faults out")
    asked.add_argument("--part", default="1/1", help="1/2 and 2/2: every other fault, to share them out")
    options = asked.parse_args()
    part, parts = map(int, options.part.split("/"))
    planted = [*([] if options.no_hand else by_hand()), *drawn(options.drawn, options.seed, options.only)][
        part - 1 :: parts
    ]
    for name in ("torch", "pytest", "hypothesis", "hydra", "scipy.stats", "safetensors.torch", "transformers"):
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        print(f"at {copied(folder)}", flush=True)
        os.chdir(folder)
        os.environ |= {"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        sys.dont_write_bytecode = True
        sys.path[:] = [folder, *(path for path in sys.path if Path(path or ".").resolve() != HERE)]
        caught: dict[Fault, str] = {}
        for fault in planted:
            began, file = time.perf_counter(), Path("grpo_runner", fault.file)
            whole = file.read_text()
            file.write_text(fault.source)
            found = caught_by(tests_of(fault.file), options.limit)
            file.write_text(whole)
            if found:
                caught[fault] = found
            seconds = time.perf_counter() - began
            print(
                f"| {fault.file}:{fault.line} | `{fault.text}` | {found or 'SURVIVED'} | {seconds:.0f} s |", flush=True
            )
        # the negative control: what caught a fault passes without one, else it caught nothing
        ids = sorted({name for name in caught.values() if name.startswith("tests/")})
        while ids and (wrong := caught_by(ids, 20 * options.limit)):
            print(f"without a fault {wrong} fails: it caught nothing")
            if wrong not in ids:
                return 1
            ids.remove(wrong)
            caught = {fault: name for fault, name in caught.items() if name != wrong}
        print(f"caught {len(caught)} of {len(planted)}: {100 * len(caught) / max(len(planted), 1):.1f} %")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
