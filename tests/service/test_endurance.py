"""A service that runs for long holds only waiting and running jobs."""

from __future__ import annotations

import itertools
import time
from collections import deque
from typing import Any

import httpx
import psutil
import pytest

from fairlead.service.jobs import TaskKey
from live_cluster import Cluster
from service.test_state import submit, with_servers
from state_invariants import check

MINUTES = 10


def test_ended_jobs_are_forgotten() -> None:
    """After 400 tasks of jobs and gangs, only users and empty servers are left."""
    state = with_servers(a=8, b=8)
    running: deque[TaskKey] = deque()
    moments = itertools.count(1.0)
    for n in range(200):
        demand = {"cpu": 1.0, "memory": 1.0}
        after = [max(state.jobs)] if n % 5 == 0 and state.jobs else []
        asked = {"demand": demand, "tasks": 2, "gang": n % 3 == 0, "after": after}
        submit(state, next(moments), user=f"user{n % 7}", **asked)
        running.extend(run.key for run in state.apply("place", {"limit": 100}, next(moments)))
        while len(running) > 8 or (n % 100 == 99 and running):
            ended = [[*running.popleft(), n % 11 == 0, ""]]
            state.apply("end", {"tasks": ended}, next(moments))
            running.extend(run.key for run in state.apply("place", {"limit": 100}, next(moments)))
        state.take_effects()
    assert not state.jobs
    assert not state._groups
    assert not state._dependents
    assert not any(machine.running for machine in state.servers.values())
    assert set(state.pending.values()) | set(state.withheld.values()) == {0}
    core = state.scheduler._state
    assert not core.groups
    assert not core.shapes
    assert not core.running
    assert len(state.snapshot()) < 10_000
    check(state)


@pytest.mark.soak
@pytest.mark.timeout(60 * MINUTES + 300)
def test_memory_is_bounded(cluster: Cluster) -> None:
    """In ten minutes of jobs on 200 servers, memory does not grow after the third."""
    cluster.start_service()
    memory = psutil.Process(cluster.processes["service"].pid).memory_info
    servers = [{"name": f"server{n}", "cpu": 8, "memory": "64Gi"} for n in range(200)]
    job = {"command": ["true"], "cpu": 1, "tasks": 20}
    with httpx.Client(base_url=cluster.url, timeout=60) as http:

        def ask(path: str, **body: Any) -> Any:
            answer = http.post(path, json=body)
            answer.raise_for_status()
            return answer.json()

        session = ask("/v1/workers/join", identity="1", servers=servers)["session"]
        began, seen, mib = time.monotonic(), 0, []
        wanted, ended = 3000, []  # tasks to submit, and to report: one for each ended one
        while (passed := time.monotonic() - began) < 60 * MINUTES:
            if passed >= 30 * (len(mib) + 1):
                mib.append(round(memory().rss / 2**20))
                for path in ("/v1/jobs", "/v1/shares", "/metrics"):
                    http.get(path).raise_for_status()
            if jobs := [job | {"user": f"user{n % 50}"} for n in range(wanted // 20)]:
                ask("/v1/jobs", jobs=jobs)
            orders = ask("/v1/workers/sync", session=session, seen=seen, ended=ended)
            seen = max(seen, orders["seen"])
            wanted = wanted % 20 + len(ended)
            ended = [[*key, 0, ""] for _, key, *_ in orders["start"]]
    print("MiB each half minute:", mib)
    assert max(mib[6:]) < max(mib[:6]) * 1.1 + 10
