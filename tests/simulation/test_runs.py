"""Several policies over one workload: in processes, kept in a folder, interrupted and resumed."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fairlead.errors import FairleadError, InputError, ProblemError, RefusalError
from fairlead.executors.local_processes import Processes
from fairlead.formats.run_log_file import read_run_log
from fairlead.model.cluster import Cluster
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from fairlead.simulation import runs as run_processes
from fairlead.simulation._dedicated import dedicated_servers, replay_dedicated
from fairlead.simulation.planned_runs import PlannedRun
from fairlead.simulation.runs import FinishedRun, RunsInterrupted, run_policies
from fairlead.traces.what_if import change_workload
from oracles.plain_replay import plain_replay
from oracles.random_workloads import random_workload

POLICIES = ("drf/best-fit", "ps-dsf/joint", "tsf/rrr", "slots:8")


@pytest.fixture
def workload() -> Workload:
    return random_workload(1)


@pytest.fixture(autouse=True)
def plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_processes, "replay", plain_replay)


def same(one: RunLog, other: RunLog) -> bool:
    return one.policy == other.policy and all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("task", "server", "start", "end", "lost", "set_unplaceable")
    )


@pytest.mark.parametrize("processes", [1, 7])
def test_each_policy_decides_as_it_does_alone(workload: Workload, processes: int | None) -> None:
    seen: dict[str, list[tuple[int, int, float]]] = {}
    runs = run_policies(
        workload,
        POLICIES,
        executor=Processes(processes),
        seed=5,
        strict_fifo=True,
        on_progress=lambda name, *progress: seen.setdefault(name, []).append(progress),
    )
    assert list(runs) == list(POLICIES)
    assert set(seen) == set(POLICIES)
    for name, run in runs.items():
        assert (run.run.name, run.path, run.found) == (name, None, False)
        assert run.workload is workload
        assert len(run.log.task)
        assert same(run.log, plain_replay(workload, name, seed=5, strict_fifo=True))
        assert seen[name] == [
            (min(len(run.log.task), workload.n_tasks), workload.n_tasks, run.log.makespan),
            (workload.n_tasks, workload.n_tasks, run.log.makespan),
        ]


def test_what_if_and_dedicated_are_more_runs_of_the_first_policy(workload: Workload) -> None:
    changes = ["weight:u1=3", f"servers:{workload.cluster.groups[0]}+2"]
    runs = run_policies(workload, POLICIES[:2], what_if=changes, dedicated=True)
    assert list(runs) == [
        *POLICIES[:2],
        *(f"drf/best-fit, {change}" for change in changes),
        "drf/best-fit, dedicated",
    ]
    for change in changes:
        run, changed = runs[f"drf/best-fit, {change}"], change_workload(workload, change)
        assert run.workload.cluster.count.tolist() == changed.cluster.count.tolist()
        assert run.workload.weight.tolist() == changed.weight.tolist()
        assert same(run.log, plain_replay(changed, "drf/best-fit"))
    alone = runs["drf/best-fit, dedicated"]
    assert alone.workload is workload
    assert same(alone.log, replay_dedicated(workload, "drf/best-fit", plain_replay))


@given(
    users=st.integers(1, 6),
    servers=st.integers(1, 6),
    small=st.integers(0, 6),
    large=st.integers(0, 6),
    giant=st.integers(0, 3),
)
@settings(max_examples=6)
def test_dedicated_servers_too_few_for_most_tasks_are_reported(
    users: int, servers: int, small: int, large: int, giant: int
) -> None:
    """Half of the users have a server too few, or a gang needs more than are theirs."""
    assume(small + large)
    gangs = [(1, small), (servers, large), (servers + 1, giant)]
    sets = [(user, size) for size, times in gangs for user in [*range(users)] * times]
    tasks = np.array([size for _, size in sets])
    crowded = Workload.from_arrays(
        Cluster(("all",), ("cpu",), np.ones((1, 1)), np.array([servers]), ("",), ({},)),
        [f"u{n}" for n in range(users)],
        job_user=[user for user, _ in sets],
        job_submit=np.zeros(len(sets)),
        job_gang=np.ones(len(sets), dtype=bool),
        set_job=np.arange(len(sets)),
        set_tasks=tasks,
        shapes=np.ones((len(sets), 1)),
        task_duration=np.ones(tasks.sum()),
    )
    own = np.bincount(dedicated_servers(crowded), minlength=users)
    lost = sum(size for user, size in sets if own[user] < size <= servers)
    fit = int(tasks[tasks <= servers].sum())
    with patch("fairlead.simulation.runs._LOGGER") as logger:
        run_policies(crowded, ["drf/first-fit"], executor=Processes(1), dedicated=True)
    assert [call.args[0] % call.args[1:] for call in logger.warning.call_args_list] == (
        [
            f"drf/first-fit, dedicated: {lost:,} of {fit:,} tasks fit on no server that their user "
            f"has alone ({users} users divide {servers} servers): dedicated servers are a poor "
            "baseline here"
        ]
        if 2 * lost > fit
        else []
    )


def kept(runs: dict[str, FinishedRun], folder: Path) -> list[str]:
    for run in runs.values():
        assert run.path is not None
        assert same(read_run_log(run.path), run.log)
    assert {run.path for run in runs.values()} <= set(folder.iterdir())
    return sorted(path.name for path in folder.iterdir())


def test_a_finished_run_is_not_repeated(
    workload: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, options = (
        tmp_path / "runs",
        {"seed": 3, "what_if": ["weight:u1=3"], "dedicated": True},
    )
    first = run_policies(workload, POLICIES, folder=folder, **options)
    names = kept(first, folder)
    assert names[:3] == ["drf_best-fit.parquet", "drf_best-fit_dedicated.parquet", names[2]]
    assert names[2].startswith("drf_best-fit_weight_u1=3_")
    assert names[3:] == ["ps-dsf_joint.parquet", "slots_8.parquet", "tsf_rrr.parquet"]
    user = pl.read_parquet(folder / "slots_8.parquet")["user"]
    assert set(user) <= set(workload.users)
    written = {path: path.stat().st_mtime_ns for path in folder.iterdir()}

    def never(*_: object, **__: object) -> RunLog:
        raise AssertionError

    found: list[tuple[str, Path]] = []
    with monkeypatch.context() as patch:
        patch.setattr(run_processes, "replay", never)
        again = run_policies(
            workload, POLICIES, folder=folder, on_found=lambda *f: found.append(f), **options
        )
    assert all(run.found for run in again.values())
    assert all(same(again[name].log, first[name].log) for name in first)
    assert found == [(name, run.path) for name, run in again.items()]
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == written
    # One more policy is all that then runs.
    more = run_policies(workload, [*POLICIES, "drf/first-fit"], folder=folder, **options)
    assert [name for name, run in more.items() if not run.found] == ["drf/first-fit"]


def test_other_sources_workload_seed_or_options_are_another_run(
    workload: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "runs"

    def runs_again(of: Workload, **options: Any) -> bool:
        (run,) = run_policies(of, ["tsf/rrr"], folder=folder, **options).values()
        assert same(run.log, plain_replay(of, "tsf/rrr", **options))
        assert len(list(folder.iterdir())) == 1
        return not run.found

    assert runs_again(workload)
    assert not runs_again(workload)
    # After an edit of a policy its new results count, not the earlier ones.
    monkeypatch.setattr("fairlead.simulation.planned_runs.digest_of_sources", lambda: "edited")
    assert runs_again(workload)
    assert runs_again(workload, seed=1)
    assert not runs_again(workload, seed=1)


def test_other_files_in_the_folder_are_never_overwritten(
    workload: Workload, tmp_path: Path
) -> None:
    path = tmp_path / "drf_best-fit.parquet"
    path.write_text("mine")
    with pytest.raises(InputError, match=f"{path}: is not a Parquet file"):
        run_policies(workload, ["drf/best-fit"], folder=tmp_path)
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    ("folder", "said"),
    [("file", "is a file, not a folder"), ("no/where", "cannot be made: there is no folder")],
)
def test_folders_that_cannot_be_used(
    workload: Workload, tmp_path: Path, folder: str, said: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=said):
        run_policies(workload, ["drf/best-fit"], folder=tmp_path / folder)


def test_files_of_unlike_runs_have_unlike_names() -> None:
    folder = Path("runs")
    changes = ("weight:a/b=1", "weight:a_b=1", "weight:a:b=1", "weight:é=1", "weight:a\n=1")
    names = [PlannedRun("drf/best-fit", change).path(folder).name for change in changes]
    assert len(set(names)) == len(names)
    assert all(name.isascii() and name.isprintable() and "/" not in name for name in names)
    assert len(PlannedRun("drf/best-fit", f"weight:{'x' * 500}=1").path(folder).name) < 100


def refuse(*_: object, **__: object) -> RunLog:
    raise RefusalError("drf/best-fit", "not this")


def die(*_: object, **__: object) -> RunLog:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def break_down(*_: object, **__: object) -> RunLog:
    raise ZeroDivisionError("a fault of ours")


@pytest.mark.parametrize(
    ("replay", "kind", "said"),
    [
        (refuse, RefusalError, "^drf/best-fit: not this$"),
        (break_down, RuntimeError, "ZeroDivisionError: a fault of ours"),
    ],
)
def test_faults_of_a_process_arrive(
    workload: Workload,
    monkeypatch: pytest.MonkeyPatch,
    replay: Callable[..., RunLog],
    kind: type[Exception],
    said: str,
) -> None:
    monkeypatch.setattr(run_processes, "replay", replay)
    with pytest.raises(kind, match=said):
        run_policies(workload, ["drf/best-fit"], executor=Processes(2))


def test_a_full_disk_takes_nothing_from_what_was_found(
    workload: Workload,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    full_for = ("drf/best-fit", "slots:8")
    files = {PlannedRun(policy).path(tmp_path).name for policy in full_for}

    def write(path: Path, content: bytes) -> int:
        if any(name in path.name for name in files):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write_bytes(path, content)

    write_bytes = Path.write_bytes
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", write)
        runs = run_policies(workload, POLICIES, folder=tmp_path, executor=Processes(2))
    assert list(runs) == list(POLICIES)
    for name, run in runs.items():
        assert same(run.log, plain_replay(workload, name))
        assert (run.path is None) == (name in full_for)
    unkept = [message for message in caplog.messages if "not kept" in message]
    assert sorted(message.split()[0] for message in unkept) == list(full_for)
    assert all("no space left on device" in message for message in unkept)
    again = run_policies(workload, POLICIES, folder=tmp_path, executor=Processes(2))
    assert {name for name, run in again.items() if not run.found} == set(full_for)


def live_or_die(workload: Workload, policy: str, **options: Any) -> RunLog:
    """Answer under drf; else die, once the file is there that is to be kept before."""
    if policy.startswith("drf"):
        return plain_replay(workload, policy, **options)
    for _ in range(1000):
        if Path(os.environ["KEPT_BEFORE"]).exists():
            break
        time.sleep(0.005)
    return die()


@pytest.mark.parametrize(
    ("first", "said"),
    [("drf/best-fit", "1 of 2 runs are finished and kept"), ("slots:8", "none of 2 runs was")],
)
def test_who_hears_of_a_killed_process_hears_what_is_kept(
    workload: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, said: str
) -> None:
    folder = tmp_path / "runs"
    before = PlannedRun(first).path(folder) if first == "drf/best-fit" else tmp_path
    monkeypatch.setenv("KEPT_BEFORE", str(before))
    monkeypatch.setattr(run_processes, "replay", live_or_die)
    with pytest.raises(FairleadError, match=rf"or out of memory\?\); {said}"):
        run_policies(workload, [first, "slots:7"], folder=folder, executor=Processes(2))


def test_a_job_travels_whole_to_processes_that_are_not_forked(workload: Workload) -> None:
    job = run_processes.ReplayJob(PlannedRun("tsf/rrr"), workload, seed=5, strict_fifo=True)
    copy = pickle.loads(pickle.dumps(job))
    assert same(pickle.loads(pickle.dumps(copy.replay())), job.replay())


@pytest.mark.parametrize(
    "error",
    [InputError("fault", "place", "file"), ProblemError("f"), RefusalError("drf", "reason")],
)
def test_errors_travel_between_processes(error: FairleadError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert vars(copy) == vars(error)
    assert str(copy) == str(error)


def quick_or_endless(workload: Workload, policy: str, **options: Any) -> RunLog:
    if policy == "slots:8":
        Path(os.environ["STARTED"]).touch()
        time.sleep(600)
    return plain_replay(workload, policy, **options)


def test_an_interruption_leaves_what_is_finished(
    workload: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the end no process is left, and the next call does the rest."""
    folder, started = tmp_path / "runs", tmp_path / "started"
    monkeypatch.setenv("STARTED", str(started))
    monkeypatch.setattr(run_processes, "replay", quick_or_endless)
    # A shell may start background jobs with interruptions ignored.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupted_at = []

    def watch(name: str, *_: float) -> None:
        if name == "tsf/rrr" and not interrupted_at:
            interrupted_at.append(time.monotonic())
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        run_policies(
            workload,
            ["slots:8", "drf/best-fit", "ps-dsf/joint", "tsf/rrr"],
            folder=folder,
            executor=Processes(2),
            on_progress=watch,
        )
    signal.signal(signal.SIGINT, handler)
    assert time.monotonic() - interrupted_at[0] < 10
    error = caught.value
    assert isinstance(error, RunsInterrupted)
    assert (error.finished, error.runs, error.folder) == (
        ("drf/best-fit", "ps-dsf/joint"),
        4,
        folder,
    )
    assert str(error) == "2 of 4 runs are finished and kept"
    assert started.exists()
    assert multiprocessing.active_children() == []
    monkeypatch.setattr(run_processes, "replay", plain_replay)
    runs = run_policies(workload, POLICIES, folder=folder)
    assert [name for name, run in runs.items() if run.found] == ["drf/best-fit", "ps-dsf/joint"]
    assert len(kept(runs, folder)) == 4
