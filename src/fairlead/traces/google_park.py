"""Build the machine park of Google's trace of 2011: Table I of Wang, Liang and Li.

Capacities are shares of the largest server. Source: W. Wang, B. Liang, B. Li, "Dominant resource
fairness in cloud computing systems with heterogeneous servers", INFOCOM 2014, Table I.
"""

from __future__ import annotations

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import Cluster, IntArray
from fairlead.model.quantity import show

RESOURCES = ("cpu", "memory")
UNITS = ("of the largest server", "of the largest server")

# Number of servers, CPU, memory.
TABLE_I = (
    (6732, 0.50, 0.50),
    (3863, 0.50, 0.25),
    (1001, 0.50, 0.75),
    (795, 1.00, 1.00),
    (126, 0.25, 0.25),
    (52, 0.50, 0.12),
    (5, 0.50, 0.03),
    (5, 0.50, 0.97),
    (3, 1.00, 0.50),
    (1, 0.50, 0.06),
)
COUNTS = np.array([count for count, _, _ in TABLE_I], dtype=np.int64)
SERVERS = int(COUNTS.sum())

# A replay keeps some hundred bytes for each server.
MOST_SERVERS = 10_000_000


def draw_park(servers: int, rng: np.random.Generator) -> Cluster:
    """Draw servers at random from Table I; groups are in the order of the table."""
    _check_number(servers)
    return _make_cluster(rng.multinomial(servers, COUNTS / SERVERS))


def park_in_proportion(counts: IntArray, servers: int) -> Cluster:
    """Return a cluster of this many servers, in proportion to counts by row of Table I.

    The largest remainders round up.
    """
    _check_number(servers)
    exact, total = counts * servers, counts.sum()
    divided: IntArray = exact // total
    missing = servers - divided.sum()
    divided[np.argsort(-(exact % total), kind="stable")[:missing]] += 1
    return _make_cluster(divided)


def _check_number(servers: int) -> None:
    if not 1 <= servers <= MOST_SERVERS:
        raise InputError(f"must be from 1 to {MOST_SERVERS:,}, not {show(servers)}", "servers")


def _make_cluster(counts: IntArray) -> Cluster:
    kept = [(int(count), row) for count, row in zip(counts, TABLE_I, strict=True) if count]
    return Cluster(
        groups=tuple(f"cpu-{cpu:.2f}-memory-{memory:.2f}" for _, (_, cpu, memory) in kept),
        resources=RESOURCES,
        capacity=np.array([row[1:] for _, row in kept]),
        count=np.array([count for count, _ in kept], dtype=np.int64),
        units=UNITS,
        labels=({},) * len(kept),
    )
