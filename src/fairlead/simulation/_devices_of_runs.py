"""The devices of the tasks that run at a time of a replay, which its log does not hold."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from fairlead.model.cluster import IntArray
from fairlead.model.devices import choose_devices
from fairlead.model.run_log import RunLog


def devices_of_runs(
    log: RunLog, time: float, demand: IntArray, capacity: IntArray, unit: int
) -> dict[int, list[int]]:
    """Replay starts and ends up to a time; return the devices of the runs that go on. O(n log n).

    At one time tasks end before others start, as in the event loop, and starts have the order of
    the log. Reserved starts may have had other devices.

    Parameters
    ----------
    log : RunLog
    time : float
        In seconds.
    demand : (n,) array of int
        Quanta of the resource that each run takes.
    capacity : (S,) array of int
        Quanta of each server.
    unit : int
        Quanta of one device.
    """
    # A run that is preempted as it starts takes nothing.
    rows = np.flatnonzero((log.start <= time) & (log.start < log.end) & (demand > 0))
    ended = rows[log.end[rows] <= time]
    at = np.concatenate([log.start[rows], log.end[ended]])
    is_start = np.concatenate([np.ones(len(rows), dtype=bool), np.zeros(len(ended), dtype=bool)])
    row = np.concatenate([rows, ended])
    free: dict[int, list[int]] = defaultdict(list)
    for server in np.unique(log.server[rows]).tolist():
        free[server] = [unit] * (int(capacity[server]) // unit)
    found: dict[int, list[int]] = {}
    for k in np.lexsort((row, is_start, at)).tolist():
        run = int(row[k])
        devices, asked = free[int(log.server[run])], int(demand[run])
        if is_start[k]:
            found[run] = choose_devices(devices, asked, unit)
            for number in found[run]:
                devices[number] -= min(asked, unit)
        else:
            for number in found.pop(run):
                devices[number] += min(asked, unit)
    return found
