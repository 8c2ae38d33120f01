"""Build the machine park of Google's trace of 2011: Table I of Wang, Liang and Li.

Capacities are shares of the largest server. Source: W. Wang, B. Liang, B. Li, "Dominant resource
fairness in cloud computing systems with heterogeneous servers", INFOCOM 2014, Table I.

The 100 servers of the paper's Fig. 4 were drawn from that table. The paper prints their totals,
52.75 CPU and 51.32 memory, and the users' shares of memory: 62 % for user 1 by itself, 44 % each
for users 1 and 2, 26 % each for all three. Of the sets of servers with these totals,
`figure_4_park` is the one whose shares under best-fit come nearest: 61.9 %, then 43.2 and 42.7 %,
then 27.4 to 28.0 %. papers/docs/reproducing.md explains why no such set gives 26 % if tasks are
packed as well.
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
SERVERS = sum(count for count, _, _ in TABLE_I)

# A replay keeps some hundred bytes for each server.
MOST_SERVERS = 10_000_000

# The servers of Fig. 4 of the same paper, in the order of the table.
FIGURE_4_COUNTS = (72, 12, 8, 6, 1, 1, 0, 0, 0, 0)


def draw_park(servers: int, rng: np.random.Generator) -> Cluster:
    """Draw servers at random from Table I; groups are in the order of the table."""
    _check_number(servers)
    return _make_cluster(rng.multinomial(servers, _counts() / SERVERS))


def scale_park(servers: int = SERVERS) -> Cluster:
    """Return a cluster of this many servers, in the proportions of Table I."""
    _check_number(servers)
    return _make_cluster(_divide(_counts(), servers))


def figure_4_park(servers: int = 100) -> Cluster:
    """Return the 100 servers of Fig. 4, or another number in the same proportions.

    The 100 servers have 52.75 CPU and 51.37 memory in total. Memory adds up to 51.32, as printed,
    with the sizes that the trace has (0.4995, 0.2493, 0.749 and 0.1241) instead of the two digits
    of Table I.
    """
    _check_number(servers)
    return _make_cluster(_divide(np.array(FIGURE_4_COUNTS, dtype=np.int64), servers))


def _counts() -> IntArray:
    return np.array([count for count, _, _ in TABLE_I], dtype=np.int64)


def _divide(counts: IntArray, servers: int) -> IntArray:
    """Divide a number of servers in proportion to counts; the largest remainders round up."""
    exact, total = counts * servers, counts.sum()
    divided: IntArray = exact // total
    missing = servers - divided.sum()
    divided[np.argsort(-(exact % total), kind="stable")[:missing]] += 1
    return divided


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
