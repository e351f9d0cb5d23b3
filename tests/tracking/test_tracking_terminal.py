"""The terminal: plain lines word for word, colour and NO_COLOR, brackets in questions, a reader that goes away."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from grpo_runner.tracking import LocalTracker, Terminal, Trackers, report

pytestmark = pytest.mark.usefixtures("no_drawing")


def console(terminal: bool, width: int = 100) -> Console:
    return Console(
        file=io.StringIO(), force_terminal=terminal, width=width, highlight=False, markup=False, emoji=False,
        legacy_windows=False,
    )  # fmt: skip


def shown(config, fake, screen: Console, stop: int = 6) -> str:
    terminal = Terminal(screen)
    terminal.announce("GRPO [group std, 1/|o|]", {"steps": "6", "questions": "24"}, ["a [warning]"])
    fake.drive(Trackers([LocalTracker(), terminal]), config, None, stop)
    return screen.file.getvalue()


PLAIN = """\
GRPO [group std, 1/|o|]
  steps      6
  questions  24
note: a [warning]
held-out at step 0: sampled accuracy 20.0 %, greedy accuracy 25.0 % (4 questions x 2)
step 1/6  reward 0.000  accuracy 0.0 %  length right - wrong 12.2  800 tokens/s  0:02 left
step 2/6  reward 0.143  accuracy 10.0 %  length right 10.0 wrong 12.2  802 tokens/s  0:02 left
held-out at step 2: sampled accuracy 40.0 %, greedy accuracy 45.0 % (4 questions x 2)
step 3/6  reward 0.286  accuracy 20.0 %  length right 10.0 wrong 12.2  804 tokens/s  0:02 left
step 4/6  reward 0.429  accuracy 30.0 %  length right 10.0 wrong 12.2  806 tokens/s  0:01 left
held-out at step 4: sampled accuracy 60.0 %, greedy accuracy 65.0 % (4 questions x 2)
step 5/6  reward 0.571  accuracy 40.0 %  length right 10.0 wrong 12.2  808 tokens/s  0:00 left
step 6/6  reward 0.714  accuracy 50.0 %  length right 10.0 wrong 12.2  810 tokens/s  0:00 left
held-out at step 6: sampled accuracy 80.0 %, greedy accuracy 85.0 % (4 questions x 2)

held-out questions       step 0  step 6  change
sampled accuracy         20.0 %  80.0 %  +60.0 points
greedy accuracy          25.0 %  85.0 %  +60.0 points
sampled pass@2           50.0 %  50.0 %  +0.0 points
sampled length (tokens)  8.0     14.0    +6.0
"""


def squeezed(text: str) -> list[str]:
    """Lines without runs of spaces: the columns' widths are rich's business."""
    return [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]


def test_plain_output_word_for_word(make_config, fake):
    text = shown(make_config(), fake, console(False))
    assert "\x1b" not in text
    assert squeezed(text)[: len(PLAIN.splitlines())] == squeezed(PLAIN)
    # weights summed by hand: success counts of q0 are 0 3 6 0 3 6, of q1 1 4 7 1 4 7, of q2 2 5 8 2 5 8
    of = {right: 16 * (right / 8 * (1 - right / 8)) ** 0.5 / 64 for right in range(9)}
    q0, q1, q2 = 2 * (of[3] + of[6]), 2 * (of[1] + of[4] + of[7]), 2 * (of[2] + of[5])
    lines = squeezed(text)
    at = lines.index("largest weights of the run weight asked success, first -> last")
    assert lines[at + 1] == f"[b]5+1=? {q1:.4f} 6 0.12 -> 0.88"
    assert {lines[at + 2].split()[1], lines[at + 3].split()[1]} == {f"{q0:.4f}", f"{q2:.4f}"}
    assert lines[at + 4].startswith("[2mweight: sum over steps, answers and tokens of |token weight|") or lines[
        at + 4
    ].startswith("weight: sum over steps, answers and tokens of |token weight|")
    for name in ("run", "metrics", "questions", "probe", "charts", "answers"):
        assert any(line.startswith(name + " ") for line in lines[at + 5 :])


def test_a_log_has_some_ten_lines_whatever_the_number_of_steps(make_config, fake):
    terminal = Terminal(console(False))
    terminal.start(make_config(steps=200), None)
    for step in range(200):
        terminal.step(step, {"time/step_s": 0.01})
    lines = terminal._console.file.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == [f"{20 * i}/200" for i in range(1, 11)]


def test_a_slow_run_has_a_line_a_minute(make_config, fake):
    terminal = Terminal(console(False))
    terminal.start(make_config(steps=1000), None)
    for step in range(6):
        terminal.step(step, {"time/step_s": 31.0})
    lines = terminal._console.file.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == ["2/1000", "4/1000", "6/1000"]
    assert lines[0].endswith("8:35:38 left")  # 998 steps of 31 s


def test_a_terminal_gets_a_bar_and_the_cursor_back(make_config, fake):
    text = shown(make_config(), fake, console(True))
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert "━" in plain
    assert "step 6/6" in plain
    assert "GRPO [group std, 1/|o|]" in plain
    assert "held-out at step 6: sampled accuracy 80.0 %" in plain
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    assert "\x1b[1m" in text  # bold: the control of the next test


@pytest.mark.parametrize("no_color", ["", "1"])
def test_NO_COLOR_leaves_no_colour(make_config, fake, monkeypatch, no_color):
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("COLORTERM", raising=False)
    text = shown(make_config(), fake, console(True))
    colours = re.findall(r"\x1b\[(?:[0-9;]*;)?(?:3[0-7]|9[0-7]|38;[0-9;]+)m", text)
    assert bool(colours) == (no_color == "")


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_of_a_terminal_is_wider_than_it(make_config, fake, width):
    terminal = Terminal(console(True, width))
    terminal.start(make_config(), None)
    terminal.step(0, fake.metrics(0))
    terminal.close()
    with terminal._console.capture() as capture:
        terminal._console.print(terminal._renderable())
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capture.get()).splitlines()
    assert len(lines) == 2
    assert all(len(line) <= width for line in lines)


def test_a_stop_before_the_first_evaluation_shows_what_there_is(make_config, fake):
    screen = console(False)
    terminal = Terminal(screen)
    terminal.finish({"status": "failed"})  # nothing was started
    assert screen.file.getvalue() == ""
    fake.drive(Trackers([LocalTracker(), terminal]), make_config(), None, 0, finish="failed")
    assert squeezed(screen.file.getvalue())[1].startswith("run ")


def test_a_reader_that_goes_away_stops_nothing(make_config, fake):
    class Gone(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    config = make_config()
    screen = Console(file=Gone(), width=80)
    fake.drive(Trackers([LocalTracker(), Terminal(screen)]), config, None, 2)
    assert len((Path(config.run_dir) / "metrics.jsonl").read_text().splitlines()) == 2


GROUP = {"included": 8, "group_size": 8, "reward_mean": 0.1, "reward_std": 0.0}
LEFT_OUT = GROUP | {"included": 0, "reward_mean": None, "reward_std": None}


@pytest.mark.parametrize("rows, said", [
    ([GROUP], ": in every group, all answers earned the same."),
    ([GROUP, GROUP | {"reward_std": 1.4e-17}], ": in every group, all answers earned the same."),
    ([GROUP | {"included": None}], ": in every group, all answers earned the same."),  # an older run
    ([GROUP, LEFT_OUT], ": in every group, all answers in the update earned the same."),
    ([GROUP | {"included": 3}], ": in every group, all answers in the update earned the same."),
    ([LEFT_OUT, LEFT_OUT], ": all answers were left out of the update."),
    ([GROUP, GROUP | {"reward_std": 0.3}], "."),  # such as an own loss norm of zeros
    ([GROUP | {"reward_std": None, "reward_mean": None}], "."),
    ([LEFT_OUT | {"included": None}], "."),
])  # fmt: skip
def test_why_nothing_had_weight_is_said_where_the_rows_show_it(make_config, fake, rows, said):
    screen = console(False)
    tracker = Trackers([LocalTracker(), Terminal(screen)])
    tracker.start(make_config(), None)
    nothing = {"weight": 0.0, "advantage_weight": 0.0}
    tracker.questions(0, [fake.questions(0)[0] | row | nothing | {"slot": slot} for slot, row in enumerate(rows)])
    tracker.finish({})
    assert f"No question had any weight{said}" in screen.file.getvalue().splitlines()


def of_probe(step, norm, cosine, groups) -> dict[str, object]:
    return {"step": step, "norm": norm, "cosine": cosine, "groups": [
        {"slot": i, "question_id": f"q{i}", "success_rate": 0.5, "cosine": some} for i, some in enumerate(groups)]}  # fmt: skip


@pytest.fixture
def probed(make_config):
    """The run's end with these rows in probe.jsonl, its lines from the probe's title on."""

    def end(*rows) -> list[str]:
        screen = console(False)
        tracker = Trackers([LocalTracker(), Terminal(screen)])
        tracker.start(make_config(), None)
        for row in rows:
            tracker.probe(row["step"], row)
        tracker.finish({})
        lines = screen.file.getvalue().splitlines()
        return lines[next((i for i, line in enumerate(lines) if "gradients" in line), len(lines)) :]

    return end


def test_the_probe_s_means_are_shown_for_the_pairs_with_the_first_objective(probed):
    a, b, c = "grpo~dr_grpo", "grpo~mine", "dr_grpo~mine"
    nothing = dict.fromkeys((a, b, c))
    lines = probed(
        # norms: 3/2 and 1/4, mean 0.875; 3/0.2 = 15, and none with a gradient of nothing
        of_probe(0, {"grpo": 3.0, "dr_grpo": 2.0, "mine": 0.2}, {a: 0.9, b: 0.5, c: 0.1},
                 [{a: 1.0, b: 0.25, c: 0.1}, nothing]),
        of_probe(5, {"grpo": 1.0, "dr_grpo": 4.0, "mine": 0.0}, {a: 0.7, b: None, c: None},
                 [{a: 0.9, b: None, c: None}, {a: 0.95, b: -0.5, c: 0.1}]),
    )  # fmt: skip
    assert squeezed("\n".join(lines))[:4] == [
        "gradients on the same answers (2 probes) cosine within questions norm/norm",
        "GRPO ~ Dr. GRPO 0.8000 0.9500 0.88",  # (1 + 0.9 + 0.95) / 3
        "GRPO ~ mine 0.5000 -0.1250 15.00",
        "",
    ]


def test_of_one_probe_the_title_has_no_plural_and_a_dash_stands_for_what_is_not_there(probed):
    lines = probed(of_probe(0, {"rloo": 0.0, "no_std": 2.0}, {"rloo~no_std": None}, []))
    assert squeezed("\n".join(lines))[:2] == [
        "gradients on the same answers (1 probe) cosine within questions norm/norm",
        "RLOO ~ GRPO without its std - - -",
    ]


def test_the_objective_that_most_probes_have_is_the_first_and_stands_in_front(probed):
    """A run that was gone on from with other objectives: GRPO is in both, second in the first of them."""
    lines = probed(
        of_probe(0, {"dr_grpo": 2.0, "grpo": 1.0}, {"dr_grpo~grpo": 0.5}, [{"dr_grpo~grpo": 0.25}]),
        of_probe(5, {"grpo": 3.0, "rloo": 1.0}, {"grpo~rloo": 0.75}, []),
    )
    assert squeezed("\n".join(lines))[1:3] == ["GRPO ~ Dr. GRPO 0.5000 0.2500 0.500", "GRPO ~ RLOO 0.7500 - 3.000"]


def test_without_a_probe_there_is_no_table_and_no_path_of_one(probed):
    assert probed() == []


@pytest.mark.parametrize(("values", "shown"), [
    ([0.4753, 0.25, 0.246], ["0.4753", "0.2500", "0.2460"]),
    ([12.345678, 0.25, None], ["12.35", "0.25", "-"]),
    ([9.9996, 1.0], ["10.00", "1.00"]),
    ([54321.6, 2.4], ["54322", "2"]),
    ([0.00123456], ["0.001235"]),
    ([0.0, None], ["0.000", "-"]),
    ([], []),
])  # fmt: skip
def test_figures_of_a_column_have_the_decimals_of_the_largest(values, shown):
    assert report.aligned(values) == shown


@pytest.mark.parametrize(("count", "text"), [(1, "(1 question x 2)"), (4, "(4 questions x 2)")])
def test_one_question_is_one(count, text):
    assert text in report.evaluation_line({"questions": count, "samples": 2})


def test_messages_keep_their_brackets():
    screen = console(False)
    Terminal(screen).say(r"gold \boxed{[1/2]} of [red]q[/red]")
    assert screen.file.getvalue() == "gold \\boxed{[1/2]} of [red]q[/red]\n"


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (65.4, "1:05"), (7200, "2:00:00"), (-3, "0:00")])
def test_durations(seconds, text):
    assert report.duration(seconds) == text


def test_quiet_libraries_imports_nothing_and_keeps_the_users_settings():
    code = (
        "import sys, os; from grpo_runner.tracking import quiet_libraries; quiet_libraries();"
        "heavy = {'torch', 'transformers', 'datasets', 'wandb', 'matplotlib', 'pyarrow', 'pandas'} & set(sys.modules);"
        "print(sorted(heavy), os.environ['TRANSFORMERS_VERBOSITY'], os.environ['HF_HUB_DISABLE_PROGRESS_BARS'])"
    )
    root = str(Path(__file__).parents[2])
    environ = {**os.environ, "TRANSFORMERS_VERBOSITY": "info", "PYTHONPATH": root}
    environ.pop("HF_HUB_DISABLE_PROGRESS_BARS", None)
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == "[] info 1\n"


def test_an_alert_is_one_line_and_one_of_an_earlier_start_none(make_config):
    screen = console(False)
    terminal = Terminal(screen)
    terminal.start(make_config(), 3)
    terminal.alert(2, "grader", "late")
    terminal.alert(3, "truncation", "half of [them]")
    assert screen.file.getvalue() == "health, truncation at step 3: half of [them]\n"


def test_answers_that_were_there_before_are_no_tokens_a_second():
    """Of the base's answers, counted once, none was sampled within a step."""
    row = {"tokens/sampled": 112_000, "time/step_s": 0.5}
    assert report.step_figures({**row, "time/rollout_s": 0.25})[-1] == "224,000 tokens/s"
    assert report.step_figures({**row, "time/rollout_s": 0.0})[-1] == "- tokens/s"
