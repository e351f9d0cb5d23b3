"""The verb: what is printed and written, what is not loaded, and what a wrong word is told."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from grpo_runner import cli
from grpo_runner.config import compose
from grpo_runner.errors import InputError
from grpo_runner.planning import plan, speed
from grpo_runner.planning.happens import happens
from grpo_runner.planning.words import FLAGS, USAGE, read

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import plan_docs  # noqa: E402


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """No measured speed of this machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def shown(*words, width=200):
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False, color_system=None)
    assert plan(words, console) == 0
    return console.file.getvalue()


def test_the_screen_of_oat_zero_with_a_kl_term():
    text = shown(
        "experiment=dr_grpo_oat_zero_7b",
        "data.train.path=understand-r1-zero/datasets/train/math_lvl3to5_8k/train/data-00000-of-00001.arrow",
        "beta=0.04",
    )
    for title in ("What it is", "What happens", "What it needs", "What will bite"):
        assert f"\n{title}\n" in text
    assert "Dr. GRPO and a KL term" in text and "1/(128·3000)" in text and "− 0.04 (ρ − log ρ − 1)" in text
    assert "Departs from experiment=dr_grpo_oat_zero_7b" in text and "beta 0.0 → 0.04" in text
    # the number alone was typed, not what else its group sets
    assert [line.split()[2] for line in text.splitlines() if line.startswith("beta.estimator")] == ["as"]
    assert "307,200" in text and "2,400, of 128 responses each" in text and "8,523" in text
    assert "7.62 billion parameters" in text and " 80 GB" in text and "not measured on this machine" in text
    plain = shown(
        "experiment=dr_grpo_oat_zero_7b",
        "data.train.path=understand-r1-zero/datasets/train/math_lvl3to5_8k/train/data-00000-of-00001.arrow",
    )
    assert "Departs" not in plain and "beta.estimator" not in plain  # where the questions are is for the user to say


def test_a_sweep_is_planned_by_its_first_run_and_counted():
    text = shown("experiment=grpo_vs_dr_grpo")
    assert "A sweep of 32 runs" in text and "GRPO without its KL term" in text and "Departs" not in text
    assert "A sweep of 3 runs" in shown("-m", "seed=0,1,2")
    presets = shown("-m", "experiment=dr_grpo,grpo", "group_size=2,3")
    assert "A sweep of 4 runs" in presets and "Departs from experiment=dr_grpo\n- group_size 8 → 2" in presets
    assert "sweep" not in shown("seed=1").lower()


def test_the_json_has_what_the_screen_has(tmp_path):
    file = tmp_path / "plan.json"
    shown("experiment=dr_grpo", "--json", str(file), "--success-rate", "0.95", "--processes=2")
    made = json.loads(file.read_text())
    assert made["what"]["method"] == "Dr. GRPO" and made["runs"] is None and made["time"] is None
    assert made["happens"]["optimizer_steps"] == 100 and list(made["happens"]["even"]) == ["0.95"]
    names = [device["name"] for device in made["needs"]["devices"]]
    assert names[0] == "CPU" and len(names) == 5 and made["needs"]["processes"] == 2
    assert all(device["fits"] and device["change"] is None for device in made["needs"]["devices"])
    assert any(bite["key"] == "group_size" for bite in made["bites"])


def test_what_a_user_types_is_printed_as_it_is():
    text = shown("data=jsonl", "data.train.path='[bold]x.jsonl'", "data.eval.path='\u202ey.jsonl'")
    assert "[bold]x.jsonl" in text and "\u202e" not in text and "\\u202e" in text


def test_what_a_debug_preset_sets_is_not_called_typed():
    text = shown("experiment=dr_grpo_oat_zero_7b", "model=tiny", "max_new_tokens=32", "debug=cpu_smoke")
    rows = {line.split()[0]: line for line in text.splitlines() if line.startswith(("group_size", "loss_norm.div"))}
    assert "debug=cpu_smoke; experiment=dr_grpo_oat_zero_7b has 8" in rows["group_size"]
    assert "follows from what was typed" in rows["loss_norm.divisor"]
    (line,) = (line for line in text.splitlines() if line.startswith("- debug=cpu_smoke: "))
    assert "group_size" in line and "questions_per_step" in line
    assert not any(line.startswith("- questions_per_step") for line in text.splitlines())


@pytest.mark.parametrize(
    "name, content, told",
    [
        ("junk.jsonl", b"junk\n", "not JSON"),
        ("empty.jsonl", b"", "holds no questions"),
        ("other.jsonl", b'{"prompt": "1+1", "answer": "2"}\n', 'no column "question" (data.question_column)'),
        ("junk.parquet", b"junk" * 9, "not a readable Parquet file"),
        ("junk.arrow", b"junk" * 9, "not a readable Arrow file"),
        ("rows.csv", b"question,answer\n", "is not a .jsonl, .parquet or .arrow file"),
        ("not_there.parquet", None, "there is no file"),
    ],
)
def test_a_file_that_a_run_would_refuse_is_told(tmp_path, name, content, told):
    file, good = tmp_path / name, tmp_path / "good.jsonl"
    good.write_text('{"question": "1+1", "answer": "2"}\n')
    if content is not None:
        file.write_bytes(content)
    for key, other in (("data.train.path", "data.eval.path"), ("data.eval.path", "data.train.path")):
        text = " ".join(shown("data=jsonl", f"{key}={file}", f"{other}={good}").split())
        assert told in text and f"[{key}]" in text and f"[{other}]" not in text
    text = shown(f"+evaluation.sets.mine.path={file}", "data=arithmetic")
    assert "[evaluation.sets.mine.path]" in text


def test_a_files_name_is_never_broken():
    path = "understand-r1-zero/datasets/train/math_lvl3to5_8k/train/data-00000-of-00001.arrow"
    for width in (40, 80, 100):
        lines = shown("data=jsonl", f"data.train.path={path}", "data.eval.path=x.jsonl", width=width).splitlines()
        assert sum(path in line for line in lines) >= 3  # the command, the questions, what will bite
        assert not any(path[:30] in line and path not in line for line in lines)


def test_a_reward_model_that_is_not_here_is_told():
    screen = shown("reward=model", "reward.model=some/hub")
    assert "reward.model=some/hub is not in these figures" in screen
    assert "not in these figures" not in shown()


def test_a_model_that_is_not_known_is_told_and_the_rest_is_there():
    text = shown("model.path=some/model", "prompt=none", "max_new_tokens=512")
    assert "not worked out" in text and "models.json" in text and "What will bite" in text


@pytest.mark.parametrize(
    "words, needle",
    [
        (["--sucess-rate", "1"], 'Did you mean "--success-rate"?'),
        (["--success-rate", "2"], "a share from 0 to 1"),
        (["--success-rate"], "wants a share"),
        (["--processes", "0"], "at least 1"),
        (["--price", "nan"], "a number above 0"),
        (["--json", ""], "--json needs the name of a file"),
        (["--json", "."], "it is a folder"),
        (["--json", "no/such/plan.json"], "there is no folder no/such"),
        (["quickstart"], 'Did you mean "experiment=quickstart"?'),
        (["seed=0,1"], "Add -m"),
        (["advantage=drgrpo"], 'Did you mean "dr_grpo"?'),
        (["group_size=1"], "group_size=1"),
    ],
)
def test_wrong_words_are_told_in_a_few_lines(words, needle, capsys):
    assert cli.main(["plan", *words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and needle in err and 1 <= len(err.splitlines()) <= 5


def test_the_usage_names_every_flag():
    assert [flag for flag in FLAGS if flag not in ("-h", "--help", "--multirun") and f"[{flag}" not in USAGE] == []
    assert "--calibrate" in shown("--help")


def test_nothing_heavy_is_loaded():
    code = (
        "import sys; from grpo_runner import cli\n"
        "assert cli.main(['plan', 'experiment=dr_grpo_oat_zero_7b', 'beta=0.04', '--success-rate', '.3']) == 0\n"
        "loaded = [m for m in ('torch', 'transformers', 'peft', 'sympy', 'wandb', 'datasets') if m in sys.modules]\n"
        "sys.exit(' '.join(loaded) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "What will bite" in done.stdout


# --- time


ROW = {"tokens/sampled": 6_000, "time/rollout_s": 2.0, "time/step_s": 5.0, "length/mean": 20.0}


def test_hours_from_measured_tokens_by_hand():
    config = compose(["steps=9", "questions_per_step=4", "group_size=5", "max_new_tokens=100", "evaluation=never"])
    measured = speed.of_row(ROW, 100, "2026-01-01")
    assert (measured.rollout, measured.update) == (3_000, 2_000)
    found = speed.estimate(config, happens(config), measured)
    most = 9 * 20 * 100 * (1 / 3_000 + 1 / 2_000) / 3600
    assert found.most == pytest.approx(most) and found.least == pytest.approx(most / 5)
    assert speed.estimate(config, happens(config), measured, world=2).most == pytest.approx(most / 2)
    evaluated = compose(["steps=9", "questions_per_step=4", "group_size=5", "max_new_tokens=100", "evaluation.every=9",
                         "evaluation.questions=10"])  # fmt: skip
    # twice 10 questions, greedy and 4 samples, 100 tokens each
    more = 2 * 10 * 5 * 100 / 3_000 / 3600
    assert speed.estimate(evaluated, happens(evaluated), measured).most == pytest.approx(most + more)


def test_a_measured_speed_is_found_again_for_such_a_run_alone():
    config, other = compose([]), compose(["max_new_tokens=64"])
    assert speed.known(config) is None
    measured = speed.of_row(ROW, 32, "2026-01-01")
    file = speed.keep(config, measured)
    assert speed.known(config) == measured and speed.known(compose(["seed=5", "steps=7"])) == measured
    assert speed.known(other) is None
    speed.keep(other, measured)
    assert speed.known(config) == measured == speed.known(other)
    text = shown("--price", "2")
    assert "Time: about" in text and "An estimate" in text and "At 2 an hour and device" in text
    file.write_text("{broken")
    assert speed.known(config) is None and "not measured on this machine" in shown()


def test_calibrate_times_two_steps_and_leaves_no_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [
        "questions_per_step=2",
        "group_size=4",
        "max_new_tokens=8",
        "beta=no_kl",
        "evaluation=never",
        "--calibrate",
    ]
    text = shown(*words)
    assert "Time: about" in text and "kept in" in text
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
    found = speed.known(compose(words[:-1]))
    assert found is not None and found.rollout > 0 and found.update > 0 and 1 <= found.length <= 8


# --- the page


def test_the_page_has_what_the_script_prints():
    before = plan_docs.PAGE.read_text(encoding="utf-8")
    assert plan_docs.page(before) == before
    assert before.count("```text") == len(plan_docs.PRESETS) == 5
    assert plan_docs.page(before.replace("What it is", "What it was", 2)) != before.replace(
        "What it is", "What it was", 2
    )


def test_read_gives_what_was_asked():
    asked = read(["a=1", "--success-rate=0.5", "-m", "--prompt-tokens", "70", "~experiment"])
    assert asked.overrides == ("a=1", "~experiment") and asked.sweep and (asked.success, asked.prompt) == (0.5, 70)
    with pytest.raises(InputError):
        read(["--json"])
