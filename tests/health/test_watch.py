"""`Watched`: what it logs, tells and stops for, whole and after any interruption."""

from __future__ import annotations

import json

import pytest

from grpo_runner.config import compose
from grpo_runner.health import RULES, Watched, firing
from grpo_runner.tracking import Tracker
from tests.health.test_rules import series, then
from tests.helpers import changed

# truncation from step 19 on, to fall at 45; a KL that runs away at 30
ROWS = series(60, truncated=lambda step: 0.5 if step < 40 else 0.1, kl=then(30, 0.02, 3.0))
TRUNCATED, AWAY = range(19, 42), range(34, 60)


class Notes(Tracker):
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.rows: list[dict] = []
        self.alerts: list[tuple[int, str, str]] = []

    def step(self, step, metrics):
        self.rows.append({"step": step, **metrics})

    def alert(self, step, rule, text):
        assert not self.rows or self.rows[-1]["step"] == step  # the step is recorded before it is spoken of
        self.alerts.append((step, rule, text))


@pytest.fixture
def go(tmp_path):
    def go(first: int, stop: int, stop_on=()):
        """Steps first to stop, after those before were logged; gives the notes and what watched."""
        notes = Notes()
        watched = Watched([notes], stop_on)
        watched.start(changed(compose(), run_dir=str(tmp_path)), first or None)
        for row in ROWS[first:stop]:
            watched.step(row["step"], {key: value for key, value in row.items() if key != "step"})
        return notes, watched

    return go


def test_each_step_is_logged_with_all_rules_and_a_rule_is_told_once(go):
    notes, watched = go(0, 60)
    for step, row in enumerate(notes.rows):
        assert {key: value for key, value in row.items() if not key.startswith("health/")} == ROWS[step]
        assert {key for key in row if key.startswith("health/")} == {f"health/{name}" for name in RULES}
        expected = {"truncation": step in TRUNCATED, "kl_runaway": step in AWAY}
        assert {name: row[f"health/{name}"] for name in RULES} == {name: int(expected.get(name, 0)) for name in RULES}
        assert all(type(row[f"health/{name}"]) is int for name in RULES)
    assert [alert[:2] for alert in notes.alerts] == [(19, "truncation"), (34, "kl_runaway")]
    assert watched.first == {"truncation": 19, "kl_runaway": 34}
    text = notes.alerts[0][2]
    assert text.startswith("50 % of the answers") and "To try: a larger max_new_tokens" in text
    assert watched.stopping == {}  # nobody asked


@pytest.mark.parametrize("first", [1, 18, 19, 20, 33, 34, 35, 42, 59])
def test_interrupted_anywhere_it_logs_and_tells_the_same(go, tmp_path, first):
    whole, watched = go(0, 60)
    before, _ = go(0, first)
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in before.rows))
    after, resumed = go(first, 60)
    assert before.rows + after.rows == whole.rows
    assert resumed.first == watched.first
    # what was told before comes again at the start, with its step, for those who keep no record of it
    assert after.alerts == whole.alerts
    assert before.alerts + [alert for alert in after.alerts if alert[0] >= first] == whole.alerts


def test_a_record_from_before_there_were_rules_is_looked_at_too(go, tmp_path):
    whole, _ = go(0, 60)
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS[:30]))
    after, _ = go(30, 60)
    assert after.rows == whole.rows[30:] and after.alerts == whole.alerts


def test_it_asks_to_stop_where_a_named_rule_holds_and_only_there(go):
    stops = []
    for stop in (19, 20, 42, 43, 60):
        _, watched = go(0, stop, ("truncation",))
        stops.append(set(watched.stopping))
    assert stops == [set(), {"truncation"}, {"truncation"}, set(), set()]
    _, watched = go(0, 60, ("grader", "kl_runaway"))
    assert list(watched.stopping) == ["kl_runaway"] and "3 nats a token" in watched.stopping["kl_runaway"]


def test_a_start_asks_to_stop_where_the_last_step_did(go, tmp_path):
    """A run that was ended by a rule, or killed before it could end, is typed again: it makes no step more."""
    notes, _ = go(0, 30, ("truncation",))
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in notes.rows))
    assert set(go(30, 30, ("truncation",))[1].stopping) == {"truncation"}
    assert go(30, 30, ("grader",))[1].stopping == {} == go(30, 30)[1].stopping


def test_the_series_is_what_was_meant():
    assert [step for step in range(60) if "truncation" in firing(ROWS[: step + 1])] == list(TRUNCATED)
    assert [step for step in range(60) if "kl_runaway" in firing(ROWS[: step + 1])] == list(AWAY)
