"""Generated days: the park, the arrivals, the sizes, the load; and the script of Fig. 4."""

from __future__ import annotations

import gzip
from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from fairlead.model.cluster import Cluster
from fairlead.model.task_kinds import unplaceable_sets
from fairlead.model.workload import Workload
from fairlead.traces.generator import (
    COUNTS,
    TABLE_I,
    Arrivals,
    cluster_in_proportion,
    draw_cluster,
    generate_day,
)
from fairlead.traces.logs.google import AGAIN, BEFORE, NO_USER, OUT_OF_ORDER, read_job_arrivals
from faults import fault_of


@pytest.fixture(scope="module")
def parts(job_events: Path) -> list[Path]:
    return sorted(job_events.glob("part-*.csv.gz"))[:3]


def offered_load(workload: Workload, seconds: float) -> float:
    """From the definition: amounts times durations over capacity times time, the largest."""
    demand = workload.shapes[workload.set_shape].repeat(workload.set_tasks, axis=0)
    work = (demand * workload.task_duration[:, None]).sum(axis=0)
    return float((work / workload.cluster.total_capacity / seconds).max())


def shares_of(park: Cluster) -> dict[tuple[float, ...], int]:
    return {tuple(row): count for row, count in zip(park.capacity, park.count, strict=True)}


def test_parks_have_the_proportions_of_the_table() -> None:
    for servers in (1, 7, 100, 12_583, 50_000):
        park = cluster_in_proportion(COUNTS, servers)
        assert park.count.sum() == servers
        for count, *capacity in TABLE_I:
            exact = count * servers / 12_583
            assert abs(shares_of(park).get(tuple(capacity), 0) - exact) < 1
    drawn = shares_of(draw_cluster(100_000, np.random.default_rng(0)))
    assert sum(drawn.values()) == 100_000
    for count, *capacity in TABLE_I[:5]:
        exact = count / 12_583 * 100_000
        assert abs(drawn[tuple(capacity)] - exact) < 5 * np.sqrt(exact)


def test_a_day_in_figures() -> None:
    workload = generate_day(servers=300, users=40, seed=5)
    assert workload.n_servers == 300
    assert set(np.bincount(workload.job_user) > 0) == {True}
    assert len(workload.users) == 40
    assert workload.job_submit[0] >= 0
    assert workload.job_submit[-1] < 24 * 3600
    assert offered_load(workload, 24 * 3600) == pytest.approx(1.0, rel=1e-3)
    assert not unplaceable_sets(workload).any()
    assert not workload.job_gang.any()
    classes = np.searchsorted([50, 100, 500, 1000], workload.job_tasks)
    shares = np.bincount(classes, minlength=5) / workload.n_jobs
    assert (shares > 0).all()
    assert shares[0] > 0.9
    assert 30 < workload.job_tasks.mean() < 45
    steps = workload.shapes * [32, 128]
    assert np.allclose(steps, np.round(steps))
    assert len(workload.shapes) < workload.n_jobs / 2


def test_arrivals_come_in_bursts_and_waves() -> None:
    """Not at even rate: the variance of the jobs in 5 minutes is far above their mean."""
    workload = generate_day(10, jobs=43_000, hours=48, load=1.0)
    counts = np.histogram(workload.job_submit, bins=48 * 12, range=(0, 48 * 3600))[0]
    assert 4 < counts.var() / counts.mean() < 16
    hour = generate_day(10, jobs=43_000, hours=480, load=1.0).job_submit / 3600
    wave = np.exp(-2j * np.pi * hour / 24).mean() * 2
    assert abs(wave) == pytest.approx(0.09, abs=0.03)


def test_some_users_have_larger_jobs_than_others() -> None:
    """Half of the variance: of two jobs of a user, the ranks of their sizes go together."""
    workload = generate_day(10, jobs=20_000, users=200, load=1.0, seed=2)
    rank = np.argsort(np.argsort(workload.job_tasks, kind="stable"), kind="stable") / 20_000
    mean = np.bincount(workload.job_user, rank) / np.bincount(workload.job_user)
    # By chance of the jobs alone it would be 0.29 over the root of some 100 jobs.
    assert mean.std() == pytest.approx(0.19, abs=0.03)
    sizes = np.sort(workload.job_tasks)
    assert sizes.tolist() == np.sort(generate_day(10, jobs=20_000, load=1.0).job_tasks).tolist()


def test_jobs_and_load_are_met() -> None:
    workload = generate_day(100, jobs=500, load=1.5, hours=2)
    assert workload.n_jobs == 500
    assert offered_load(workload, 7200) == pytest.approx(1.5, rel=0.01)
    free = generate_day(100, jobs=500, hours=2)
    assert np.log(free.task_duration).mean() == pytest.approx(5.43, abs=0.5)
    assert generate_day(12_583, jobs=5, exact=True).n_servers == 12_583
    for servers, seed in product(range(1, 6), range(10)):
        assert not unplaceable_sets(generate_day(servers, jobs=20, users=2, seed=seed)).any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"servers": 0}, "servers: must be from 1 to 10,000,000, not 0"),
        ({"load": 1e5}, "jobs: must be from 1 to"),
        ({"hours": 0.0}, "hours: must be from 0.001 to 1000000, such as 24, not 0.0"),
        ({"load": float("nan")}, "load: must be from 1e-06 to 1000000, such as 0.8, not nan"),
        ({"seed": -1}, "seed: must be a whole number from 0, not -1"),
    ],
)
def test_refusals(changes: dict[str, float], message: str) -> None:
    assert fault_of(generate_day, **changes).startswith(message)


def test_arrivals_are_those_of_the_files(parts: list[Path]) -> None:
    arrivals = read_job_arrivals(parts[::-1])
    submitted: dict[str, tuple[float, str]] = {}
    n_rows = unknown = 0
    for part in parts:
        with gzip.open(part, "rt") as rows:
            for row in rows:
                time, _, job, event, user, *_ = row.split(",")
                n_rows += event == "0"
                unknown += event == "0" and not user
                if event == "0" and job not in submitted:
                    submitted[job] = (int(time) / 1e6 - 600, user or "unknown")
    later = sorted(entry for entry in submitted.values() if entry[0] >= 0)
    left_out = {
        BEFORE: len(submitted) - len(later),
        AGAIN: n_rows - len(submitted),
        NO_USER: unknown,
    }
    assert {what: arrivals.notes.get(what, 0) for what in left_out} == left_out
    # The last part was given first: all of the others came before.
    assert arrivals.notes[OUT_OF_ORDER] > len(later) / 2
    assert arrivals.times.tolist() == [time for time, _ in later]
    assert Counter(arrivals.users.tolist()) == Counter(user for _, user in later)
    workload = generate_day(100, hours=2, arrivals=arrivals, load=0.7)
    within = [user for time, user in later if time < 7200]
    assert workload.job_submit.tolist() == [time for time, _ in later if time < 7200]
    assert [workload.users[n] for n in workload.job_user] == within
    assert workload.notes == arrivals.notes
    assert offered_load(workload, 7200) == pytest.approx(0.7, rel=1e-3)
    some = generate_day(100, hours=2, arrivals=arrivals, jobs=50)
    assert some.n_jobs == 50
    assert set(some.job_submit) <= set(workload.job_submit)
    fault = fault_of(generate_day, 100, hours=2, arrivals=arrivals, jobs=99_999)
    assert fault.startswith("jobs: the arrivals hold ")
    late = Arrivals(np.array([7200.0]), np.array(["x"]))
    assert "the arrivals hold 0 in 1 hours" in fault_of(generate_day, 10, hours=1, arrivals=late)


GOOD = "600000000,,1,0,ana,0,n,l\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + "599999999,,2,0,ana,0,n,l\n", "row 2: time: '599999999' is before the row above"),
        (GOOD + "1,2,3\n", "row 2: 3 columns separated by commas, not 8"),
        ("", "holds no job event"),
        (GOOD.replace(",0,ana", ",1,ana"), "holds no submission of a job"),
    ],
)
def test_unusable_job_events(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "part-00000-of-00500.csv"
    path.write_text(text)
    assert fault_of(read_job_arrivals, [path]).startswith(f"{path}: {message}")
