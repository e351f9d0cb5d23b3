"""Grading in processes: order, laziness, deadlines, death of a worker and of the parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator

import pytest

from grpo_runner.reward import Grader, Policy, check
from grpo_runner.types import Status

SYMBOLIC = [
    (r"\boxed{\sqrt{8}}", r"2\sqrt2"),
    (r"\boxed{x+1}", "x+2"),
    (r"\boxed{(x+1)^2}", "x^2+2x+1"),
    (r"\boxed{\frac{\sqrt{6}}{2}}", r"\sqrt{\frac{3}{2}}"),
]
MIXED = [(r"\boxed{5}", "5"), *SYMBOLIC, ("no idea", "5"), (r"\boxed{6}", "5"), (r"\boxed{9^{9^{9}}}", r"\sqrt2")]


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(workers=2, deadline_s=20.0) as grader:
        yield grader


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    with open(f"/proc/{pid}/stat") as stat:  # a zombie is gone too, its parent has only not asked yet
        return stat.read().rpartition(")")[2].split()[0] == "Z"


def wait_until_gone(pid: int, seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not gone(pid):
        time.sleep(0.05)
    return gone(pid)


def test_exact_rows_start_no_worker() -> None:
    grader = Grader(workers=2)
    verdicts = grader.grade([(rf"\boxed{{{n}}}", str(n + n % 2)) for n in range(200)] + [(r"\boxed{0.5}", r"\frac12")])
    assert [verdict.correct for verdict in verdicts] == [n % 2 == 0 for n in range(200)] + [True]
    assert not grader._workers


def test_the_same_verdicts_as_the_pure_function_in_order(grader: Grader) -> None:
    verdicts = grader.grade(MIXED)
    assert [(v.status, v.extracted, v.rule) for v in verdicts] == [
        (v.status, v.extracted, v.rule) for v in (check(*pair) for pair in MIXED)
    ]
    assert [v.status.value for v in verdicts] == [
        "correct", "correct", "wrong", "correct", "correct", "no_answer", "wrong", "wrong",
    ]  # fmt: skip


def test_PB061_the_same_batch_twice_has_the_same_verdicts(grader: Grader) -> None:
    first = grader.grade(MIXED)
    grader._cache.clear()
    assert [v.status for v in grader.grade(MIXED)] == [v.status for v in first]
    assert not [v for v in first if v.status is Status.TIMEOUT]


def test_PB059_usable_from_threads_at_once(grader: Grader) -> None:
    grader._cache.clear()
    results: dict[int, list[bool]] = {}
    threads = [
        threading.Thread(target=lambda i=i: results.update({i: [v.correct for v in grader.grade(SYMBOLIC)]}))
        for i in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(results.values()) == [[True, False, True, True]] * 3


def test_a_killed_worker_is_replaced_and_the_batch_is_graded(grader: Grader) -> None:
    grader.grade(SYMBOLIC)
    grader._cache.clear()
    for worker in grader._workers:
        worker.process.send_signal(signal.SIGKILL)
        worker.process.wait()
    verdicts = grader.grade([*SYMBOLIC, *SYMBOLIC])
    assert [v.correct for v in verdicts] == [True, False, True, True] * 2


def test_a_row_past_its_deadline_is_a_timeout_and_its_worker_is_killed() -> None:
    with Grader(workers=1, deadline_s=20.0) as grader:
        assert grader.grade(SYMBOLIC[:1])[0].correct  # negative control: the row itself is soon done
        grader._cache.clear()
        before = [worker.process.pid for worker in grader._workers]
        for pid in before:
            os.kill(pid, signal.SIGSTOP)  # a worker that answers nothing, however fast the machine is
        grader.deadline_s = 0.5
        verdicts = grader.grade([SYMBOLIC[0], (r"\boxed{5}", "5")])
        grader.deadline_s = 20.0
        assert [v.status for v in verdicts] == [Status.TIMEOUT, Status.CORRECT]
        assert all(wait_until_gone(pid) for pid in before)
        assert grader.grade(SYMBOLIC[:1])[0].correct  # a timeout is not remembered as an answer


def test_workers_never_load_torch_and_end_with_a_killed_parent() -> None:
    script = textwrap.dedent(r"""
        import os, signal, sys, threading
        from grpo_runner.reward import Grader
        grader = Grader(workers=1, deadline_s=60.0)
        def work():  # a thread of a program whose __main__ has no file and no guard
            assert grader.grade([(r"\boxed{\sqrt{8}}", r"2\sqrt2")])[0].correct
        thread = threading.Thread(target=work); thread.start(); thread.join()
        pid = grader._workers[0].process.pid
        maps = open(f"/proc/{pid}/maps").read() if os.path.exists("/proc") else ""
        print(pid, "libtorch" in maps, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    done = subprocess.run([sys.executable, "-"], input=script, capture_output=True, text=True)
    pid, torch_loaded = done.stdout.split()
    assert torch_loaded == "False"
    assert wait_until_gone(int(pid))


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="box_or_marker, box, answer_tag"):
        Policy(extract="any_number")
