"""Several policies over one workload: planned, in processes, kept, interrupted and resumed."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fairlead.errors import FairleadError, InputError, RefusalError
from fairlead.executors.executor import Processes
from fairlead.formats.run_log_file import read_run_log
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from fairlead.simulation import runs as run_processes
from fairlead.simulation._dedicated import replay_dedicated
from fairlead.simulation.planned_runs import PlannedRun, plan_runs, workload_digest
from fairlead.simulation.runs import FinishedRun, RunsInterrupted, run_policies
from fairlead.traces.what_if import change_workload
from live_cluster import until
from oracles.plain_replay import plain_replay
from oracles.random_workloads import random_workload
from random_runs import jobs_on_a_server

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


@pytest.mark.parametrize(
    ("users", "warnings"),
    [
        # One server: all but the first user have none of their own.
        (3, ["2 of 3 tasks fit on no server that their user has alone (3 users divide 1 server)"]),
        (2, []),
    ],
)
def test_dedicated_servers_too_few_for_most_tasks_are_reported(
    users: int, warnings: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    rows = [(user, 0.0, 1.0, 1.0) for user in range(users)]
    crowded = jobs_on_a_server(1.0, rows, users=[f"u{n}" for n in range(users)])
    run_policies(crowded, ["drf/first-fit"], executor=Processes(1), dedicated=True)
    found = [message.split(": ")[1] for message in caplog.messages]
    assert found == warnings


def kept(runs: dict[str, FinishedRun], folder: Path) -> list[str]:
    for run in runs.values():
        assert run.path is not None
        assert same(read_run_log(run.path), run.log)
    assert {run.path for run in runs.values()} <= set(folder.iterdir())
    return sorted(path.name for path in folder.iterdir())


def test_a_finished_run_is_not_repeated(
    workload: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "runs"
    options: dict[str, Any] = {"seed": 3, "what_if": ["weight:u1=3"], "dedicated": True}
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
    assert runs_again(workload, strict_fifo=True)
    other = replace(workload, job_limit=np.full(workload.n_jobs, 9.0))
    assert runs_again(other, strict_fifo=True)
    # After an edit of a policy its new results count, not the earlier ones.
    monkeypatch.setattr("fairlead.simulation.planned_runs.digest_of_sources", lambda: "edited")
    assert runs_again(other, strict_fifo=True)
    assert runs_again(other, strict_fifo=True, seed=1)
    assert not runs_again(other, strict_fifo=True, seed=1)


def test_other_files_in_the_folder_are_never_overwritten(
    workload: Workload, tmp_path: Path
) -> None:
    path = tmp_path / "drf_best-fit.parquet"
    path.write_text("mine")
    for folder, fault in (
        (tmp_path, f"{path}: is not a Parquet file"),
        (path, "is a file, not a folder"),
        (tmp_path / "no" / "where", "cannot be made: there is no folder"),
    ):
        with pytest.raises(InputError, match=fault):
            run_policies(workload, ["drf/best-fit"], folder=folder)
    assert path.read_text() == "mine"


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


def misplace(*_: object, **__: object) -> RunLog:
    raise InputError("fault", "place", "file")


def break_down(*_: object, **__: object) -> RunLog:
    raise ZeroDivisionError("a fault of ours")


@pytest.mark.parametrize(
    ("replay", "kind", "said"),
    [
        (refuse, RefusalError, "^drf/best-fit: not this$"),
        (misplace, InputError, "^file: place: fault$"),
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
    until(Path(os.environ["KEPT_BEFORE"]).exists)
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
            until(started.exists)
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
    assert time.monotonic() - interrupted_at[0] < 60
    error = caught.value
    assert isinstance(error, RunsInterrupted)
    assert (error.finished, error.runs) == (("drf/best-fit", "ps-dsf/joint"), 4)
    assert error.folder == folder
    assert started.exists()
    assert multiprocessing.active_children() == []
    monkeypatch.setattr(run_processes, "replay", plain_replay)
    runs = run_policies(workload, POLICIES, folder=folder)
    assert [name for name, run in runs.items() if run.found] == ["drf/best-fit", "ps-dsf/joint"]
    assert len(kept(runs, folder)) == 4


def test_each_run_is_planned_once() -> None:
    change = "weight:ana=3"
    asked = plan_runs(["ps-dsf/joint", "slots:14", "ps-dsf/joint"], what_if=[change, change])
    assert [run.name for run in asked] == ["ps-dsf/joint", "slots:14", "ps-dsf/joint, weight:ana=3"]
    preempting = ["drf/best-fit", "drf/best-fit/over-share"]
    asked = plan_runs(preempting, what_if=["preempt:over-share"])
    assert [run.name for run in asked] == preempting


def test_runs_without_meaning_are_refused() -> None:
    with pytest.raises(InputError, match="name at least one policy"):
        plan_runs([])
    with pytest.raises(InputError, match="named 'dfr"):
        plan_runs(["drf/best-fit", "dfr/best-fit"])
    with pytest.raises(RefusalError, match="drf/joint"):
        plan_runs(["drf/joint"])
    with pytest.raises(InputError, match="must name a change"):
        plan_runs(["drf/best-fit"], what_if=[""])


ARRAYS = [
    name
    for name, value in vars(random_workload(0)).items()
    if isinstance(value, np.ndarray) and name != "job_names"
]


@pytest.mark.parametrize("name", ARRAYS)
def test_each_array_matters_to_the_digest(name: str) -> None:
    workload = random_workload(0)
    values = getattr(workload, name).copy()
    assert values.size
    values.flat[-1] = not values.flat[-1] if values.dtype == bool else values.flat[-1] + 1
    if name == "task_start":
        values[-1] = workload.job_submit[-1]
    if name in ("job_cancel", "job_limit"):
        values.flat[-1] = 1234.5
    assert workload_digest(replace(workload, **{name: values})) != workload_digest(workload)


def test_digests_depend_on_names_and_servers_not_on_notes() -> None:
    workload = random_workload(0)
    digest = workload_digest(workload)
    renamed = workload.job_names.astype(object)
    renamed[0] += "x"
    cluster = workload.cluster
    for other in (
        replace(workload, job_names=renamed.astype(np.str_)),
        replace(workload, users=("new", *workload.users[1:])),
        change_workload(workload, f"servers:{cluster.groups[0]}+1"),
        replace(workload, cluster=replace(cluster, capacity=cluster.capacity * 2)),
        replace(workload, cluster=replace(cluster, groups=("new", *cluster.groups[1:]))),
    ):
        assert workload_digest(other) != digest
    guaranteed = replace(workload, quotas={workload.users[0]: [{"where": {"zone": "a"}}]})
    for there, change in (
        (workload, {"devices": cluster.resources[:1]}),
        (guaranteed, {"labels": ({"zone": "a"},) * len(cluster.groups)}),
    ):
        other = replace(there, cluster=replace(cluster, **change))
        assert workload_digest(other) != workload_digest(there)
    wider = workload.job_names.astype(f"U{workload.job_names.itemsize}")
    same = replace(workload, origin="elsewhere", notes={"x": 1}, job_names=wider)
    assert same.job_names.dtype != workload.job_names.dtype
    assert workload_digest(same) == digest == workload_digest(random_workload(0))
