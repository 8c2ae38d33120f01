"""The machines behind a log, and which of them a node specification can mean."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fairlead.errors import InputError
from fairlead.model.workload_checks import MOST_SERVERS
from fairlead.traces.lines import read_lines
from fairlead.traces.node_spec import Chunk, NodeSpec

MACHINE_COLUMNS = ("cluster id", "name", "nodes", "CPUs per node", "speed", "RAM per node in KiB")
LARGEST_COUNT = 2**53
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*", re.ASCII)
_QUALIFIED_HOST = re.compile(r"[A-Za-z][\w-]*\.[\w.-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class MachineGroup:
    """One cluster of identical nodes; `cores` and `memory`, in bytes, are of one node."""

    name: str
    nodes: int
    cores: int
    memory: int


@dataclass(frozen=True)
class Machines:
    """All machines behind a log, in groups in the order of the file."""

    groups: tuple[MachineGroup, ...]

    @cached_property
    def _all(self) -> frozenset[str]:
        return frozenset(group.name for group in self.groups)

    @cached_property
    def _by_property(self) -> dict[str, frozenset[str]]:
        """The groups that a property names as a whole."""
        found: dict[str, frozenset[str]] = {}
        for group in self.groups:
            for alias in (group.name, f"cl_{group.name}"):
                found[alias] = frozenset({group.name})
            alike = f"nodecpus{group.cores}"
            found[alike] = found.get(alike, frozenset()) | {group.name}
        return found

    @cached_property
    def _host(self) -> re.Pattern[str]:
        """Match a node's name: the group's name, a number, and maybe a domain."""
        names = "|".join(sorted(map(re.escape, self._all), key=len, reverse=True))
        return re.compile(rf"({names})([0-9]{{1,9}})(?:\.[\w.-]+)?", re.ASCII)

    def groups_named(self, name: str) -> frozenset[str] | None:
        """Return the groups with a node of this name or property; None if it tells none apart.

        It is a group (``zewura``, ``cl_zewura``), a size (``nodecpus80``) or a node (``zewura12``,
        ``zewura12.cerit-sc.cz``, ``host=zewura12``). Raises InputError if the machine file has no
        such group, node or size.
        """
        if name in self._by_property:
            return self._by_property[name]
        host = name.removeprefix("host=")
        match = self._host.fullmatch(host)
        if match and 1 <= int(match[2]) <= self._sizes[match[1]]:
            return frozenset({match[1]})
        named = host != name or match is not None or _QUALIFIED_HOST.fullmatch(host) is not None
        if named or name.startswith("cl_") or re.fullmatch(r"nodecpus[0-9]+", name):
            raise InputError(f"property {name!r} names no group or node of the machine file")
        return None

    @cached_property
    def _sizes(self) -> dict[str, int]:
        return {group.name: group.nodes for group in self.groups}

    def groups_allowed(self, spec: NodeSpec) -> frozenset[str]:
        """Return the groups that a job's node specification leaves open, at least one.

        A chunk that names groups or nodes is left with those; one that excludes a group loses it.
        Excluding single nodes leaves their group open. A job with several chunks has the groups
        of all of them. An unknown name, or a chunk without any group, raises InputError.
        """
        allowed: frozenset[str] = frozenset()
        for chunk in spec.chunks:
            open_to_chunk = self.groups_allowed_to(chunk)
            if not open_to_chunk:
                raise InputError(f"node specification '{spec}' leaves no group open")
            allowed |= open_to_chunk
        return allowed

    def groups_allowed_to(self, chunk: Chunk) -> frozenset[str]:
        """Return the groups that a chunk leaves open, maybe none; InputError for unknown names."""
        allowed = self._all
        for name in chunk.required:
            allowed &= self.groups_named(name) or self._all
        for name in chunk.excluded:
            excluded = self.groups_named(name)
            if excluded is not None and self.is_group_name(name):
                allowed -= excluded
        return allowed

    def is_group_name(self, name: str) -> bool:
        """Return whether a property means whole groups, and not single nodes of one."""
        return name in self._by_property

    def indifferent(self, names: Iterable[str]) -> frozenset[str]:
        """Return those of the properties that do not tell groups apart."""
        return frozenset(name for name in names if self.groups_named(name) is None)


def read_machines(path: Path) -> Machines:
    """Read a machine file: one cluster per row, six columns separated by tabs or blanks.

    Parameters
    ----------
    path : Path
        The file. Its columns are `MACHINE_COLUMNS`; the speed is not used.

    Raises
    ------
    InputError
        For an unreadable or empty file, a wrong number of columns, a number of nodes, CPUs or
        KiB that is not a positive whole number, more than `MOST_SERVERS` nodes in all, a
        malformed name, or a name that occurs twice. It names the file and the row.
    """
    source = str(path)
    groups: list[MachineGroup] = []
    names: set[str] = set()
    total = 0
    for row, line in read_lines(path):
        if not line or line.startswith((";", "#")):
            continue
        place = f"row {row}"
        fields = line.split()
        if len(fields) != len(MACHINE_COLUMNS):
            expected = f"{len(MACHINE_COLUMNS)} ({', '.join(MACHINE_COLUMNS)})"
            raise InputError(f"{len(fields)} columns, not {expected}", place, source)
        name = fields[1]
        if not _NAME.fullmatch(name):
            raise InputError(f"column 2 (name): {name[:40]!r} is no name", place, source)
        if name in names:
            raise InputError(f"duplicate name {name!r}", place, source)
        names.add(name)
        nodes, cores, memory = (_positive(fields, k, place, source) for k in (2, 3, 5))
        total += nodes
        if total > MOST_SERVERS:
            fault = f"column 3 (nodes): {nodes:,} make more than {MOST_SERVERS:,} nodes in all"
            raise InputError(fault, place, source)
        groups.append(MachineGroup(name, nodes, cores, memory * 1024))
    if not groups:
        raise InputError("holds no machine", "", source)
    return Machines(tuple(groups))


def _positive(fields: list[str], column: int, place: str, source: str) -> int:
    text = fields[column]
    usable = len(text) <= 16 and text.isascii() and text.isdigit()
    if not usable or not 0 < int(text) <= LARGEST_COUNT // 1024:
        fault = f"{text[:40]!r} is not a positive whole number of usable size"
        what = f"column {column + 1} ({MACHINE_COLUMNS[column]})"
        raise InputError(f"{what}: {fault}", place, source)
    return int(text)
