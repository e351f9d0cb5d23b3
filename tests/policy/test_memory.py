"""Memory that is left, within a container or a job."""

from __future__ import annotations

import torch

from grpo_runner.policy.memory import cgroup_rooms, forget_peak, free_memory, machine_room, peak


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


def test_cached_files_of_the_groups_within_an_older_one(tmp_path):
    """A limit on the job, the process in its step: the job's usage counts the step, its own `inactive_file` does not."""
    group(tmp_path / "fs/memory/job", 1, limit=4000, used=4000, stat="inactive_file 0\ntotal_inactive_file 3000")
    assert rooms(tmp_path, "4:memory:/job/step\n") == [3000]


def test_odd_files(tmp_path):
    group(tmp_path / "fs/a:b", limit=1000, used=100, stat="a b c\ninactive_file")
    assert rooms(tmp_path, "\n0::/a:b\nodd\n") == [900]
    (tmp_path / "fs/a:b/memory.stat").unlink()
    assert rooms(tmp_path, "0::/a:b\n") == [900]
    (tmp_path / "own").write_bytes(b"0::/\xff\n")
    assert list(cgroup_rooms(tmp_path / "own", tmp_path / "fs")) == []


def test_what_the_machine_has_left(tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal:  900 kB\nMemFree:  10 kB\nMemAvailable:  700 kB\n")
    assert machine_room(tmp_path / "meminfo") == 700 * 1024  # not what is free alone
    assert 2**20 < machine_room(tmp_path / "nothing") < 2**50


def test_a_machine_without_any(tmp_path):
    assert rooms(tmp_path, "0::/\n") == []  # no folder
    assert list(cgroup_rooms(tmp_path / "nothing")) == []
    assert 2**20 < free_memory(torch.device("cpu")) < 2**50


def test_the_least_room_counts(tmp_path, monkeypatch):
    monkeypatch.setattr("grpo_runner.policy.memory.cgroup_rooms", lambda: iter([12345, 2**60]))
    assert free_memory(torch.device("cpu")) == 12345


def test_the_peak_of_a_run_is_the_high_water_mark_since_it_began(tmp_path):
    told = tmp_path / "status"
    told.write_text("Name:\tpython\nVmPeak:\t9000 kB\nVmHWM:\t2000 kB\nVmRSS:\t1000 kB\n")
    assert peak(torch.device("cpu"), told) == 2.0  # 2,000 KiB: 2.048 MB, to a tenth
    forget_peak(torch.device("cpu"), tmp_path / "cleared")
    assert (tmp_path / "cleared").read_text() == "5"
    assert peak(torch.device("cpu"), tmp_path / "none") is None
    forget_peak(torch.device("cpu"), tmp_path / "no" / "cleared")  # a system without it
