"""Jobs of the services whose live page the tests look at."""

from __future__ import annotations

from live_cluster import Cluster


def submit(cluster: Cluster, *words: str) -> str:
    """Submit a job by the command, and return its number."""
    done = cluster.run("submit", "--chdir", "/tmp", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
