"""Policies of one's own: rules in plain Python, beside compiled policies and by their effects."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from math import floor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairlead
from effort import cases
from fairlead.errors import FairleadError, InputError, RefusalError
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from fairlead.scheduler.own_rules import ClusterView, GroupView, ServerView
from fairlead.scheduler.policies import OwnPolicy
from fairlead.simulation.replay import replay
from fairlead.traces.generator import generate_day
from oracles.random_workloads import crowded_workload, odd_amounts_workload, random_workload
from random_runs import jobs_on_a_server

Amounts = dict[str, float]


def exact(amount: float) -> Fraction:
    return Fraction(repr(amount))


def score(group: GroupView, view: ClusterView) -> int:
    """The dominant share of a group's user by weight, as a whole number."""
    held, total = group.user.held, view.total
    share = max((exact(held[r]) / exact(total[r]) for r in held if total[r] > 0), default=0)
    return floor(share / exact(group.user.weight) * 2**64)


def best_fit(view: ClusterView, servers: list[ServerView], demand: Amounts) -> ServerView:
    """The server whose free amounts are most alike in shape to the task (docs/filling.md)."""
    first = next(r for r in demand if demand[r] > 0)

    def misfit(server: ServerView) -> float:
        free, pool = server.free, view.total
        return sum(
            abs(demand[r] / demand[first] - free[r] / free[first]) * (pool[first] / pool[r])
            for r in demand
            if pool[r] > 0
        )

    return min(servers, key=misfit)


def drf(view: ClusterView, *, is_best_fit: bool) -> object:
    """drf/first-fit and drf/best-fit as rules."""
    choose = partial(best_fit, view) if is_best_fit else None
    order = list(view.users)
    rows = sorted(view.waiting, key=lambda g: (score(g, view), order.index(g.user.name)))
    for group in rows:
        servers = view.plan(group, choose)
        if servers is not None:
            return group, servers
    return None


def fifo(view: ClusterView) -> object:
    """fifo/first-fit: no group passes the first one that fits on idle servers."""
    group = next((group for group in view.waiting if view.fits_idle(group)), None)
    servers = None if group is None else view.plan(group)
    return None if servers is None else (group, servers)


def assert_same_starts(log: RunLog, expected: RunLog) -> None:
    for name in ("task", "server", "start", "end", "lost", "set_unplaceable"):
        np.testing.assert_array_equal(getattr(log, name), getattr(expected, name), err_msg=name)


@pytest.mark.parametrize(
    ("rule", "policy", "strict"),
    [
        (partial(drf, is_best_fit=False), "drf/first-fit", True),
        (partial(drf, is_best_fit=True), "drf/best-fit", False),
        (fifo, "fifo/first-fit", False),
    ],
    ids=["drf-first-fit-strict", "drf-best-fit", "fifo"],
)
def test_a_policy_written_as_a_rule_starts_the_same_tasks(
    rule: Callable[[ClusterView], object], policy: str, strict: bool
) -> None:
    """With gangs, servers that come and go, and jobs that are withdrawn."""
    starts = 0
    for seed in range(cases(8)):
        for make in (random_workload, crowded_workload):
            workload = make(seed)
            log = replay(workload, OwnPolicy("own", rule), strict_fifo=strict)
            assert_same_starts(log, replay(workload, policy, strict_fifo=strict))
            starts += len(log.task)
    assert starts > 160


def test_inexact_amounts_are_placed_as_by_the_scheduler() -> None:
    def first(view: ClusterView) -> object:
        return next((group for group in view.waiting if view.fits(group)), None)

    for seed in range(cases(10)):
        workload = odd_amounts_workload(seed)
        alone = Workload.from_arrays(
            workload.cluster, ["u"], job_user=np.zeros(workload.n_jobs, dtype=int),
            job_submit=workload.job_submit, set_job=workload.set_job, set_tasks=workload.set_tasks,
            shapes=workload.shapes, set_shape=workload.set_shape,
            task_duration=workload.task_duration,
        )  # fmt: skip
        assert_same_starts(replay(alone, OwnPolicy("first", first)), replay(alone, "drf/first-fit"))


def test_used_amounts_count_running_and_ended_tasks() -> None:
    seen = []

    def look(view: ClusterView) -> object:
        ana = view.users["ana"]
        seen.append((view.now, ana.used["cpu"], ana.held["cpu"], ana.running, ana.waiting))
        for group in view.waiting:
            if view.fits(group):
                return group
        return None

    workload = jobs_on_a_server(2.0, [(0, 0.0, 2, 5.0), (0, 2.0, 1, 4.0), (1, 3.0, 1, 1.0)])
    fairlead.simulate(workload, policies=[look], processes=1)
    assert seen == [
        (0.0, 0.0, 0.0, 0, 1), (0.0, 0.0, 2.0, 1, 0), (2.0, 4.0, 2.0, 1, 1), (3.0, 6.0, 2.0, 1, 1),
        (5.0, 10.0, 0.0, 0, 1), (5.0, 10.0, 1.0, 1, 0), (5.0, 10.0, 1.0, 1, 0),
        (6.0, 11.0, 1.0, 1, 0), (9.0, 14.0, 0.0, 0, 0),
    ]  # fmt: skip


def test_a_view_names_what_it_shows() -> None:
    views: list[GroupView] = []

    def look(view: ClusterView) -> object:
        for group in view.waiting:
            views.append(group)
            (server,) = view.servers
            assert (server.group, server.number) == ("all", 0)
            assert server.capacity == {"cpu": 2.0}
            assert view.total == {"cpu": 2.0}
            return group, server
        return None

    workload = jobs_on_a_server(2.0, [(1, 1.5, 2, 5.0)], job_names=["train"])
    fairlead.simulate(workload, policies=[look], processes=1)
    group = views[0]
    assert (group.job, group.user.name, group.submitted) == ("train", "bo", 1.5)
    assert (group.demand, group.is_gang, group.waiting) == ({"cpu": 2.0}, False, 0)
    assert group.used == {"cpu": 10.0}


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (lambda _: 1, "must return None, a group, or a tuple of a group and its servers: 1"),
        (lambda view: view.waiting[-1], "without room"),
        (lambda view: (view.waiting[0], 5), r"one of view\.servers"),
        (lambda view: (view.waiting[0], []), "0 servers for 1 task"),
        (lambda view: (view.waiting[0], ["a"]), "a server that is not there"),
        (lambda view: (view.waiting[0], "all-0"), r"view\.servers.*'all-0'"),
        (lambda view: (view.waiting[1], view.servers), "without room for"),
        (lambda view: view.plan(view.waiting[0], lambda *_: "x"), "not offered"),
        (lambda view: view.waiting[9], r"wrong: IndexError: .*test_own_rules.py, line \d+"),
    ],
)  # fmt: skip
def test_a_start_that_is_not_possible_is_one_line(
    answer: Callable[[ClusterView], object], fault: str
) -> None:
    started: list[float] = []

    def wrong(view: ClusterView) -> object:
        if not started:
            started.append(view.now)
            return view.waiting[0]
        return answer(view)

    rows = [(0, 0.0, 1, 5.0), (0, 0.0, 1, 5.0), (1, 0.0, 2, 5.0), (1, 0.0, 2, 5.0)]
    with pytest.raises(FairleadError, match=fault) as caught:
        replay(
            jobs_on_a_server(2.0, rows),
            OwnPolicy("wrong", wrong if "Index" not in fault else answer),
        )
    assert "\n" not in str(caught.value)


def test_a_group_that_has_started_cannot_start_again() -> None:
    kept: list[GroupView] = []

    def again(view: ClusterView) -> object:
        kept.extend(view.waiting)
        return kept[0]

    with pytest.raises(InputError, match="without waiting tasks"):
        replay(jobs_on_a_server(2.0, [(0, 0.0, 1, 5.0)]), OwnPolicy("again", again))


def never(_: ClusterView) -> object:
    return None


def test_rules_run_in_processes_beside_named_policies_and_changes(tmp_path: Path) -> None:
    workload = random_workload(4, gangs=False)
    rule = partial(drf, is_best_fit=False)
    named = {"own": rule}
    runs = fairlead.simulate(workload, named, what_if="weight:u0=3", dedicated=True, processes=2,
                             folder=tmp_path)  # fmt: skip
    assert list(runs) == ["own", "own, weight:u0=3", "own, dedicated"]
    assert len(list(tmp_path.iterdir())) == 3
    # What decides a run of a rule is not known, so it is not taken for done.
    found: list[str] = []
    fairlead.simulate(workload, named, folder=tmp_path, processes=1,
                      on_found=lambda name, _: found.append(name))  # fmt: skip
    assert found == []


def test_the_error_of_a_rule_keeps_finished_runs(tmp_path: Path) -> None:
    def wrong(view: ClusterView) -> object:
        return view.waiting[9]

    policies: Any = ["drf/best-fit", wrong, "drf/first-fit"]
    workload = jobs_on_a_server(2.0, [(0, 0.0, 1, 5.0)])
    with pytest.raises(fairlead.FairleadError, match="wrong: IndexError"):
        fairlead.simulate(workload, policies, processes=1, folder=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["drf_best-fit.parquet"]


@pytest.mark.parametrize(
    "policies",
    [
        *({name: never} for name in ("drf/best-fit", "slots:3", "recorded", "", " x")),
        *({"x": rule} for rule in ("drf/best-fit", 3)),
        [("own", never), "drf/first-fit"],
    ],
)
def test_a_rule_is_a_function_with_a_name_of_its_own(policies: Any) -> None:
    with pytest.raises(InputError, match="policies"):
        fairlead.simulate(jobs_on_a_server(2.0, [(0, 0.0, 1, 5.0)]), policies)


def test_what_a_rule_does_not_serve_is_refused() -> None:
    workload = jobs_on_a_server(2.0, [(0, 0.0, 1, 5.0)])
    with pytest.raises(InputError, match="does not stop tasks"):
        fairlead.simulate(workload, never, what_if="preempt:over-share")
    with pytest.raises(RefusalError):
        OwnPolicy("own", never).require_trees()


class Once:
    """A rule that works in one run only: it remembers the time of the last call."""

    def __init__(self) -> None:
        self.last = 0.0

    def __call__(self, view: ClusterView) -> GroupView | None:
        if view.now < self.last:
            raise RuntimeError("state of an earlier run")
        self.last = view.now
        return next((group for group in view.waiting if view.fits(group)), None)

    def start(self, view: ClusterView) -> GroupView | None:
        return self(view)


@pytest.mark.parametrize("processes", [1, 2])
def test_runs_begin_with_the_rule_as_it_was_given(processes: int) -> None:
    day, rule = generate_day(servers=4, users=3, jobs=20, hours=60, seed=1), Once()
    policies: Any = {"fifo": rule.start, "once": rule, "bound": partial(Once.start, rule)}
    found = fairlead.study(day, policies, seeds=2, processes=processes)
    assert len(found.policies) == 3
    for _ in range(2):
        runs = fairlead.simulate(day, {"once": rule}, dedicated=True, processes=processes)
        assert len(runs) == 2
    assert rule.last == 0.0


def test_a_rule_that_cannot_be_copied_is_named() -> None:
    def count(view: ClusterView) -> GroupView | None:
        return next((group for group in view.waiting if view.fits(group)), None)

    rule = Once()
    rule.log = (x for x in ())  # type: ignore[attr-defined]
    day = random_workload(1)
    with pytest.raises(fairlead.FairleadError, match=r"once: cannot be copied .*generator"):
        fairlead.simulate(day, {"once": rule, "count": count}, processes=1)


@pytest.mark.parametrize("rule", [Once(), partial(fifo)])
def test_a_rule_without_a_name_is_asked_for_one(rule: Any) -> None:
    day = random_workload(1)
    with pytest.raises(InputError, match=r"""policies\[1\]: .*\{"name": rule\}"""):
        fairlead.simulate(day, ["drf/first-fit", rule])
