"""CONTRIBUTING promises that a new advantage variant is one function (and its name in schema.py and conf/)."""

from __future__ import annotations

import copy
import json

from grpo_runner import compose, run
from grpo_runner.algorithm import BASELINES


def test_a_new_baseline_runs_from_its_method_line_to_its_picture(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(BASELINES, "median", lambda rewards_QG: rewards_QG.median(dim=1, keepdim=True).values)
    config = compose(["debug=cpu_smoke", "tracking=off", "data.train_size=16", "data.eval_size=8"])
    advantage = copy.copy(config.advantage)
    object.__setattr__(advantage, "baseline", "median")  # its name in schema.py would allow this
    for name, value in {"advantage": advantage, "run_dir": str(tmp_path / "run")}.items():
        object.__setattr__(config, name, value)
    assert run(config).method.startswith("baseline median and scale group_std")
    assert {"DONE", "weights.png", "adapter"} <= {file.name for file in (tmp_path / "run").iterdir()}
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert len(rows) == 2 and "median" in capsys.readouterr().out
