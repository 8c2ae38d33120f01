"""The machine park of Google's trace of 2011: Table I of Wang, Liang and Li.

Capacities are shares of the largest server. Source: W. Wang, B. Liang, B. Li, "Dominant resource
fairness in cloud computing systems with heterogeneous servers", INFOCOM 2014, Table I.
"""

from __future__ import annotations

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import Cluster, IntArray

RESOURCES = ("cpu", "memory")
UNITS = ("of the largest server", "of the largest server")

# Servers, CPU, memory.
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

# The draw of Fig. 4 of the same paper: 100 servers with so much of each resource.
FIGURE_4_SERVERS = 100
FIGURE_4_TOTAL = (52.75, 51.32)
_DRAWS = 4096


def draw_park(servers: int, rng: np.random.Generator) -> Cluster:
    """Draw servers at random from Table I, each by itself.

    Parameters
    ----------
    servers : int
        How many.
    rng : Generator
        Source of chance.

    Returns
    -------
    Cluster
        The classes that were drawn, in the order of the table.

    Raises
    ------
    InputError
        When the number is not positive.
    """
    _check(servers)
    return _cluster(rng.multinomial(servers, _counts() / SERVERS))


def scale_park(servers: int = SERVERS) -> Cluster:
    """Return servers in the proportions of Table I, as nearly as whole servers can.

    Parameters
    ----------
    servers : int
        How many; the whole park, which is the table itself, when absent. Rounding goes to the
        classes with the largest remainders.

    Raises
    ------
    InputError
        When the number is not positive.
    """
    _check(servers)
    exact = _counts() * servers
    counts = exact // SERVERS
    missing = servers - counts.sum()
    counts[np.argsort(-(exact % SERVERS), kind="stable")[:missing]] += 1
    return _cluster(counts)


def draw_figure_4_park(rng: np.random.Generator) -> Cluster:
    """Draw 100 servers from Table I with about 52.75 CPU and 51.32 memory in all.

    The paper gives the totals of its draw and not the draw: of 4,096 draws the one nearest to both
    totals is taken.
    """
    draws = rng.multinomial(FIGURE_4_SERVERS, _counts() / SERVERS, size=_DRAWS)
    totals = draws @ np.array([row[1:] for row in TABLE_I])
    distance = np.abs(totals / FIGURE_4_TOTAL - 1).max(axis=1)
    return _cluster(draws[int(np.argmin(distance))])


def _counts() -> IntArray:
    return np.array([count for count, _, _ in TABLE_I], dtype=np.int64)


def _check(servers: int) -> None:
    if servers < 1:
        raise InputError(f"there must be a server, not {servers}", "servers")


def _cluster(counts: IntArray) -> Cluster:
    kept = [(int(count), row) for count, row in zip(counts, TABLE_I, strict=True) if count]
    return Cluster(
        groups=tuple(f"cpu-{cpu:.2f}-memory-{memory:.2f}" for _, (_, cpu, memory) in kept),
        resources=RESOURCES,
        capacity=np.array([row[1:] for _, row in kept]),
        count=np.array([count for count, _ in kept], dtype=np.int64),
        units=UNITS,
        labels=({},) * len(kept),
    )
