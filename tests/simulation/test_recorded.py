"""The recorded run of a log, as the run of a policy."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import InputError
from fairlead.formats.run_log_file import read_run_log, write_run_log
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload, excerpt
from fairlead.simulation.metrics.summary import summarise
from fairlead.simulation.metrics.task_outcomes import follow_tasks
from fairlead.simulation.planned_runs import plan_runs
from fairlead.simulation.runs import recorded_run, run_policies
from fairlead.traces.what_if import change_workload
from oracles.plain_replay import plain_replay
from oracles.random_workloads import random_workload
from random_runs import jobs_on_a_server

seeds = st.integers(0, 14)


@cache
def replayed(seed: int) -> tuple[Workload, RunLog]:
    """A workload of which everything can run, whose log says what a replay did; and the replay."""
    given = random_workload(seed, server_events=False)
    fits = ~plain_replay(given, "drf/best-fit").set_unplaceable
    if not fits.any():
        return replayed(seed + 15)
    workload = excerpt(given, fits, np.ones(given.n_servers, dtype=bool)).workload
    log = plain_replay(workload, "drf/best-fit")
    start = np.full(workload.n_tasks, np.inf)
    server = np.full(workload.n_tasks, -1, dtype=np.int32)
    start[log.task], server[log.task] = log.start, log.server
    return replace(workload, task_start=start, task_server=server), log


def rounded(values: Any) -> Any:
    """Figures without what another order of adding leaves."""
    if isinstance(values, dict):
        return {name: rounded(value) for name, value in values.items()}
    return round(float(f"{values:.9g}"), 9) + 0.0 if isinstance(values, float) else values


@settings(max_examples=5)
@given(seeds)
def test_the_log_of_a_replay_reads_as_the_replay(seed: int) -> None:
    workload, replay = replayed(seed)
    log = recorded_run(workload)
    assert log.is_recorded
    alone = jobs_on_a_server(4.0, [(0, 0.0, 1.0, 5.0)], task_start=[1.0])
    assert (alone.task_server.tolist(), recorded_run(alone).server.tolist()) == ([-1], [0])
    order = np.lexsort((replay.task, replay.start))
    for name in ("task", "server", "start", "end", "lost", "set_unplaceable"):
        expected = getattr(replay, name)
        expected = expected if name == "set_unplaceable" else expected[order]
        assert np.array_equal(getattr(log, name), expected), name
    ours, theirs = (summarise(workload, run, instants=0).to_dict() for run in (log, replay))
    assert rounded(ours) == rounded(theirs)


@settings(max_examples=5)
@given(seeds)
def test_tasks_with_unknown_times_count_nowhere(seed: int) -> None:
    """Everything is as if their jobs were not there, but for how many there are."""
    workload, _ = replayed(seed)
    unknown_jobs = np.random.default_rng(seed).random(workload.n_jobs) < 0.4
    unknown_jobs[0] = False
    of_task = workload.set_job[np.repeat(np.arange(workload.n_sets), workload.set_tasks)]
    start = np.where(unknown_jobs[of_task], np.nan, workload.task_start)
    workload = replace(workload, task_start=start)
    log = recorded_run(workload)
    unknown = np.isnan(workload.task_start)
    course = follow_tasks(workload, log)
    assert course.unrecorded.tolist() == unknown.tolist()
    fates = (course.completed, course.waits_forever, course.withdrawn, course.unrecorded)
    assert (np.sum(fates, axis=0) == 1).all()
    sets = ~unknown[workload.first_task[:-1]]
    known = excerpt(workload, sets, np.ones(workload.n_servers, dtype=bool)).workload
    until = max(workload.span, log.makespan, 1.0)
    found, expected = (
        summarise(each, recorded_run(each), until=until, instants=2).to_dict()
        for each in (workload, known)
    )
    assert found["unrecorded"] == unknown.sum()
    assert found["jobs_unrecorded"] == unknown_jobs.sum()
    for counted in ("tasks", "unrecorded", "jobs", "jobs_unrecorded", "users"):
        of_users = [side.pop(counted) for side in (found, expected)]
        if counted == "users":
            for user in of_users[0]:
                for mine in (side[user] for side in of_users):
                    del mine["tasks"], mine["jobs"]
            assert rounded(of_users[0]) == rounded(of_users[1])
    # Whether a user ever ran is not known where one of its tasks is not.
    not_known = {workload.users[n] for n in workload.job_user[unknown_jobs]}
    assert set(found.pop("never_ran")) == set(expected.pop("never_ran")) - not_known
    assert rounded(found) == rounded(expected)


@given(seeds)
def test_changes_keep_what_happened_where(seed: int) -> None:
    """Servers that are added shift the numbers of later groups; those removed are not known."""
    workload, _ = replayed(seed)
    name = workload.cluster.groups[0]
    more = change_workload(workload, f"servers:{name}+2")
    expected = workload.task_server + 2 * (workload.task_server >= workload.cluster.count[0])
    assert more.task_server.tolist() == expected.tolist()
    back = change_workload(more, f"servers:{name}-2")
    assert back.task_server.tolist() == workload.task_server.tolist()
    if workload.cluster.count[0] > 1:
        gone = int(workload.cluster.count[0]) - 1
        fewer = change_workload(workload, f"servers:{name}-1").task_server
        server = workload.task_server
        expected = np.where(server == gone, -1, server - (server > gone))
        assert fewer.tolist() == expected.tolist()


def test_its_run_log_is_kept_with_unknown_servers(tmp_path: Path) -> None:
    workload = random_workload(8)
    start = workload.job_submit[np.repeat(workload.set_job, workload.set_tasks)]
    server = np.arange(workload.n_tasks) % (workload.n_servers + 1) - 1
    workload = replace(workload, task_start=start, task_server=server.astype(np.int32))
    log, path = recorded_run(workload), tmp_path / "run.parquet"
    write_run_log(workload, log, path)
    found = read_run_log(path)
    for name, value in vars(log).items():
        assert np.array_equal(getattr(found, name), value), name


def test_without_starts_it_is_refused_before_anything_happens(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^policy recorded: the trace does not record"):
        run_policies(random_workload(1), ["drf/best-fit", "recorded"], folder=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("more", "what"), [({"what_if": ["weight:a=2"]}, "what-if"),
                                            ({"dedicated": True}, "dedicated")])  # fmt: skip
def test_what_happened_cannot_run_again(more: dict[str, object], what: str) -> None:
    with pytest.raises(InputError, match=rf"^{what}: a recorded run cannot be changed"):
        plan_runs(["recorded"], **more)
