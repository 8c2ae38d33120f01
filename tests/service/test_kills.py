"""`kill -9` at random times: acknowledged jobs end, no attempt runs twice; memory is bounded."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from fairlead.service.client import NoServiceError, RefusedError
from fairlead.service.journal.event_journal import Journal, repeat_event
from fairlead.service.messages import JobRequest
from fairlead.service.service_state import ServiceState
from live_cluster import PATIENCE, Cluster, end_tasks, until
from state_invariants import check

CPUS = {"a": 3.0, "b": 2.0}


# A snapshot after every 10 events, so that most kills come while one is written, or soon after.
OFTEN_SAVED = """
from runpy import run_module
from fairlead.service import _state_thread as engine
engine.SNAPSHOT_EVENTS = 10
run_module("fairlead", run_name="__main__", alter_sys=True)
"""
TASK = """
echo started >>"$OUT/$FAIRLEAD_JOB.$FAIRLEAD_INDEX.$FAIRLEAD_ATTEMPT"
sleep "$LONG"
echo ended >>"$OUT/$FAIRLEAD_JOB.$FAIRLEAD_INDEX.$FAIRLEAD_ATTEMPT"
"""


def a_task(rng: random.Random, out: Path) -> JobRequest:
    many = rng.random() < 0.3
    return JobRequest(
        command=["/bin/sh", "-c", TASK],
        user=rng.choice(["ana", "bo", "cy"]),
        cpu=rng.choice([0.5, 1.0, 2.0]),
        tasks=2 if many else 1,
        gang=many and rng.random() < 0.5,
        directory="/",
        environment={"OUT": str(out), "LONG": str(rng.choice([0.05, 0.3, 1.0]))},
    )


def submit_for_ever(
    cluster: Cluster, out: Path, seed: int, stop: threading.Event, ids: list[str]
) -> None:
    """Submit jobs one by one; note the acknowledged ones."""
    rng = random.Random(seed)
    with cluster.client() as client:
        while not stop.is_set():
            with suppress(NoServiceError, RefusedError):
                ids += client.submit([a_task(rng, out)])
            time.sleep(rng.choice([0.05, 0.2, 0.4]))


def kill_machine(cluster: Cluster, name: str) -> None:
    """Kill a worker and all of its tasks, as when its machine goes down."""
    cluster.kill(name)
    end_tasks(cluster.folder / f"worker-{name}" / "attempts")


def storm(cluster: Cluster, kills: int, seed: int) -> dict[str, int]:
    """Kill and start processes while jobs are submitted; then check how all jobs ended."""
    rng, out = random.Random(seed), cluster.folder / "out"
    out.mkdir()
    out.chmod(0o777)
    cluster.service = OFTEN_SAVED
    cluster.start_service()
    for name, cpu in CPUS.items():
        cluster.start_worker(name, cpu=cpu)
    stop, ids = threading.Event(), []
    args = (cluster, out, seed, stop, ids)
    submitter = threading.Thread(target=submit_for_ever, args=args)
    submitter.start()
    counts = dict.fromkeys(["service", "worker", "machine"], 0)
    try:
        for _ in range(kills):
            until(lambda: any(job.state == "running" for job in all_jobs(cluster)))
            time.sleep(rng.random())
            what = rng.choice(["service", "service", "worker", "machine"])
            counts[what] += 1
            if what == "service":
                cluster.kill("service")
                time.sleep(rng.choice([0.0, 0.5]))
                cluster.start_again("service")
                until(cluster.is_ready)
            else:
                name = rng.choice(list(CPUS))
                if what == "worker":
                    cluster.kill(name)
                else:
                    kill_machine(cluster, name)
                time.sleep(rng.choice([0.0, 0.5]))
                cluster.start_again(name)
        until(lambda: len(ids) > 2 * kills)
    finally:
        stop.set()
        submitter.join()
    with cluster.client() as client:
        for job in ids:
            view = client.wait(job, PATIENCE)
            assert view.state == "finished", view
    service = cluster.processes["service"]
    cluster.kill("service", signal.SIGTERM)
    assert service.returncode == 0
    assert not cluster.db.with_name("journal.db-wal").exists()  # all is in one file
    assert "no snapshot could be kept" not in cluster.log("service")
    counts |= {"jobs": len(ids), "again": count_repeated_tasks(out, ids)}
    check_journal(cluster.db)
    return counts


def all_jobs(cluster: Cluster) -> list[object]:
    with cluster.client() as client:
        return list(client.jobs())


def count_repeated_tasks(out: Path, ids: list[str]) -> int:
    """Count the tasks that ran again; check that no attempt ran twice, and each last one ended."""
    attempts: dict[tuple[str, str], list[int]] = defaultdict(list)
    for path in out.iterdir():
        lines = path.read_text().split()
        assert lines in (["started"], ["started", "ended"]), (path.name, lines)
        job, index, attempt = path.name.split(".")
        attempts[job, index].append(int(attempt))
    assert {job for job, _ in attempts} >= set(ids)
    for (job, index), numbers in attempts.items():
        last = (out / f"{job}.{index}.{max(numbers)}").read_text().split()
        assert last == ["started", "ended"], (job, index)
    return sum(len(numbers) > 1 for numbers in attempts.values())


def check_journal(path: Path) -> None:
    """Check that no server was ever overfull, and that the events alone give the last snapshot."""
    journal = Journal(path, must_exist=True)
    kept, since = journal.recover("drf/best-fit")
    assert since == 0  # it was stopped in good order
    fresh = ServiceState("drf/best-fit")
    for seq, now, kind, body in journal.events():
        repeat_event(fresh, kind, body, now, path, seq)
        fresh.take_effects()
        check(fresh)
        for machine in fresh.servers.values():
            held = sum(run.job_group.demand["cpu"] for run in machine.running.values())
            assert held <= machine.capacity["cpu"] == CPUS[machine.name]
    assert fresh.snapshot() == kept.snapshot()
    journal.close()


def test_what_was_acknowledged_ends_and_runs_once(cluster: Cluster) -> None:
    counts = storm(cluster, kills=4, seed=6)
    assert counts["jobs"] > 8
    assert min(counts["service"], counts["worker"] + counts["machine"]) > 0


@pytest.mark.soak
def test_two_hundred_kills(cluster: Cluster) -> None:
    counts = storm(cluster, kills=200, seed=1)
    print(counts)
    assert counts["again"] > 0
    assert min(counts.values()) > 20


MINUTES = 10


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
