"""Longest waits, by looking at every moment; users that got nothing; the time of figures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fairlead.model.run_log import RunLog
from fairlead.model.workload import first_seconds
from fairlead.simulation.metrics.summary import summarise
from oracles.plain_metrics import PlainMetrics
from random_runs import Run, jobs_on_a_server, run_by_hand, runs


@given(runs(), st.sampled_from([3.0, 5.0, 8.0]))
def test_waits_of_a_cut_window_end_with_it(run: Run, until: float) -> None:
    """Later jobs of a user may run while the earlier ones wait, so both are judged until then."""
    workload, log = run
    early = workload.job_submit < until
    assume(early.any() and not early.all())
    part = first_seconds(workload, until)
    kept = log.task < part.n_tasks  # jobs are in order of submission
    sets = slice(part.n_sets)
    columns = {name: getattr(log, name)[kept] for name in ("task", "start", "end", "lost")}
    servers = np.zeros(kept.sum(), dtype=np.int32)
    cut = RunLog("cut", **columns, server=servers, set_unplaceable=log.set_unplaceable[sets])
    found = summarise(part, cut, instants=0).starvation
    plain = PlainMetrics(*run)
    for u in range(workload.n_users):
        assert found.longest[u] == pytest.approx(plain.longest_without(u, 0.0, until))


def one_is_starved(drain: float) -> Run:
    """Ana's jobs have the server until the last comes, which runs for long beside Bo's task."""
    later = np.arange(10.0, 100.0, 10.0).tolist()
    whole = [(0, t, 1.0, 10.0) for t in later[:-1]]
    rows = [(0, 0.0, 1.0, 10.0), (1, 0.0, 0.5, 5.0), *whole, (0, later[-1], 0.5, drain)]
    return run_by_hand(jobs_on_a_server(1.0, rows), [0.0, 90.0, *later])


@pytest.mark.parametrize("drain", [10.0, 10_000.0])
def test_the_drain_does_not_thin_the_error(drain: float) -> None:
    """Half of the server is Bo's by right, of which it has nothing; and it is said so by name."""
    found = summarise(*one_is_starved(drain), instants=20).to_dict()
    assert found["arrivals_until"] == 90.0
    assert found["fairness_error"] == pytest.approx(1.0)
    bo = found["users"]["bo"]
    assert (bo["fairness_error"], bo["fair_share"]) == pytest.approx((0.5, 0.5))
    assert found["least_share"] == 0.0
    assert found["got_nothing"] == {"bo": 90.0}
    assert found["longest_without"] == {"user": "bo", "seconds": 90.0}
    assert found["users"]["ana"]["longest_without"] == 0.0


@pytest.mark.parametrize(
    ("job", "seconds"),
    [
        # All the time with events; or, of the last job, the rest of it.
        (1, 100.0),
        (10, 5.0),
    ],
)
def test_who_never_gets_anything_is_named(job: int, seconds: float) -> None:
    workload, log = one_is_starved(10.0)
    bos = replace(workload, job_user=np.where(np.arange(11) == job, 1, 0).astype(np.int32))
    kept = log.task != job
    columns = ("task", "server", "start", "end", "lost")
    starved = replace(log, **{name: getattr(log, name)[kept] for name in columns})
    found = summarise(bos, starved, instants=0).to_dict()
    assert found["got_nothing"] == {"bo": seconds}
    assert found["never_ran"] == ["bo"]


def test_users_that_never_ran_have_tasks_and_no_start() -> None:
    """One without tasks asked for nothing; one that started late ran something."""
    workload, log = one_is_starved(10.0)
    more = replace(workload, users=(*workload.users, "cy"), weight=np.ones(3))
    assert summarise(more, log, instants=0).to_dict()["never_ran"] == []
