"""TSF and PS-DSF: running tasks of a queue as shares of the tasks that it could run alone.

TSF is task share fairness: the queue with the least such share is next. A running task of demand d
adds ``1 / gamma``, where gamma is the number of such tasks, whole or not, that fit on all servers
without constraints: with capacities c, ``sum over servers of min over r of c[r] / d[r]``. So a
queue with tasks of one shape has the share ``tasks / gamma``.

PS-DSF is per-server dominant share fairness. Shares are summed over servers, or are those on the
server of the next task.

Summed (Kesidis et al.), for selections that choose the queue before the server: a running task of
demand d adds ``max over r of d[r] / c[i,r]`` for each server i of capacity c[i] where it may run. A
server that lacks one of its resources adds nothing.

On a server, for joint and rrr: the virtual dominant share on server i is ``max over r of
held[r] / c[i,r]``, over the resources that the next task takes; ``held`` counts all servers. With
``/residual``, the free amounts of the server replace its capacity. With ``/oblivious``, demands are
unknown, so all resources count.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler._entities import Queue, Server, Shape, Task, add_to
from fairlead.scheduler.criteria.criterion import Criterion, TaskCriterion, dominant_score, weighted

# Shares of tasks are counted in units of 2**-192, rounded up. So equal sums of shares of different
# shapes have equal scores: rounding adds less than 2**-130 to a sum of 2**62 shares, which changes
# the score only if the exact sum has a denominator above 2**66.
SHARE_BITS: Final = 192


class SummedShare(Criterion):
    """Scores queues by the sum of the shares of their running tasks, which depend on the shape."""

    def __init__(self, width: i64) -> None:
        super().__init__(width)
        # Number of servers by capacity and number of their kind.
        self.server_counts: dict[tuple[tuple[int, ...], int], int] = {}

    def count_server(self, server: Server, sign: i64) -> None:
        super().count_server(server, sign)
        capacity = tuple([int(server.capacity[r]) for r in range(self.width)])
        key = (capacity, int(server.kind))
        count = self.server_counts.get(key, 0) + int(sign)
        if count:
            self.server_counts[key] = count
        else:
            del self.server_counts[key]

    def count_task(self, task: Task, sign: i64) -> None:
        """Count a task that starts (1) or ends (-1) in its queue; there are no trees."""
        queue, shape = task.group.waiting_list.queue, task.shape
        add_to(queue.held, shape.demand, sign)
        by_shape = queue.running_by_shape
        running = by_shape.get(shape, 0) + int(sign)
        if running:
            by_shape[shape] = running
        else:
            del by_shape[shape]
        queue.share += int(sign) * self.task_share(shape)
        queue.score = weighted(queue.share, SHARE_BITS, queue)

    def forget_shares(self, shapes: Iterable[Shape]) -> None:
        for shape in shapes:
            shape.task_share = -1

    def score(self, queue: Queue) -> int:
        share = 0
        for shape, running in queue.running_by_shape.items():
            share += running * self.task_share(shape)
        queue.share = share
        return weighted(share, SHARE_BITS, queue)

    def task_share(self, shape: Shape) -> int:
        """Return the share of a running task, in units of ``2**-SHARE_BITS``, rounded up."""
        if shape.task_share < 0:
            share = self.exact_share(shape)
            shape.task_share = -(-(share.numerator << SHARE_BITS) // share.denominator)
        return shape.task_share

    def exact_share(self, shape: Shape) -> Fraction:
        """Compute the share of a running task for the present servers."""
        raise NotImplementedError


class TaskShare(SummedShare):
    """Scores queues by the sum of 1 / gamma over their running tasks."""

    measure = "tasks over the tasks that it could run alone, by weight"
    mechanism = "tsf"

    def exact_share(self, shape: Shape) -> Fraction:
        gamma = Fraction(0)
        for (capacity, _), count in self.server_counts.items():
            gamma += count * tasks_that_fit(shape, capacity)
        return 1 / gamma if gamma > 0 else gamma


def tasks_that_fit(shape: Shape, capacity: tuple[int, ...]) -> Fraction:
    """Return how many tasks, whole or not, fit on a server of a capacity."""
    return min([Fraction(c, int(d)) for c, d in zip(capacity, shape.demand, strict=True) if d > 0])


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
