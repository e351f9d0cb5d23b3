"""Parts of the page: fates of questions, the table of settings, JSON in a script, figures as files, what print hides."""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from made_runs import ARMS, STEPS, pair_of_arms, run_folder

from grpo_runner.cli import main
from grpo_runner.compare import command
from grpo_runner.compare.page import embed, markup, render, tables
from grpo_runner.compare.page.fates import Fate, _fate, fates
from grpo_runner.compare.page.figures import FIGURES, figures_of, theme
from grpo_runner.compare.page.markup import script_json
from grpo_runner.compare.types import Analysis
from grpo_runner.train.runner import _command

HOSTILE = "</script><!-- <script>alert('&')</script>\u2028\u2029"


def analysed(*words: str) -> Analysis:
    return command.analyse(command.parse(words))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pair_of_arms(tmp_path_factory.mktemp("parts") / "both", range(3))


# --- fates


def row(right: int, text_right: bool, text: str, answers: int = 4) -> dict:
    counts = {"sampled/answers": answers, "sampled/right": right}
    return {"question": "q?", "gold": "1", "text": text, "text_right": text_right, **counts}


def test_the_largest_changes_come_first_and_small_ones_are_left_out():
    rose, fell, same, little = (("", name) for name in ("rose", "fell", "same", "little"))
    before = {0: {rose: row(0, False, "a"), fell: row(4, True, "b"), same: row(2, True, "c")}}
    after = {0: {rose: row(3, True, "A"), fell: row(0, False, "B"), same: row(2, True, "C")}}
    before[0][little], after[0][little] = row(50, True, "d", 100), row(54, True, "D", 100)
    found = fates(before, after)
    assert [fate.shares for fate in found] == [(1.0, 0.0), (0.0, 0.75)]  # .04 is under the .05 that is worth a look
    assert [fate.answers for fate in found] == [(("b", True), ("B", False)), (("a", False), ("A", True))]
    assert [fate.shares for fate in fates(before, after, most=1)] == [(1.0, 0.0)]


def test_a_share_is_over_the_seeds_that_both_sides_have_and_the_answers_show_the_change():
    key = ("", "q")
    before = {
        0: {key: row(1, True, "right by luck")},
        1: {key: row(0, False, "wrong")},
        2: {key: row(4, True, "alone")},
    }
    after = {0: {key: row(2, False, "wrong still")}, 1: {key: row(4, True, "right now")}, 3: {key: row(0, False, "-")}}
    (fate,) = fates(before, after)
    assert fate.shares == (1 / 8, 6 / 8)  # of the eight answers of seeds 0 and 1
    assert fate.answers == (("wrong", False), ("right now", True))
    assert fates({5: before[0]}, after) == []  # no seed in common


def test_without_sampled_answers_the_greedy_one_counts():
    greedy = {"question": "q?", "gold": "1", "text": "x", "greedy/answers": 1}
    before, after = {0: {("", "q"): greedy | {"greedy/right": 0}}}, {0: {("", "q"): greedy | {"greedy/right": 1}}}
    assert [fate.shares for fate in fates(before, after)] == [(0.0, 1.0)]


# --- settings


class Cells(HTMLParser):
    """The texts of a table's rows, as a browser reads them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.inside = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "tr":
            self.rows.append([])
        self.inside = tag in ("td", "th") or (self.inside and tag in ("b", "button", "wbr"))
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.inside and self.rows:
            self.rows[-1][-1] += data

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self.inside = False


def test_settings_that_differ_are_those_of_the_arms_and_nothing_else(both):
    html = tables.settings(analysed(str(both)).comparison)
    head, *rows = Cells(html).rows
    assert head == ["setting", "GRPO", "Dr. GRPO"]
    # conf/advantage/{grpo,dr_grpo}.yaml and conf/loss_norm/{sequence_mean,constant}.yaml, read by eye
    assert {row[0]: row[1:] for row in rows} == {
        "advantage.scale": ["group_std", "none"],
        "loss_norm.kind": ["sequence_mean", "constant"],
        "loss_norm.divisor": ["null", "32.0"],
    }


def test_a_setting_that_differs_within_an_arm_has_all_its_values(tmp_path):
    for seed, rate in enumerate((0.001, 0.002)):
        for name, overrides in ARMS.items():
            run_folder(
                tmp_path / f"{name},{seed}", seed, lambda step: {"reward/mean": 0.5}, {}, *overrides, optim__lr=rate
            )
    comparison = analysed(str(tmp_path), "--by", "advantage,loss_norm", "--allow", "optim.lr").comparison
    rows = {row[0]: row[1:] for row in Cells(tables.settings(comparison)).rows}
    assert rows["optim.lr"] == ["0.001 or 0.002"] * 2
    assert "seed" not in rows  # what pairs the runs is no setting of an arm


def test_hostile_settings_stay_texts(tmp_path):
    for number, text in enumerate((HOSTILE, "plain")):
        run_folder(tmp_path / str(number), 0, lambda step: {"reward/mean": 0.5}, {}, prompt__system=text)
    html = tables.settings(analysed(str(tmp_path)).comparison)
    assert "<script" not in html.lower() and "</script" not in html.lower() and "<!--" not in html
    assert "alert" in html


# --- JSON in a script element


def test_no_text_ends_the_script_and_all_come_back():
    value = {"a": [HOSTILE, 1, 2.5, None, True], HOSTILE: "é 数"}
    text = script_json(value)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == value
    assert "</script>" in json.dumps(value)  # negative control: plain JSON would end it


def test_what_json_has_no_word_for_is_null_and_a_lone_surrogate_is_no_character():
    assert json.loads(script_json({"x": [float("nan"), float("inf"), (-float("inf"), 1.0)]})) == {
        "x": [None, None, [None, 1.0]]
    }
    assert json.loads(script_json("a\ud800b")) == "a?b"


# --- figures as files and in the page


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures without their drawing, which takes half a second each (test_page_figures.py draws)."""
    monkeypatch.setattr(embed.export, "png", lambda spec: b"png")
    monkeypatch.setattr(embed.export, "svg", lambda spec: "<svg/>")


@pytest.mark.usefixtures("quick")
def test_figures_are_written_and_linked_from_where_the_page_lies(both, tmp_path, capsys):
    (tmp_path / "pages").mkdir()
    page, folder = tmp_path / "pages/a page.html", tmp_path / "the figures"
    assert main(["compare", str(both), "--html", str(page), "--figures", str(folder)]) == 0
    text = page.read_text(encoding="utf-8")
    shown = re.findall(r'data-figure="(\w+)"', text)
    assert {"accuracy", "length_wrong", "length_wrong_difference", "forest"} <= set(shown)
    assert {file.name for file in folder.iterdir()} == {f"{name}.{kind}" for name in shown for kind in ("png", "svg")}
    links = re.findall(r'<a href="([^"]+)">(PNG|SVG)</a>', text)
    assert [link for link, _ in links] == [
        f"../the%20figures/{name}.{kind}" for name in shown for kind in ("png", "svg")
    ]
    assert capsys.readouterr().out.splitlines()[-2:] == [f"written: {page}", f"written: {folder}"]


@pytest.mark.usefixtures("quick")
def test_figures_alone_need_no_page_and_a_page_alone_links_to_none(both, tmp_path):
    assert main(["compare", str(both), "--figures", str(tmp_path / "alone")]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["alone"]
    assert main(["compare", str(both), "--html", str(tmp_path / "page.html")]) == 0
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert 'data-figure="accuracy"' in text and ">PNG</a>" not in text


def test_a_metric_of_ones_own_has_a_curve_and_a_difference_before_the_others(both):
    analysis = analysed(str(both), "--metric", "tokens/sampled,entropy")
    made = embed.specs(analysis)
    assert list(figures_of(analysis))[:2] == ["metric_tokens_sampled", "metric_tokens_sampled_difference"]
    assert [row["y"] for row in made["metric_tokens_sampled"]["data"]["values"]] == [[100] * STEPS] * 2
    assert list(figures_of(analysed(str(both), "--metric", "entropy"))) == list(FIGURES)  # which has one anyway


def test_what_is_0_throughout_is_said_and_not_drawn(both):
    analysis = analysed(str(both), "--metric", "tokens/sampled,length/wrong")
    text = render(analysis)
    # made_runs: entropy is .1 a step, 0 at the first alone; tokens are the same in all runs
    assert 'data-figure="entropy"' in text and 'data-figure="metric_tokens_sampled"' in text
    assert 'data-figure="metric_tokens_sampled_difference"' not in text
    (said,) = re.findall(r"0 throughout, and so not drawn: (.*?)\.</p>", text)
    assert "tokens/sampled: paired difference" in said.split("; ")
    (data,) = re.findall(r'id="figures-data">(.*?)</script>', text)
    assert all(json.loads(data)["specs"].values())


def test_no_title_of_a_vertical_axis_is_longer_than_the_axis(both):
    analysis = analysed(str(both), "--metric", "length/wrong,reward/mean")
    titles = []
    for spec in filter(None, embed.specs(analysis).values()):
        for layer in spec["layer"]:
            title = layer["encoding"].get("y", {}).get("title")
            titles += title if isinstance(title, list) else [title] if title else []
    assert "difference (tokens)" in titles and max(map(len, titles)) <= theme.TITLE
    long = theme.y_axis("y", "length of right answers, greedy, in training (tokens)")["title"]
    assert long == ["length of right answers, greedy, in", "training (tokens)"]


# --- the command that made a run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["/x/python", "-m", "grpo_runner", "seed=1"], "python -m grpo_runner seed=1"),
        (["python3", "-u", "-m", "grpo_runner", "-m", "seed=1,2"], "python -m grpo_runner -m seed=1,2"),
        (["python", "/x/bin/grpo-runner", "run_name=a b"], "grpo-runner 'run_name=a b'"),
        (["python", "-m", "pytest", "-m", "grpo_runner"], None),
        (["python", "own.py", "seed=1"], None),
        (["python", "-m"], None),
    ],
)
def test_the_command_is_as_it_was_typed(monkeypatch, words, said):
    monkeypatch.setattr(sys, "orig_argv", words)
    monkeypatch.setattr(sys, "argv", ["hydra", "has=another"])
    assert _command() == said


def test_a_run_in_a_process_of_its_own_has_the_command_of_its_sweep(tmp_path):
    sweep = pair_of_arms(tmp_path / "night", range(2))
    assert "<dt>Training</dt>" not in render(analysed(str(sweep)))
    (sweep / "sweep.json").write_text(json.dumps({"command": "python -m grpo_runner -m seed=0,1 'x=<b>'"}))
    assert "<dt>Training</dt><dd><code>python -m grpo_runner -m seed=0,1 &#x27;x=&lt;b&gt;&#x27;</code>" in render(
        analysed(str(sweep))
    )


# --- what a phone and a sorted table show


def test_differences_sort_in_one_unit_and_shown_comes_before_them(both):
    analysis = analysed(str(both))
    text = tables.effects(analysis)
    heads = re.findall(r"<th scope=\"col\"[^>]*><button[^>]*>(.*?)</button>", text)
    assert heads[:3] == ["measure", "shown", "difference [95 %]"]
    (effect,) = [one for one in analysis.effects if one.measure.key == "length/wrong"]
    spread = np.std([20.0 + seed for seed in effect.seeds], ddof=1)  # of GRPO's runs, by made_runs
    (row,) = [row for row in text.split("<tr>") if "length of wrong" in row]
    keys = [float(key) for key in re.findall(r'data-key="(.*?)"', row)]
    assert keys[1] == pytest.approx(effect.mean / spread)
    # accuracies differ in no pair, so that there is nothing to sort by, and they are figures all the same
    assert re.search(r'<th scope="col" class="n"><button type="button">difference', text)
    assert "<button" not in tables.measures(analysis)  # points, nats and seconds in a column


def test_the_name_of_a_run_is_broken_at_its_commas():
    row = markup.table("runs", "", ["run", "x"], [[markup.Cell("a=1,b=2"), markup.Cell("c,d")]])
    assert '<th scope="row">a=1,<wbr>b=2</th><td>c,d</td>' in row


def test_the_text_of_a_question_is_said_to_be_the_greedy_answer():
    fate = Fate("q", "1", (1.0, 0.0), (("2", False), ("1", True)))
    said = _fate(fate, ("GRPO", "Dr. GRPO"))
    assert "right in 100 % of sampled answers; the greedy answer <span class" in said
