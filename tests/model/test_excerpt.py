"""Parts of workloads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import InputError
from fairlead.model.workload import JOIN, Workload, excerpt, first_seconds
from oracles.random_workloads import random_workload


def tasks_of(w: Workload) -> list[tuple[Any, ...]]:
    """Return everything that is said of each task, with the groups where it may run by name."""
    found = []
    for k in range(w.n_sets):
        job = int(w.set_job[k])
        groups = {
            g for g, may in zip(w.cluster.groups, w.places[w.set_place[k]], strict=True) if may
        }
        for t in range(int(w.first_task[k]), int(w.first_task[k + 1])):
            of_job = (
                w.job_names[job],
                w.users[w.job_user[job]],
                w.job_submit[job],
                w.job_gang[job],
            )
            shape = tuple(w.shapes[w.set_shape[k]])
            found.append((*of_job, w.job_cancel[job], shape, groups, w.task_duration[t]))
    return found


def servers_of(w: Workload) -> list[tuple[Any, ...]]:
    """Return everything that is said of each server."""
    events: dict[int, list[tuple[float, int]]] = {}
    for time, event, server in zip(w.server_time, w.server_event, w.server, strict=True):
        events.setdefault(int(server), []).append((float(time), int(event)))
    groups = [g for g, k in enumerate(w.cluster.count.tolist()) for _ in range(k)]
    return [
        (w.cluster.groups[g], tuple(w.cluster.capacity[g]), events.get(i, []))
        for i, g in enumerate(groups)
    ]


@given(st.integers(0, 2**32))
def test_an_excerpt_says_of_what_it_holds_what_the_whole_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    whole = random_workload(seed)
    servers = rng.random(whole.n_servers) < 0.6
    servers[rng.integers(whole.n_servers)] = True
    groups = np.add.reduceat(servers, whole.first_server[:-1], dtype=np.int64) > 0
    sets = (whole.places[whole.set_place] & groups).any(axis=1) & (rng.random(whole.n_sets) < 0.7)
    if not sets.any():
        return
    part = excerpt(whole, sets, servers)
    names = {g for g, kept in zip(whole.cluster.groups, groups, strict=True) if kept}
    assert part.server.tolist() == np.flatnonzero(servers).tolist()
    assert servers_of(part.workload) == [servers_of(whole)[i] for i in part.server]
    assert part.task.tolist() == np.flatnonzero(np.repeat(sets, whole.set_tasks)).tolist()
    expected = [tasks_of(whole)[t] for t in part.task]
    assert tasks_of(part.workload) == [(*t[:-2], t[-2] & names, t[-1]) for t in expected]
    assert part.workload.users == whole.users


@given(st.integers(0, 2**32), st.integers(1, 9))
def test_the_first_seconds_hold_nothing_that_comes_later(seed: int, seconds: int) -> None:
    whole = random_workload(seed)
    if not (whole.job_submit < seconds).any():
        with pytest.raises(InputError, match=f"no job comes before {seconds} s; the first comes"):
            first_seconds(whole, seconds)
        return
    part = first_seconds(whole, seconds)
    assert tasks_of(part) == [t for t in tasks_of(whole) if t[2] < seconds]
    expected = []
    for group in whole.cluster.groups:
        mine = [s for s in servers_of(whole) if s[0] == group]
        seen = [s for s in mine if not s[2] or s[2][0][1] != JOIN or s[2][0][0] < seconds]
        cut = [(*s[:2], [event for event in s[2] if event[0] < seconds]) for s in seen]
        expected += cut or mine[:1]
    assert servers_of(part) == expected
