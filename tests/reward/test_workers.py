"""Grading in processes: order, laziness, deadlines, memory, the death of a child, of the process and of the parent."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from grpo_runner.errors import MachineError
from grpo_runner.reward import Grader, Policy, check, workers
from grpo_runner.types import Status

SYMBOLIC = [
    (r"\boxed{\sqrt{8}}", r"2\sqrt2"),
    (r"\boxed{x+1}", "x+2"),
    (r"\boxed{(x+1)^2}", "x^2+2x+1"),
    (r"\boxed{\frac{\sqrt{6}}{2}}", r"\sqrt{\frac{3}{2}}"),
]
MIXED = [(r"\boxed{5}", "5"), *SYMBOLIC, ("no idea", "5"), (r"\boxed{6}", "5"), (r"\boxed{9^{9^{9}}}", r"\sqrt2")]

# The grading process with rows that do what no known answer does any more: 1 sleeps, 2 is one endless call into C that
# keeps Python's lock, 3 crashes, 4 takes 300 MiB, 5 writes to standard output, 6 cannot be interrupted. No other row.
BEHAVED = r"""
import json, os, signal, sys, time
from grpo_runner.reward import worker
check = sys.modules["grpo_runner.reward.check"]
real = check.decide_with_algebra
def decide(answers, golds, policy):
    kind = answers[0].removeprefix("z+")[:1]
    if kind == "1": time.sleep(1000)
    if kind == "2": 7 ** (7 ** 11)
    if kind == "3": os.kill(os.getpid(), signal.SIGSEGV)
    if kind == "4": bytes(300 << 20)
    if kind == "5": print("not a reply", flush=True)
    if kind == "6":
        while True:
            try: time.sleep(1000)
            except BaseException: pass
    return real(answers, golds, policy)
check.decide_with_algebra = decide
if __name__ == "__main__": worker.main(float(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]))
"""
SLEEPS, HANGS, CRASHES, GROWS, PRINTS, IGNORES = ((rf"\boxed{{z+{n}0}}", "z+7") for n in range(1, 7))


def behaved(workers: int = 1, deadline_s: float = 20.0, memory_bytes: int = 1 << 30) -> Grader:
    grader = Grader(workers, deadline_s, memory_bytes=memory_bytes)
    grader._process.command[2:4] = ["-c", BEHAVED]
    return grader


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(workers=2, deadline_s=20.0) as grader:
        yield grader


def gone(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:  # a zombie is gone too, its parent has only not asked yet
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def all_gone(pids: list[int], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not all(map(gone, pids)):
        time.sleep(0.05)
    return bool(pids) and all(map(gone, pids))


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def tree(grader: Grader) -> list[int]:
    """The grading process and its children."""
    assert grader._process.running is not None
    pid = grader._process.running.pid
    return [pid, *children(pid)]


def statuses(grader: Grader, *rows: tuple[str, str]) -> list[str]:
    grader._cache.clear()
    return [verdict.status.value for verdict in grader.grade(rows)]


def test_exact_rows_start_no_worker() -> None:
    grader = Grader(workers=2)
    verdicts = grader.grade([(rf"\boxed{{{n}}}", str(n + n % 2)) for n in range(200)] + [(r"\boxed{0.5}", r"\frac12")])
    assert [verdict.correct for verdict in verdicts] == [n % 2 == 0 for n in range(200)] + [True]
    assert grader._process.running is None


def test_the_same_verdicts_as_the_pure_function_in_order(grader: Grader) -> None:
    verdicts = grader.grade(MIXED)
    assert [(v.status, v.extracted, v.rule) for v in verdicts] == [
        (v.status, v.extracted, v.rule) for v in (check(*pair) for pair in MIXED)
    ]
    assert [v.status.value for v in verdicts] == [
        "correct", "correct", "wrong", "correct", "correct", "no_answer", "wrong", "wrong",
    ]  # fmt: skip


def test_PB061_the_same_batch_twice_has_the_same_verdicts() -> None:
    batch = (SLEEPS, SYMBOLIC[0], CRASHES, HANGS, SYMBOLIC[1], IGNORES, PRINTS, SYMBOLIC[2])
    wanted = ["timeout", "correct", "error", "timeout", "wrong", "timeout", "wrong", "correct"]
    with behaved(workers=2, deadline_s=2.0) as grader:
        assert statuses(grader, *batch) == wanted
        assert statuses(grader, *reversed(batch)) == wanted[::-1]


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


def test_waves_of_hostile_rows_run_side_by_side() -> None:
    rows = [(rf"\boxed{{z+1{n}}}", "z+7") for n in range(12)]
    with behaved(workers=4, deadline_s=1.0) as grader:
        statuses(grader, SYMBOLIC[0])
        since = time.monotonic()
        assert statuses(grader, *rows) == ["timeout"] * 12
        # one after another would take 12 s; the start of a process for each, which nothing here does, as long again
        assert time.monotonic() - since < (1.0 + 1.0) * 3 + 4


def test_what_a_row_does_to_its_process_ends_with_it() -> None:
    with behaved(memory_bytes=256 << 20) as grader:
        verdicts = grader.grade([GROWS, SYMBOLIC[0], CRASHES, SYMBOLIC[2], PRINTS])
        assert [v.status.value for v in verdicts] == ["error", "correct", "error", "correct", "wrong"]
        assert [v.rule for v in verdicts if v.status is Status.ERROR] == ["error: MemoryError", workers.ENDED]
    with behaved(memory_bytes=1 << 30) as grader:  # negative control: it is the limit that refuses row 4
        assert statuses(grader, GROWS, SYMBOLIC[0]) == ["wrong", "correct"]


def test_a_limit_that_nothing_fits_into_is_told() -> None:
    with pytest.raises(MachineError, match="cannot start: MemoryError.*\n.*40 MiB") as raised:
        Grader(memory_bytes=40 << 20).grade(SYMBOLIC)
    assert len(str(raised.value).splitlines()) <= 5


def test_a_process_that_cannot_be_started_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    grader = Grader()
    grader._process.command[1:] = ["-c", "raise SystemExit(1)"]
    with pytest.raises(MachineError, match="cannot be kept running"):
        grader.grade(SYMBOLIC)


def test_a_killed_process_is_replaced_and_no_row_is_lost(grader: Grader) -> None:
    wanted = ["correct", "wrong", "correct", "correct"]
    assert statuses(grader, *SYMBOLIC) == wanted
    for which in (0, 1):  # all of it, and then a child that is idle
        victim = tree(grader)[which]
        os.kill(victim, signal.SIGKILL)
        assert all_gone([victim])
        assert statuses(grader, *SYMBOLIC) == wanted


def test_a_process_killed_at_work_costs_no_honest_row() -> None:
    with behaved(workers=2, deadline_s=3.0) as grader:
        statuses(grader, SYMBOLIC[0])
        first = tree(grader)[0]
        threading.Timer(1.0, os.kill, (first, signal.SIGKILL)).start()
        assert statuses(grader, SLEEPS, *SYMBOLIC) == ["timeout", "correct", "wrong", "correct", "correct"]
        assert tree(grader)[0] != first


def test_a_stopped_process_ends_as_a_timeout() -> None:
    with Grader(deadline_s=1.0) as grader:
        before = statuses(grader, SYMBOLIC[0]), tree(grader)
        assert before[0] == ["correct"]  # negative control: the row itself is soon done
        os.kill(before[1][1], signal.SIGSTOP)
        assert statuses(grader, SYMBOLIC[0], (r"\boxed{5}", "5")) == ["timeout", "correct"]
        assert all_gone(before[1][1:])
        os.kill(before[1][0], signal.SIGSTOP)  # now the process that keeps the deadlines: the row is tried again
        assert statuses(grader, SYMBOLIC[0]) == ["correct"]
        assert all_gone(before[1])


def test_many_deaths_leave_no_descriptor_and_no_zombie() -> None:
    crashes = [(rf"\boxed{{z+3{n}}}", "z+7") for n in range(50)]
    with behaved(workers=2) as grader:
        statuses(grader, *SYMBOLIC, CRASHES)
        process = tree(grader)[0]
        before = [len(os.listdir(f"/proc/{pid}/fd")) for pid in ("self", process)]
        assert statuses(grader, *crashes) == ["error"] * 50
        assert statuses(grader, *SYMBOLIC) == ["correct", "wrong", "correct", "correct"]
        after = [len(os.listdir(f"/proc/{pid}/fd")) for pid in ("self", process)]
        assert tree(grader)[0] == process and len(tree(grader)) <= 3 and not any(map(gone, tree(grader)))
        assert after[0] == before[0] and after[1] <= before[1] + 2  # two pipe ends for a second child
        for _ in range(3):  # and of the process itself
            grader.close()
            statuses(grader, SYMBOLIC[0])
        assert len(os.listdir("/proc/self/fd")) == before[0]


def test_a_dropped_grader_leaves_no_process() -> None:
    grader = Grader()
    statuses(grader, SYMBOLIC[0])
    pids = tree(grader)
    del grader
    gc.collect()
    assert all_gone(pids)


START = r"""
import os, signal, sys, threading, time
from grpo_runner.reward import Grader
grader = Grader(workers=2, deadline_s=60.0)
if len(sys.argv) > 1: grader._process.command[2:4] = ["-c", sys.argv[1]]
def tree():
    pid = grader._process.running.pid
    return [pid, *map(int, open(f"/proc/{pid}/task/{pid}/children").read().split())]
def grade(answer, gold): return grader.grade([(f"\\boxed{{{answer}}}", gold)])[0].correct
def work():  # a thread of a program whose __main__ may have no file and no guard
    assert grade(r"\sqrt{8}", r"2\sqrt2")
def at_work(answer):
    work()
    threading.Thread(target=grade, args=(answer, "z+7"), daemon=True).start()
    time.sleep(1)
thread = threading.Thread(target=work); thread.start(); thread.join()
"""


def program(body: str, *how: str) -> tuple[list[int], str]:
    """Run START and `body` as a program from standard input: the pids that it says first, and the rest it says."""
    source = START + textwrap.dedent(body)
    if "-i" in how:
        source = f"exec({source!r})\n"
    done = subprocess.run(
        [sys.executable, *(how or ("-",)), BEHAVED], input=source, capture_output=True, text=True, timeout=300
    )
    first, _, rest = done.stdout.partition("\n")
    return [int(pid) for pid in first.split()], rest + done.stderr


KILL_SELF = "; os.kill(os.getpid(), signal.SIGKILL)\n"


@pytest.mark.parametrize(
    "body",
    [
        "print(*tree(), flush=True)" + KILL_SELF,
        "at_work('z+10'); print(*tree(), flush=True)" + KILL_SELF,
        "at_work('z+20'); print(*tree(), flush=True)" + KILL_SELF,
        "at_work('z+60'); print(*tree(), flush=True)" + KILL_SELF,
        # while another program that the parent forked still holds its pipes open
        "print(*tree(), flush=True)\nif os.fork() == 0: os.closerange(0, 3); time.sleep(20); os._exit(0)\nos.kill(os.getpid(), signal.SIGKILL)\n",
        "print(*tree(), flush=True)\n",
        "print(*tree(), flush=True); sys.exit(3)\n",
        "print(*tree(), flush=True); raise KeyboardInterrupt\n",
        "at_work('z+10'); print(*tree(), flush=True); os.kill(os.getpid(), signal.SIGTERM)\n",
    ],
    ids=["killed idle", "killed at work", "killed in C", "killed, row ignores all", "killed, pipes held", "ends", "exits", "raises", "terminated"],
)  # fmt: skip
def test_no_process_outlives_its_parent(body: str) -> None:
    pids, said = program(body)
    assert len(pids) >= 2, said
    assert all_gone(pids)


def test_a_parent_that_is_stopped_and_then_killed_leaves_no_process() -> None:
    command = [sys.executable, "-", BEHAVED]
    parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdin is not None and parent.stdout is not None
    parent.stdin.write(START + "at_work('z+20'); print(*tree(), flush=True); time.sleep(600)\n")
    parent.stdin.close()
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) >= 2
    parent.send_signal(signal.SIGSTOP)
    time.sleep(0.5)
    assert not any(map(gone, pids))  # a stopped parent may go on again
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert all_gone(pids)


def test_works_in_an_interactive_program_and_never_loads_torch() -> None:
    pids, said = program(
        r"""
        print(*tree(), flush=True)
        print(*("libtorch" in open(f"/proc/{pid}/maps").read() for pid in tree()), flush=True)
        exit()
        """,
        "-i",
        "-",
    )
    assert "True" not in said and "False False" in said, said
    assert all_gone(pids)


def test_after_a_fork_each_side_has_processes_of_its_own() -> None:
    pids, said = program(
        r"""
        mine = tree()
        print(*mine, flush=True)
        grader._lock().acquire()  # as if another thread were in the middle of a batch
        child = os.fork()
        if child == 0:
            right = grade(r"\sqrt{12}", r"2\sqrt3")
            theirs = tree()
            print("child", right, set(theirs) & set(mine), grader._process.owner == os.getpid(), flush=True)
            sys.exit(0)  # runs what stands at the end of a program, which must not end the parent's processes
        os.waitpid(child, 0)
        grader._lock().release()
        print("parent", grade(r"\sqrt{18}", r"3\sqrt2"), tree()[:1] == mine[:1], flush=True)
        """
    )
    assert said.splitlines() == ["child True set() True", "parent True True"]
    assert all_gone(pids)


POOLED = r"""
import multiprocessing, sys
from grpo_runner.reward import Grader
def right(n):
    with Grader() as grader:
        return grader.grade([(f"\\boxed{{\\sqrt{{{2 * n * n}}}}}", f"{n}\\sqrt2")])[0].correct
if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        print(pool.map(right, [2, 3, 4]))
"""


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_works_in_the_children_of_multiprocessing(method: str, tmp_path: Path) -> None:
    (tmp_path / "pooled.py").write_text(POOLED)
    command = [sys.executable, str(tmp_path / "pooled.py"), method]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout == "[True, True, True]\n", done.stderr


@pytest.mark.slow
def test_works_under_pytest_xdist(tmp_path: Path) -> None:
    (tmp_path / "test_graded.py").write_text(
        "import pytest\nfrom grpo_runner.reward import Grader\n"
        "grader = Grader(workers=2)\n"  # never closed
        "@pytest.mark.parametrize('n', [2, 3, 4, 5])\n"
        "def test_right(n):\n"
        "    assert grader.grade([(f'\\\\boxed{{\\\\sqrt{{{2 * n * n}}}}}', f'{n}\\\\sqrt2')])[0].correct\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert "4 passed" in done.stdout, done.stdout + done.stderr


def test_an_interrupted_batch_is_forgotten() -> None:
    with behaved(deadline_s=60.0) as grader:
        statuses(grader, SYMBOLIC[0])
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            statuses(grader, SLEEPS, *SYMBOLIC)
        assert statuses(grader, *SYMBOLIC) == ["correct", "wrong", "correct", "correct"]


def test_the_cache_is_bounded_and_says_what_a_fresh_verdict_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "CACHE_ROWS", 10)
    monkeypatch.setattr(workers, "CACHE_TEXT", 100)
    with Grader(workers=2, deadline_s=20.0) as grader:
        fresh = grader.grade([*SYMBOLIC, (r"\boxed{12}", "13")])
        again = grader.grade([*SYMBOLIC, (r"\boxed{12}", "13")])
        assert again == fresh and all(a is b for a, b in zip(again, fresh, strict=True))
        for n in range(30):
            grader.grade([(rf"\boxed{{{n}}}", str(n)), (rf"\boxed{{{n}}}", str(n + 1))])
            assert len(grader._cache) <= 10
        grader.grade([(r"\boxed{" + "1" * 101 + "}", "1"), (r"\boxed{1}", "1" * 101)])
        assert max(len(a) + len(g) for (a,), (g,) in grader._cache) <= 100
        assert grader.grade(SYMBOLIC) != [] and len(grader._cache) <= 10


def test_timeouts_and_errors_are_not_remembered() -> None:
    with behaved(deadline_s=1.0) as grader:
        assert [v.status.value for v in grader.grade([SLEEPS, CRASHES, SYMBOLIC[0]])] == ["timeout", "error", "correct"]
        assert [key[0] for key in grader._cache] == [(r"\sqrt{8}",)]


def test_golds_may_be_a_list_or_a_number_and_none_at_all_is_an_error(grader: Grader) -> None:
    several = [["7", r"2\sqrt2"], ("7", r"2\sqrt2"), [], [5], 5]
    verdicts = grader.grade([(r"\boxed{\sqrt8}", gold) for gold in several])  # type: ignore[misc]
    assert [v.status.value for v in verdicts] == ["correct", "correct", "error", "wrong", "wrong"]


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="box_or_marker, box, answer_tag"):
        Policy(extract="any_number")
