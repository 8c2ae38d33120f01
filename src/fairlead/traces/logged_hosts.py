"""Which servers the hosts of a batch system's log are: the log numbers them as it likes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from fairlead.model.cluster import Cluster, FloatArray
from fairlead.model.fitting import ROUNDING
from fairlead.traces.collecting import Place, Shape

UNKNOWN = -1


class LoggedHosts:
    """Gathers what ran on which host, and tells the group of each host from that.

    A host is of the group that most of what ran there was allowed on and fits. Where two groups
    are level nothing is known. The hosts of a group are its servers in ascending order of their
    numbers in the log; those beyond the group's servers are not known.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._numbers: dict[int, int] = {}
        self._ran: Counter[tuple[int, Shape, Place]] = Counter()

    def of_nodes(self, hosts: Sequence[int], cores: Sequence[float]) -> list[int]:
        """Return where each node of a job was, from the host of each core: numbers for `note`.

        The node of most cores is on the host that gave most; `UNKNOWN` for all where there are not
        as many hosts as nodes.
        """
        given = Counter(hosts).most_common()
        if len(given) != len(cores):
            return [UNKNOWN] * len(cores)
        found = [UNKNOWN] * len(cores)
        by_cores = sorted(range(len(cores)), key=lambda node: -cores[node])
        for node, (host, _) in zip(by_cores, given, strict=True):
            found[node] = self._numbers.setdefault(host, len(self._numbers))
        return found

    def note(self, numbers: Sequence[int], shape: Shape, place: Place) -> None:
        """Note that tasks of this shape, with this place, ran there."""
        for number in numbers:
            self._ran[number, shape, place] += 1

    def server_numbers(self) -> dict[int, int]:
        """Return the server of each host that is known, by the numbers of `of_nodes`."""
        count = self._cluster.count
        first = np.cumsum(count) - count
        taken = np.zeros(len(count), dtype=np.int64)
        room: FloatArray = self._cluster.capacity * (1 + ROUNDING)
        votes = np.zeros((len(self._numbers), len(count)), dtype=np.int64)
        for (number, shape, place), tasks in self._ran.items():
            if number != UNKNOWN:
                fits = (np.array(shape) <= room).all(axis=1)
                votes[number] += tasks * (np.array(place) & fits)
        servers: dict[int, int] = {}
        for _, number in sorted(self._numbers.items()):
            most = np.flatnonzero(votes[number] == votes[number].max())
            group = int(most[0])
            if len(most) == 1 and taken[group] < count[group]:
                servers[number] = int(first[group] + taken[group])
                taken[group] += 1
        return servers
