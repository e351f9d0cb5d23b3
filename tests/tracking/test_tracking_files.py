"""metrics.jsonl, evals.jsonl and completions: order, resume rule, refusals, full disk."""

from __future__ import annotations

import dataclasses
import json
import re
import resource
from pathlib import Path

import numpy as np
import pytest
import zstandard

from grpo_runner.errors import InputError, MachineError, NonFiniteError
from grpo_runner.tracking import LocalTracker, Trackers, check_record, jsonl
from grpo_runner.tracking.local import wants_completions

pytestmark = pytest.mark.usefixtures("no_drawing")


def snapshot(config) -> dict[str, bytes]:
    """Every file of the run folder but those of W&B."""
    root = Path(config.run_dir)
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_keys_come_in_one_order_with_times_last_and_none_as_null(make_config, fake):
    config = make_config()
    tracker = LocalTracker()
    tracker.start(config, None)
    tracker.step(0, fake.metrics(0))
    shuffled = dict(reversed(fake.metrics(1).items()))
    tracker.step(1, shuffled)
    lines = (Path(config.run_dir) / "metrics.jsonl").read_text().splitlines()
    expected = ["step", "reward/mean", "reward/a", "reward/b", "accuracy", "tokens/sampled", "length/correct",
                "length/wrong", "kl", "zeta", "time/step_s"]  # fmt: skip
    assert [list(json.loads(line)) for line in lines] == [expected, expected]
    assert '"kl": null' in lines[0] and '"length/correct": null' in lines[0]


def test_new_keys_stand_in_order_and_the_probe_before_the_times(make_config):
    config = make_config()
    tracker = LocalTracker()
    tracker.start(config, None)
    expected = [
        "reward/mean", "error", "excluded", "unscored", "refills", "groups/kept", "kl", "ratio/mean", "importance/mean",
        "importance/capped", "mismatch", "weight/total", "weight/gini", "weight/top_tenth", "weight/gini_grpo",
        "weight/top_tenth_grpo", "weight/gini_dr_grpo", "weight/top_tenth_dr_grpo", "weight/gini_rloo",
        "weight/top_tenth_rloo", "zeta", "probe/cosine/grpo~dr_grpo", "probe/norm/grpo", "time/step_s",
    ]  # fmt: skip
    tracker.step(0, dict.fromkeys(sorted(expected), 1))
    line = (Path(config.run_dir) / "metrics.jsonl").read_text()
    assert list(json.loads(line)) == ["step", *expected]


def test_the_probe_s_rows_are_plain_numbers_with_nulls(make_config, fake):
    config = make_config()
    tracker = Trackers([LocalTracker()])
    tracker.start(config, None)
    row = fake.probe(3) | {"norm": {"grpo": np.float64(0.5), "dr_grpo": None}}
    tracker.probe(3, row)
    path = Path(config.run_dir) / "probe.jsonl"
    assert json.loads(path.read_text()) == row
    with pytest.raises(NonFiniteError, match=r"probe\.norm\.grpo at step 6 is nan"):
        tracker.probe(6, row | {"norm": {"grpo": float("nan")}})
    assert len(path.read_text().splitlines()) == 1


def test_the_page_links_to_files_that_are_there(make_config, fake):
    config = make_config()
    fake.drive(LocalTracker(), config, None, 2)
    root = Path(config.run_dir)
    links = re.findall(r'href="([^"]*)"', (root / "charts.html").read_text())
    assert links[:4] == ["questions.parquet", "metrics.jsonl", "evals.jsonl", "probe.jsonl"]
    assert links[4:] == ["progress.png", "weights.png", "weight_by_length.png", "cumulative_weight.png", "probe.png"]
    assert all((root / link).exists() for link in links)


def test_a_run_without_a_row_has_no_charts(make_config):
    config = make_config()
    tracker = LocalTracker()
    tracker.start(config, None)
    tracker.finish({"status": "failed"})
    assert not [path for path in Path(config.run_dir).iterdir() if path.suffix in (".png", ".html")]


def test_a_fresh_start_leaves_no_chart_of_the_run_before(make_config, fake):
    """Without a probe the new run draws no probe.png: the old one must not stay beside its charts."""
    config = make_config()
    fake.drive(LocalTracker(), config, None, 6)
    assert (Path(config.run_dir) / "probe.png").exists()
    LocalTracker().start(config, None)
    assert snapshot(config) == {"evals.jsonl": b"", "metrics.jsonl": b""}


def test_numpy_scalars_are_written_as_plain_numbers(make_config):
    config = make_config()
    tracker = LocalTracker()
    tracker.start(config, None)
    tracker.step(0, {"kl": np.float64(0.5), "truncated": np.int64(3), "lr": np.asarray(0.25)})
    assert (Path(config.run_dir) / "metrics.jsonl").read_text() == (
        '{"step": 0, "truncated": 3, "kl": 0.5, "lr": 0.25}\n'
    )


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), np.float32("nan")])
def test_a_number_that_is_not_finite_is_refused_and_never_written(make_config, fake, bad):
    config = make_config()
    tracker = LocalTracker()
    tracker.start(config, None)
    with pytest.raises(NonFiniteError, match="kl at step 3 is"):
        tracker.step(3, {"kl": bad})
    with pytest.raises(NonFiniteError, match="weight at step 3 is"):
        tracker.questions(3, [fake.questions(3)[0] | {"weight": bad}])
    assert not (Path(config.run_dir) / "metrics.jsonl").exists()
    assert not (Path(config.run_dir) / "questions.jsonl").exists()


@pytest.mark.parametrize("bad", [True, "0.5", [1.0]])
def test_a_metric_that_is_no_number_is_refused(make_config, bad):
    tracker = LocalTracker()
    tracker.start(make_config(), None)
    with pytest.raises(TypeError, match="kl at step 0"):
        tracker.step(0, {"kl": bad})


@pytest.mark.parametrize("killed_at, resumed_at", [(4, 4), (5, 3), (1, 0), (3, 1), (6, 6)])
def test_a_resumed_run_leaves_the_bytes_of_an_uninterrupted_one(make_config, fake, killed_at, resumed_at):
    whole, broken = make_config("whole"), make_config("broken")
    fake.drive(LocalTracker(), whole, None, 6)
    fake.drive(LocalTracker(), broken, None, killed_at, finish=None)
    root = Path(broken.run_dir)
    for name in ("metrics.jsonl", "evals.jsonl", "questions.jsonl", "probe.jsonl"):  # killed in the middle of a line
        with open(root / name, "ab") as file:
            file.write(b'{"step": 2, "acc')
    fake.drive(LocalTracker(), broken, resumed_at, 6)
    assert snapshot(broken) == snapshot(whole)
    assert set(snapshot(whole)) == {
        "metrics.jsonl", "evals.jsonl", "questions.parquet", "probe.jsonl", "completions/step_000000.jsonl.zst",
        "completions/step_000002.jsonl.zst", "completions/step_000004.jsonl.zst", "progress.png", "weights.png",
        "weight_by_length.png", "cumulative_weight.png", "probe.png", "charts.html",
    }  # fmt: skip


def test_control_without_the_drop_rule_the_files_differ(make_config, fake, monkeypatch):
    whole, broken = make_config("whole"), make_config("broken")
    fake.drive(LocalTracker(), whole, None, 6)
    fake.drive(LocalTracker(), broken, None, 5, finish=None)
    monkeypatch.setattr(jsonl, "keep_before", lambda path, step: None)
    fake.drive(LocalTracker(), broken, 3, 6)
    changed = {name for name, data in snapshot(whole).items() if snapshot(broken)[name] != data}
    assert changed == {"metrics.jsonl", "evals.jsonl", "probe.jsonl", "progress.png", "probe.png", "charts.html"}


def test_a_fresh_start_in_a_used_folder_keeps_nothing_of_the_old_run(make_config, fake):
    config, other = make_config(), make_config("other")
    fake.drive(LocalTracker(), config, None, 6)
    fake.drive(LocalTracker(), config, None, 2)
    fake.drive(LocalTracker(), other, None, 2)
    assert snapshot(config) == snapshot(other)


def test_a_line_spoilt_in_the_middle_is_named(make_config, fake):
    config = make_config()
    fake.drive(LocalTracker(), config, None, 3, finish=None)
    path = Path(config.run_dir) / "metrics.jsonl"
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], b"oops", *lines[2:]]))
    with pytest.raises(InputError, match=r"metrics\.jsonl, line 2 is not a row") as raised:
        LocalTracker().start(config, 3)
    assert str(raised.value).count("\n") < 3


def without(path: Path, *lines: int) -> None:
    """The file without these lines, counted from 0."""
    kept = [line for place, line in enumerate(path.read_bytes().splitlines(keepends=True)) if place not in lines]
    path.write_bytes(b"".join(kept))


def spoilt(path: Path, line: int, by: bytes = b"oops") -> None:
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*lines[:line], by, *lines[line + 1 :]]))


def refused(config, first: int) -> str:
    """What check_record says, as `start` does; neither changes a byte."""
    before = snapshot(config)
    with pytest.raises(InputError) as raised:
        check_record(config, first)
    with pytest.raises(InputError) as again:
        LocalTracker().start(config, first)
    message = str(raised.value)
    assert str(again.value) == message and 1 < len(message.splitlines()) <= 3 and "the file back" in message
    assert snapshot(config) == before
    return message


def six_steps(make_config, fake, finish=None):
    """Steps 0 to 5 with a probe at 0 and 3, its figures in metrics.jsonl as the loop writes them."""
    config, tracker = make_config(), LocalTracker()
    given = tracker.step
    tracker.step = lambda step, row: given(step, row | ({"probe/norm/grpo": None} if step % 3 == 0 else {}))
    fake.drive(tracker, config, None, 6, finish=finish)
    return config, Path(config.run_dir)


@pytest.mark.parametrize("finish", [None, "failed"])
@pytest.mark.parametrize("first", [0, 1, 5, 6])
def test_a_whole_record_is_found_to_be_so_and_not_touched(make_config, fake, first, finish):
    config, _ = six_steps(make_config, fake, finish)
    before = snapshot(config)
    check_record(config, first)
    assert snapshot(config) == before


@pytest.mark.parametrize(
    "name, line", [("metrics.jsonl", 4), ("questions.jsonl", 9), ("evals.jsonl", 1), ("probe.jsonl", 1)]
)
@pytest.mark.parametrize("by", [b"oops", b'{"step": 1}', b'{"step": "1"}', b"{}"])
def test_a_broken_line_is_found_before_anything_is_changed(make_config, fake, name, line, by):
    config, root = six_steps(make_config, fake)
    spoilt(root / name, line, by)
    if by == b'{"step": 1}' and name in ("metrics.jsonl", "evals.jsonl"):  # a row, and the one that it replaced is lost
        assert re.search(
            rf"{name} holds 5 of the 6|{name}, step 2: the evaluation|{name}, step 1: the figures", refused(config, 6)
        )
    else:
        assert f"{name}, line {line + 1} is not a row" in refused(config, 6)
    LocalTracker().start(config, None)  # begins anew, and needs nothing of it


@pytest.mark.parametrize("row", [
    {"cosine": [1]}, {"cosine": {"a~b": "1"}}, {"cosine": {}, "groups": 3}, {"cosine": {}, "groups": [1]},
    {"cosine": {}, "groups": [{"cosine": 1}]}, {"cosine": {}, "groups": [{"success_rate": "1"}]},
])  # fmt: skip
def test_a_row_that_the_picture_of_the_probe_cannot_take_is_named(make_config, fake, row):
    config, root = six_steps(make_config, fake)
    spoilt(root / "probe.jsonl", 0, json.dumps({"step": 0} | row).encode())
    assert "probe.jsonl, line 1 is not a row" in refused(config, 6)


@pytest.mark.parametrize("name, lines, said", [
    ("metrics.jsonl", [2], "metrics.jsonl holds 5 of the 6 steps that were made: the record of step 2 is lost"),
    ("metrics.jsonl", range(6), "metrics.jsonl holds 0 of the 6 steps that were made: the record of step 0 and others is"),
    ("questions.jsonl", range(4, 8), "questions.jsonl holds 5 of the 6 steps"),
    ("questions.jsonl", [4], "questions.jsonl, step 1: slot 0 of its questions is lost"),
    ("questions.jsonl", [6], "questions.jsonl, step 1: slot 2 of its questions is lost"),
    ("questions.jsonl", [23], "questions.jsonl, step 5: slot 3 of its questions is lost"),
    ("probe.jsonl", [1], "probe.jsonl, step 3: the probe that metrics.jsonl has figures of is lost"),
    ("evals.jsonl", [1], "evals.jsonl, step 2: the evaluation"),
])  # fmt: skip
def test_lost_rows_are_named(make_config, fake, name, lines, said):
    config, root = six_steps(make_config, fake)
    without(root / name, *lines)
    assert said in refused(config, 6)


@pytest.mark.parametrize("name", ["metrics.jsonl", "questions.jsonl", "probe.jsonl", "evals.jsonl"])
def test_lost_files_are_named_and_what_comes_after_the_checkpoint_may_be_lost(make_config, fake, name):
    config, root = six_steps(make_config, fake)
    without(root / "metrics.jsonl", 5)
    without(root / "questions.jsonl", 20, 21)
    check_record(config, 5)
    (root / name).unlink()
    assert name.split(".")[0] in refused(config, 5)


def test_further_questions_of_a_step_are_in_order_and_a_gap_among_them_is_seen(make_config, fake):
    """Dynamic sampling: a step has more rows than questions_per_step."""
    config, tracker = make_config(), LocalTracker()
    tracker.start(config, None)
    tracker.evaluation(0, fake.evaluation(0))
    tracker.questions(0, fake.questions(0, 7))
    tracker.step(0, fake.metrics(0))
    check_record(config, 1)
    without(Path(config.run_dir) / "questions.jsonl", 5)
    assert "step 0: slot 5 of its questions is lost" in refused(config, 1)


def test_a_probe_that_was_switched_on_later_lacks_nothing(make_config, fake):
    config = make_config()
    tracker = LocalTracker()
    tracker.start(config, None)
    for step in range(6):
        if step % 2 == 0:
            tracker.evaluation(step, fake.evaluation(step))
        tracker.questions(step, fake.questions(step))
        if step == 4:
            tracker.probe(step, fake.probe(step))
        tracker.step(step, fake.metrics(step) | ({"probe/norm/grpo": 1.0} if step == 4 else {}))
    probing = dataclasses.replace(config, tracking=dataclasses.replace(config.tracking, probe_every=2))
    check_record(probing, 6)
    (Path(config.run_dir) / "probe.jsonl").unlink()
    check_record(probing, 4)
    assert "probe.jsonl, step 4" in refused(probing, 6)


def test_a_run_without_evaluations_lacks_none(make_config, fake):
    config, root = six_steps(make_config, fake)
    (root / "evals.jsonl").unlink()
    check_record(dataclasses.replace(config, evaluation=dataclasses.replace(config.evaluation, every=0)), 6)


def test_completions_of_every_nth_step_are_read_back(make_config, fake):
    config = make_config()
    fake.drive(LocalTracker(), config, None, 4)
    packed = (Path(config.run_dir) / "completions" / "step_000002.jsonl.zst").read_bytes()
    assert json.loads(zstandard.decompress(packed)) == {"slot": 0, "text": "answer 2 é"}
    assert [step for step in range(5) if wants_completions(config, step)] == [0, 2, 4]


def test_completions_every_0_keeps_none(make_config, fake):
    from dataclasses import replace

    config = make_config()
    config = replace(config, tracking=replace(config.tracking, completions_every=0))
    fake.drive(LocalTracker(), config, None, 3)
    assert not (Path(config.run_dir) / "completions").exists()
    assert not wants_completions(config, 0)


def test_a_lone_surrogate_does_not_stop_a_run(make_config, fake):
    config = make_config()
    tracker = LocalTracker()
    tracker.start(config, None)
    tracker.questions(0, [fake.questions(0)[1] | {"question": "a\ud800b\u2028c"}])
    tracker.finish({})
    from grpo_runner.tracking import read_questions

    assert read_questions(config.run_dir)["question"].to_pylist() == ["a?b\u2028c"]


@pytest.mark.parametrize("call", ["step", "questions", "completions", "finish"])
def test_a_full_disk_is_one_short_sentence_and_loses_no_row(make_config, fake, call):
    config = make_config()
    tracker = LocalTracker()
    fake.drive(tracker, config, None, 2, finish=None)
    kept = (Path(config.run_dir) / "metrics.jsonl").read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))  # bytes a file: a write past it fails
    try:
        with pytest.raises(MachineError) as raised:
            {
                "step": lambda: tracker.step(2, fake.metrics(2)),
                "questions": lambda: tracker.questions(2, fake.questions(2)),
                "completions": lambda: tracker.completions(2, [{"text": "x"}]),
                "finish": lambda: tracker.finish({}),
            }[call]()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    message = str(raised.value)
    assert config.run_dir in message and "cannot be written" in message and "kept" in message
    assert len(message.splitlines()) <= 3
    # the disk is mended: the run goes on from its checkpoint as if nothing had been
    assert (Path(config.run_dir) / "metrics.jsonl").read_bytes().startswith(kept)
    whole = make_config("whole")
    fake.drive(LocalTracker(), whole, None, 6)
    fake.drive(LocalTracker(), config, 2, 6)
    assert snapshot(config) == snapshot(whole)


def test_a_path_that_cannot_be_written_is_a_machine_error(make_config, fake):
    config = make_config()
    tracker = LocalTracker()
    tracker.start(config, None)
    (Path(config.run_dir) / "metrics.jsonl").mkdir()
    with pytest.raises(MachineError, match=r"metrics\.jsonl"):
        tracker.step(0, fake.metrics(0))
    (Path(config.run_dir).parent / "file").touch()
    with pytest.raises(MachineError, match="cannot be written"):
        LocalTracker().start(make_config("file/run"), None)


def test_every_tracker_is_finished_even_when_one_fails():
    from grpo_runner.tracking import Tracker

    seen = []

    class Bad(Tracker):
        def finish(self, summary):
            raise MachineError("no")

    class Good(Tracker):
        def finish(self, summary):
            seen.append(summary["status"])

    with pytest.raises(MachineError, match="no"):
        Trackers([Bad(), Good()]).finish({"status": "done"})
    assert seen == ["done"]
