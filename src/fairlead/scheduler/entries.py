"""The kernels of jobs that Python calls; compiled.

What Python hands over are tuples of a hundred arrays. Unpacking them takes longer to compile than
the kernels themselves, so that only these are compiled for it, and only when they are called.
"""

from __future__ import annotations

from fairlead.optimize.compiling import kernel
from fairlead.scheduler import (
    declining,
    offers,
    placing,
    queue,
    ratio_index,
    serving,
    state,
    submitting,
    waking,
)
from fairlead.scheduler.declining import Refusals
from fairlead.scheduler.offers import Round
from fairlead.scheduler.placing import Starts
from fairlead.scheduler.queue import Queue
from fairlead.scheduler.ratio_index import RatioIndex
from fairlead.scheduler.state import State


@kernel
def serve_by_key(state_: State, queue_: Queue, index: RatioIndex, select: int, to: Starts) -> int:
    """Call `serving.serve_by_key`."""
    return serving.serve_by_key(state_, queue_, index, select, to)


@kernel
def serve_by_scan(state_: State, queue_: Queue, index: RatioIndex, select: int, to: Starts) -> int:
    """Call `serving.serve_by_scan`."""
    return serving.serve_by_scan(state_, queue_, index, select, to)


@kernel
def serve_in_rounds(
    state_: State, queue_: Queue, index: RatioIndex, round_: Round, to: Starts
) -> int:
    """Call `offers.serve_in_rounds`."""
    return offers.serve_in_rounds(state_, queue_, index, round_, to)


@kernel
def serve_by_offers(
    state_: State,
    queue_: Queue,
    index: RatioIndex,
    round_: Round,
    refusals: Refusals,
    to: Starts,
    now: float,
) -> int:
    """Call `declining.serve_by_offers`."""
    return declining.serve_by_offers(state_, queue_, index, round_, refusals, to, now)


@kernel
def submit_set(state_: State, queue_: Queue, number: int, tasks: int) -> None:
    """Call `submitting.submit_set`."""
    submitting.submit_set(state_, queue_, number, tasks)


@kernel
def withdraw_set(state_: State, queue_: Queue, number: int) -> int:
    """Call `submitting.withdraw_set`."""
    return submitting.withdraw_set(state_, queue_, number)


@kernel
def finish_task(
    state_: State, queue_: Queue, index: RatioIndex, select: int, kind: int, server: int
) -> None:
    """Call `submitting.finish_task`."""
    submitting.finish_task(state_, queue_, index, select, kind, server)


@kernel
def give_back(state_: State, kind: int, server: int) -> None:
    """Call `state.give_back`."""
    state.give_back(state_, kind, server)


@kernel
def detach(state_: State, queue_: Queue, index: RatioIndex, select: int, server: int) -> None:
    """Call `placing.detach`."""
    placing.detach(state_, queue_, index, select, server)


@kernel
def attach(state_: State, queue_: Queue, index: RatioIndex, select: int, server: int) -> None:
    """Call `placing.attach`."""
    placing.attach(state_, queue_, index, select, server)


@kernel
def wake(state_: State, queue_: Queue, server: int) -> None:
    """Call `waking.wake`."""
    waking.wake(state_, queue_, server)


@kernel
def rerank(state_: State, queue_: Queue, kind: int) -> None:
    """Call `queue.rerank`."""
    queue.rerank(state_, queue_, kind)


@kernel
def rerank_all(state_: State, queue_: Queue) -> None:
    """Call `queue.rerank_all`."""
    queue.rerank_all(state_, queue_)


@kernel
def enter(state_: State, index: RatioIndex, server: int) -> None:
    """Call `ratio_index.enter`."""
    ratio_index.enter(state_, index, server)


@kernel
def leave(state_: State, index: RatioIndex, server: int) -> None:
    """Call `ratio_index.leave`."""
    ratio_index.leave(state_, index, server)


@kernel
def revive(refusals: Refusals, owner: int) -> None:
    """Call `declining.revive`."""
    declining.revive(refusals, owner)


@kernel
def note_more_to_offer(refusals: Refusals, queue_: Queue, server: int, now: float) -> None:
    """Call `declining.note_more_to_offer`."""
    declining.note_more_to_offer(refusals, queue_, server, now)
