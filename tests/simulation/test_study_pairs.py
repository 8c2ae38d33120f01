"""Pairs of a study: of one load, over the same jobs, beside the tasks that still wait."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import fairlead
from fairlead.errors import InputError
from fairlead.model.workload import Workload
from fairlead.scheduler.own_rules import ClusterView, GroupView
from fairlead.simulation.studies import MEASURES, Study
from fairlead.traces.generator import generate_day

pytestmark = pytest.mark.usefixtures("few_instants")


def small_only(view: ClusterView) -> GroupView | None:
    """Start tasks of one core; larger ones wait for ever."""
    return next((g for g in view.waiting if g.demand["cpu"] == 1 and view.fits(g)), None)


def never(view: ClusterView) -> None:
    """Start nothing."""


def one_large_and_two_small() -> Workload:
    """Return jobs of 4, 1 and 1 cores for a server of 4, of 10 s, the last one 20 s later."""
    problem = fairlead.Problem.from_arrays([[4]], [[1]], resources=["cpu"])
    return Workload.from_arrays(
        problem.cluster,
        ["ana"],
        job_user=[0, 0, 0],
        job_submit=[0, 0, 20],
        set_job=[0, 1, 2],
        set_tasks=[1, 1, 1],
        shapes=[[4], [1], [1]],
        task_duration=[10] * 3,
    )


def differences_in(found: Study, policy: str) -> dict[str, float | None]:
    rows = found.to_frame("differences").filter(policy=policy).to_dicts()
    return {row["measure"]: row["mean"] for row in rows}


def test_pairs_are_over_the_jobs_complete_under_both() -> None:
    policies = ["fifo/first-fit", small_only, never]
    found = fairlead.study(one_large_and_two_small(), policies, processes=1)
    assert found.mean("mean_wait", "fifo/first-fit").mean == pytest.approx(10 / 3)
    assert found.mean("mean_wait", "small_only").mean == 0
    # The small jobs wait 10 s and 0 s under fifo, where the large one is before them.
    small = differences_in(found, "small_only")
    assert small["mean_wait"] == -5
    assert small["p95_wait"] == -10
    assert small["mean_completion_time"] == -5
    assert small["mean_slowdown"] == small["mean_bounded_slowdown"] == -0.5
    assert small["waiting"] == 1
    assert list(small) == list(MEASURES)
    assert small["makespan"] is None  # its work is not done
    nothing = differences_in(found, "never")
    assert nothing["waiting"] == 3
    # Until the last submission; under fifo some task of ana runs all that time.
    assert found.mean("longest_without", "never").mean == 20
    assert found.mean("longest_without", "fifo/first-fit").mean == 0
    assert nothing["mean_wait"] is nothing["makespan"] is nothing["mean_slowdown"] is None


def test_pairs_are_the_same_from_either_policy() -> None:
    found = fairlead.study(one_large_and_two_small(), [small_only, "fifo/first-fit"], processes=1)
    change = differences_in(found, "fifo/first-fit")
    assert (change["mean_wait"], change["p95_wait"], change["waiting"]) == (5, 10, -1)
    assert change["makespan"] is None


def test_answers_name_policies_that_leave_tasks_waiting() -> None:
    policies = ["fifo/first-fit", small_only, never]
    traces = {"a": one_large_and_two_small(), "b": one_large_and_two_small()}
    found = fairlead.study(traces, policies, processes=1)
    small, nothing = found.cautions
    assert "under small_only 2 tasks still wait at the end, in 2 of 2 variations" in small
    assert "under never 6 tasks" in nothing
    assert small in repr(found)
    runs = fairlead.simulate(one_large_and_two_small(), policies, processes=1)
    assert "1 task still waits" in repr(runs)
    assert runs.to_frame()["waiting"].to_list() == [0, 1, 3]
    warm = fairlead.simulate(one_large_and_two_small(), never, processes=1, warm_up=10)
    assert repr(warm) == "<never: 0 starts, until 0 s; 1 task still waits>"


@pytest.mark.parametrize(
    ("measure", "policy", "place"),
    [
        ("mean wait", "fifo/first-fit", "measure: must be one of mean_wait"),
        ("mean_wait", "nope", "policy: must be one of fifo/first-fit"),
        (["mean_wait"], "fifo/first-fit", "measure"),
        ("mean_wait", ["nope"], "policy"),
    ],
)
def test_unknown_measures_and_policies_are_named(measure: Any, policy: Any, place: str) -> None:
    found = fairlead.study(one_large_and_two_small(), "fifo/first-fit", processes=1)
    for ask in (found.mean, found.difference):
        with pytest.raises(InputError, match=place):
            ask(measure, policy)


def test_an_unknown_option_is_one_of_study() -> None:
    with pytest.raises(TypeError, match=r"study\(\).*bogus"):
        fairlead.study(one_large_and_two_small(), "fifo/first-fit", bogus=1)  # type: ignore[call-arg]


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
    found = fairlead.study(day, policies, seeds=3, processes=processes)
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
    day = generate_day(servers=4, users=3, jobs=20, hours=60, seed=1)
    with pytest.raises(fairlead.FairleadError, match=r"once: cannot be copied .*generator"):
        fairlead.simulate(day, {"once": rule, "count": count}, processes=1)


@pytest.mark.parametrize("rule", [Once(), partial(small_only)])
def test_a_rule_without_a_name_is_asked_for_one(rule: Any) -> None:
    day = generate_day(servers=4, users=3, jobs=20, hours=60, seed=1)
    with pytest.raises(InputError, match=r"""policies\[1\]: .*\{"name": rule\}"""):
        fairlead.simulate(day, ["drf/first-fit", rule])


def test_servers_of_rules_are_those_of_the_view() -> None:
    def by_name(view: ClusterView) -> object:
        return (view.waiting[0], "g0-0") if view.waiting else None

    with pytest.raises(fairlead.FairleadError, match=r"view\.servers.*'g0-0'"):
        fairlead.simulate(one_large_and_two_small(), by_name, processes=1)
