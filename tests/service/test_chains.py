"""Jobs after other jobs: long chains end, in the order of the recursive definition."""

from __future__ import annotations

import random

import pytest

from fairlead.service.service_state import ServiceState
from service.test_state import a_job, end, place, submit, with_servers
from state_invariants import check

LONG = 2000  # jobs of a chain, more than nested calls in Python

Ended = list[tuple[int, str]]


def chained(jobs: int) -> ServiceState:
    state = with_servers(a=1)
    state.apply("submit", {"jobs": [a_job()]}, 0.0)
    for job in range(1, jobs):
        state.apply("submit", {"jobs": [a_job(after=[job])]}, 0.0)
    return state


def reasons(state: ServiceState) -> Ended:
    return [(job.id, job.cancelled) for job in state.take_effects().ended]


def test_a_failed_job_ends_a_long_chain() -> None:
    state = chained(LONG)
    assert place(state) == ["1.0.1 a"]
    end(state, "1.0.1", 1)
    check(state)
    ended = reasons(state)
    assert ended[:3] == [(1, ""), (2, "job 1 failed"), (3, "job 2 cancelled")]
    assert [job for job, _ in ended] == list(range(1, LONG + 1))
    assert (state.jobs, state.users["ana"].pending, state._dependents) == ({}, 0, {})


def ends(
    job: int, why: str, state: str, after: dict[int, list[int]], order: Ended, over: set[int]
) -> None:
    """End a job, and recursively the jobs that wait for it, by the definition."""
    over.add(job)
    order.append((job, why))
    for other in sorted(after):
        if job in after[other] and other not in over:
            after[other].remove(job)
            if state != "finished":
                ends(other, f"job {job} {state}", "cancelled", after, order, over)


@pytest.mark.parametrize("seed", range(3))
def test_jobs_end_in_the_order_of_a_recursion(seed: int) -> None:
    rng = random.Random(seed)
    state = with_servers(a=1)
    after = {
        job: sorted(rng.sample(range(1, job), k=min(rng.randint(0, 3), job - 1)))
        for job in range(1, 13)
    }
    for others in after.values():
        submit(state, after=others)
    order: Ended = []
    over: set[int] = set()
    while state.jobs:
        check(state)
        placed = place(state)
        if placed and rng.random() < 0.7:
            status = rng.choice([0, 1])
            job = int(placed[0].split(".")[0])
            end(state, placed[0].split()[0], status)
            ends(job, "", "failed" if status else "finished", after, order, over)
        else:
            running = [job.id for job in state.jobs.values() if job.running]
            job = rng.choice([job for job in state.jobs if job not in running] or running)
            state.apply("cancel", {"job": job}, 2.0)
            if job in running:
                end(state, f"{job}.0.1", 143)
            ends(job, "cancelled", "cancelled", after, order, over)
            for key in [f"{job}.0.1" for job in running if job in state.jobs]:
                end(state, key)
                ends(int(key.split(".")[0]), "", "finished", after, order, over)
    assert reasons(state) == order
