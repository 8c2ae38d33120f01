"""``/metrics``: what a service does, in Prometheus' text format.

The engine's turn only copies what it knows. What is fair is found in another thread, every few
seconds at the most, and has its age beside it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from math import inf, isnan, nan
from time import monotonic

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from fairlead.errors import FairleadError
from fairlead.scheduler.live_shares import LiveShares, SharesQuestion
from fairlead.service._counters import BOUNDS, Spread, Tally
from fairlead.service._state_thread import Engine, Turn
from fairlead.service.jobs import ASIDE
from fairlead.service.messages import UnavailableError

LOG = logging.getLogger("fairlead.service")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST_USERS = 1000  # that have figures of their own
OTHERS = "/others"  # no user's name, as those have no slash
SHARES_SECONDS = 5.0  # for which shares are kept
SHARES_PART = 10  # of the time at most one part in so many is spent on shares
PATIENCE = 2.0  # seconds to wait for shares; later those of before are shown
STATES = ("ready", "drained", "unreachable", "lost")
REASONS = (*ASIDE, "too_large", "room")


@dataclass(frozen=True)
class View:
    """What the engine knows at a moment."""

    weight: dict[str, float]
    pending: dict[str, int]
    aside: dict[str, int]
    servers: dict[str, int]
    resources: tuple[str, ...]
    question: SharesQuestion


@dataclass(frozen=True)
class Known:
    """Shares, as of a moment of the monotonic clock; None where there was no answer."""

    shares: LiveShares | None
    since: float


def view_of(turn: Turn) -> View:
    """Return what is so. O(users + servers + kinds of users' tasks), whatever waits."""
    state = turn.state
    return View(
        dict(state.users),
        dict(state.pending),
        dict(state.aside),
        Counter(machine.state for machine in state.servers.values()),
        tuple(state.resources),
        state.scheduler.shares_question(),
    )


class MetricsPage:
    """Writes the page; its methods are for the event loop's thread.

    Parameters
    ----------
    engine : Engine
    """

    def __init__(self, engine: Engine) -> None:
        self.engine, self.keep, self.most_users = engine, SHARES_SECONDS, MOST_USERS
        self._known: Known | None = None
        self._named: dict[str, None] = {}
        self._solving: asyncio.Task[None] | None = None
        self._again_at = -inf

    async def text(self) -> bytes:
        """Return the page as it is now."""
        view, known = None, None
        try:
            view = await asyncio.wrap_future(self.engine.ask(view_of))
        except UnavailableError:
            pass  # what was counted can still be told
        else:
            known = await self._shares(view.question)
        users = [] if view is None else self._users(view, known)
        ready, tally = self.engine.ready, self.engine.tally
        return await asyncio.to_thread(_written, ready, view, users, known, tally)

    async def _shares(self, question: SharesQuestion) -> Known | None:
        """Return the shares, found anew if those that are known are old."""
        if self._solving is None and monotonic() >= self._again_at:
            self._solving = asyncio.create_task(self._solve(question))
        if self._solving is not None:
            await asyncio.wait({self._solving}, timeout=PATIENCE)
        return self._known

    async def _solve(self, question: SharesQuestion) -> None:
        began = monotonic()
        shares: LiveShares | None = None
        try:
            shares = await asyncio.to_thread(question.answer)
        except FairleadError as fault:
            LOG.warning("no fair shares were found", extra={"fault": str(fault)})
        finally:
            self._known, self._solving = Known(shares, began), None
            self._again_at = began + max(self.keep, SHARES_PART * (monotonic() - began))

    def _users(self, view: View, known: Known | None) -> list[Row]:
        """Return a row for each user that has one of its own, and one for all others."""
        question = view.question
        running = dict(zip(question.names, question.running.tolist(), strict=True))
        self._name(view, running)
        shares = known.shares if known is not None else None
        found = {} if shares is None else {q.name: q for q in shares.queues}
        nothing = nan if shares is None else 0.0  # of users that were not there then
        rows: list[Row] = []
        others: list[Row] = []
        for name, weight in view.weight.items():
            queue = found.get(name)
            share, fair = (nothing, nothing) if queue is None else (queue.share, queue.fair_share)
            row = Row(name, weight, view.pending[name], running[name], share, fair)
            (rows if name in self._named else others).append(row)
        return [*rows, sum_of(others)] if others else rows

    def _name(self, view: View, running: dict[str, int]) -> None:
        """Give users figures of their own, for good: first those that have tasks."""
        if len(self._named) < min(len(view.weight), self.most_users):
            has_tasks = (n for n in view.weight if view.pending[n] or running[n])
            for name in chain(has_tasks, view.weight):
                if len(self._named) >= self.most_users:
                    break
                self._named[name] = None


@dataclass
class Row:
    """The figures of a user."""

    name: str
    weight: float
    pending: int
    running: int
    share: float
    fair_share: float


def sum_of(rows: Sequence[Row]) -> Row:
    """Return the figures of users together, and their mean shares by weight."""
    weight = sum(row.weight for row in rows)
    return Row(
        OTHERS,
        weight,
        sum(row.pending for row in rows),
        sum(row.running for row in rows),
        sum(row.weight * row.share for row in rows) / (weight or 1.0),
        sum(row.weight * row.fair_share for row in rows) / (weight or 1.0),
    )


def fairness_error(shares: LiveShares) -> float:
    """Return ``sum |share - fair| / sum fair``, as the figures of a run have it at an instant.

    Not a number where nobody has a task.
    """
    active = [queue for queue in shares.queues if queue.waiting or queue.running]
    apart = sum(abs(queue.difference) for queue in active)
    fair = sum(queue.fair_share for queue in active)
    if not active:
        return nan
    return apart / fair if fair > 0 else (inf if apart else 0.0)


def _state(view: View, users: list[Row]) -> Iterator[Metric]:
    def by_user(name: str, says: str, values: Iterable[float]) -> Metric:
        rows = zip((row.name for row in users), values, strict=True)
        return _gauges(name, says, "user", {n: v for n, v in rows if not isnan(v)})

    yield by_user(
        "share",
        "Dominant share of what can be used, over the weight.",
        (r.share for r in users),
    )
    yield by_user("fair_share", "The share that is fair.", (r.fair_share for r in users))
    yield by_user("weight", "Weight of a user.", (r.weight for r in users))
    yield by_user("pending_tasks", "Tasks that wait.", (r.pending for r in users))
    yield by_user("running_tasks", "Tasks that run.", (r.running for r in users))
    question = view.question
    reasons = dict(view.aside) | {"too_large": question.too_large}
    reasons["room"] = sum(view.pending.values()) - sum(reasons.values())
    yield _gauges("pending_by_reason", "Tasks that wait, by why.", "reason", reasons)
    servers = {state: view.servers.get(state, 0) for state in STATES}
    yield _gauges("servers", "Servers.", "state", servers)
    for name, says, amounts in (
        ("capacity", "What all servers have: cores, GiB, devices.", question.amount),
        ("used", "What running tasks hold: cores, GiB, devices.", question.used),
    ):
        held = dict(zip(view.resources, amounts.tolist(), strict=True))
        yield _gauges(name, says, "resource", held)


def _fairness(known: Known | None) -> Iterator[Metric]:
    shares = None if known is None else known.shares
    error = nan if shares is None else fairness_error(shares)
    yield _gauge("fairness_error", "sum |share - fair share| / sum fair share of users.", error)
    age = nan if known is None else monotonic() - known.since
    yield _gauge("shares_age_seconds", "How old shares and fair shares are.", age)


def _counted(tally: Tally) -> Iterator[Metric]:
    yield _histogram(
        "decision_seconds", "From a request's arrival until its change is on disk.", tally.decision
    )
    yield _histogram("cycle_seconds", "Carrying out requests and placing.", tally.cycle)
    yield _histogram("commit_seconds", "Writing and syncing the journal.", tally.commit)
    placed = CounterMetricFamily("fairlead_placements", "Tasks that were started.")
    placed.add_metric([], tally.placements)
    yield placed
    for name, says, label, counts in (
        ("tasks_ended", "Starts of tasks that are over.", "outcome", tally.ended),
        ("requests_refused", "Answers of status 400 and above.", "code", tally.refused),
        ("events", "Events on disk.", "kind", tally.events),
    ):
        family = CounterMetricFamily(f"fairlead_{name}", says, labels=[label])
        for value, count in dict(counts).items():  # a copy: others go on counting
            family.add_metric([str(value)], count)
        yield family


def _gauge(name: str, says: str, value: float) -> Metric:
    return GaugeMetricFamily(f"fairlead_{name}", says, value=value)


def _gauges(name: str, says: str, label: str, values: dict[str, float] | dict[str, int]) -> Metric:
    family = GaugeMetricFamily(f"fairlead_{name}", says, labels=[label])
    for of, value in values.items():
        family.add_metric([of], value)
    return family


def _histogram(name: str, says: str, spread: Spread) -> Metric:
    total, upto = spread.total, list(accumulate(spread.counts[:]))
    bounds = [*map(str, map(float, BOUNDS)), "+Inf"]
    family = HistogramMetricFamily(f"fairlead_{name}", says)
    family.add_metric([], buckets=list(zip(bounds, upto, strict=True)), sum_value=total)
    return family


class _Families(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self.families = families

    def collect(self) -> Iterable[Metric]:
        return self.families


def _written(
    is_ready: bool, view: View | None, users: list[Row], known: Known | None, tally: Tally
) -> bytes:
    families = [_gauge("ready", "Whether requests are carried out.", int(is_ready))]
    if view is not None:
        families += _state(view, users)
    families += _fairness(known)
    families += _counted(tally)
    registry = CollectorRegistry()
    registry.register(_Families(families))
    ProcessCollector(registry=registry)
    return generate_latest(registry)
