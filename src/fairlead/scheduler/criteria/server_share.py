"""Per-server dominant share fairness on the server in view, for ps-dsf/joint and ps-dsf/rrr.

The virtual dominant share on server i is ``max over r of held[r] / c[i,r]``, over the resources
that the next task takes; ``held`` counts all servers. In the residual form, the free amounts of the
server take the place of its capacity. Where demands are unknown, all resources count.
"""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler.criteria.criterion import AtHand, dominant_score
from fairlead.scheduler.tables import Queue, Server, Shape


class ServerShare(AtHand):
    """Scores by the dominant share on a server."""

    is_residual = False
    measure = "share of a server"
    mechanism = "ps-dsf"

    def measure_on(self, server: Server) -> str:
        """Return what scores are with a server."""
        of = "what is free" if self.is_residual else "all"
        return f"share of {of} on {server.name}"

    def amounts(self, server: Server) -> vec[i64]:
        """Return the amounts of a server that shares are of."""
        return server.free if self.is_residual else server.capacity

    def bound(self, queue: Queue, shape: Shape, server: Server | None) -> int:
        """Return the score of a queue with a task on a server; 0 if none is known."""
        return 0 if server is None else self.score_of(queue, shape, server)

    def score_of(self, queue: Queue, shape: Shape, server: Server) -> int:
        """Return the score of a queue with a task that could start on a server."""
        return dominant_score(queue, shape.demand, self.amounts(server))


class ResidualServerShare(ServerShare):
    """Scores by the dominant share of what a server has free."""

    is_residual = True


class ObliviousServerShare(ServerShare):
    """Scores by the dominant share on a server where demands are unknown."""

    def score_of(self, queue: Queue, shape: Shape, server: Server) -> int:  # noqa: ARG002
        """Return the score of a queue to which a server is offered."""
        return dominant_score(queue, server.capacity, server.capacity)
