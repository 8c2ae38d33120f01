"""Per-server dominant share fairness: summed over servers, or on the server of the next task.

Summed (Kesidis et al.), for selections that choose the queue before the server: a running task of
demand d adds ``max over r of d[r] / c[i,r]`` for each server i of capacity c[i] where it may run. A
server that lacks one of its resources adds nothing.

On a server, for joint and rrr: the virtual dominant share on server i is ``max over r of
held[r] / c[i,r]``, over the resources that the next task takes; ``held`` counts all servers. With
``/residual``, the free amounts of the server replace its capacity. With ``/oblivious``, demands are
unknown, so all resources count.
"""

from __future__ import annotations

from fractions import Fraction

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler._entities import Queue, Server, Shape
from fairlead.scheduler.criteria.criterion import TaskCriterion, dominant_score
from fairlead.scheduler.criteria.tsf import SummedShare, tasks_that_fit


class PerServerShare(SummedShare):
    """Scores queues by the shares of their running tasks, summed over servers."""

    measure = "sum of shares of servers by weight"
    mechanism = "ps-dsf"

    def exact_share(self, shape: Shape) -> Fraction:
        share = Fraction(0)
        for (capacity, kind), count in self.server_counts.items():
            if shape.constraint.admits[kind]:
                tasks = tasks_that_fit(shape, capacity)
                if tasks > 0:
                    share += count / tasks
        return share


class ServerShare(TaskCriterion):
    """Scores queues by their virtual dominant shares on a server."""

    is_residual = False
    measure = "share of a server"
    mechanism = "ps-dsf"

    def measure_on(self, server: Server) -> str:
        pool = "the free amounts" if self.is_residual else "the capacity"
        return f"share of {pool} of {server.name}"

    def pool(self, server: Server) -> vec[i64]:
        """Return the amounts of which shares are taken: the capacity, or the free amounts."""
        return server.free if self.is_residual else server.capacity

    def bound(self, queue: Queue, shape: Shape, server: Server | None) -> int:
        """Return the exact score on a known server, else 0."""
        return 0 if server is None else self.score_of(queue, shape, server)

    def score_of(self, queue: Queue, shape: Shape, server: Server) -> int:
        return dominant_score(queue, shape.demand, self.pool(server))


class ResidualServerShare(ServerShare):
    """Scores queues by their dominant shares of the free amounts of a server."""

    is_residual = True


class ObliviousServerShare(ServerShare):
    """Scores queues by their dominant shares of all resources of a server."""

    def score_of(self, queue: Queue, shape: Shape, server: Server) -> int:  # noqa: ARG002
        return dominant_score(queue, server.capacity, server.capacity)
