"""Read MetaCentrum's machine file, and find the groups that a PBS node specification allows.

A node specification is ``2:ppn=8:x86_64:^zewura12+1:ppn=4#excl``: chunks joined by ``+``. A chunk
is a number of nodes (1 if absent), followed in any order by

- the cores per node (``ppn=``, 1 if absent),
- properties that each node must have or, with ``^``, must not have.

``#excl`` at the end requests nodes without other jobs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from fairlead.errors import InputError
from fairlead.model.workload_checks import MOST_SERVERS
from fairlead.traces._stored_files import read_lines

MACHINE_COLUMNS = ("cluster id", "name", "nodes", "CPUs per node", "speed", "RAM per node in KiB")
LARGEST_EXACT = 2**53
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*", re.ASCII)
_QUALIFIED_HOST = re.compile(r"[A-Za-z][\w-]*\.[\w.-]+", re.ASCII)

EXCLUSIVE = "excl"
_NODES = re.compile(r"[0-9]{1,9}")
_CORES = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_PROPERTY = re.compile(r"\^?[A-Za-z_][\w.=/-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Equal nodes that a job requests."""

    nodes: int
    cores: float  # of each node, possibly a fraction
    required: tuple[str, ...]  # properties that a node must have
    excluded: tuple[str, ...]  # properties that a node must not have, without the ``^``


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """All nodes that a job requests."""

    text: str  # as written
    chunks: tuple[Chunk, ...]  # at least one
    exclusive: bool  # whether the nodes run no other job

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return sum(chunk.nodes for chunk in self.chunks)


# A log has few different specifications.
@lru_cache(maxsize=65536)
def parse_node_spec(text: str) -> NodeSpec:
    """Parse a node specification such as ``1:ppn=12:cl_zewura#excl``.

    Raises InputError for a malformed one.
    """
    body, hash_sign, suffix = text.partition("#")
    if hash_sign and suffix != EXCLUSIVE:
        raise InputError(f"node specification {text!r}: unknown suffix '#{suffix}'")
    chunks = tuple(_parse_chunk(part, text) for part in body.split("+"))
    return NodeSpec(text, chunks, exclusive=bool(hash_sign))


def _parse_chunk(part: str, text: str) -> Chunk:
    """Parse a chunk such as ``2:ppn=8:x86_64`` of the node specification `text`."""
    nodes = 1
    cores: float | None = None
    properties: list[str] = []
    for position, field in enumerate(part.split(":")):
        if position == 0 and _NODES.fullmatch(field):
            nodes = int(field)
        elif field.startswith("ppn="):
            number = field.removeprefix("ppn=")
            if cores is not None or not _CORES.fullmatch(number):
                raise InputError(f"node specification {text!r}: {field!r} is not a number of cores")
            cores = float(number)
        elif _PROPERTY.fullmatch(field):
            properties.append(field)
        else:
            raise InputError(f"node specification {text!r}: {field!r} is not a property")
    if nodes < 1 or cores == 0:
        raise InputError(f"node specification {text!r}: asks for 0 nodes or cores")
    required = tuple(name for name in properties if not name.startswith("^"))
    excluded = tuple(name[1:] for name in properties if name.startswith("^"))
    return Chunk(nodes, 1.0 if cores is None else cores, required, excluded)


@dataclass(frozen=True, slots=True)
class MachineGroup:
    """A cluster of identical nodes."""

    name: str
    nodes: int
    cores: int  # of a node
    memory: int  # bytes of a node


@dataclass(frozen=True)
class Machines:
    """All machines of a log, in groups in the order of the file."""

    groups: tuple[MachineGroup, ...]

    @cached_property
    def _sizes(self) -> dict[str, int]:
        """The number of nodes of each group."""
        return {group.name: group.nodes for group in self.groups}

    @cached_property
    def _by_property(self) -> dict[str, frozenset[str]]:
        """The groups for which a property stands: by their name, or by their number of cores."""
        found: dict[str, frozenset[str]] = {}
        for group in self.groups:
            for alias in (group.name, f"cl_{group.name}"):
                found[alias] = frozenset({group.name})
            size = f"nodecpus{group.cores}"
            found[size] = found.get(size, frozenset()) | {group.name}
        return found

    @cached_property
    def _host(self) -> re.Pattern[str]:
        """A pattern for a node's name: the group's name, a number, and maybe a domain."""
        names = "|".join(sorted(map(re.escape, self._sizes), key=len, reverse=True))
        return re.compile(rf"({names})([0-9]{{1,9}})(?:\.[\w.-]+)?", re.ASCII)

    def groups_named(self, name: str) -> frozenset[str] | None:
        """Return the groups with a node of this name or property; None for other properties.

        A name may be of a group (``zewura``, ``cl_zewura``), a size (``nodecpus80``) or a node
        (``zewura12``, ``zewura12.cerit-sc.cz``, ``host=zewura12``). Raises InputError if the
        machine file has no such group, node or size.
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

    def groups_allowed(self, spec: NodeSpec) -> frozenset[str]:
        """Return the groups that a job's node specification allows, at least one.

        A chunk that names groups or nodes is allowed only on their groups. Excluded groups are
        closed; the group of an excluded single node stays open. The result is the union over
        chunks. Raises InputError for an unknown name, or a chunk to which no group is open.
        """
        return frozenset().union(*(self.groups_allowed_to(chunk, spec) for chunk in spec.chunks))

    def groups_allowed_to(self, chunk: Chunk, spec: NodeSpec) -> frozenset[str]:
        """Return the groups that a chunk of a specification allows, at least one."""
        allowed = everything = frozenset(self._sizes)
        for name in chunk.required:
            allowed &= self.groups_named(name) or everything
        for name in chunk.excluded:
            excluded = self.groups_named(name)
            if excluded is not None and self.is_group_name(name):
                allowed -= excluded
        if not allowed:
            raise InputError(f"node specification '{spec.text}' leaves no group open")
        return allowed

    def is_group_name(self, name: str) -> bool:
        """Return whether a property names whole groups, not single nodes."""
        return name in self._by_property

    def is_node_name(self, name: str) -> bool:
        """Return whether a property names a single node; raises as `groups_named`."""
        return self.groups_named(name) is not None and not self.is_group_name(name)


def read_machines(path: Path) -> Machines:
    """Read a machine file: one cluster per row, six columns separated by tabs or blanks.

    The columns are `MACHINE_COLUMNS`; the id, the speed and a seventh column are not used. Raises
    InputError with file and row for a malformed row, a repeated name, or more than `MOST_SERVERS`
    nodes in total.
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
        if len(fields) not in (len(MACHINE_COLUMNS), len(MACHINE_COLUMNS) + 1):
            expected = f"{len(MACHINE_COLUMNS)} ({', '.join(MACHINE_COLUMNS)})"
            raise InputError(f"{len(fields)} columns, not {expected}", place, source)
        name = fields[1]
        if not _NAME.fullmatch(name):
            raise InputError(f"column 2 (name): {name[:40]!r} is not a name", place, source)
        if name in names:
            raise InputError(f"duplicate name {name!r}", place, source)
        names.add(name)
        nodes, cores, memory = (_parse_positive(fields, k, place, source) for k in (2, 3, 5))
        total += nodes
        if total > MOST_SERVERS:
            fault = f"column 3 (nodes): {nodes:,} make more than {MOST_SERVERS:,} nodes in all"
            raise InputError(fault, place, source)
        groups.append(MachineGroup(name, nodes, cores, memory * 1024))
    if not groups:
        raise InputError("holds no machine", "", source)
    return Machines(tuple(groups))


def _parse_positive(fields: list[str], column: int, place: str, source: str) -> int:
    """Return the positive number in a column.

    Raises InputError for other text, and for a number above 2**43: as KiB it might not be exact as
    a float of bytes.
    """
    text = fields[column]
    usable = len(text) <= 16 and text.isascii() and text.isdigit()
    if not usable or not 0 < int(text) <= LARGEST_EXACT // 1024:
        fault = f"{text[:40]!r} is not a whole number from 1 to {LARGEST_EXACT // 1024:,}"
        what = f"column {column + 1} ({MACHINE_COLUMNS[column]})"
        raise InputError(f"{what}: {fault}", place, source)
    return int(text)
