"""One answer: what is said of it, the exit code, standard input, and what is imported."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from grpo_runner import cli
from grpo_runner.errors import InputError
from grpo_runner.grading.pair import VERDICTS, how, looked_for
from grpo_runner.reward.extract import Offer
from grpo_runner.reward.policy import CHOICES, Policy
from grpo_runner.types import Status
from tests.grading.rows import DOC, fields, printed

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def stdin(monkeypatch):
    def give(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give


def test_a_right_answer_in_plain_words():
    code, text = printed("--response", r"so \boxed{\frac{2}{4}}", "--gold", "0.5")
    assert code == 0
    assert fields(text) == {
        "verdict": ["correct: the answer is right"],
        "answer": [r"\frac{2}{4}", "in the last box; read as the fraction 1/2"],
        "gold": ["0.5", "read as the decimal 0.5, which is 1/2"],
        "rule": ["the two are compared as exact numbers"],
    }


def test_the_documentation_shows_what_is_printed():
    _, text = printed("--response", r"… \boxed{\frac{2}{4}}", "--gold", "0.5")
    lines = [line.rstrip() for line in text.splitlines()]
    assert "\n".join(f"    {line}" for line in lines) in DOC.read_text(encoding="utf-8")


def test_every_status_and_policy_has_words():
    assert set(VERDICTS) == set(Status)
    for extract in CHOICES["extract"]:
        assert looked_for(Policy(extract=extract))
        assert {how(Offer(("1",), in_form=True), Policy(extract=extract, boxes=boxes)) for boxes in CHOICES["boxes"]}


@pytest.mark.parametrize(
    ("response", "golds", "verdict", "where"),
    [
        (r"\boxed{3}", ["4"], "wrong", "in the last box; read as the integer 3"),
        ("The answer is 3.", ["4"], "wrong", "after the last marker; there is no complete box; read as the integer 3"),
        (r"\boxed{3} or \boxed{4}", ["4"], "ambiguous", "in one of several boxes on offer; read as the integer 3"),
        ("nothing at all", ["4"], "no_answer", None),
    ],
)
def test_every_other_verdict_is_one(response, golds, verdict, where):
    words = [word for gold in golds for word in ("--gold", gold)]
    code, text = printed("--response", response, *words)
    found = fields(text)
    assert code == 1 and found["verdict"][0].startswith(f"{verdict}: ")
    assert where is None or found["answer"][1] == where


def test_one_of_several_golds_is_enough():
    code, text = printed("--response", r"\boxed{7}", "--gold", "5", "--gold", "7")
    assert code == 0 and fields(text)["gold"] == ["5", "read as the integer 5", "7", "read as the integer 7"]
    assert printed("--response", r"\boxed{7}", "--gold", "5", "--gold", "6")[0] == 1


def test_computer_algebra_is_asked_in_a_worker():
    code, text = printed("--response", r"\boxed{\sqrt{8}}", "--gold", r"2\sqrt{2}")
    assert code == 0 and fields(text)["rule"][0].endswith(", by computer algebra")
    program = (
        "import sys; from grpo_runner.cli import main; "
        r"code = main(['check', '--response', r'\boxed{\sqrt{8}}', '--gold', r'2\sqrt{2}']); "
        "sys.exit(code or 3 * ('sympy' in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0


def test_another_policy():
    pair = ["--response", r"\boxed{5\text{ cm}}", "--gold", r"5\text{ m}"]
    assert printed(*pair)[0] == 1
    assert printed(*pair, "reward.units=ignored")[0] == 0
    tagged = ["--response", "<think> </think> <answer> 5 </answer>", "--gold", "5"]
    code, text = printed(*tagged, "reward=r1_answer_tag")
    assert code == 0 and fields(text)["answer"][1].startswith("between the answer tags")
    code, text = printed("--response", r"\boxed{0.5}", "--gold", "1/2", "reward=boxed_strict")
    assert code == 1 and "read as" not in text  # texts are compared as they stand: nothing is read


def test_what_a_run_would_refuse_is_refused():
    with pytest.raises(InputError, match="changes nothing beside reward.equality=string"):
        printed("--response", "a", "--gold", "1", "reward=boxed_strict", "reward.units=ignored")


def test_standard_input(stdin):
    stdin(b"line\n\\boxed{12}\n")
    assert printed("--response", "-", "--gold", "12")[0] == 0
    stdin(b"12\r\n")
    assert printed("--response", r"\boxed{12}", "--gold", "-")[0] == 0
    stdin(b"\xff \\boxed{12}")
    assert printed("--response", "-", "--gold", "12")[0] == 0


def test_an_unreadable_gold_names_itself(capsys):
    assert cli.main(["check", "--response", "x", "--gold", "5", "--gold", "see figure"]) == 2
    assert capsys.readouterr().err == '--gold "see figure" cannot be read: it is a placeholder, not an answer.\n'
    assert cli.main(["check", "--response", "x", "--gold", ""]) == 2


def test_texts_that_could_steer_a_terminal_are_written_out():
    code, text = printed("--response", "\\boxed{\x1b[31m\x00\ud800}", "--gold", "5")
    assert code == 1 and "\x1b" not in text and r"\x1b[31m\x00\ud800" in text


def test_a_megabyte_is_cut():
    code, text = printed("--response", "so \\boxed{" + "7" * 1_000_000 + "}", "--gold", "5")
    assert code == 1 and len(text) < 3000 and "(1,000,000 characters)" in text
    assert printed("--response", "word " * 200_000 + r"\boxed{5}", "--gold", "5")[0] == 0


def test_an_integer_starts_nothing_heavy():
    code = (
        "import sys, grpo_runner.cli as cli; code = cli.main(['check', '--response', r'\\boxed{12}', '--gold', '12']);"
        "heavy = {'torch', 'sympy', 'transformers', 'hydra', 'pydantic', 'pyarrow', 'math_verify', 'numpy'};"
        "sys.exit(code or bool(heavy & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True).returncode == 0


def test_the_check_of_heavy_imports_can_fail():
    """Negative control: an override is composed by Hydra."""
    words = "['check', '--response', 'x', '--gold', '12', 'reward.units=ignored']"
    code = f"import sys, grpo_runner.cli as cli; cli.main({words}); sys.exit('hydra' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True).returncode == 1


def test_the_verb_in_a_process_of_its_own(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "grpo_runner", "check"]
    told = [
        subprocess.run([*command, *words], cwd=tmp_path, env=environment, capture_output=True, text=True)
        for words in (["--response", r"\boxed{5}", "--gold", "5"], ["--response", "6", "--gold", "5"], ["--gold", "5"])
    ]
    assert [one.returncode for one in told] == [0, 1, 2]
    assert told[2].stderr.startswith("--response: missing.") and not told[2].stdout
    assert list(tmp_path.iterdir()) == []
