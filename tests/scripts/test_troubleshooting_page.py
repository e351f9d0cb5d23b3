"""docs/troubleshooting.md: what it quotes is really said, and each metric, key, choice, verb and link is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from html import unescape
from pathlib import Path

import pytest

from grpo_runner import compose, metric, validate
from grpo_runner.cli import VERBS
from grpo_runner.errors import InputError
from grpo_runner.planning.bites import bites
from grpo_runner.planning.words import read

ROOT = Path(__file__).resolve().parents[2]
PAGE = unescape((ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8"))
QUOTED = re.compile(r"“([^”]+)”(?:[^“|(]{0,40}\(`plan ([^`]+)`\))?")
SHOWN = [(said, words) for said, words in QUOTED.findall(PAGE) if words]
PARTS = ("format", "model", "correct")
# words in backticks that are neither a key, a metric nor a choice: files of a run, other programs, placeholders
OTHERS = {
    *("metrics.jsonl", "questions.parquet", "evals.jsonl", "completions/", "charts.html", "report.html", "weights.png"),
    *(
        "wandb",
        "login",
        "sync",
        "RUN_FOLDER",
        "NAME",
        "FOLDER",
        "N",
        "3",
        "0.95",
        "TEXT",
        "seed=0,1,2,3,4,5",
        "python",
        "-m",
    ),
    *("grpo_runner", "methods", "status", "failures", "contamination", "questions", "KL", "begins", "from", "+typo=1"),
    *("health/…", "eval/…", "eval/", "job", "evaluation="),
}


@cache
def said_by_the_package() -> str:
    """All texts in the package's code, one a line; what is filled in is an ellipsis."""
    begins = {piece.strip()[:12] for said, words in QUOTED.findall(PAGE) if not words for piece in said.split("…")}
    found = []
    for file in (ROOT / "grpo_runner").rglob("*.py"):
        code = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(code)) if any(begin and begin in code for begin in begins) else ():
            if isinstance(node, ast.JoinedStr):
                found.append(
                    "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(found)


def is_said(quoted: str, text: str) -> bool:
    """Whether each piece of it, between the ellipses, is in the text."""
    return all(piece.strip() in text for piece in quoted.split("…"))


def told(words: str) -> str:
    """What `plan` says of these words: what will bite, or why the run is refused."""
    try:
        asked = read(words.split())
        config = compose(asked.overrides)
    except InputError as error:
        return str(error)
    typed = [word.partition("=")[0] for word in asked.overrides]
    return "\n".join(bite.text for bite in bites(config, asked.success, typed))


@pytest.mark.parametrize("quoted", [said for said, words in QUOTED.findall(PAGE) if not words])
def test_what_is_quoted_is_in_the_code(quoted):
    assert is_said(quoted, said_by_the_package()), quoted


def test_another_wording_would_be_seen():
    assert not is_said("is damaged (…); going on without it", said_by_the_package())


@pytest.mark.parametrize(("quoted", "words"), SHOWN[:2])
def test_plan_says_so(quoted, words):
    assert is_said(quoted, told(words)), (words, told(words))


@pytest.mark.slow
@pytest.mark.parametrize(("quoted", "words"), SHOWN[2:])
def test_plan_says_so_of_all(quoted, words):
    assert is_said(quoted, told(words)), (words, told(words))


@pytest.mark.slow
@pytest.mark.parametrize("quoted", [said for said, _ in SHOWN[::4]])
def test_plan_does_not_say_so_of_the_default_run(quoted):
    """Negative control, but for what holds of the default run too."""
    assert is_said(quoted, told("")) == ("clip range cannot act" in quoted), quoted


def known() -> set[str]:
    parts = {f"reward/{part}" for part in PARTS}
    return {*metric._TRAINING, *parts, *validate.keys(), *VERBS, *OTHERS}


def unknown(text: str) -> list[str]:
    """Words in backticks that stand for nothing."""
    names = known()
    blocks = re.findall(r"^    (python .*?)(?:\s+#.*)?$", text, re.M)
    missing = []
    for block in [*blocks, *re.findall(r"`([^`]+)`", text)]:
        for word in block.split():
            if not is_known(word.rstrip(",;"), names):
                missing.append(word)
    return missing


def is_known(word: str, names: set[str]) -> bool:
    if word in names or word.startswith("--") or word in ("--help",):
        return True
    if word.startswith("eval/"):
        return word.split("/")[1] in ("greedy", "sampled") and word.split("/")[2] in metric._EVALUATED
    key, equals, value = word.partition("=")
    if (ROOT / "conf" / key).is_dir():  # a group: a choice, a number, or a placeholder
        choice = (ROOT / "conf" / key / f"{value}.yaml").is_file()
        return not equals or choice or value == "NAME" or (f"{key}.value" in names and value.replace(".", "").isdigit())
    if key == "hydra/launcher":
        return value == "gpus"
    return bool(equals) and (key in names or key == "adapter")


def test_each_word_is_a_key_a_metric_a_choice_or_a_verb():
    assert unknown(PAGE) == []
    # negative controls: one of each that is not there
    wrong = ["reward/meen", "optim.learning_rate=1", "loss_norm=constants", "explian", "beta=low", "eval/greedy/acc"]
    assert unknown(" ".join(f"`{word}`" for word in wrong)) == wrong


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (ROOT / "docs" / target).exists(), target


def test_readme_names_every_page():
    """One line a page of docs/, this one among them."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Pages")[2].partition("\n## ")[0]
    listed = re.findall(r"^- \[docs/([\w.]+)\]\(docs/\1\): \S", text, re.M)
    assert sorted(listed) == sorted(file.name for file in (ROOT / "docs").glob("*.md"))
