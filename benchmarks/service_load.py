"""Load a running service over HTTP on loopback, and measure its rates and delays.

    python benchmarks/service_load.py placements     # 20,000 servers, 1,000 users, 1,000,000 tasks
    python benchmarks/service_load.py kueue          # the loads of two tests of Kueue
    python benchmarks/service_load.py submissions    # durable, in batches
    python benchmarks/service_load.py polling        # 1,000 workers that wait for orders
    python benchmarks/service_load.py recovery       # a journal of 1,000,000 events
    python benchmarks/service_load.py idle

The service is a separate process, started by `fairlead serve`. Workers are simulated in this
process: one client acts for many servers, and a task only lasts for its time. So both share the
machine's cores. Figures are measured by the client; cores are processor seconds a second.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import heapq
import json
import os
import platform
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from pydantic_core import from_json, to_json

Row = dict[str, Any]
JOBS_OF_REQUEST = 10_000  # at most


class RunningService:
    """A service in a separate process."""

    def __init__(self, folder: Path, *more: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        words = ["serve", "--port", str(self.port), "--db", str(folder / "journal.db"), *more]
        self.log = folder / "service.log"
        self.began = time.perf_counter()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fairlead", *words], stdout=log, stderr=log
            )
        self.seen = psutil.Process(self.process.pid)

    async def ready(self) -> float:
        """Wait until the service answers; return the seconds since its start."""
        while True:
            try:
                connection = Connection(self.port)
                await connection.ask("GET", "/readyz")
                await connection.close()
                return time.perf_counter() - self.began
            except (OSError, RuntimeError):
                if self.process.poll() is not None:
                    raise RuntimeError(self.log.read_text()) from None
                await asyncio.sleep(0.05)

    def cpu(self) -> float:
        """Return the processor seconds of the service so far."""
        times = self.seen.cpu_times()
        return float(times.user + times.system)

    def mib(self) -> float:
        """Return the resident memory of the service, in MiB."""
        return float(self.seen.memory_info().rss) / 2**20

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Stop the service by a signal."""
        self.process.send_signal(number)
        self.process.wait(120)


class Connection:
    """One connection for one request after the other: HTTP with as little work as possible."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Make a request and return the answer; raise RuntimeError for a refusal."""
        if self.writer is None or self.reader is None or self.reader.at_eof():
            self.reader, self.writer = await asyncio.open_connection(
                "127.0.0.1", self.port, limit=2**26
            )
        sent = b"" if body is None else to_json(body)
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(sent)}\r\n\r\n"
        )
        self.writer.write(head.encode() + sent)
        await self.writer.drain()
        answer = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        status = int(answer.split(" ", 2)[1])
        length = int(answer.split("content-length:")[1].split("\r\n")[0])
        text = await self.reader.readexactly(length)
        if status >= 300:
            raise RuntimeError(f"{path}: {status} {text[:200]!r}")
        return from_json(text) if "application/json" in answer else text

    async def close(self) -> None:
        """Close the connection."""
        if self.writer is not None:
            self.writer.close()


class SimulatedWorkers:
    """A client that acts for many servers; each task lasts for its time, then succeeds.

    `lasts` returns the seconds of a task from its job's number. `latencies` are the seconds from
    the report of an ended task to the next start on its server, `answers` those to the answer.
    """

    def __init__(
        self,
        port: int,
        names: list[str],
        capacity: Row,
        lasts: Callable[[int], float],
        pause: float = 0.05,
    ) -> None:
        self.connection, self.names, self.capacity = Connection(port), names, capacity
        self.lasts, self.pause = lasts, pause
        self.starts = self.ends = 0
        self.latencies: list[float] = []
        self.answers: list[float] = []
        self._due: list[tuple[float, list[Any]]] = []
        self._freed: dict[str, float] = {}
        self._seen = 0

    async def join(self) -> None:
        """Join the service with all servers."""
        servers = [{"name": name, **self.capacity} for name in self.names]
        body = {"identity": self.names[0], "servers": servers}
        session = await self.connection.ask("POST", "/v1/workers/join", body)
        self.session, self.wait = session["session"], session["wait"]

    async def work(self, is_over: Callable[[], bool]) -> None:
        """Take steps until `is_over` is true."""
        while not is_over():
            await self.step()

    async def step(self) -> None:
        """Report ended tasks, and receive starts; without ended tasks wait for starts."""
        now, ended, freed = time.perf_counter(), [], []
        while self._due and self._due[0][0] <= now:
            _, (server, key) = heapq.heappop(self._due)
            ended.append([*key, 0, ""])
            freed.append(server)
        wait = 0.0
        if not ended:
            wait = self.wait if not self._due else min(self.wait, self._due[0][0] - now)
        body = {"session": self.session, "seen": self._seen, "ended": ended, "wait": wait}
        for server in freed:
            self._freed.setdefault(server, now)
        orders = await self.connection.ask("POST", "/v1/workers/sync", body)
        self.ends += len(ended)
        asked, now = now, time.perf_counter()
        if ended:
            self.answers.append(now - asked)
        self._seen = max(self._seen, orders["seen"])
        self.starts += len(orders["start"])
        for server, key, _, _ in orders["start"]:
            since = self._freed.pop(server, None)
            if since is not None:
                self.latencies.append(now - since)
            heapq.heappush(self._due, (now + self.lasts(key[0]), [server, key]))
        await asyncio.sleep(self.pause)


def shared(names: Iterable[str], clients: int) -> list[list[str]]:
    """Split names among clients."""
    listed = list(names)
    return [listed[k::clients] for k in range(clients)]


def quantile(values: list[float], q: float) -> float:
    """Return a quantile; NaN without values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else float("nan")


async def submit(connection: Connection, jobs: list[Row]) -> list[str]:
    """Submit jobs in large requests; return their ids."""
    ids: list[str] = []
    for k in range(0, len(jobs), JOBS_OF_REQUEST):
        ids += (await connection.ask("POST", "/v1/jobs", {"jobs": jobs[k : k + JOBS_OF_REQUEST]}))[
            "ids"
        ]
    return ids


def job(user: int, **more: Any) -> Row:
    """Return a job of one core, with more fields."""
    return {"command": ["true"], "user": f"user{user}", "cpu": 1} | more


async def placements(folder: Path, arguments: argparse.Namespace) -> Row:
    """Run a full cluster in which tasks end and others wait, by default for a minute."""
    rate, seconds = arguments.rate, arguments.seconds
    service = RunningService(folder, "--policy", arguments.policy)
    try:
        await service.ready()
        connection = Connection(service.port)
        each = 4  # tasks that a server holds
        lasts = arguments.servers * each / rate
        names = [f"server{n}" for n in range(arguments.servers)]
        # Tasks have different lengths, so that they end evenly over time.
        clients = [
            SimulatedWorkers(
                service.port,
                part,
                {"cpu": each, "memory": "16Gi"},
                lambda number: lasts * (0.5 + (number * 7919 % 1000) / 1000),
                arguments.pause,
            )
            for part in shared(names, arguments.clients)
        ]
        per_job = max(1, arguments.tasks // arguments.users // 10)
        jobs = [
            job(n % arguments.users, tasks=per_job, memory=f"{1 + n % 4}Gi")
            for n in range(arguments.tasks // per_job)
        ]
        before = time.perf_counter()
        await submit(connection, jobs)
        submitted = time.perf_counter() - before
        before = time.perf_counter()
        for client in clients:
            await client.join()
        joined = time.perf_counter() - before
        over = asyncio.Event()
        working = [asyncio.create_task(client.work(over.is_set)) for client in clients]
        # Measurements start when the cluster has been full for about the length of a task.
        while sum(client.starts for client in clients) < arguments.servers * each:
            await asyncio.sleep(0.1)
        filled = time.perf_counter() - before
        await asyncio.sleep(arguments.settle or 1.5 * lasts)
        for client in clients:
            client.latencies.clear()
            client.answers.clear()
        starts, cpu, own = sum(c.starts for c in clients), service.cpu(), time.process_time()
        before = time.perf_counter()
        await asyncio.sleep(seconds)
        took = time.perf_counter() - before
        placed = sum(client.starts for client in clients) - starts
        cpu, own = service.cpu() - cpu, time.process_time() - own
        over.set()
        await asyncio.gather(*working)
        latencies = [each for client in clients for each in client.latencies]
        answers = [each for client in clients for each in client.answers]
        page = (await Connection(service.port).ask("GET", "/metrics")).decode()
        return {
            "placements a second": placed / took,
            "from an end to the next start, s: p50": quantile(latencies, 0.5),
            "p99": quantile(latencies, 0.99),
            "most": max(latencies, default=float("nan")),
            "to the answer, s: p50": quantile(answers, 0.5),
            "answer p99": quantile(answers, 0.99),
            "answer most": max(answers, default=float("nan")),
            "service's cores": cpu / took,
            "client's cores": own / took,
            "service's MiB": service.mib(),
            "1,000,000 tasks submitted in, s": submitted,
            "servers joined in, s": joined,
            "cluster filled in, s": filled,
            "decision, s, at most": within(page, "decision"),
            "cycle": within(page, "cycle"),
            "commit": within(page, "commit"),
        }
    finally:
        service.stop()


def within(page: str, what: str) -> Row:
    """Return upper bounds of quantiles, from a histogram of the service's metrics."""
    buckets = [
        (float(line.split('le="')[1].split('"')[0].replace("+Inf", "inf")), float(line.split()[-1]))
        for line in page.splitlines()
        if line.startswith(f"fairlead_{what}_seconds_bucket")
    ]
    total = buckets[-1][1] if buckets else 0.0
    return {
        f"p{100 * q:g}": next((at for at, count in buckets if count >= q * total), None)
        for q in (0.5, 0.99, 0.999)
    }


# Cohorts, queues of each, and classes of tasks: number in a queue, seconds between them, seconds of
# one, its amount, its priority. Each queue has a quota of 20 in its cohort. (kubernetes-sigs/kueue,
# test/performance/scheduler/configs, baseline at cc13fff and large-scale at f6517b0.)
KUEUE_LOADS = {
    "15,000 in 30 queues": (
        5,
        6,
        [(350, 0.1, 0.2, 1, 50), (100, 0.5, 0.5, 5, 100), (50, 1.2, 1.0, 20, 200)],
    ),
    "50,000 in 1,000 queues": (
        10,
        100,
        [(35, 0.06, 0.15, 1, 50), (11, 0.3, 0.35, 5, 100), (4, 0.7, 0.7, 20, 200)],
    ),
}
QUOTA = 20


async def kueue(folder: Path, arguments: argparse.Namespace) -> Row:
    """Run the loads of two Kueue tests: a cohort is a server, a queue a user that may run on it."""
    found: Row = {}
    for name, (cohorts, queues, classes) in KUEUE_LOADS.items():
        own_folder = folder / name.split(" ")[0]
        own_folder.mkdir()
        service = RunningService(own_folder, "--policy", arguments.policy)
        try:
            await service.ready()
            found[name] = await run_kueue_load(service, cohorts, queues, classes)
        finally:
            service.stop()
    return found


async def run_kueue_load(
    service: RunningService,
    cohorts: int,
    queues: int,
    classes: list[tuple[int, float, float, int, int]],
) -> Row:
    """Submit the tasks of all queues at their times, and wait until all have ended."""
    lasts: dict[int, float] = {}
    clients = [
        SimulatedWorkers(
            service.port, [f"cohort{n}"], {"cpu": QUOTA * queues, "memory": 0}, lasts.get, 0.002
        )
        for n in range(cohorts)
    ]
    for client in clients:
        await client.join()
    comes: list[tuple[float, float, Row]] = []
    for cohort in range(cohorts):
        for queue in range(queues):
            user = cohort * queues + queue
            for count, interval, seconds, amount, priority in classes:
                asked = job(user, cpu=amount, priority=priority, where=[f"cohort{cohort}"])
                comes += [(k * interval, seconds, asked) for k in range(count)]
    comes.sort(key=lambda one: one[0])
    work = sum(seconds * asked["cpu"] for _, seconds, asked in comes)
    over = asyncio.Event()
    connection, waiting = Connection(service.port), deque(comes)
    began, cpu = time.perf_counter(), service.cpu()
    working = [asyncio.create_task(client.work(over.is_set)) for client in clients]
    number = 0
    while waiting:
        now = time.perf_counter() - began
        batch = []
        while waiting and waiting[0][0] <= now and len(batch) < JOBS_OF_REQUEST:
            batch.append(waiting.popleft())
        for _, seconds, _ in batch:  # ids of a new service start at 1
            number += 1
            lasts[number] = seconds
        if batch:
            asked = {"jobs": [asked for _, _, asked in batch]}
            ids = (await connection.ask("POST", "/v1/jobs", asked))["ids"]
            assert int(ids[-1]) == number
        await asyncio.sleep(0.02)
    submitted = time.perf_counter() - began
    while sum(client.ends for client in clients) < len(comes):
        await asyncio.sleep(0.01)
    took = time.perf_counter() - began
    cpu = service.cpu() - cpu
    over.set()
    await asyncio.gather(*working)
    return {
        "took, s": took,
        "capacity alone, s": work / (QUOTA * queues * cohorts),
        "submitted in, s": submitted,
        "service's cores": cpu / took,
    }


async def submissions(folder: Path, _arguments: argparse.Namespace) -> Row:
    """Submit single tasks in batches, each answered when it is on disk."""
    service = RunningService(folder)
    try:
        await service.ready()
        connection = Connection(service.port)
        rows: Row = {}
        for batch in (100, 1000, 10_000):
            jobs = [job(n % 100) for n in range(batch)]
            count = max(3, 50_000 // batch)
            before, cpu = time.perf_counter(), service.cpu()
            for _ in range(count):
                await connection.ask("POST", "/v1/jobs", {"jobs": jobs})
            took = time.perf_counter() - before
            rows[f"tasks a second, {batch} jobs a request"] = count * batch / took
            rows[f"service's cores, {batch}"] = (service.cpu() - cpu) / took
        before = time.perf_counter()
        for _ in range(50):
            await connection.ask("POST", "/v1/jobs", {"jobs": [job(1, tasks=10_000)]})
        rows["tasks a second, jobs of 10,000 tasks, one a request"] = 500_000 / (
            time.perf_counter() - before
        )
        return rows
    finally:
        service.stop()


async def polling(folder: Path, arguments: argparse.Namespace) -> Row:
    """Let 1,000 workers wait for orders, and time single tasks that reach one of them."""
    service = RunningService(folder)
    try:
        await service.ready()
        clients = [
            SimulatedWorkers(
                service.port, [f"server{n}"], {"cpu": 1, "memory": "1Gi"}, lambda _: 0.2, 0.0
            )
            for n in range(arguments.workers)
        ]
        for client in clients:
            await client.join()
        over = asyncio.Event()
        working = [asyncio.create_task(client.work(over.is_set)) for client in clients]
        await asyncio.sleep(5)
        before, cpu = time.perf_counter(), service.cpu()
        await asyncio.sleep(20)
        idle = (service.cpu() - cpu) / (time.perf_counter() - before)
        connection, waits = Connection(service.port), []
        for _ in range(200):
            began, starts = time.perf_counter(), sum(client.starts for client in clients)
            await connection.ask("POST", "/v1/jobs", {"jobs": [job(1)]})
            while sum(client.starts for client in clients) == starts:
                await asyncio.sleep(0.0005)
            waits.append(time.perf_counter() - began)
        over.set()
        await asyncio.gather(*working)
        return {
            "workers": len(clients),
            "service's cores while they wait": idle,
            "from a submission to its worker, s: p50": statistics.median(waits),
            "p99": quantile(waits, 0.99),
            "service's MiB": service.mib(),
        }
    finally:
        service.stop()


async def recovery(folder: Path, arguments: argparse.Namespace) -> Row:
    """Time the start of a service from many events, from a snapshot, and from an empty journal."""
    written = write_journal(folder / "journal.db", arguments.events)
    empty = folder / "empty"
    empty.mkdir()
    took: Row = {}
    pending = []
    for name, where in (("events", folder), ("a snapshot", folder), ("an empty journal", empty)):
        service = RunningService(where)
        took[f"ready from {name}, s"] = await service.ready()
        took[f"processor, from {name}, s"] = service.cpu()
        users = (await Connection(service.port).ask("GET", "/v1/users"))["users"]
        pending.append(sum(user["pending"] for user in users))
        service.stop()
    assert pending[0] == pending[1]
    return written | {"tasks that wait": pending[0]} | took


def write_journal(path: Path, events: int) -> Row:
    """Write the journal of a full cluster: a job, a call of place and an end in turn."""
    from fairlead.service.journal.event_journal import Batch, Journal, digest_of_placements
    from fairlead.service.service_state import ServiceState

    journal, state = Journal(path), ServiceState("drf/best-fit")
    now, seq = time.time(), 0
    batch = Batch()

    def record(kind: str, **body: Any) -> Any:
        nonlocal seq
        seq += 1
        time_of_event = now + seq * 2.0**-10
        outcome = state.apply(kind, body, time_of_event)
        if kind == "place":
            body["placed"] = digest_of_placements(outcome)
        batch.add(time_of_event, kind, to_json(body))
        return outcome

    record("policy", policy="drf/best-fit")
    for n in range(1000):
        capacity = {"cpu": 8.0, "memory": 32.0, "gpu": 0.0}
        record("server", name=f"s{n}", capacity=capacity, labels={}, identity="1")
    running: deque[Any] = deque()
    asked = {"demand": {"cpu": 1.0, "memory": 2.0}, "gang": False, "where": None, "after": []}
    asked |= {"priority": 0, "time_limit": None}
    while seq < events:
        record("submit", jobs=[{"user": f"user{seq % 1000}", "tasks": 1, **asked}])
        running += record("place", limit=2000)
        if seq > 60_000:  # from then on 8,000 run and 12,000 wait
            record("end", tasks=[[*running.popleft().key, 0, ""]])
        if len(batch.events) >= 500:
            journal.commit(batch, state.take_effects())
            batch = Batch()
    journal.commit(batch, state.take_effects())
    journal.close()
    return {"events": seq, "journal, MiB": path.stat().st_size / 2**20}


async def idle(folder: Path, arguments: argparse.Namespace) -> Row:
    """Measure a service with five idle workers, by default for a minute."""
    service = RunningService(folder)
    try:
        took = await service.ready()
        clients = [
            SimulatedWorkers(
                service.port, [f"server{n}"], {"cpu": 8, "memory": "64Gi"}, lambda _: 1.0
            )
            for n in range(5)
        ]
        for client in clients:
            await client.join()
        over = asyncio.Event()
        working = [asyncio.create_task(client.work(over.is_set)) for client in clients]
        await asyncio.sleep(5)
        before, cpu = time.perf_counter(), service.cpu()
        await asyncio.sleep(arguments.seconds)
        share = (service.cpu() - cpu) / (time.perf_counter() - before)
        over.set()
        await asyncio.gather(*working)
        return {"ready after, s": took, "cores": share, "MiB": service.mib()}
    finally:
        service.stop()


SCENARIOS: dict[str, Callable[[Path, argparse.Namespace], Awaitable[Row]]] = {
    "placements": placements,
    "kueue": kueue,
    "submissions": submissions,
    "polling": polling,
    "recovery": recovery,
    "idle": idle,
}


def main() -> None:
    """Run a scenario, and print its figures as JSON."""
    parser = argparse.ArgumentParser(description="Load a running service.")
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--policy", default="drf/best-fit")
    parser.add_argument("--servers", type=int, default=20_000)
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--rate", type=float, default=5000.0, help="tasks that end a second")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--settle", type=float, default=0.0)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--pause", type=float, default=0.05)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=1000)
    arguments = parser.parse_args()
    gc.disable()  # a collection would stop all simulated workers for 70 ms, every 11,000 starts
    with TemporaryDirectory() as folder:
        found = asyncio.run(SCENARIOS[arguments.scenario](Path(folder), arguments))
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
