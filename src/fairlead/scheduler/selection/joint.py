"""Joint: of all pairs of a queue and a server with room for its first task, the least score.

Ties go to the earlier queue, then to the earlier server. Under ps-dsf the score is the queue's
virtual dominant share on the server (see `criteria.ps_dsf`).

A queue's best pair is cached. It gets worse only when the queue is served, or, in the residual
form, when its server has less free. Then its old score is still a lower bound (see `TaskCycle`).

A search computes no score for most servers. A server is better than the best one so far, with score
s, exactly if ``floor(held[r] / amount[r] * scale) < s`` for all r that the task takes: if it has
more than ``held[r] * scale / s`` of each. So each better server raises the amounts to beat.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler._cycle import Candidate, TaskCycle
from fairlead.scheduler._entities import NOT_TAKEN, Queue, Server, Shape, fits
from fairlead.scheduler._state import State
from fairlead.scheduler.criteria.criterion import dominant_score, scale_of
from fairlead.scheduler.criteria.ps_dsf import ServerShare
from fairlead.scheduler.selection.first_fit import FirstFit

MOST: Final = 2**62  # the largest amount


class Pair:
    """The best server of a queue for a task, so far."""

    def __init__(self, width: i64) -> None:
        self.server: Server | None = None
        self.score = 0
        self.to_beat = vec[i64]([NOT_TAKEN] * int(width))  # (W,) of a better server

    def take(self, server: Server, amounts: vec[i64], queue: Queue, shape: Shape) -> None:
        """Record a better server, and compute the least amounts of a still better one."""
        self.server = server
        self.score = dominant_score(queue, shape.demand, amounts)
        if self.score == 0:
            return
        scale, weight = scale_of(queue)
        for r in range(len(shape.demand)):
            if shape.demand[r] > 0:
                enough = (int(queue.held[r]) * scale) // (self.score * weight) + 1
                self.to_beat[r] = enough if enough < MOST else MOST + 1


class Joint(TaskCycle):
    """Serves the pair with the least score; servers are in the blocks of first-fit."""

    def __init__(self, state: State, is_strict: bool) -> None:
        super().__init__(state, is_strict)
        assert isinstance(state.selection, FirstFit)
        assert isinstance(state.criterion, ServerShare)
        self.servers = state.selection
        self.criterion = state.criterion
        self.is_residual = state.criterion.is_residual

    def find_pair(self, queue: Queue, shape: Shape) -> Pair:
        """Return the server on which a queue's score with a task is least."""
        width, admits, is_residual = self.servers.width, shape.constraint.admits, self.is_residual
        pair = Pair(self.state.width)
        to_beat = pair.to_beat
        need = shape.need[:]
        for block in self.servers.blocks:
            if not fits(need, block.most) or not fits(to_beat, block.capacity):
                continue
            free = block.free
            is_roomy = False
            at: i64 = 0
            for server in block.servers:
                r: i64 = 0
                while r < width and free[at + r] >= need[r]:
                    r += 1
                at += width
                if r < width:
                    continue
                is_roomy = True
                if not admits[server.kind] or not fits(to_beat, server.capacity):
                    continue
                pair.take(server, self.criterion.amounts(server), queue, shape)
                if pair.score == 0:
                    return pair
                if is_residual:
                    for k in range(len(to_beat)):
                        need[k] = max(need[k], to_beat[k])
            if not is_roomy:
                block.tighten()
        return pair

    def find(self, queue: Queue, shape: Shape) -> Server | None:
        return self.find_pair(queue, shape).server

    def rescore(self, candidate: Candidate) -> None:
        if candidate.plan:
            super().rescore(candidate)
            return
        pair = self.find_pair(candidate.queue, candidate.shape)
        assert pair.server is not None
        candidate.server = pair.server
        candidate.score = pair.score

    def choose(self, candidate: Candidate) -> Server:
        return candidate.server

    def stays_exact(self, kept: Candidate, started: Candidate) -> bool:
        """Return whether a pair is still the best of its queue after another one started."""
        if not kept.is_exact or kept.queue is started.queue:
            return False
        return not self.is_residual or (not started.plan and kept.server is not started.server)
