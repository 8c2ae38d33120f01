"""Processes end with their parent, however it ends."""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fairlead.executors import executor as executor_module
from fairlead.executors.executor import Processes, WorkerDiedError, do_in_order

# Of two workers, the second one has the ends of the first one's pipe, too.
WORKERS = 2


@pytest.fixture(autouse=True)
def without_mechanisms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the mechanisms that other tests have added."""
    monkeypatch.setattr(Processes, "needs_fork", False)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Path]:
    """A folder in which each worker leaves a file named by its number; none is left running."""
    folder = tmp_path / "started"
    folder.mkdir()
    yield folder
    for path in folder.iterdir():
        with suppress(ProcessLookupError):
            os.kill(int(path.name), signal.SIGKILL)


def arrive(started: Path) -> None:
    """Report that this worker runs, and wait until all do."""
    (started / str(os.getpid())).touch()
    while len(list(started.iterdir())) < WORKERS:
        time.sleep(0.005)


def kill_parent_and_answer(started: Path) -> bytes:
    """Return more than a pipe takes."""
    arrive(started)
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(0.05)
    return bytes(2_000_000)


def kill_parent_and_go_on(started: Path) -> None:
    """Compute for ever."""
    arrive(started)
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)


def answer_first_or_go_on(started: Path) -> None:
    """Return in one worker, and compute for ever in the other."""
    arrive(started)
    if os.getpid() != min(int(path.name) for path in started.iterdir()):
        time.sleep(600)


def be_killed(started: Path) -> None:
    """End without an answer, as the kernel ends what takes too much memory."""
    arrive(started)
    os.kill(os.getpid(), signal.SIGKILL)


def do_all(work: Callable[[Path], object], started: Path) -> None:
    Processes(WORKERS).do_all(work, [started] * WORKERS, lambda *_: None)


@pytest.mark.parametrize("work", [kill_parent_and_answer, kill_parent_and_go_on])
def test_no_worker_outlives_a_parent_that_is_killed(
    work: Callable[[Path], object], started: Path
) -> None:
    """Running processes keep this test's pipe open: it ends with the last of them."""
    ended, running = os.pipe()
    parent = multiprocessing.get_context("fork").Process(target=do_all, args=(work, started))
    parent.start()
    os.close(running)
    parent.join(10)
    assert parent.exitcode == -signal.SIGKILL
    readable, _, _ = select.select([ended], [], [], 5)
    os.close(ended)
    assert len(list(started.iterdir())) == WORKERS
    assert readable, "a worker still runs"


def test_it_is_said_which_job_killed_its_worker(started: Path) -> None:
    with pytest.raises(WorkerDiedError, match=r"ended without an answer \(exit code -9") as caught:
        do_all(be_killed, started)
    assert caught.value.number in range(WORKERS)


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_who_is_interrupted_ends_all_workers(started: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        Processes(WORKERS).do_all(answer_first_or_go_on, [started] * WORKERS, interrupt)
    assert not multiprocessing.active_children()


def square_and_report(number: int, report: Callable[..., None] | None = None) -> int:
    """Report twice; the second comes too soon after the first, but is heard in this process."""
    for part in (1, 2) if report is not None else ():
        report(part, number)
    return number**2


@pytest.mark.parametrize(
    ("jobs", "count"), [([], 2), ([5], 2), (list(range(20)), 1), (list(range(20)), 7)]
)
def test_each_job_is_done_once(jobs: list[int], count: int) -> None:
    found: list[tuple[int, int]] = []
    heard: list[tuple[int, ...]] = []
    Processes(count).do_all(square_and_report, jobs, lambda *answer: found.append(answer))
    assert sorted(found) == [(k, job**2) for k, job in enumerate(jobs)]
    found.clear()
    Processes(count).do_all(
        square_and_report,
        jobs,
        lambda *answer: found.append(answer),
        lambda *report: heard.append(report),
    )
    assert sorted(found) == [(k, job**2) for k, job in enumerate(jobs)]
    assert {(number, 1, jobs[number]) for number in range(min(len(jobs), count))} <= set(heard)
    assert all(jobs[number] == job for number, _, job in heard)


def wait_longer_first(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def test_answers_are_handed_over_in_order() -> None:
    jobs: list[float] = [0.3, 0.0, 0.1, 0.0]
    found: list[float] = []
    do_in_order(Processes(3), wait_longer_first, jobs, found.append)
    assert found == jobs


INTERRUPTED_AT_BIRTH = """
import os, signal
from fairlead.executors.executor import Processes

signal.signal(signal.SIGINT, signal.default_int_handler)
os.register_at_fork(after_in_child=lambda: signal.raise_signal(signal.SIGINT))
found = []
Processes(2).do_all(abs, [-1, -2], lambda *answer: found.append(answer))
assert len(found) == 2
"""


def test_a_new_worker_leaves_interruptions_to_its_parent() -> None:
    """Every process of a terminal gets Ctrl-C, also before it could ignore it."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT_BIRTH],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("forks", [True, False])
def test_without_forks_jobs_that_no_other_process_can_load_run_here(
    monkeypatch: pytest.MonkeyPatch, forks: bool
) -> None:
    """A function in a function, one of any module, and one beside mechanisms that were added."""
    monkeypatch.setattr(executor_module, "FORKS", forks)
    ran: list[int] = []
    for work, is_added in ((lambda _: os.getpid(), False), (process_of, False), (process_of, True)):
        monkeypatch.setattr(Processes, "needs_fork", is_added)
        found: set[int] = set()
        Processes(2).do_all(work, [1, 2], lambda _, process, into=found: into.add(process))
        ran.append(os.getpid() in found)
    assert ran == [not forks, False, not forks]


def process_of(_: int) -> int:
    return os.getpid()
