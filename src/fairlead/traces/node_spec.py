"""PBS node specifications: ``2:ppn=8:x86_64:^zewura12+1:ppn=4#excl``.

Chunks are joined by ``+``. A chunk is a number of nodes (1 when absent), cores per node (``ppn=``,
1 when absent) and properties that each of its nodes must have, or with ``^`` must not have, in any
order. ``#excl`` at the end asks for the nodes to be used by no other job.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from fairlead.errors import InputError

EXCLUSIVE = "excl"
_WHOLE = re.compile(r"[0-9]{1,9}")
_CORES = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_PROPERTY = re.compile(r"\^?[A-Za-z_][\w.=/-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Equal nodes of one job."""

    nodes: int
    cores: float  # cores on each as written, which may be a fraction
    # Properties in the order written; those that start with ``^`` are excluded.
    properties: tuple[str, ...]

    @property
    def required(self) -> tuple[str, ...]:
        """Properties that a node must have."""
        return tuple(name for name in self.properties if not name.startswith("^"))

    @property
    def excluded(self) -> tuple[str, ...]:
        """Properties that a node must not have, without the ``^``."""
        return tuple(name[1:] for name in self.properties if name.startswith("^"))

    def __str__(self) -> str:
        cores = f"{self.cores:.9f}".rstrip("0").rstrip(".")
        return ":".join((str(self.nodes), f"ppn={cores}", *self.properties))


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """All nodes that one job asks for, in one chunk or more; `exclusive` shuts out other jobs."""

    chunks: tuple[Chunk, ...]
    exclusive: bool = False

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return sum(chunk.nodes for chunk in self.chunks)

    def __str__(self) -> str:
        return "+".join(map(str, self.chunks)) + (f"#{EXCLUSIVE}" if self.exclusive else "")


# A log repeats few specifications many times over.
@lru_cache(maxsize=65536)
def parse_node_spec(text: str) -> NodeSpec:
    """Parse a node specification such as ``1:ppn=12:cl_zewura#excl``; `str` turns it back.

    Raises InputError for an empty chunk or field, a number of nodes or cores that is none or is 0,
    a second ``ppn``, a malformed property or an unknown ``#`` suffix.
    """
    body, hash_sign, suffix = text.partition("#")
    if hash_sign and suffix != EXCLUSIVE:
        raise InputError(f"node specification {text!r}: unknown suffix '#{suffix}'")
    chunks = tuple(_chunk(part, text) for part in body.split("+"))
    return NodeSpec(chunks, exclusive=bool(hash_sign))


def _chunk(part: str, text: str) -> Chunk:
    nodes = 1
    cores: float | None = None
    properties: list[str] = []
    for position, field in enumerate(part.split(":")):
        if position == 0 and _WHOLE.fullmatch(field):
            nodes = int(field)
        elif field.startswith("ppn="):
            number = field.removeprefix("ppn=")
            if cores is not None or not _CORES.fullmatch(number):
                raise InputError(f"node specification {text!r}: {field!r} is no number of cores")
            cores = float(number)
        elif _PROPERTY.fullmatch(field):
            properties.append(field)
        else:
            raise InputError(f"node specification {text!r}: {field!r} is no property")
    if nodes < 1 or cores == 0:
        raise InputError(f"node specification {text!r}: asks for 0 nodes or cores")
    return Chunk(nodes, 1.0 if cores is None else cores, tuple(properties))
