"""Per-server dominant share fairness: summed over servers, or on the server of the next task.

Summed (Kesidis et al.), for selections that take the queue first: a running task adds ``sum over
servers where it may run of max over r of d[r] / c[r]``; a server that lacks one of its resources
adds nothing.

On a server, for joint and rrr: the virtual dominant share on server i is ``max over r of
held[r] / c[i,r]``, over the resources that the next task takes; ``held`` counts all servers. In the
residual form, the free amounts of the server take the place of its capacity. Where demands are
unknown, all resources count.
"""

from __future__ import annotations

from fractions import Fraction

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler._entities import Queue, Server, Shape
from fairlead.scheduler.criteria.criterion import TaskCriterion, dominant_score
from fairlead.scheduler.criteria.tsf import SummedShare, tasks_that_fit


class PerServerShare(SummedShare):
    measure = "sum of shares of servers by weight"
    mechanism = "ps-dsf"

    def exact_share(self, shape: Shape) -> Fraction:
        share = Fraction(0)
        for (capacity, kind), count in self.kinds.items():
            if shape.constraint.admits[kind]:
                tasks = tasks_that_fit(shape, capacity)
                if tasks > 0:
                    share += count / tasks
        return share


class ServerShare(TaskCriterion):
    is_residual = False
    measure = "share of a server"
    mechanism = "ps-dsf"

    def measure_on(self, server: Server) -> str:
        of = "the free amounts" if self.is_residual else "all"
        return f"share of {of} on {server.name}"

    def amounts(self, server: Server) -> vec[i64]:
        return server.free if self.is_residual else server.capacity

    def bound(self, queue: Queue, shape: Shape, server: Server | None) -> int:
        return 0 if server is None else self.score_of(queue, shape, server)

    def score_of(self, queue: Queue, shape: Shape, server: Server) -> int:
        return dominant_score(queue, shape.demand, self.amounts(server))


class ResidualServerShare(ServerShare):
    """Scores by the dominant share of the free amounts of a server."""

    is_residual = True


class ObliviousServerShare(ServerShare):
    """Scores by the dominant share on a server where demands are unknown."""

    def score_of(self, queue: Queue, shape: Shape, server: Server) -> int:  # noqa: ARG002
        return dominant_score(queue, server.capacity, server.capacity)
