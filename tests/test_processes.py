"""Processes end with the one that started them, however that ends."""

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

import numpy as np
import pytest

from fairlead.errors import FairleadError
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from fairlead.properties import survey
from fairlead.simulation import run_processes
from fairlead.simulation.runs import run_policies
from oracles.random_workloads import random_workload

# Of two workers, the second one has the ends of the first one's pipe, too.
WORKERS = 2


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
    """Say that this worker runs, and wait until all do."""
    (started / str(os.getpid())).touch()
    while len(list(started.iterdir())) < WORKERS:
        time.sleep(0.005)


def kill_parent_and_answer(started: Path) -> RunLog:
    """Return more than a pipe takes."""
    arrive(started)
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(0.05)
    many = np.zeros(200_000)
    whole = many.astype(np.int32)
    return RunLog("drf/best-fit", whole, whole, many, many, many > 0, np.zeros(1, dtype=bool))


def kill_parent_and_go_on(started: Path) -> RunLog:
    """Compute for ever."""
    arrive(started)
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)
    raise AssertionError


def answer_first_or_go_on(started: Path) -> None:
    """Return in one worker, and compute for ever in the other."""
    arrive(started)
    if os.getpid() != min(int(path.name) for path in started.iterdir()):
        time.sleep(600)


def be_killed(started: Path) -> None:
    """End without an answer, as the kernel ends what takes too much memory."""
    arrive(started)
    os.kill(os.getpid(), signal.SIGKILL)


def simulate(work: Callable[[Path], RunLog], started: Path) -> None:
    def replay(_workload: Workload, _policy: str, **_: object) -> RunLog:
        return work(started)

    run_processes.replay = replay  # type: ignore[assignment]
    run_processes.compile_for = lambda _jobs: None  # type: ignore[assignment]
    run_policies(random_workload(1), ["drf/best-fit", "slots:8"], processes=WORKERS)


def audit(work: Callable[[Path], RunLog], started: Path) -> None:
    with survey._workers(WORKERS) as each:
        list(each(work, [started] * WORKERS))


@pytest.mark.parametrize("command", [simulate, audit])
@pytest.mark.parametrize("work", [kill_parent_and_answer, kill_parent_and_go_on])
def test_no_worker_outlives_a_parent_that_is_killed(
    command: Callable[..., None], work: Callable[[Path], RunLog], started: Path
) -> None:
    """Whoever runs has this test's pipe open: it ends when the last of them has ended."""
    ended, running = os.pipe()
    parent = multiprocessing.get_context("fork").Process(target=command, args=(work, started))
    parent.start()
    os.close(running)
    parent.join(10)
    assert parent.exitcode == -signal.SIGKILL
    readable, _, _ = select.select([ended], [], [], 5)
    os.close(ended)
    assert len(list(started.iterdir())) == WORKERS
    assert readable, "a worker still runs"


def test_an_audit_says_that_a_worker_was_killed(started: Path) -> None:
    with pytest.raises(FairleadError, match="ended without an answer"):
        audit(be_killed, started)


def test_an_interrupted_audit_ends_its_workers(started: Path) -> None:
    def interrupted() -> None:
        with survey._workers(WORKERS) as each:
            next(each(answer_first_or_go_on, [started] * WORKERS))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not multiprocessing.active_children()


INTERRUPTED_AT_BIRTH = """
import os, signal, sys
import fairlead.simulation.run_processes as run_processes
from fairlead.properties import survey
from fairlead.simulation.runs import run_policies
from oracles.plain_replay import plain_replay
from oracles.random_workloads import random_workload

signal.signal(signal.SIGINT, signal.default_int_handler)
run_processes.replay = plain_replay
run_processes.compile_for = lambda _jobs: None
os.register_at_fork(after_in_child=lambda: signal.raise_signal(signal.SIGINT))
if sys.argv[1] == "simulate":
    found = run_policies(random_workload(1), ["drf/best-fit", "tsf/rrr"], processes=2)
else:
    with survey._workers(2) as each:
        found = list(each(abs, [-1, -2]))
assert len(found) == 2
"""


@pytest.mark.parametrize("command", ["simulate", "audit"])
def test_a_worker_that_is_just_born_leaves_interruptions_to_its_parent(command: str) -> None:
    """Every process of a terminal hears of Ctrl-C, also before it could say that it will not."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT_BIRTH, command],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
