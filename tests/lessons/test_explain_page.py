"""The page of a step: what it shows, where it is written, and that no text of a model or a file gets out of its place."""

from __future__ import annotations

import os
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from grpo_runner.errors import InputError
from grpo_runner.lessons import explain, page
from grpo_runner.lessons.show import clean
from grpo_runner.lessons.step import read
from grpo_runner.lessons.step_table import blocks
from tests.lessons.folders import ROWS, answer, has, printed, recorded, with_tokens

TAGS = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "b", "code", "section", "div", "table"}
TAGS |= {"tr", "th", "td", "span"}
EVIL = (
    "</span><script>alert(1)</script><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)" x="',
    "' style='position:fixed' ",
    "-->\u202egnp.exe\u2066\u200b\x1b[2J\x00\u2028\ud800",
    "&lt;b&gt; &amp; &#x3c;",
    "</title></style><base href=//evil>",
    "\n",
    "",
    "∇ 数 \t",
)


class Reader(HTMLParser):
    """Tags and attributes as a browser takes them, and the text and title of each token."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.spans: list[list[str]] = []  # [text, title, class] of each span in an answer
        self.rows: list[str] = []
        self._answer = self._span = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append((tag, found))
        if tag == "p":
            self._answer = found.get("class") == "a"
        elif tag == "span" and self._answer:
            self.spans.append(["", found.get("title", ""), found.get("class", "")])
            self._span = True
        elif tag == "tr":
            self.rows.append("")

    def handle_endtag(self, tag):
        self._span = self._span and tag != "span"

    def handle_data(self, data):
        if self._span:
            self.spans[-1][0] += data
        elif self.rows and self.tags[-1][0] in ("th", "td"):
            self.rows[-1] = " ".join([*self.rows[-1].split(), *data.split()])


def made(folder: Path, *words: str) -> Reader:
    """The page that `explain` writes for step 4."""
    file = folder / "page.html"
    printed(str(folder), "--step", "4", "--all", "--html", str(file), *words)
    return Reader(file.read_text(encoding="utf-8"))


def test_a_span_a_token_with_its_figures(folder):
    found = made(folder(rows=recorded()))
    assert [text for text, *_ in found.spans[:5]] == ["a", " b", "<eos>", "c", "<eos>"]
    assert [shade for *_, shade in found.spans] == ["u20", "c", "d10", "d5", "d5", "", "", "", ""]
    # GRPO over 4 answers and 3 tokens: A 1, a token 1/12
    first, second = found.spans[0][1].split("\n"), found.spans[1][1].split("\n")
    assert first[:3] == ["“a”", "coefficient +0.2", "weight before clip and KL +0.08333"]
    assert first[3:] == ["ratio 1", "KL 0.25 (+0.01 of the coefficient)"]
    assert second[1] == "coefficient 0" and second[3] == "ratio 1.5" and second[-1] == "clipped"
    assert "KL" not in found.spans[3][1].replace("clip and KL", "") and "not computed" in found.spans[-1][1]


def test_the_table_is_the_screens(folder):
    """The figures of one answer under GRPO, Dr. GRPO and leave-one-out, by hand: 1/12, ½/128, 1/128 with L = 32."""
    found = made(folder(rows=recorded()))
    rows = found.rows
    assert rows[0] == "GRPO = this run Dr. GRPO RLOO as trained"
    assert rows[1].startswith("answer reward tokens A a token A a token A a token ratio, mean (range)")
    assert rows[2] == "1 1 3 +1.0000 +0.0833 +0.5000 +0.00391 +1.0000 +0.25 1 (0.5–1.5) -0.01 1"
    screen = printed(str(folder(rows=recorded())), "--step", "4", "--all", width=200)
    assert all(has(screen, row) for row in rows if row[:1].isdecimal()) and len(rows) == 8


def test_a_run_of_before_has_a_span_an_answer_by_its_weight(folder):
    found = made(folder(rows=ROWS))
    assert [(text, shade) for text, _, shade in found.spans] == [
        ("text 0.0", "u20"), ("text 0.1", "d5"), ("text 1.0", ""), ("text 1.1", ""),
    ]  # fmt: skip
    assert "as trained" not in " ".join(found.rows)
    assert made(folder(rows=[{**row, "completion": ""} for row in ROWS])).spans[0][0] == "(no text)"


def test_excluded_answers_are_said_to_be_so(folder):
    rows = [*recorded()[:2], with_tokens(answer(1, 0, None, 2), ["d", "<eos>"], None, included=False), recorded()[3]]
    path = folder(rows=rows)
    found = made(path)
    assert "1 - 2 excluded - excluded - excluded - - - -" in found.rows
    assert "excluded: no reward" in (path / "page.html").read_text() and ("tr", {"class": "x"}) in found.tags


def hostile(folder) -> Path:
    evil = "".join(EVIL)
    others = dict.fromkeys(("question_id", "question", "status", "gold"), evil)
    rows = [
        with_tokens(answer(0, sample, sample, 1), EVIL, [0.1] * len(EVIL) if sample else None) | others
        for sample in (0, 1)
    ]
    return folder(rows=rows)


def test_no_text_gets_out_of_its_place(folder):
    path = hostile(folder)
    found = made(path)
    assert {tag for tag, _ in found.tags} == TAGS
    names = {name for _, attributes in found.tags for name in attributes}
    assert names == {"lang", "charset", "name", "content", "http-equiv", "class", "colspan", "title"}
    assert [text for text, *_ in found.spans] == [clean(text) for text in EVIL] * 2
    for text, title, _ in found.spans:
        assert title.startswith("“" + text.replace("\n", "\\n").replace("\t", "\\t") + "”\n")
    raw = (path / "page.html").read_text(encoding="utf-8")
    assert not set(raw) & set("\u202e\u2066\u200b\x1b\x00\u2028\ud800") and "\\u202egnp.exe" in raw


def test_a_page_that_does_not_escape_is_seen(folder, monkeypatch):
    """Negative control."""
    monkeypatch.setattr(page, "_safe", clean)
    found = made(hostile(folder))
    assert {"script", "img"} <= {tag for tag, _ in found.tags}
    assert "onmouseover" in {name for _, attributes in found.tags for name in attributes}


def test_nothing_is_fetched_and_nothing_runs(folder):
    path = folder(rows=recorded())
    found = made(path)
    policy = [tag["content"] for _, tag in found.tags if tag.get("http-equiv") == "Content-Security-Policy"]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]
    text = (path / "page.html").read_text()
    assert not re.search(r"https?:|//|url\(|@import|<script|<link|javascript:", text.replace(str(path), ""))
    assert "prefers-color-scheme:dark" in text and '<meta charset="utf-8">' in text


def test_the_page_is_in_the_runs_folder_and_the_last_line_says_so(folder):
    path = folder(rows=recorded())
    text = printed(str(path), "--step", "4", "--all", width=40)
    file = path / "explain" / "step_000004.html"
    assert text.splitlines()[-1] == f"page: {file} ({file.stat().st_size / 1000:,.0f} kB)"
    assert f"python -m grpo_runner explain {path} --step 4</code>" in file.read_text()
    before = file.read_bytes()
    printed(str(path), "--step", "4", "--question", "q1")
    one = (path / "explain" / "step_000004_slot_000001.html").read_text()
    assert "question q1" in one and "question q0" not in one and "--question q1</code>" in one
    assert file.read_bytes() == before  # the page of all questions stays
    assert len(list((path / "explain").iterdir())) == 2


def test_a_folder_that_cannot_be_written_to_is_a_note(folder):
    path = folder(rows=recorded())
    (path / "explain").write_text("a file in its place")
    text = printed(str(path), "--step", "4", "--all")
    last = text.splitlines()[-1]
    assert last.startswith(f"no page: {path / 'explain'}: cannot be written") and "--html FILE" in last
    assert "answer 2, wrong" in text


def test_a_file_that_was_named_and_cannot_be_written_is_an_error(folder):
    path = folder(rows=recorded())
    for place in (path, path / "nowhere" / "page.html", path / ("x" * 300)):
        with pytest.raises(InputError, match="--html .*not a place|cannot be written") as error:
            explain([str(path), "--step", "4", "--all", "--html", str(place)])
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="no question"):
        explain([str(path), "--step", "4", "--question", "q9"])
    assert not (path / "explain").exists()


def test_only_a_file_is_replaced(folder, tmp_path):
    path = folder(rows=recorded())
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to_pipe").symlink_to(tmp_path / "pipe")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    # never a real device here: code without the check would replace it for the whole machine
    for place in (tmp_path / "pipe", tmp_path / "to_pipe", tmp_path / "circle"):
        with pytest.raises(InputError, match=f"--html {place}: what is there is no file") as error:
            explain([str(path), "--step", "4", "--all", "--html", str(place)])
        assert "\n" not in str(error.value)
    assert (tmp_path / "pipe").is_fifo() and (tmp_path / "to_pipe").is_symlink()


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_followed(folder, tmp_path, there):
    path, real, link = folder(rows=recorded()), tmp_path / "elsewhere" / "real.html", tmp_path / "link.html"
    real.parent.mkdir()
    if there:
        real.write_text("before")
    link.symlink_to(real)
    text = printed(str(path), "--step", "4", "--all", "--html", str(link))
    assert link.is_symlink() and not real.is_symlink() and "<h1>step 4" in real.read_text()
    assert text.splitlines()[-1].startswith(f"page: {link} (")


def test_the_widest_table_fits_a_window_of_1200_pixels(folder):
    """Four objectives with small weights, and ranges of ratios; measured in DejaVu Sans, which is wider than most."""
    from matplotlib import get_data_path
    from PIL import ImageFont

    texts = ["t"] * 40
    trained = {"ratio": [0.873456 + i / 110 for i in range(40)], "kl_coefficient": [-1.23456e-07] * 40}
    rows = [
        with_tokens(answer(0, sample, 1 / 3 if sample % 2 else 1, 40), texts, [-1.2e-05] * 40, **trained)
        for sample in range(8)
    ]
    path = folder(rows=rows, overrides=["loss_norm=token_mean", "max_new_tokens=2000"])
    made(path)
    css = page.CSS
    size, padding = (16 * float(re.search(rule, css)[1]) for rule in (r"table\{.*font-size:([.\d]+)rem",
                                                                       r"th,td\{.*padding:[.\d]+rem ([.\d]+)rem"))  # fmt: skip
    font = ImageFont.truetype(f"{get_data_path()}/fonts/ttf/DejaVuSans.ttf", size)
    parts = blocks(read(path, 4), 0)
    columns = [cells for part in parts for cells in zip(part.names, *part.cells, strict=True)]
    assert len(columns) == 14
    width = sum(max(font.getlength(cell) for cell in cells) + 2 * padding + 1 for cells in columns)
    assert width < 1200 - 15 - 2 * 24  # the scroll bar, and the page's padding


def test_a_step_of_8_questions_with_8_answers_of_30_tokens_is_small(folder):
    texts = [" twelve"] * 29 + ["<|endoftext|>"]
    long = {"ratio": [1.0012345] * 30, "kl": [1.23456e-05] * 30, "kl_coefficient": [-1.23456e-05] * 30}
    rows = [
        with_tokens(answer(slot, sample, sample % 2, 30), texts, [-1.23456e-05] * 30, clipped=[True] * 30, **long)
        for slot in range(8)
        for sample in range(8)
    ]
    path = folder(rows=rows)
    assert len(made(path).spans) == 8 * 8 * 30
    assert (path / "page.html").stat().st_size < 600_000
