"""A run of DPO that is killed and typed again is the one that was not: the same pairs of the base, the same weights."""

import time

import pytest

from tests.crash.test_resume import finish, lines, results, start

DPO = ["method=dpo", "group_size=4", "optim.lr=0.003", "steps=6"]


@pytest.mark.slow
def test_dpo_killed_and_typed_again_equals_uninterrupted(tmp_path):
    finish(tmp_path / "whole", *DPO)
    folder = tmp_path / "run"
    process = start(folder, *DPO, "checkpoint.every=2")
    while lines(folder / "metrics.jsonl") < 3 and process.poll() is None:
        time.sleep(0.002)
    process.kill()
    process.wait()
    assert not (folder / "DONE").exists()
    finish(folder, *DPO, "checkpoint.every=2")
    assert results(folder) == results(tmp_path / "whole")
    assert (folder / "base_answers.parquet").read_bytes() == (tmp_path / "whole" / "base_answers.parquet").read_bytes()
    finish(tmp_path / "other", *DPO, "beta=0.3")  # negative control
    assert results(tmp_path / "other")["adapter"] != results(folder)["adapter"]
