"""`prompt` as it is typed: what it shows of a run's prompts, what it writes as JSON, and what it refuses."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from grpo_runner.errors import InputError
from grpo_runner.policy import models
from grpo_runner.preview import prompt
from grpo_runner.preview.show import flow
from tests.made_tokenizers import tokenizer

DATA = ["data=jsonl", "data.small_set=wrap"]
QUESTIONS = ["1+1", "12+34", "5*6", "123+4567"]


def printed(*words: str, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False)
    assert prompt(words, console) == 0
    return console.file.getvalue()


def row(text: str, name: str) -> list[str]:
    """The figures of a set in the table of lengths."""
    [line] = [line for line in text.splitlines() if line.startswith(f"{name}  ")]
    return line.removeprefix(name).split()


@pytest.fixture
def data(tmp_path: Path) -> list[str]:
    """Overrides for a file of four questions, for both sets."""
    file = tmp_path / "q.jsonl"
    file.write_text("".join(json.dumps({"question": text, "answer": "2"}) + "\n" for text in QUESTIONS))
    return [*DATA, f"data.train.path={file}", f"data.eval.path={file}"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model folder with a byte tokenizer that puts <s> in front, and weights that nobody can read."""
    folder = tmp_path / "model"
    tokenizer(front="<s>").save_pretrained(folder)
    shutil.copy(models.EMBEDDED / "config.json", folder)
    (folder / "model.safetensors").write_bytes(b"no weights")
    return folder


def test_prompts_of_the_embedded_model_offline(data: list[str]) -> None:
    """Its tokenizer has one token a character, so the lengths are those of the questions, with what stands in front."""
    text = printed(*data, "--n", "2")
    front = 1 if "which the tokenizer puts in front" in text else 0
    lengths = [len(question) + front for question in QUESTIONS]
    assert f": {lengths[0]} tokens" in text and f": {lengths[1]} tokens" in text
    assert f": {lengths[3]} tokens" not in text  # two were asked for
    # least, median (the 2nd of 4), 95 % (the 4th), most, over
    assert row(text, "training set") == [
        "4",
        *map(str, (min(lengths), sorted(lengths)[1], max(lengths), max(lengths))),
        "0",
    ]


def test_only_the_tokenizer_is_loaded(data: list[str], model: Path) -> None:
    text = printed(*data, f"model.path={model}", "prompt=none", "--n=1")
    assert "<s> (id 256), which the tokenizer puts in front of a text" in text
    assert ": 4 tokens, 1 BOS" in text
    # '1' is the 17th of the printable characters from '!' on, '+' the 11th
    assert "<s> 256  1 16  + 10  1 16" in text
    with pytest.raises(InputError, match=r"cannot be loaded"):  # control: nobody can read the weights
        models.load_model(_config(model), "cpu", None)


def _config(model: Path):
    from grpo_runner import compose

    return compose([f"model.path={model}"]).model


def test_the_same_as_json(data: list[str], model: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    printed(*data, f"model.path={model}", "prompt=r1", "reward=r1_answer_tag", "data.max_prompt_tokens=512",
            "--n=9", "--json", str(file))  # fmt: skip
    found = json.loads(file.read_text())
    assert found["prompt"]["stop"] == ["</answer>"] and found["bos"] == {"text": "<s>", "id": 256} and found["adds_bos"]
    assert [one["text"].count(question) for one, question in zip(found["prompts"], QUESTIONS, strict=True)] == [1] * 4
    for one in found["prompts"]:  # bytes: an id for each, and the BOS
        assert len(one["ids"]) == len(one["text"].encode()) + 1 and one["bos"] == 1
        assert "".join(one["tokens"]) == "<s>" + one["text"]
    around = len(found["prompts"][0]["ids"]) - len(QUESTIONS[0])
    sizes = [len(question) + around for question in QUESTIONS]
    expected = {"count": 4, "minimum": sizes[0], "median": sizes[0], "p95": sizes[3], "maximum": sizes[3]}
    assert found["sets"]["training set"] == expected | {"over": 0, "unknown": 0}
    assert found["notes"] == []


LONG = ["prompt=none", "data.max_prompt_tokens=6"]  # of the four, <s>123+4567 has 9 tokens


def test_what_happens_to_long_prompts_is_what_the_run_does(data: list[str], model: Path) -> None:
    words = [*data, *LONG, f"model.path={model}", "--n=4"]
    text = printed(*words, "data.long_prompt=drop")
    assert "9 tokens, 1 BOS, over the limit of 6: left out" in text
    assert "training set: 1 of 4 are left out (data.long_prompt=drop)." in text
    assert row(text, "training set")[-1] == "1"
    text = printed(*words, "data.long_prompt=truncate_left")
    assert "6 tokens, 1 BOS, over the limit of 6: cut at the beginning of the question" in text
    assert "\n+4567\n" in text and "123+4567" not in text
    text = printed(*words, "data.long_prompt=error")
    assert "training set: 1 of 4 are refused, with the run (data.long_prompt=error)." in text
    text = printed(*data, f"model.path={model}", "prompt=none", "data.max_prompt_tokens=3", "data.long_prompt=drop")
    assert "training set: none is within data.max_prompt_tokens=3, so the run is refused." in text
    with pytest.raises(
        InputError, match="leaves no room for a question: the prompt template with one character of it takes 8 tokens"
    ):
        printed(*words, "prompt.template='Q: {{ question }} A:'", "data.long_prompt=truncate_left")


def test_what_does_not_fit_is_told(data: list[str], model: Path) -> None:
    text = printed(*data, f"model.path={model}", "prompt=qwen_math", "reward=gsm8k_hash", "data.max_prompt_tokens=500")
    assert "note: The prompt writes <|im_start|>, <|im_end|>, and this model's tokenizer" in text
    assert r"note: The prompt asks for \boxed, but reward.extract=hash" in text
    assert "note:" not in printed(*data, f"model.path={model}", "prompt=none")  # control
    assert "clip range" not in text  # of training, not of prompts


def test_evaluation_sets_are_counted_unless_there_is_none(data: list[str]) -> None:
    assert row(printed(*data), "evaluation set")[0] == "4"
    assert "evaluation" not in printed(*data, "evaluation=never").split("tokens of a prompt")[1]


DOCS = (Path(__file__).parents[2] / "docs" / "prompts.md").read_text()


def test_the_example_in_the_documents_is_what_is_printed() -> None:
    """The first block of text, below the command that prints it."""
    shown = DOCS.split("```text\n")[1].split("```")[0]
    assert "    python -m grpo_runner prompt experiment=quickstart --n 2\n" in DOCS
    assert printed("experiment=quickstart", "--n", "2") == shown


def test_the_table_in_the_documents_is_that_of_the_files() -> None:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in DOCS.splitlines() if line.startswith("| `")][
        1:
    ]
    told = {name.strip("`"): (chat == "the model's", "</answer>" in stop) for name, _, chat, _, stop in rows}
    files = (Path(__file__).parents[2] / "conf" / "prompt").glob("*.yaml")
    choices = {file.stem: yaml.safe_load(file.read_text()) for file in files}
    assert told == {name: (choice["chat"], choice["stop"] == ["</answer>"]) for name, choice in choices.items()}


def test_an_experiment_that_is_a_sweep_shows_its_first_run() -> None:
    text = printed("experiment=grpo_vs_dr_grpo", "seed=0", "data.train_size=16", "data.eval_size=4", "--n=1")
    assert text.startswith("A sweep of 4 runs; this is its first.\n")  # as many as it has without its eight seeds


def test_markup_and_escapes_are_text(tmp_path: Path, model: Path) -> None:
    file = tmp_path / "q.jsonl"
    file.write_text(json.dumps({"question": "[bold]2[/bold] \x1b[31m\n\tx", "answer": "2"}) + "\n")
    where = [f"data.train.path={file}", f"data.eval.path={file}", f"model.path={model}"]
    text = printed(*DATA, *where, "prompt=none", width=200)
    assert "[bold]2[/bold] \\x1b[31m" in text and "\x1b" not in text
    # the letters of a byte tokenizer are its 188 printable bytes in order, then the others: 0 to 32 are 188 to 220
    assert all(token in text for token in ("\\x1b 215", "\\n 198", "\\t 197", "· 220"))


def test_flow_breaks_at_the_width_and_behind_a_new_line() -> None:
    tokens, ids = ("ab", "\n", "c d", "", "文"), (1, 22, 333, 4, 5)
    assert flow(tokens, ids, 80) == [[("ab", 1), ("\\n", 22)], [("c·d", 333), ("''", 4), ("文", 5)]]
    # "c·d 333" has 7 cells, "  '' 4" 6 more, "  文 5" 6 more (文 is two cells wide)
    assert flow(tokens, ids, 19)[1] == [("c·d", 333), ("''", 4), ("文", 5)]
    assert flow(tokens, ids, 18)[1:] == [[("c·d", 333), ("''", 4)], [("文", 5)]]
    assert flow(tokens, ids, 1) == [[("ab", 1)], [("\\n", 22)], [("c·d", 333)], [("''", 4)], [("文", 5)]]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--nn", "3"], 'prompt has no "--nn". Did you mean "--n"?'),
        (["--n"], "--n needs a value"),
        (["--n", "0"], "--n 0: not allowed. It takes a whole number of at least 1."),
        (["--n=two"], "--n two: not allowed"),
        (["--n=1", "--n=2"], "--n is given twice"),
        (["--json"], "--json needs a value"),
        (["quickstart"], '"quickstart" is not an override: write key=value'),
        (["prompt=qwen_maths"], "qwen_math"),
        (["steps=0"], "steps=0 is not allowed"),
        (["prompt=chat_boxed"], "this model's tokenizer has no chat template"),
        (["seed=1,2"], "several values are a sweep"),
        (["model.path=./nowhere"], "model.path=./nowhere: no such folder"),
        (["model.path=owner/is-not-here"], "model.path=owner/is-not-here: its tokenizer cannot be loaded"),
    ],
)
def test_what_is_refused(words: list[str], said: str) -> None:
    with pytest.raises(InputError) as error:
        printed(*words)
    assert said in str(error.value) and len(str(error.value).splitlines()) <= 5


def test_a_folder_without_a_tokenizer_is_refused(model: Path) -> None:
    for file in model.glob("*token*"):
        file.unlink()
    with pytest.raises(InputError) as error:
        printed(f"model.path={model}", "prompt=none")
    assert f"model.path={model}: its tokenizer cannot be loaded" in str(error.value)
    assert len(str(error.value).splitlines()) <= 5


def test_the_usage_needs_no_torch() -> None:
    code = (
        "import sys, grpo_runner.cli as cli; code = cli.main(['prompt', '--help']); "
        "sys.exit(code or 10 * any(name in sys.modules for name in ('torch', 'transformers', 'hydra')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("prompt [OVERRIDE …]")
