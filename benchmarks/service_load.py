"""A running service under load, over HTTP on loopback: what it bears, and how soon it answers.

    python benchmarks/service_load.py placements     # 20,000 servers, 1,000 users, 1,000,000 tasks
    python benchmarks/service_load.py kueue          # the two shapes of Kueue's own gates
    python benchmarks/service_load.py submissions    # durable, in batches
    python benchmarks/service_load.py polling        # 1,000 workers that wait for news
    python benchmarks/service_load.py recovery       # a journal of 1,000,000 events
    python benchmarks/service_load.py idle

The service is a separate process, begun with `fairlead serve`. Workers are simulated in this
process: one client speaks for many servers, and a task does nothing but last. So both share the
machine's cores. Figures are of what the client saw; `cpu` is the service's processor time.
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
AT_ONCE = 10_000  # jobs in a request


class Running:
    """A service as a process, and one connection to it for each that asks."""

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
        """Wait until it answers; return the seconds since it was begun."""
        while True:
            try:
                line = Line(self.port)
                await line.ask("GET", "/readyz")
                await line.close()
                return time.perf_counter() - self.began
            except (OSError, RuntimeError):
                if self.process.poll() is not None:
                    raise RuntimeError(self.log.read_text()) from None
                await asyncio.sleep(0.05)

    def cpu(self) -> float:
        """Return its processor seconds so far."""
        times = self.seen.cpu_times()
        return float(times.user + times.system)

    def mib(self) -> float:
        """Return the memory that it holds."""
        return float(self.seen.memory_info().rss) / 2**20

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End it."""
        self.process.send_signal(number)
        self.process.wait(120)


class Line:
    """One connection that asks one thing after the other: HTTP with as little work as possible."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return what it answers; raise when that is a refusal."""
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
        """Ask no more."""
        if self.writer is not None:
            self.writer.close()


class Park:
    """A client that speaks for many servers, where each task lasts for a while and then ends well.

    `latencies` are the seconds from the sending of ends to the first start on a server of theirs,
    `answers` those to the answer.
    """

    def __init__(
        self,
        port: int,
        names: list[str],
        capacity: Row,
        lasts: Callable[[int], float],
        pause: float = 0.05,
    ) -> None:
        self.line, self.names, self.capacity = Line(port), names, capacity
        self.lasts, self.pause = lasts, pause
        self.starts = self.ends = 0
        self.latencies: list[float] = []
        self.answers: list[float] = []
        self._due: list[tuple[float, list[Any]]] = []
        self._freed: dict[str, float] = {}
        self._seen = 0

    async def join(self) -> None:
        """Join the servers."""
        servers = [{"name": name, **self.capacity} for name in self.names]
        body = {"identity": self.names[0], "servers": servers}
        session = await self.line.ask("POST", "/v1/workers/join", body)
        self.session, self.wait = session["session"], session["wait"]

    async def work(self, is_over: Callable[[], bool]) -> None:
        """Take steps until it is over."""
        while not is_over():
            await self.step()

    async def step(self) -> None:
        """Report ended tasks, and receive starts; wait for these if no task ends."""
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
        orders = await self.line.ask("POST", "/v1/workers/sync", body)
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
    listed = list(names)
    return [listed[k::clients] for k in range(clients)]


def quantile(values: list[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else float("nan")


async def submit(line: Line, jobs: list[Row]) -> list[str]:
    ids: list[str] = []
    for k in range(0, len(jobs), AT_ONCE):
        ids += (await line.ask("POST", "/v1/jobs", {"jobs": jobs[k : k + AT_ONCE]}))["ids"]
    return ids


def job(user: int, **more: Any) -> Row:
    return {"command": ["true"], "user": f"user{user}", "cpu": 1} | more


async def placements(folder: Path, arguments: argparse.Namespace) -> Row:
    """Run a full cluster, in which tasks end and others wait, for a minute."""
    rate, seconds = arguments.rate, arguments.seconds
    service = Running(folder, "--policy", arguments.policy)
    try:
        await service.ready()
        line = Line(service.port)
        each = 4  # tasks that a server holds
        lasts = arguments.servers * each / rate
        names = [f"server{n}" for n in range(arguments.servers)]
        # Tasks differ in length, so that ends come evenly.
        parks = [
            Park(
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
        await submit(line, jobs)
        submitted = time.perf_counter() - before
        before = time.perf_counter()
        for park in parks:
            await park.join()
        joined = time.perf_counter() - before
        over = asyncio.Event()
        working = [asyncio.create_task(park.work(over.is_set)) for park in parks]
        # The cluster is filled, and then goes on for as long as a task lasts, before it counts.
        while sum(park.starts for park in parks) < arguments.servers * each:
            await asyncio.sleep(0.1)
        filled = time.perf_counter() - before
        await asyncio.sleep(arguments.settle or 1.5 * lasts)
        for park in parks:
            park.latencies.clear()
            park.answers.clear()
        starts, cpu, own = sum(p.starts for p in parks), service.cpu(), time.process_time()
        before = time.perf_counter()
        await asyncio.sleep(seconds)
        took = time.perf_counter() - before
        placed = sum(park.starts for park in parks) - starts
        cpu, own = service.cpu() - cpu, time.process_time() - own
        over.set()
        await asyncio.gather(*working)
        latencies = [each for park in parks for each in park.latencies]
        answers = [each for park in parks for each in park.answers]
        page = (await Line(service.port).ask("GET", "/metrics")).decode()
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
    """Return quantiles of one of the service's own histograms, as upper bounds."""
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


# Cohorts, queues of each, and the classes: tasks of a queue, seconds between them, seconds that one
# lasts, its amount, its priority. Each queue brings 20 to its cohort. (kubernetes-sigs/kueue,
# test/performance/scheduler/configs, baseline at cc13fff and large-scale at f6517b0.)
SHAPES = {
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
    """Run Kueue's two shapes: a cohort is a server, a queue a user who may run on it."""
    found: Row = {}
    for name, (cohorts, queues, classes) in SHAPES.items():
        place = folder / name.split(" ")[0]
        place.mkdir()
        service = Running(place, "--policy", arguments.policy)
        try:
            await service.ready()
            found[name] = await shape(service, cohorts, queues, classes)
        finally:
            service.stop()
    return found


async def shape(
    service: Running, cohorts: int, queues: int, classes: list[tuple[int, float, float, int, int]]
) -> Row:
    lasts: dict[int, float] = {}
    parks = [
        Park(service.port, [f"cohort{n}"], {"cpu": QUOTA * queues, "memory": 0}, lasts.get, 0.002)
        for n in range(cohorts)
    ]
    for park in parks:
        await park.join()
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
    line, waiting = Line(service.port), deque(comes)
    began, cpu = time.perf_counter(), service.cpu()
    working = [asyncio.create_task(park.work(over.is_set)) for park in parks]
    number = 0
    while waiting:
        now = time.perf_counter() - began
        batch = []
        while waiting and waiting[0][0] <= now and len(batch) < AT_ONCE:
            batch.append(waiting.popleft())
        for _, seconds, _ in batch:  # a service that has just begun counts from 1
            number += 1
            lasts[number] = seconds
        if batch:
            asked = {"jobs": [asked for _, _, asked in batch]}
            ids = (await line.ask("POST", "/v1/jobs", asked))["ids"]
            assert int(ids[-1]) == number
        await asyncio.sleep(0.02)
    submitted = time.perf_counter() - began
    while sum(park.ends for park in parks) < len(comes):
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
    service = Running(folder)
    try:
        await service.ready()
        line = Line(service.port)
        rows: Row = {}
        for batch in (100, 1000, 10_000):
            jobs = [job(n % 100) for n in range(batch)]
            count = max(3, 50_000 // batch)
            before, cpu = time.perf_counter(), service.cpu()
            for _ in range(count):
                await line.ask("POST", "/v1/jobs", {"jobs": jobs})
            took = time.perf_counter() - before
            rows[f"tasks a second, {batch} jobs a request"] = count * batch / took
            rows[f"service's cores, {batch}"] = (service.cpu() - cpu) / took
        before = time.perf_counter()
        for _ in range(50):
            await line.ask("POST", "/v1/jobs", {"jobs": [job(1, tasks=10_000)]})
        rows["tasks a second, jobs of 10,000 tasks, one a request"] = 500_000 / (
            time.perf_counter() - before
        )
        return rows
    finally:
        service.stop()


async def polling(folder: Path, arguments: argparse.Namespace) -> Row:
    """Let 1,000 workers wait for orders; a task reaches one of them."""
    service = Running(folder)
    try:
        await service.ready()
        parks = [
            Park(service.port, [f"server{n}"], {"cpu": 1, "memory": "1Gi"}, lambda _: 0.2, 0.0)
            for n in range(arguments.workers)
        ]
        for park in parks:
            await park.join()
        over = asyncio.Event()
        working = [asyncio.create_task(park.work(over.is_set)) for park in parks]
        await asyncio.sleep(5)
        before, cpu = time.perf_counter(), service.cpu()
        await asyncio.sleep(20)
        idle = (service.cpu() - cpu) / (time.perf_counter() - before)
        line, waits = Line(service.port), []
        for _ in range(200):
            began, starts = time.perf_counter(), sum(park.starts for park in parks)
            await line.ask("POST", "/v1/jobs", {"jobs": [job(1)]})
            while sum(park.starts for park in parks) == starts:
                await asyncio.sleep(0.0005)
            waits.append(time.perf_counter() - began)
        over.set()
        await asyncio.gather(*working)
        return {
            "workers": len(parks),
            "service's cores while they wait": idle,
            "from a submission to its worker, s: p50": statistics.median(waits),
            "p99": quantile(waits, 0.99),
            "service's MiB": service.mib(),
        }
    finally:
        service.stop()


async def recovery(folder: Path, arguments: argparse.Namespace) -> Row:
    """Begin a service with a journal of many events and no snapshot, and again with one."""
    written = write_journal(folder / "journal.db", arguments.events)
    empty = folder / "empty"
    empty.mkdir()
    took: Row = {}
    pending = []
    for name, place in (("events", folder), ("a snapshot", folder), ("an empty journal", empty)):
        service = Running(place)
        took[f"ready from {name}, s"] = await service.ready()
        took[f"processor, from {name}, s"] = service.cpu()
        users = (await Line(service.port).ask("GET", "/v1/users"))["users"]
        pending.append(sum(user["pending"] for user in users))
        service.stop()
    assert pending[0] == pending[1]
    return written | {"tasks that wait": pending[0]} | took


def write_journal(path: Path, events: int) -> Row:
    """Write what a full cluster's service writes: a job, a call of place and an end in turn."""
    from fairlead.service.journal.event_journal import Batch, Journal, digest_of_placements
    from fairlead.service.service_state import ServiceState

    journal, state = Journal(path), ServiceState("drf/best-fit")
    now, seq = time.time(), 0
    batch = Batch()

    def tell(kind: str, **body: Any) -> Any:
        nonlocal seq
        seq += 1
        moment = now + seq * 2.0**-10
        outcome = state.apply(kind, body, moment)
        if kind == "place":
            body["placed"] = digest_of_placements(outcome)
        batch.add(moment, kind, to_json(body))
        return outcome

    tell("policy", policy="drf/best-fit")
    for n in range(1000):
        capacity = {"cpu": 8.0, "memory": 32.0, "gpu": 0.0}
        tell("server", name=f"s{n}", capacity=capacity, labels={}, identity="1")
    running: deque[Any] = deque()
    asked = {"demand": {"cpu": 1.0, "memory": 2.0}, "gang": False, "where": None, "after": []}
    asked |= {"priority": 0, "time_limit": None}
    while seq < events:
        tell("submit", jobs=[{"user": f"user{seq % 1000}", "tasks": 1, **asked}])
        running += tell("place", limit=2000)
        if seq > 60_000:  # 8,000 run and 12,000 wait by then, as many as later
            tell("end", tasks=[[*running.popleft().key, 0, ""]])
        if len(batch.events) >= 500:
            journal.commit(batch, state.take_effects())
            batch = Batch()
    journal.commit(batch, state.take_effects())
    journal.close()
    return {"events": seq, "journal, MiB": path.stat().st_size / 2**20}


async def idle(folder: Path, arguments: argparse.Namespace) -> Row:
    """Look at a service with five workers and nothing to do, for a minute."""
    service = Running(folder)
    try:
        took = await service.ready()
        parks = [
            Park(service.port, [f"server{n}"], {"cpu": 8, "memory": "64Gi"}, lambda _: 1.0)
            for n in range(5)
        ]
        for park in parks:
            await park.join()
        over = asyncio.Event()
        working = [asyncio.create_task(park.work(over.is_set)) for park in parks]
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
    gc.disable()  # or it holds up all simulated workers for 70 ms, every 11,000 starts
    with TemporaryDirectory() as folder:
        found = asyncio.run(SCENARIOS[arguments.scenario](Path(folder), arguments))
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
