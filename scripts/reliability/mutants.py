"""Mutation check: small faults planted one at a time, and the share of them that the tests catch.

    python scripts/reliability/mutants.py --seed 0 --drawn 40

The HAND written faults come first; the others are drawn by seed over all places of algorithm/ and
train/checkpoint.py. Nothing is written: a child process forked after the slow imports sees the module with its fault,
and runs the tests that could catch it, the nearest file first, up to the first failure. A fault under which they do
not end within --limit seconds counts as caught, and is told as `time`.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import random
import signal
import sys
import time
from collections import Counter
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parents[2]
ALGORITHM = ("advantages excluded weights kl surrogates importance kept pairs process question_weights gae stop_model",)
NEAR = {  # of a module the test files that stand nearest; the room's others follow
    "advantages": "advantages excluded",
    "loss_norm": "weights excluded",
    "token_weights": "weights excluded",
    "surrogate": "surrogates",
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
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) and "None" in ast.unparse(node):
            return []  # an annotation, which nothing evaluates
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


def drawn(count: int, seed: int) -> list[Fault]:
    """`count` faults, drawn by seed over the places of all modules of algorithm/ and of train/checkpoint.py."""
    files = [*sorted((HERE / "grpo_runner/algorithm").glob("*.py")), HERE / "grpo_runner/train/checkpoint.py"]
    files = [file for file in files if file.name not in ("__init__.py", "own.py")]
    sources = {str(file.relative_to(HERE / "grpo_runner")): file.read_text() for file in files}
    everywhere = [(name, source, *site) for name, source in sources.items() for site in sites(source)]
    return [planted_at(*one) for one in random.Random(seed).sample(everywhere, min(count, len(everywhere)))]


def tests_of(file: str) -> list[str]:
    """The test files that could catch a fault of this module, nearest first."""
    if file.startswith("train/"):
        return ["tests/train/test_checkpoint.py"]
    name = Path(file).stem
    near = NEAR.get(name, name).split()
    order = [*near, *(other for other in ALGORITHM[0].split() if other not in near)]
    return [f"tests/algorithm/test_{name}.py" for name in order]


def caught_by(fault: Fault, limit: int) -> str | None:
    """The first test that fails under the fault, or `time`; None: it survived."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(limit)
        try:
            os.write(write, _run(fault).encode()[:400])
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as said:
        found = said.read()
    _, status = os.waitpid(child, 0)
    if status:
        return "time" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM else "crash"
    return None if found == "none" else found or "crash"


def _run(fault: Fault) -> str:
    import pytest

    target, plain = str(HERE / "grpo_runner" / fault.file), SourceFileLoader.get_code

    def get_code(self: Any, name: str) -> Any:
        return compile(fault.source, target, "exec") if self.path == target else plain(self, name)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    first = First()
    rc = pytest.main(
        [*tests_of(fault.file), "-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not slow"], [first]
    )
    return "none" if rc == 0 else first.name or f"pytest {int(rc)}"


class First:
    """The pytest plugin that keeps the first test, or file, that fails."""

    name = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.name = self.name or (report.nodeid if report.failed else "")

    pytest_collectreport = pytest_runtest_logreport


def main() -> int:
    """Print a line for each fault, then the share. Exit code 1 where the tests fail without a fault."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--drawn", type=int, default=40)
    asked.add_argument("--limit", type=int, default=120, help="seconds for a fault")
    asked.add_argument("--no-hand", action="store_true", help="leave the written faults out")
    options = asked.parse_args()
    os.chdir(HERE)
    sys.path.insert(0, str(HERE))
    for name in ("torch", "pytest", "hypothesis", "hydra", "scipy.stats", "safetensors.torch", "transformers"):
        importlib.import_module(name)
    for file in ("algorithm/kl.py", "train/checkpoint.py"):  # the negative control: no fault, and nothing is caught
        whole = Fault(file, 0, "no fault", (HERE / "grpo_runner" / file).read_text())
        if found := caught_by(whole, 10 * options.limit):
            print(f"without a fault {found} fails: nothing can be said")
            return 1
    planted = [*([] if options.no_hand else by_hand()), *drawn(options.drawn, options.seed)]
    count: Counter[bool] = Counter()
    for fault in planted:
        began = time.perf_counter()
        found = caught_by(fault, options.limit)
        count[found is not None] += 1
        seconds = time.perf_counter() - began
        print(f"| {fault.file}:{fault.line} | `{fault.text}` | {found or 'SURVIVED'} | {seconds:.0f} s |", flush=True)
    print(f"caught {count[True]} of {len(planted)}: {100 * count[True] / max(len(planted), 1):.1f} %")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
