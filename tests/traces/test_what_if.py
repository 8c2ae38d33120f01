"""Changes of workloads for a what-if, and resampled traces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_workloads import random_workload

from effort import cases
from fairlead.errors import InputError
from fairlead.model.cluster import Cluster
from fairlead.model.queues import read_queues
from fairlead.model.workload import Workload
from fairlead.traces.generator import generate_day
from fairlead.traces.time_window import NO_STARTS_AT_LOAD, time_window, why_no_starts
from fairlead.traces.what_if import (
    DAY,
    WEEK,
    change_workload,
    resampled,
    with_load,
    with_weights,
    without_users,
)
from faults import fault_of

UNCHANGED = ("job_names", "job_submit", "set_tasks", "shapes", "places", "task_duration")


def small() -> Workload:
    """Users ana and bo=; three servers of group big-1, two of group a+b, with an event of each."""
    return Workload.from_arrays(
        Cluster(
            groups=("big-1", "a+b"),
            resources=("cpu",),
            capacity=np.array([[4.0], [2.0]]),
            count=np.array([3, 2]),
            units=("",),
            labels=({}, {}),
        ),
        ["ana", "bo="],
        weight=[2, 1],
        job_user=[0, 1],
        job_submit=[0, 1],
        set_job=[0, 1],
        set_tasks=[1, 2],
        shapes=[[1.0], [2.0]],
        task_duration=[1, 1, 1],
        server_time=[1, 2, 3, 4, 5],
        server_event=[1, 1, 1, 1, 0],
        server=[2, 4, 0, 3, 2],
        origin="by hand",
    )


def test_a_weight() -> None:
    changed = change_workload(small(), "weight:ana=3.5")
    assert changed.weight.tolist() == [3.5, 1]
    assert changed.origin == "by hand, weight:ana=3.5"
    assert change_workload(small(), "weight:bo==1e3").weight.tolist() == [2, 1000]
    assert small().weight.tolist() == [2, 1]


def lives(w: Workload) -> list[list[tuple[str, int, list[tuple[float, int]]]]]:
    """Return the name, number and events of each server, by group."""
    events: dict[int, list[tuple[float, int]]] = {}
    for time, event, server in zip(w.server_time, w.server_event, w.server, strict=True):
        events.setdefault(int(server), []).append((float(time), int(event)))
    firsts = w.first_server.tolist()
    return [
        [(w.cluster.groups[g], i, events.get(firsts[g] + i, [])) for i in range(count)]
        for g, count in enumerate(w.cluster.count.tolist())
    ]


@given(st.integers(0, 10_000), st.integers(1, 5))
def test_remaining_servers_keep_capacity_and_events(seed: int, number: int) -> None:
    workload = random_workload(seed)
    for g, (name, count) in enumerate(
        zip(workload.cluster.groups, workload.cluster.count.tolist(), strict=True)
    ):
        more = change_workload(workload, f"servers:{name}+{number}")
        expected = lives(workload)
        expected[g] += [(name, count + i, []) for i in range(number)]
        assert lives(more) == expected
        assert all(getattr(more, which) is getattr(workload, which) for which in UNCHANGED)
        if count > 1:
            fewer = change_workload(workload, f"servers:{name}-{count - 1}")
            expected[g] = expected[g][:1]
            assert lives(fewer) == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("demand:ana=3", "must be weight:USER=NUMBER, quota:QUEUE.RESOURCE=NUMBER, "),
        ("weight", "must be weight:USER=NUMBER, such as weight:ana=3"),
        ("weight:ana", "must be weight:USER=NUMBER, such as weight:ana=3"),
        ("weight:ana=x", "'x' is not a number"),
        ("weight:ana=-1", "the weight of ana must be 0 or a positive number, not -1"),
        ("weight:anna=3", "no user is named 'anna'; known: ana, bo=; did you mean 'ana'?"),
        ("servers:big-1", "no group is named 'big'; known: big-1, a+b"),
        ("servers:big-1+0", "changes nothing"),
        ("servers:big-1-3", "the group 'big-1' has 3 servers, and at least one must stay"),
        ("servers:big-1+9999999999", "must be from 0 to 2147483646"),
        ("quota:ana.cpu=17", "17 cpu are guaranteed to ana; the servers have 16"),
        ("quota:ana.disk=1", "no resource is named 'disk'"),
        ("quota:cy.cpu=1", "no queue or user is named 'cy'"),
        ("quota:ana.tasks=1", "no resource is named 'tasks'"),
        ("limit:ana.tasks=1.5", "must be a whole number from 0"),
    ],
)
def test_malformed_changes(change: str, message: str) -> None:
    fault = fault_of(change_workload, small(), change)
    assert message in fault
    assert fault.startswith(f"what-if {change!r}: ")


def test_long_lists_of_names_are_cut() -> None:
    workload = small()
    object.__setattr__(workload, "users", tuple(f"user-{n}" for n in range(12)))
    fault = fault_of(change_workload, workload, "weight:usr-11=1")
    assert "user-9 and 2 more users; did you" in fault


def test_a_queue_weighs_something() -> None:
    workload = small()
    rows = [{"name": "team"}]
    in_tree = replace(workload, queues=read_queues(rows, ["team", None], workload.users))
    changed = change_workload(in_tree, "weight:team=3").queues
    assert changed is not None
    assert changed.weight.tolist() == [3]
    with pytest.raises(InputError, match="the weight of team must be a positive number, not 0"):
        change_workload(in_tree, "weight:team=0")


def test_users_may_be_left_out_and_weigh_other_than_before(tmp_path: Path) -> None:
    """A user may be away for a while: dee has no job in the trace."""
    workload = replace(small(), limits={"ana": {"cpu": 1.0}}, quotas={"ana": [{"cpu": 1.0}]})
    rest = without_users(workload, ["ana"])
    assert (rest.users, rest.weight.tolist(), rest.job_user.tolist()) == (("bo=",), [1], [0])
    assert (rest.task_duration.tolist(), rest.limits, rest.quotas) == ([1, 1], {}, {})
    assert "--exclude: no user is named 'dee'" in fault_of(without_users, workload, ["dee"])
    assert "--exclude: leaves no job" in fault_of(without_users, workload, workload.users)
    weights = tmp_path / "weights.yaml"
    weights.write_text("{ana: 3, dee: 2}")
    weighed = with_weights(workload, weights)
    assert weighed.weight.tolist() == [3, 1]
    assert weighed.notes == {"weights of users without a job in the trace (dee)": 1}
    for text, fault in (("[1]", "must be a mapping"), ("{ana: -1}", "ana: must be a number from")):
        weights.write_text(text)
        assert fault_of(with_weights, workload, weights).startswith(f"{weights}: {fault}")


def test_arrivals_come_faster_and_waits_are_kept_apart() -> None:
    starts = np.array([0.0, np.inf, np.nan])
    workload = replace(small(), job_cancel=np.array([np.inf, 5.0]), task_start=starts)
    changed = with_load(workload, 2.0)
    assert changed.job_submit.tolist() == [0, 0.5]
    assert changed.job_cancel.tolist() == [np.inf, 2.5]
    assert changed.server_time.tolist() == [0.5, 1, 1.5, 2, 2.5]
    assert changed.task_duration.tolist() == [1, 1, 1]
    assert not changed.has_starts
    assert "under --load" in why_no_starts(changed)
    assert changed.notes[NO_STARTS_AT_LOAD] == 2
    assert changed.origin == "by hand, load 2"
    for wrong in (0.0, -1.0, np.inf, np.nan, 1e-320):
        assert "load: " in fault_of(with_load, workload, wrong)


def test_a_quota_and_a_limit() -> None:
    tree = read_queues([{"name": "team"}], ["team", None], ["ana", "bo="])
    workload = replace(small(), queues=tree, quotas={"ana": [{"cpu": 1.0, "where": ["a+b"]}]})
    changed = change_workload(workload, "quota:ana.cpu=4")
    assert changed.quotas == {"ana": [{"cpu": 4.0}, {"cpu": 1.0, "where": ["a+b"]}]}
    assert change_workload(changed, "quota:ana.cpu=2").quotas["ana"][0] == {"cpu": 2.0}
    assert change_workload(workload, "limit:team.tasks=3").limits == {"team": {"tasks": 3.0}}
    assert change_workload(workload, "limit:bo=.cpu=3").limits == {"bo=": {"cpu": 3.0}}
    limited = fault_of(change_workload, changed, "limit:ana.cpu=3")
    assert "4 is more than the limit of ana, 3" in limited


def test_names_of_resources_may_have_dots() -> None:
    cluster = replace(small().cluster, resources=("nvidia.com/gpu",))
    workload = replace(small(), cluster=cluster, users=("ana.b", "bo"))
    changed = change_workload(workload, "quota:ana.b.nvidia.com/gpu=4")
    assert changed.quotas == {"ana.b": [{"nvidia.com/gpu": 4.0}]}
    limited = change_workload(workload, "limit:ana.b.tasks=4").limits
    assert limited == {"ana.b": {"tasks": 4.0}}


def jobs_of(workload: Workload) -> dict[str, tuple[object, ...]]:
    """Return all terms of each job but its times, by its name."""
    found = {}
    for j in range(workload.n_jobs):
        sets = range(workload.first_set[j], workload.first_set[j + 1])
        rows = [
            (
                workload.shapes[workload.set_shape[k]].tolist(),
                workload.places[workload.set_place[k]].tolist(),
                workload.task_duration[
                    workload.first_task[k] : workload.first_task[k + 1]
                ].tolist(),
            )
            for k in sets
        ]
        lifetime = round(workload.job_cancel[j] - workload.job_submit[j], 3)
        terms = (workload.job_user[j], workload.job_limit[j], workload.job_gang[j], lifetime)
        found[str(workload.job_names[j])] = (*terms, rows)
    return found


@pytest.mark.parametrize(("hours", "unit"), [(60, DAY), (24 * 40, WEEK)])
def test_users_move_by_whole_periods(hours: float, unit: float) -> None:
    moved = 0
    for seed in range(cases(5)):
        before = generate_day(servers=20, users=6, jobs=300, hours=hours, seed=seed)
        after = resampled(before, seed)
        assert jobs_of(after) == jobs_of(before)
        assert (np.diff(after.job_submit) >= 0).all()
        old = dict(zip(before.job_names.tolist(), before.job_submit.tolist(), strict=True))
        first, last = before.job_submit[0], before.job_submit[-1]
        span = ((last - first) // unit + 1) * unit
        for user in range(before.n_users):
            mine = after.job_user == user
            names, times = after.job_names[mine].tolist(), after.job_submit[mine]
            shifts = (times - np.array([old[name] for name in names])) % span / unit
            whole = np.round(shifts)
            assert np.abs(shifts - whole).max() < 1e-6
            assert len(np.unique(whole % (span // unit))) == 1
            moved += int(whole[0] > 0)
        assert after.job_submit.max() <= first + span
    assert moved > 5


def test_a_trace_of_a_day_is_refused() -> None:
    with pytest.raises(InputError):
        resampled(generate_day(servers=20, users=6, jobs=50, hours=20), 1)


@pytest.mark.parametrize("seed", range(2))
def test_a_cut_is_not_before_the_last_submission(seed: int) -> None:
    part = time_window(generate_day(servers=20, users=5, jobs=200, hours=60), end=30 * 3600)
    assert part.recorded_until == 30 * 3600
    moved = resampled(part, seed)
    assert moved.recorded_until == max(30 * 3600, moved.job_submit[-1])
