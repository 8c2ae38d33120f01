"""The memory of a service that runs for long is bounded."""

from __future__ import annotations

import time
from typing import Any

import httpx
import psutil
import pytest

from live_cluster import Cluster

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
