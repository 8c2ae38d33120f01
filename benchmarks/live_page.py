"""Measure the live page of a busy service: its answer times, and its cost in placements.

    python benchmarks/live_page.py                   # 20,000 servers, 1 to 3 million waiting tasks

Periods with open pages alternate with periods without; the ratio of their placements is the cost.
A page follows the stream, and requests its list of jobs, figures over time and servers every five
seconds, as a browser does. The service is a separate process; workers are simulated here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from service_load import (
    Connection,
    Row,
    RunningService,
    SimulatedWorkers,
    job,
    quantile,
    shared,
    submit,
)

TASKS_OF_SERVER = 4
RELOAD = 5.0  # seconds between a page's requests
REQUESTS = {
    "overview": ("GET", "/v1/overview", None),
    "jobs": ("GET", "/v1/jobs/search?sort=user", None),
    "jobs with a text": ("GET", "/v1/jobs/search?text=user77&sort=submitted", None),
    "servers": ("GET", "/v1/servers/search?text=server199", None),
    "user": ("GET", "/v1/users/user7", None),
    "cluster over time": ("GET", "/v1/cluster/over-time?seconds=604800", None),
    "shares over time": ("GET", "/v1/shares/over-time?seconds=604800", None),
    "shares": ("GET", "/v1/shares", None),
    "what if": ("POST", "/v1/what-if", {"weights": {"user7": 5}}),
}


async def follow(port: int) -> int:
    """Follow the stream until cancelled; return the number of bytes received."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**26)
    writer.write(f"GET /v1/live HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    size = 0
    try:
        while piece := await reader.read(2**16):
            size += len(piece)
    except asyncio.CancelledError:
        pass
    finally:
        writer.close()
    return size


async def first_view(port: int) -> None:
    """Open the stream as a new page does, and wait for its first summary."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**26)
    writer.write(f"GET /v1/live HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    await reader.readuntil(b"data: ")
    writer.close()


async def page(port: int) -> None:
    """Act as a browser with an open page, until cancelled."""
    following = asyncio.create_task(follow(port))
    connection = Connection(port)
    try:
        while True:
            for name in ("jobs", "servers", "cluster over time", "shares over time"):
                await connection.ask(*REQUESTS[name])
            await asyncio.sleep(RELOAD)
    finally:
        following.cancel()
        await following
        await connection.close()


async def timed(ask: Callable[[], Awaitable[object]], times: int) -> Row:
    """Time a request repeatedly; return quantiles in seconds."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        await ask()
        took.append(time.perf_counter() - began)
        await asyncio.sleep(0.05)
    return {"p50": statistics.median(took), "p99": quantile(took, 0.99), "most": max(took)}


async def measure(folder: Path, given: argparse.Namespace) -> Row:
    """Load a service, time requests, and count placements with and without open pages."""
    service = RunningService(folder, "--policy", given.policy)
    try:
        await service.ready()
        connection = Connection(service.port)
        lasts = given.servers * TASKS_OF_SERVER / given.rate  # mean seconds of a task
        clients = [
            SimulatedWorkers(
                service.port,
                part,
                {"cpu": TASKS_OF_SERVER, "memory": "16Gi"},
                lambda number: lasts * (0.5 + (number * 7919 % 1000) / 1000),
            )
            for part in shared([f"server{n}" for n in range(given.servers)], 8)
        ]
        per_job = max(1, given.tasks // given.jobs)
        jobs = [
            job(n % given.users, tasks=per_job, memory=f"{1 + n % 4}Gi") for n in range(given.jobs)
        ]
        await submit(connection, jobs)
        for client in clients:
            await client.join()
        over = asyncio.Event()
        working = [asyncio.create_task(client.work(over.is_set)) for client in clients]
        while sum(client.starts for client in clients) < given.servers * TASKS_OF_SERVER:
            await asyncio.sleep(0.1)
        await asyncio.sleep(lasts)
        late = f"/v1/jobs/{given.jobs - 100}"  # a job that waits long
        asked_late = {what: ("GET", f"{late}/{what}", None) for what in ("explain", "when")}
        answers = {
            name: await timed(lambda asked=asked: connection.ask(*asked), given.times)
            for name, asked in (REQUESTS | asked_late).items()
        }
        answers["first summary of the stream"] = await timed(
            lambda: first_view(service.port), given.times
        )
        rates: dict[bool, list[float]] = {False: [], True: []}
        cores: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(given.rounds):
            for has_pages in (False, True):
                pages = [asyncio.create_task(page(service.port)) for _ in range(given.pages)]
                if not has_pages:
                    for one in pages:
                        one.cancel()
                await asyncio.sleep(2)
                starts, cpu, began = (
                    sum(c.starts for c in clients),
                    service.cpu(),
                    time.perf_counter(),
                )
                await asyncio.sleep(given.seconds)
                took = time.perf_counter() - began
                rates[has_pages].append((sum(c.starts for c in clients) - starts) / took)
                cores[has_pages].append((service.cpu() - cpu) / took)
                for one in pages:
                    one.cancel()
                await asyncio.gather(*pages, return_exceptions=True)
        over.set()
        await asyncio.gather(*working)
        size = len(json.dumps(await connection.ask("GET", "/v1/overview")))
        return {
            "answers, s": answers,
            "bytes of the summary": size,
            "placements a second without pages": rates[False],
            "with pages": rates[True],
            "with over without, median": statistics.median(rates[True])
            / statistics.median(rates[False]),
            "service's cores without and with": [
                statistics.median(cores[k]) for k in (False, True)
            ],
        }
    finally:
        service.stop()


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", type=int, default=20_000)
    parser.add_argument("--tasks", type=int, default=3_000_000)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--pages", type=int, default=3)
    parser.add_argument("--policy", default="drf/best-fit")
    parser.add_argument(
        "--rate", type=float, default=1e4, help="tasks that end a second, if the service keeps up"
    )
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--times", type=int, default=30)
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        print(json.dumps(asyncio.run(measure(Path(folder), given)), indent=2))


if __name__ == "__main__":
    main()
