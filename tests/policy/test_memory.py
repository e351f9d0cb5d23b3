"""Memory that is left, within a container or a job."""

from __future__ import annotations

import torch

from grpo_runner.policy.memory import cgroup_rooms, free_memory


def group(folder, version=2, **values):
    names = {2: ("memory.max", "memory.current"), 1: ("memory.limit_in_bytes", "memory.usage_in_bytes")}[version]
    folder.mkdir(parents=True)
    for name, key in zip((*names, "memory.stat"), ("limit", "used", "stat"), strict=True):
        (folder / name).write_text(f"{values[key]}\n")


def rooms(tmp_path, own):
    (tmp_path / "own").write_text(own)
    return sorted(cgroup_rooms(tmp_path / "own", tmp_path / "fs"))


def test_the_limit_of_a_job_and_of_what_is_above_it(tmp_path):
    group(tmp_path / "fs/slurm", limit=5000, used=4000, stat="anon 3000\ninactive_file 500")
    group(tmp_path / "fs/slurm/job_7", limit="max", used=900, stat="inactive_file 1")
    group(tmp_path / "fs/slurm/job_7/step_0", limit=1000, used=900, stat="inactive_file 50")
    assert rooms(tmp_path, "0::/slurm/job_7/step_0\n") == [150, 1500]  # what is cached makes room
    group(tmp_path / "fs/full", limit=10, used=30, stat="inactive_file 0")
    assert rooms(tmp_path, "0::/full\n") == [0]


def test_the_older_control_groups(tmp_path):
    group(tmp_path / "fs/memory/docker/x", 1, limit=700, used=600, stat="inactive_file 0")
    assert rooms(tmp_path, "9:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n0::/\n") == [100]


def test_a_machine_without_any(tmp_path):
    assert rooms(tmp_path, "0::/\n") == []  # no folder
    assert list(cgroup_rooms(tmp_path / "nothing")) == []
    assert 2**20 < free_memory(torch.device("cpu")) < 2**50


def test_the_least_room_counts(tmp_path, monkeypatch):
    monkeypatch.setattr("grpo_runner.policy.memory.cgroup_rooms", lambda: iter([12345, 2**60]))
    assert free_memory(torch.device("cpu")) == 12345
