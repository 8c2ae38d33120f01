"""How a policy counts amounts: as they are given, or in slots."""

from __future__ import annotations

from collections.abc import Iterable

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.core.tables import Server


class Counting:
    """Counts amounts as they are given.

    Parameters
    ----------
    resources : int
    """

    def __init__(self, resources: i64) -> None:
        self.resources: i64 = resources
        self.width: i64 = resources

    def of_server(self, given: vec[i64]) -> vec[i64]:
        """Return a server's capacity as the policy counts it."""
        return given

    def of_task(self, given: vec[i64]) -> vec[i64]:
        """Return a task's demand as the policy counts it."""
        return given

    def cut(self, servers: Iterable[Server]) -> bool:  # noqa: ARG002 (slots depend on them)
        """Note which servers are there; return whether everything counts anew by that."""
        return False
