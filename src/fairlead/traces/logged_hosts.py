"""Which servers the hosts of a batch system's log are: the log numbers them as it likes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from fairlead.model.cluster import BoolArray, Cluster, FloatArray, IntArray
from fairlead.model.fitting import ROUNDING
from fairlead.traces.collecting import Place, Shape

UNKNOWN = -1


class LoggedHosts:
    """Gathers what ran on which host, and tells the group of each host from that.

    A host is of the group that most of what ran there was allowed on and fits. Where two groups
    are level nothing is known. The hosts of a group are its servers in ascending order of their
    numbers in the log; those beyond the group's servers are not known.

    Parameters
    ----------
    cluster : Cluster
        The groups.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._numbers: dict[int, int] = {}
        self._votes: list[IntArray] = []
        self._may_be: dict[tuple[Shape, Place], BoolArray] = {}

    def of_nodes(self, hosts: Sequence[int], cores: Sequence[float]) -> list[int]:
        """Say where each node of a job was.

        Parameters
        ----------
        hosts : sequence of int
            The host of each core.
        cores : sequence of float
            Cores of each node.

        Returns
        -------
        list of int
            Numbers for `note` and `server_numbers`. The node of most cores is on the host that gave
            most; `UNKNOWN` for all where there are not as many hosts as nodes.
        """
        given = Counter(hosts).most_common()
        if len(given) != len(cores):
            return [UNKNOWN] * len(cores)
        found = [UNKNOWN] * len(cores)
        by_cores = sorted(range(len(cores)), key=lambda node: -cores[node])
        for node, (host, _) in zip(by_cores, given, strict=True):
            found[node] = self._numbers.setdefault(host, len(self._numbers))
        self._votes += [
            np.zeros(len(self._cluster.groups), dtype=np.int64)
            for _ in range(len(self._numbers) - len(self._votes))
        ]
        return found

    def note(self, number: int, shape: Shape, place: Place) -> None:
        """Note that a task of this shape, with this place, ran there."""
        if number == UNKNOWN:
            return
        key = (shape, place)
        if key not in self._may_be:
            room: FloatArray = self._cluster.capacity * (1 + ROUNDING)
            self._may_be[key] = np.array(place) & (np.array(shape) <= room).all(axis=1)
        self._votes[number] += self._may_be[key]

    def server_numbers(self) -> dict[int, int]:
        """Return the server of each host that is known, by the numbers of `of_nodes`."""
        first = np.cumsum(self._cluster.count) - self._cluster.count
        taken = np.zeros(len(first), dtype=np.int64)
        servers: dict[int, int] = {}
        for _, number in sorted(self._numbers.items()):
            votes = self._votes[number]
            group = int(np.argmax(votes))
            alone = int((votes == votes[group]).sum()) == 1
            if alone and taken[group] < self._cluster.count[group]:
                servers[number] = int(first[group] + taken[group])
                taken[group] += 1
        return servers
