"""What is waited for is said where it takes long, and only there."""

from __future__ import annotations

import threading

import pytest

from grpo_runner.config import compose
from grpo_runner.data import table
from grpo_runner.waiting import waiting


def test_it_is_said_once_where_it_takes_longer(capsys):
    before = threading.active_count()
    with waiting("the hub", soon=0):
        while not (said := capsys.readouterr().err):
            pass
    assert said == "waiting for the hub\n" and capsys.readouterr().err == ""
    with waiting("the hub", soon=1000):
        pass
    with pytest.raises(KeyboardInterrupt), waiting("the hub", soon=1000):
        raise KeyboardInterrupt
    assert capsys.readouterr().err == ""
    assert threading.active_count() <= before + 2  # what was cancelled goes


def test_the_hub_is_named_with_the_set_and_its_key(monkeypatch):
    datasets, named = pytest.importorskip("datasets"), []

    def load(*words, **options):
        raise ConnectionError("no network")

    def noted(what):
        named.append(what)
        return waiting(what)

    source = compose(["data=hub", "data.train.hub_id=somebody/set", "data.eval.hub_id=somebody/set"]).data.train
    monkeypatch.setattr(datasets, "load_dataset", load)
    monkeypatch.setattr(table, "waiting", noted)
    with pytest.raises(table.InputError):
        table.read(source, "data.train", {})
    assert named == ['"somebody/set" (default, split train) of the Hugging Face hub (data.train.hub_id)']
