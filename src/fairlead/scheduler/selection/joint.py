"""Joint: the queue and the server are chosen together, as the pair with the least score.

A queue is paired with the servers that have room for its next task. Ties go to the earlier queue,
then to the earlier server. The score is the queue's virtual dominant share on the server (see
`criteria.tsf_and_ps_dsf`).

The best pair of each queue is stored. Its score rises only when the queue is served or, under
``/residual``, when its server has less free. Then the old score is a lower bound (see `TaskCycle`).

A search computes few scores. A server has a lower score than the best one so far, s, exactly if
``floor(held[r] / pool[r] * scale) < s`` for all resources r that the task takes, that is, if
``pool[r]`` is above ``held[r] * scale / s``. So each better server raises the amounts to beat.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.scheduler._cycle import Candidate, TaskCycle
from fairlead.scheduler._entities import NOT_TAKEN, Queue, Server, Shape, fits
from fairlead.scheduler._state import State
from fairlead.scheduler.criteria.criterion import dominant_score, score_factor
from fairlead.scheduler.criteria.tsf_and_ps_dsf import ServerShare
from fairlead.scheduler.selection.first_fit import FirstFit

LARGEST: Final = 2**62  # no server has more of a resource


class Pair:
    """A queue's next task with the best server found so far."""

    def __init__(self, width: i64) -> None:
        self.server: Server | None = None
        self.score = 0
        # (W,) the least amounts that a server must have to be better.
        self.to_beat = vec[i64]([NOT_TAKEN] * int(width))

    def update(self, server: Server, pool: vec[i64], queue: Queue, shape: Shape) -> None:
        """Store a better server, its score for the amounts `pool`, and the amounts to beat it."""
        self.server = server
        self.score = dominant_score(queue, shape.demand, pool)
        if self.score == 0:
            return
        scale, weight = score_factor(queue)
        for r in range(len(shape.demand)):
            if shape.demand[r] > 0:
                enough = (int(queue.held[r]) * scale) // (self.score * weight) + 1
                self.to_beat[r] = enough if enough < LARGEST else LARGEST + 1


class Joint(TaskCycle):
    """Serves the pair with the least score; searches servers in the blocks of first-fit."""

    def __init__(self, state: State, is_strict: bool) -> None:
        super().__init__(state, is_strict)
        assert isinstance(state.selection, FirstFit)
        assert isinstance(state.criterion, ServerShare)
        self.servers = state.selection
        self.criterion = state.criterion
        self.is_residual = state.criterion.is_residual

    def find_pair(self, queue: Queue, shape: Shape) -> Pair:
        """Return the pair of a queue's task with the server on which its score is least.

        Servers without room, or without the amounts to beat, are skipped, as are whole blocks.
        """
        width, admits, is_residual = self.servers.width, shape.constraint.admits, self.is_residual
        pair = Pair(self.state.width)
        to_beat = pair.to_beat
        need = shape.need[:]
        for block in self.servers.blocks:
            if not fits(need, block.bounds) or not fits(to_beat, block.capacity):
                continue
            free = block.free
            found_room = False
            at: i64 = 0
            for server in block.servers:
                r: i64 = 0
                while r < width and free[at + r] >= need[r]:
                    r += 1
                at += width
                if r < width:
                    continue
                found_room = True
                if not admits[server.kind] or not fits(to_beat, server.capacity):
                    continue
                pair.update(server, self.criterion.pool(server), queue, shape)
                if pair.score == 0:
                    return pair  # no score is lower
                if is_residual:  # scores are of free amounts, which are compared with `need`
                    for k in range(len(to_beat)):
                        need[k] = max(need[k], to_beat[k])
            if not found_room:
                block.tighten()
        return pair

    def find(self, queue: Queue, shape: Shape) -> Server | None:
        return self.find_pair(queue, shape).server

    def rescore(self, candidate: Candidate) -> None:
        """Find the best server for a candidate's task, and the score; of a gang only the score."""
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
        """Return whether a queue's stored pair and score are exact after another pair started."""
        if not kept.is_exact or kept.queue is started.queue:
            return False
        return not self.is_residual or (not started.plan and kept.server is not started.server)
