"""Read Slurm's lists of nodes, amounts of resources, and lists of hosts.

Nodes are read from the output of ``scontrol show node`` (blocks, or with ``-o`` lines), or of
``sinfo -N -o "%N|%c|%m|%G|%P|%f"`` with its heading.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import FloatArray, IntArray, name_of_group
from fairlead.model.problem_changes import PARTITION
from fairlead.traces._stored_files import error_source, quoted, read_lines
from fairlead.traces.logs.job_collector import group_equal

MIB_PER_GIB = 1024.0
# GiB by suffix. Slurm's units of memory are binary; without a suffix it is MiB.
_MEMORY = {"": 2**-10, "K": 2**-20, "M": 2**-10, "G": 1.0, "T": 2**10, "P": 2**20}
_COUNTS = {"": 1.0, "K": 1000.0}  # factors by suffix, of other resources
_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)([KMGTP]?)(?:i?B|[nc])?", re.IGNORECASE)
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
MOST_HOSTS = 1_000_000
# States in which a node gets no new jobs; a field may have several, such as ``MIXED+DRAIN``.
# POWERED_DOWN is not one of them: such a node is powered up for a job.
OUT = frozenset({"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING"})
# This module's names of the columns of sinfo, by their headings.
SINFO = {"nodelist": "name", "cpus": "cpu", "memory": "memory", "gres": "gres",
         "partition": "partition", "avail_features": "features"}  # fmt: skip


@dataclass(frozen=True)
class NodeTable:
    """Nodes in groups of equal nodes."""

    groups: tuple[str, ...]  # (G,): names
    capacity: FloatArray  # (G, 3): cores, GiB, GPUs of one node; negative GiB if not known
    count: IntArray  # (G,): number of nodes
    partitions: tuple[frozenset[str], ...]  # (G,): names; empty if the list has no partitions
    labels: tuple[Mapping[str, str], ...]  # (G,): labels of the nodes
    numbers: Mapping[str, int]  # the number of each node's server, by name
    out: tuple[str, ...] = ()  # names of nodes in one of the states `OUT`, if states are known

    @classmethod
    def equal(cls, servers: int, cores: int, memory: float | None, gpus: float) -> NodeTable:
        """Return equal nodes without names; without `memory`, memory is not a resource."""
        amounts = [float(cores), -1.0 if memory is None else memory, gpus]
        count = np.array([servers], dtype=np.int64)
        return cls(("server",), np.array([amounts]), count, (frozenset(),), ({},), {})


@dataclass(frozen=True)
class _Node:
    amounts: tuple[float, float, float]  # cores, GiB, GPUs
    partitions: frozenset[str]
    features: str  # separated by commas


def read_nodes(path: Path) -> NodeTable:
    """Read a list of nodes; nodes of equal amounts, partitions and features are a group."""
    content = [(row, line) for row, line in read_lines(path) if line]
    if not content:
        raise InputError("is empty", "", str(path))
    if content[0][1].startswith("NodeName="):
        nodes, out = _read_scontrol(content, str(path))
    elif "|" in content[0][1]:
        nodes, out = _read_sinfo(content, str(path)), ()  # a table without states
    else:
        fault = "is not the output of scontrol show node or of sinfo -N -o '%N|%c|%m|%G|%P|%f'"
        raise InputError(fault, f"row {content[0][0]}", str(path))
    if not nodes:
        raise InputError("lists no node", "", str(path))
    kinds, numbers = group_equal(nodes)
    labels = [
        ({PARTITION: ",".join(sorted(node.partitions))} if node.partitions else {})
        | {feature: "yes" for feature in node.features.split(",") if feature}
        for node in kinds
    ]
    return NodeTable(
        tuple(name_of_group(names) for names in kinds.values()),
        np.array([node.amounts for node in kinds]),
        np.array([len(names) for names in kinds.values()], dtype=np.int64),
        tuple(node.partitions for node in kinds),
        tuple(labels),
        numbers,
        out,
    )


def _read_scontrol(
    content: list[tuple[int, str]], source: str
) -> tuple[dict[str, _Node], tuple[str, ...]]:
    """Read blocks of ``Key=value``; a value is cut at its first blank.

    Returns the nodes by name, and the names of those in a state of `OUT`.
    """
    blocks: list[tuple[int, dict[str, str]]] = []
    for row, line in content:
        pairs = dict(pair.split("=", 1) for pair in line.split() if "=" in pair)
        if line.startswith("NodeName="):
            blocks.append((row, pairs))
        else:
            blocks[-1][1].update(pairs)
    nodes: dict[str, _Node] = {}
    out: list[str] = []
    for row, pairs in blocks:
        with error_source(source, f"row {row}"):
            configured = amounts_of(pairs.get("CfgTRES", ""))
            # Either may be absent. CfgTRES takes precedence, but CPUTot is always checked.
            total = pairs.get("CPUTot", "0" if configured.get("cpu") else "")
            cpus = _parse_number(total, "CPUTot")
            # RealMemory is required, so that most truncated blocks are refused.
            mib = _parse_number(pairs.get("RealMemory", ""), "RealMemory")
            gpus = configured.get("gpu") or _parse_gpus(pairs.get("Gres", ""))
            if OUT & {*re.findall("[A-Z_]+", pairs.get("State", "").upper())}:
                out.append(pairs["NodeName"])
            nodes[pairs["NodeName"]] = _Node(
                (
                    configured.get("cpu") or cpus,
                    configured.get("memory") or mib / MIB_PER_GIB,
                    gpus,
                ),
                _parse_names(pairs.get("Partitions", "")),
                pairs.get("AvailableFeatures", "").replace("(null)", ""),
            )
    return nodes, tuple(dict.fromkeys(out))


def _read_sinfo(content: list[tuple[int, str]], source: str) -> dict[str, _Node]:
    """Read a table of nodes, by name; it has a row for each partition of a node."""
    heading = [SINFO.get(name.strip().lower(), "") for name in content[0][1].split("|")]
    for needed in ("name", "cpu", "memory"):
        if needed not in heading:
            raise InputError("needs the columns %N, %c and %m", f"row {content[0][0]}", source)
    nodes: dict[str, _Node] = {}
    for row, line in content[1:]:
        fields = line.split("|")
        with error_source(source, f"row {row}"):
            if len(fields) != len(heading):
                raise InputError(f"has {len(fields)} columns, not {len(heading)}")
            values = dict(zip(heading, map(str.strip, fields), strict=True))
            cpus = _parse_number(values["cpu"].rstrip("+"), "%c")
            mib = _parse_number(values["memory"].rstrip("+"), "%m")
            partitions = _parse_names(values.get("partition", "").replace("*", ""))
            for name in host_names(values["name"]):
                known = nodes.get(name)
                nodes[name] = _Node(
                    (cpus, mib / MIB_PER_GIB, _parse_gpus(values.get("gres", ""))),
                    partitions if known is None else partitions | known.partitions,
                    values.get("features", "").replace("(null)", ""),
                )
    return nodes


def amounts_of(tres: str) -> dict[str, float]:
    """Parse amounts such as ``cpu=4,mem=16G,node=2,gres/gpu=1``; other resources are left out.

    GPUs by type (``gres/gpu:a100=1``) are summed if their total is not stated. Memory is in GiB.
    """
    found: dict[str, float] = {}
    gpus_by_type = 0.0
    for pair in tres.split(","):
        name, equals, text = pair.partition("=")
        is_typed = name.startswith("gres/gpu:")
        name = "gpu" if is_typed else {"mem": "memory", "gres/gpu": "gpu"}.get(name, name)
        if equals and name in ("cpu", "memory", "gpu", "node"):
            parts = _AMOUNT.fullmatch(text)
            scales = _MEMORY if name == "memory" else _COUNTS
            if parts is None or parts[2].upper() not in scales:
                raise InputError(f"{quoted(pair)} is not an amount")
            amount = float(parts[1]) * scales[parts[2].upper()]
            if is_typed:
                gpus_by_type += amount
            else:
                found[name] = amount
    if gpus_by_type:
        found.setdefault("gpu", gpus_by_type)
    return found


def host_names(text: str) -> list[str]:
    """Return the names in a list of hosts such as ``gpu[01-03,07],login``."""
    if not text or text.lower() in ("none assigned", "none", "(null)"):
        return []
    found: list[str] = []
    for part in re.split(r",(?![^\[]*\])", text):  # at commas outside of brackets
        found += _expand_host(part)
        if len(found) > MOST_HOSTS:
            raise InputError(f"{quoted(text)} has more than {MOST_HOSTS:,} hosts")
    return found


def _expand_host(name: str) -> list[str]:
    """Return the names for which a name with brackets, such as ``gpu[01-03]``, stands."""
    before, bracket, rest = name.partition("[")
    if not bracket:
        return [name]
    inner, _, after = rest.partition("]")
    found: list[str] = []
    for part in inner.split(","):
        bounds = _RANGE.fullmatch(part)
        if bounds is None:
            raise InputError(f"{quoted(name)} is not a list of hosts")
        first, last = bounds[1], bounds[2] or bounds[1]
        if int(last) - int(first) >= MOST_HOSTS:
            raise InputError(f"{quoted(name)} has more than {MOST_HOSTS:,} hosts")
        numbers = range(int(first), int(last) + 1)
        found += [f"{before}{number:0{len(first)}}{after}" for number in numbers]
    return [each for name in found for each in _expand_host(name)] if "[" in after else found


def _parse_gpus(gres: str) -> float:
    """Return the number of GPUs in ``gpu:a100:4(S:0-1),shard:8``, ``gpu:4`` or ``gpu``."""
    gpus = 0
    for part in re.split(r",(?![^(]*\))", gres):
        name, *more = part.partition("(")[0].split(":")
        if name == "gpu":
            # A single field after ``gpu`` is a count if it is a number, else a type.
            has_count = len(more) > 1 or "".join(more).isdigit()
            count = more[-1] if has_count else "1"
            gpus += int(_parse_number(count, "Gres"))
    return float(gpus)


def _parse_names(text: str) -> frozenset[str]:
    return frozenset(name for name in text.split(",") if name and name != "(null)")


def _parse_number(text: str, column: str) -> float:
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise InputError(f"{column}: {quoted(text)} is not a whole number")
    return float(text)
