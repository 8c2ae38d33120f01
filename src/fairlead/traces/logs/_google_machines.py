"""Read the machines of Google's traces: their presence, and the conditions that they meet."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fairlead.errors import InputError
from fairlead.model.cluster import BoolArray, Cluster
from fairlead.model.workload import JOIN, LEAVE
from fairlead.traces.google_park import RESOURCES, UNITS
from fairlead.traces.logs.google_tables import (
    EQUAL,
    LESS,
    MACHINE_ADD,
    MACHINE_ATTRIBUTES,
    MACHINE_EVENTS,
    MACHINE_REMOVE,
    MICROSECONDS,
    NOT_EQUAL,
    TRACE_START,
    Progress,
    read_parts,
)
from fairlead.traces.logs.job_collector import group_equal

NO_CAPACITY = "events of machines left out, as their capacity is not known"
UPDATE_OF_ABSENT = "updates of machines that were not there, ignored"
REMOVAL_OF_ABSENT = "removals of machines that were not there, ignored"
ATTRIBUTE_CHANGES = "changes of machine attributes, ignored; the first value counts"
_WHOLE = re.compile(r"[+-]?[0-9]{1,400}")


class Condition(NamedTuple):
    """A placement constraint of a task: compares an attribute of machines with a value."""

    operator: int  # 0 equal, 1 not equal, 2 less, 3 greater
    attribute: str
    value: str  # empty if the trace has no value

    def met_by(self, value: str | None) -> bool:
        """Return whether a machine with this value of the attribute meets the condition.

        None is a missing attribute. It counts as an empty text for ``equal`` and ``not equal``, and
        meets neither ``less`` nor ``greater``, like any value that is not a whole number.
        """
        if self.operator in (EQUAL, NOT_EQUAL):
            return ((value or "") == self.value) == (self.operator == EQUAL)
        # int() would also accept 1_000.
        if not (_WHOLE.fullmatch(value or "") and _WHOLE.fullmatch(self.value)):
            return False
        found, bound = int(value or ""), int(self.value)
        return found < bound if self.operator == LESS else found > bound


class GoogleMachines(NamedTuple):
    """All machines of the trace.

    A group has the machines of equal capacity that meet the same conditions. A machine whose
    capacity changes is another server from then on.
    """

    cluster: Cluster
    events: list[tuple[float, int, int]]  # time, event, server, as in `Workload`
    meets: BoolArray  # (G, conditions): whether the machines of a group meet each condition
    joined: list[tuple[float, int, int]]  # time, machine, and its server from that time on


class _MachineRow(NamedTuple):
    machine: int
    cpu: float
    memory: float


def read_machines(
    parts: Sequence[Path],
    attribute_parts: Sequence[Path],
    conditions: Sequence[Condition],
    notes: Counter[str],
    progress: Progress,
) -> GoogleMachines:
    """Read the machines' events, and the attributes to which conditions refer.

    Cost O(events + attributes + machines times conditions).
    """
    rows = (
        block.frame.select("time", "machine ID", "event type", "CPUs", "memory").iter_rows()
        for block in read_parts(parts, MACHINE_EVENTS, progress)
    )
    history = MachineHistory(chain.from_iterable(rows), str(parts[0]), notes)
    attributes = _read_attributes(
        attribute_parts, {c.attribute for c in conditions}, notes, progress
    )
    return group_machines(history, attributes, conditions)


def group_machines(
    history: MachineHistory,
    attributes: Mapping[int, Mapping[str, str]],
    conditions: Sequence[Condition],
) -> GoogleMachines:
    """Group the servers of a history, at least one, by capacity and by the conditions they meet."""
    kinds: dict[int, tuple[float, float, tuple[bool, ...]]] = {}
    for number, server in enumerate(history.servers):
        of_machine = attributes.get(server.machine, {})
        met = tuple(c.met_by(of_machine.get(c.attribute)) for c in conditions)
        kinds[number] = server.cpu, server.memory, met
    groups, position = group_equal(kinds)
    return GoogleMachines(
        cluster=_make_cluster(groups),
        events=[(time, event, position[number]) for time, event, number in history.events],
        joined=[(time, machine, position[number]) for time, machine, number in history.joined],
        meets=np.array([met for _, _, met in groups], dtype=bool).reshape(len(groups), -1),
    )


def _make_cluster(groups: dict[tuple[float, float, tuple[bool, ...]], list[int]]) -> Cluster:
    kinds: Counter[str] = Counter()  # groups of each capacity
    names: list[str] = []
    for cpu, memory, _ in groups:
        name = f"cpu-{cpu:g}-memory-{memory:g}"
        kinds[name] += 1
        names.append(name if kinds[name] == 1 else f"{name}-kind-{kinds[name]}")
    return Cluster(
        groups=tuple(names),
        resources=RESOURCES,
        capacity=np.array([key[:2] for key in groups]),
        count=np.array([len(numbers) for numbers in groups.values()]),
        units=UNITS,
        labels=({},) * len(groups),
    )


class MachineHistory:
    """The servers of machines, and their events in order of time.

    The fields of a row are: time in microseconds, machine, kind of event as numbered in the trace
    of 2011, CPU, memory. Raises InputError if no machine has a known capacity.
    """

    def __init__(self, rows: Iterable[tuple[Any, ...]], source: str, notes: Counter[str]) -> None:
        self.servers: dict[_MachineRow, int] = {}
        self.events: list[tuple[float, int, int]] = []  # time, event, server
        self.joined: list[tuple[float, int, int]] = []  # time, machine, server
        self._present: dict[int, _MachineRow] = {}
        self._notes = notes
        for time, machine, event, cpu, memory in rows:
            # Seconds from the start of the trace; 0 for all earlier events.
            self._add(max(0.0, time / MICROSECONDS - TRACE_START), machine, event, cpu, memory)
        if not self.servers:
            raise InputError("holds no machine of known capacity", "", source)

    def _add(
        self, time: float, machine: int, event: int, cpu: float | None, memory: float | None
    ) -> None:
        present = self._present.get(machine)
        if event == MACHINE_REMOVE:
            if present is None:
                self._notes[REMOVAL_OF_ABSENT] += 1
            else:
                self._remove(time, present)
            return
        if event != MACHINE_ADD and present is None:
            # The machine's next addition states its capacity again.
            self._notes[UPDATE_OF_ABSENT] += 1
            return
        if cpu is None or memory is None or cpu + memory == 0:
            self._notes[NO_CAPACITY] += 1
            return
        server = _MachineRow(machine, cpu, memory)
        if server == present:
            return
        if present is not None:
            self._remove(time, present)
        known = server in self.servers
        number = self.servers.setdefault(server, len(self.servers))
        self._present[machine] = server
        self.joined.append((time, machine, number))
        # Servers that are present from the start need no event.
        if time > 0 or known:
            self.events.append((time, JOIN, number))

    def _remove(self, time: float, server: _MachineRow) -> None:
        del self._present[server.machine]
        self.events.append((time, LEAVE, self.servers[server]))


def _read_attributes(
    parts: Sequence[Path], wanted: set[str], notes: Counter[str], progress: Progress
) -> dict[int, dict[str, str]]:
    """Return, for each machine, the first value of each wanted attribute; count later changes."""
    found: dict[int, dict[str, str]] = {}
    for block in read_parts(parts, MACHINE_ATTRIBUTES, progress):
        kept = block.frame.filter(pl.col("attribute name").is_in(list(wanted)))
        for machine, name, value, deleted in kept.select(
            "machine ID", "attribute name", "attribute value", "attribute deleted"
        ).iter_rows():
            of_machine = found.setdefault(machine, {})
            if name in of_machine or deleted:
                notes[ATTRIBUTE_CHANGES] += 1
            else:
                of_machine[name] = value or ""
    return found
