"""Read the tables of Google's trace of 2011 by their published schema, and the machines in them.

Clusterdata-2011-2, format version 2.1: each table is a folder of parts without headers, such as
``part-00000-of-00500.csv.gz``. Times are whole microseconds. The trace starts at 600 s; 0 means
before the trace, and 2^63 - 1 after its end. Amounts are shares of the largest machine. Source:
C. Reiss, J. Wilkes, J. L. Hellerstein, "Google cluster-usage traces: format + schema"; field names
are those of the trace's own ``schema.csv``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fairlead.errors import InputError
from fairlead.model.cluster import BoolArray, Cluster
from fairlead.model.workload import JOIN, LEAVE
from fairlead.traces._csv_tables import Block, TraceColumn, read_blocks
from fairlead.traces._stored_files import ProgressReport
from fairlead.traces.generator import RESOURCES, UNITS
from fairlead.traces.logs.job_collector import group_equal

PART = "part-*-of-*.csv*"
MICROSECONDS = 1_000_000
TRACE_START = 600  # seconds
AFTER_TRACE = 2**63 - 1

SUBMIT, SCHEDULE, EVICT, FAIL, FINISH, KILL, LOST, UPDATE_PENDING, UPDATE_RUNNING = range(9)
ENDINGS = {EVICT: "evicted", FAIL: "failed", FINISH: "finished", KILL: "killed", LOST: "lost"}
MACHINE_ADD, MACHINE_REMOVE, MACHINE_UPDATE = range(3)
EQUAL, NOT_EQUAL, LESS, GREATER = range(4)

NO_CAPACITY = "events of machines left out, as their capacity is not known"
UPDATE_OF_ABSENT = "updates of machines that were not there, ignored"
REMOVAL_OF_ABSENT = "removals of machines that were not there, ignored"
ATTRIBUTE_CHANGES = "changes of machine attributes, ignored; the first value counts"
_WHOLE = re.compile(r"[+-]?[0-9]{1,400}")

_TIME = TraceColumn("time", "whole", most=AFTER_TRACE)
JOB_EVENTS = (
    _TIME,
    TraceColumn("missing info", "whole", optional=True),
    TraceColumn("job ID", "whole", most=AFTER_TRACE),
    TraceColumn("event type", "whole", most=UPDATE_RUNNING),
    TraceColumn("user", optional=True),
    TraceColumn("scheduling class", "whole", optional=True),
    TraceColumn("job name", optional=True),
    TraceColumn("logical job name", optional=True),
)
TASK_EVENTS = (
    _TIME,
    TraceColumn("missing info", "whole", optional=True),
    TraceColumn("job ID", "whole", most=AFTER_TRACE),
    TraceColumn("task index", "whole", most=2**31 - 1),
    TraceColumn("machine ID", "whole", most=AFTER_TRACE, optional=True),
    TraceColumn("event type", "whole", most=UPDATE_RUNNING),
    TraceColumn("user", optional=True),
    TraceColumn("scheduling class", "whole", optional=True),
    TraceColumn("priority", "whole"),
    TraceColumn("CPU request", "real", optional=True),
    TraceColumn("memory request", "real", optional=True),
    TraceColumn("disk space request", "real", optional=True),
    TraceColumn("different machines restriction", optional=True),
)
MACHINE_EVENTS = (
    _TIME,
    TraceColumn("machine ID", "whole", most=AFTER_TRACE),
    TraceColumn("event type", "whole", most=MACHINE_UPDATE),
    TraceColumn("platform ID", optional=True),
    TraceColumn("CPUs", "real", optional=True),
    TraceColumn("memory", "real", optional=True),
)
MACHINE_ATTRIBUTES = (
    _TIME,
    TraceColumn("machine ID", "whole", most=AFTER_TRACE),
    TraceColumn("attribute name"),
    TraceColumn("attribute value", optional=True),
    TraceColumn("attribute deleted", "whole", most=1),
)
TASK_CONSTRAINTS = (
    _TIME,
    TraceColumn("job ID", "whole", most=AFTER_TRACE),
    TraceColumn("task index", "whole", most=2**31 - 1),
    TraceColumn("comparison operator", "whole", most=GREATER),
    TraceColumn("attribute name"),
    TraceColumn("attribute value", optional=True),
)


def parts_of(folder: Path, table: str) -> list[Path]:
    """Return a table's parts in order; none if it has no folder.

    Raises InputError for a part that is there both plain and compressed.
    """
    return each_once(sorted((folder / table).glob(PART)))


def each_once(parts: list[Path]) -> list[Path]:
    """Return the parts, which are sorted; InputError for a part that is plain and compressed."""
    for previous, part in pairwise(parts):
        if stem_of(previous) == stem_of(part):
            raise InputError(f"is there twice, also as {previous.name}", "", str(part))
    return parts


def stem_of(part: Path) -> str:
    """Return a file's name up to the first dot."""
    return part.name.partition(".")[0]


class Progress:
    """Reports the progress of several files as if they were one file."""

    def __init__(self, report: ProgressReport | None, files: Sequence[Path]) -> None:
        self._report = report
        self._before = 0
        self._total = sum(file.stat().st_size for file in files if file.exists())

    def report_bytes(self, done: int, size: int) -> None:
        """Report the bytes read of the current file; once all are read, the next file follows."""
        if self._report is not None:
            self._report(self._before + done, self._total)
        if done == size:
            self._before += size


def read_parts(
    parts: Sequence[Path], columns: Sequence[TraceColumn], progress: Progress
) -> Iterator[Block]:
    """Yield the blocks of a table; raise InputError for times that descend, also between parts."""
    latest = 0
    for part in parts:
        for block in read_blocks(part, columns, on_progress=progress.report_bytes):
            time = block.frame["time"]
            earlier = time.shift(1, fill_value=latest)
            block.refuse(time < earlier, "is before the row above", "time")
            latest = int(time[-1])
            yield block


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


class MachineHistory(NamedTuple):
    """The servers of machines, and their events in order of time."""

    servers: dict[_MachineRow, int]  # the number of each
    events: list[tuple[float, int, int]]  # time, event, server
    joined: list[tuple[float, int, int]]  # time, machine, server


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
    history = machine_history(chain.from_iterable(rows), str(parts[0]), notes)
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


def machine_history(
    rows: Iterable[tuple[Any, ...]], source: str, notes: Counter[str]
) -> MachineHistory:
    """Return the servers of machines, and their events in order of time.

    The fields of a row are: time in microseconds, machine, kind of event as numbered in the trace
    of 2011, CPU, memory. Raises InputError if no machine has a known capacity.
    """
    servers: dict[_MachineRow, int] = {}
    found = MachineHistory(servers, [], [])
    present: dict[int, _MachineRow] = {}
    for microseconds, machine, event, cpu, memory in rows:
        # Seconds from the start of the trace; 0 for all earlier events.
        time = max(0.0, microseconds / MICROSECONDS - TRACE_START)
        if event != MACHINE_ADD and machine not in present:
            # After an update, the machine's next addition states its capacity again.
            notes[REMOVAL_OF_ABSENT if event == MACHINE_REMOVE else UPDATE_OF_ABSENT] += 1
            continue
        stays = event != MACHINE_REMOVE
        if stays and (cpu is None or memory is None or cpu + memory == 0):
            notes[NO_CAPACITY] += 1
            continue
        server = _MachineRow(machine, cpu, memory)
        if stays and server == present.get(machine):
            continue
        if machine in present:
            found.events.append((time, LEAVE, servers[present.pop(machine)]))
        if stays:
            from_start = time == 0 and server not in servers  # needs no event
            number = servers.setdefault(server, len(servers))
            present[machine] = server
            found.joined.append((time, machine, number))
            if not from_start:
                found.events.append((time, JOIN, number))
    if not servers:
        raise InputError("holds no machine of known capacity", "", source)
    return found


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
