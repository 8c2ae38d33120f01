"""The service's state under random events: no task is lost, and none runs twice."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import groupby

import pytest

from effort import cases
from fairlead.errors import InputError
from fairlead.service.jobs import Job, Running, TaskKey
from fairlead.service.service_state import ServiceState
from fairlead.service.start_forecasts import simulate_starts
from state_invariants import check


def a_job(user: str = "ana", **other: object) -> dict[str, object]:
    asked = {
        "user": user,
        "demand": {"cpu": 1.0},
        "tasks": 1,
        "gang": False,
        "where": None,
        "priority": 0,
        "time_limit": None,
        "after": [],
    }
    return asked | other


COUNTED = ("starts", "lost", "gangs", "unlike", "cancelled", "ended", "restored", "skipped")


def with_servers(policy: str = "drf/best-fit", seed: int = 0, **cpus: float) -> ServiceState:
    state = ServiceState(policy, seed)
    for name, cpu in cpus.items():
        capacity = {"cpu": cpu, "memory": 8.0, "gpu": 2.0}
        body = {"name": name, "capacity": capacity, "labels": {}, "identity": "1"}
        state.apply("server", body, 0.0)
    return state


def submit(state: ServiceState, now: float = 0.0, **other: object) -> int:
    return int(state.apply("submit", {"jobs": [a_job(**other)]}, now)[0])


def place(state: ServiceState, now: float = 1.0) -> list[str]:
    return [f"{run.key} {run.server}" for run in state.apply("place", {"limit": 100}, now)]


def end(state: ServiceState, key: str, status: int | None = 0, now: float = 2.0) -> None:
    job, index, attempt = map(int, key.split("."))
    state.apply("end", {"tasks": [[job, index, attempt, status, ""]]}, now)


def test_a_lost_server_s_tasks_run_again_under_another_attempt() -> None:
    state = with_servers(a=1, b=1)
    submit(state, tasks=2)
    assert place(state) == ["1.0.1 a", "1.1.1 b"]
    state.apply("lost", {"name": "a"}, 2.0)
    assert "a" not in state.servers
    end(state, "1.1.1")
    assert place(state) == ["1.0.2 b"]
    end(state, "1.0.1", 5)  # the end of an old attempt is ignored
    assert state.jobs[1].running[0].key == TaskKey(1, 0, 2)
    end(state, "1.0.2")
    assert [p.status for p in state.take_effects().attempts] == [None, 0, 0]


def test_a_gang_stops_everywhere_before_any_of_it_starts_again() -> None:
    state = with_servers(a=1, b=1, c=1)
    submit(state, tasks=2, gang=True)
    assert place(state) == ["1.0.1 a", "1.1.1 b"]
    state.take_effects()
    state.apply("lost", {"name": "a"}, 2.0)
    assert [str(run.key) for run in state.take_effects().stops] == ["1.1.1"]
    assert place(state) == []
    assert "a" in state.servers
    end(state, "1.1.1", 137)
    assert "a" not in state.servers
    assert place(state) == ["1.0.2 b", "1.1.2 c"]
    check(state)


@pytest.mark.parametrize("lost", ["a", "b"])
def test_a_server_is_lost_before_victims_of_a_gang_stop(lost: str) -> None:
    """The gang has both servers, and waits for the last victim; then it waits to start again."""
    state = with_servers("drf/best-fit/over-quota", a=1, b=1)
    quotas = {"bo": [{"cpu": 2.0}]}
    state.apply("queues", {"rows": [], "users": {}, "limits": {}, "quotas": quotas}, 0.0)
    submit(state, user="ana", tasks=2)
    assert place(state) == ["1.0.1 a", "1.1.1 b"]
    submit(state, 1.0, user="bo", tasks=2, gang=True)
    state.apply("preempt", {"limit": 10}, 1.0)
    state.apply("lost", {"name": lost}, 2.0)
    end(state, "1.1.1" if lost == "a" else "1.0.1", 143)
    assert [job.state for job in state.jobs.values()] == ["pending", "pending"]
    assert list(state.servers) == ["b" if lost == "a" else "a"]
    check(state)


@pytest.mark.parametrize("policy", ["drf/best-fit", "ps-dsf/first-fit", "easy/first-fit"])
@pytest.mark.parametrize("seed", range(cases(1)))
def test_forecast_starts_come_true(policy: str, seed: int) -> None:
    rng = random.Random(seed)
    state = with_servers(policy, a=4, b=2)
    for n in range(18):
        tasks = rng.choice([1, 1, 3])
        demand = {"cpu": rng.choice([0.5, 1.0, 2.0]), "memory": rng.choice([1.0, 2.0])}
        asked = {"gang": tasks > 1 and rng.random() < 0.5, "time_limit": float(rng.randint(1, 30))}
        submit(state, float(n), user=rng.choice(["ana", "bo"]), demand=demand, tasks=tasks, **asked)
    place(state, 18.0)
    foreseen = {
        job: simulate_starts(state, 18.0, None, job).of(job).starts
        for job in list(state.jobs)
        if state.jobs[job].started is None
    }
    assert len(foreseen) > 5
    check(state)
    started: dict[int, float | None] = {}
    while state.jobs:
        runs = [run for machine in state.servers.values() for run in machine.running.values()]
        over = {run.key: run.since + (run.job_group.job.time_limit or 0.0) for run in runs}
        now = min(over.values())
        for key, at in over.items():
            if at == now:
                end(state, str(key), now=now)
        place(state, now)
        started |= {job.id: job.started for job in state.jobs.values() if job.running}
    assert foreseen == {job: started[job] for job in foreseen}


def test_a_held_job_waits_in_its_old_place() -> None:
    state = with_servers(a=1)
    first, second = submit(state, 0.0), submit(state, 0.5)
    state.apply("hold", {"job": first}, 1.0)
    assert state.jobs[first].state == "held"
    state.apply("release", {"job": first}, 1.5)
    assert place(state) == [f"{first}.0.1 a"]
    assert state.jobs[second].state == "pending"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"demand": {"disk": 1.0}}, "there is no resource 'disk'"),
        ({"demand": {"cpu": 0.0}}, "takes nothing"),
        ({"where": []}, "where: must be labels"),
        ({"after": [7]}, "there is no job 7"),
    ],
)
def test_of_a_wrong_batch_nothing_is_taken(wrong: dict[str, object], says: str) -> None:
    state = with_servers(a=1)
    before = state.snapshot()
    with pytest.raises(InputError, match=says):
        state.apply("submit", {"jobs": [a_job(), a_job(**wrong)]}, 1.0)
    assert state.snapshot() == before


def test_a_new_user_named_like_a_queue_adds_no_job() -> None:
    state = with_servers(a=1)
    state.apply("queues", {"rows": [{"name": "team"}], "users": {}, "limits": {}}, 0.0)
    before = state.snapshot()
    with pytest.raises(InputError, match="there is a queue 'team' already"):
        state.apply("submit", {"jobs": [a_job("ana"), a_job("team")]}, 1.0)
    assert state.snapshot() == before


def drive(
    policy: str,
    seed: int,
    events: int,
    steps: tuple[float, ...] = (0.0, 0.5, 3.0),
    told: Callable[..., None] = lambda *_: None,
    *,
    checks: bool = True,
    gangs: float = 0.4,
    order: int = 0,
    trees: bool = False,
) -> dict[str, int]:
    """Apply random events to a state; after each, check the state and the placements."""
    rng = random.Random(seed)
    state, now = with_servers(policy, order, a=4, b=2), 0.0
    seen: set[TaskKey] = set()
    running: dict[TaskKey, str] = {}  # by the workers' orders
    counts = dict.fromkeys((*COUNTED, "preempted"), 0)

    def tell(kind: str, **body: object) -> None:
        nonlocal state
        if rng.random() < 0.1:
            again = ServiceState.restore(state.snapshot())
            assert again.snapshot() == state.snapshot()
            assert not state.effects.starts
            state = again
            counts["restored"] += 1
        outcome = state.apply(kind, body, now)
        if checks:
            check(state)
        effects = state.take_effects()
        told(now, kind, body, outcome, effects)
        for past in effects.attempts:
            running.pop(past.key, None)
        for run in effects.starts:
            assert run.key not in seen, "an attempt started twice"
            earlier = [k for k in running if k[:2] == run.key[:2]]
            assert not earlier, "a task runs twice"
            seen.add(run.key)
            running[run.key] = run.server
            counts["starts"] += 1
        for machine in state.servers.values():
            there = [run for run in machine.running.values() if not (run.awaits or run.is_over)]
            assert sum(run.demand.get("cpu", 0) for run in there) <= machine.capacity["cpu"]
        counts["preempted"] += sum(run.stopping == "preempted" for run in effects.stops)
        counts["ended"] += len(effects.ended)
        for job in effects.ended:
            assert not any(key.job == job.id for key in running)
            counts["cancelled"] += job.state == "cancelled"

    def one(what: object) -> object:
        return rng.choice(sorted(what))  # type: ignore[call-overload]

    for _ in range(events):
        now += rng.choice(steps)
        does = rng.random()
        if does < 0.25:
            gang = rng.random() < gangs
            after = [one(state.jobs)] if state.jobs and rng.random() < 0.2 else []
            asked = a_job(
                rng.choice(["ana", "bo", "cy"]),
                demand={"cpu": rng.choice([0.5, 1.0, 2.0]), "memory": 0.1},
                tasks=rng.randint(1, 4),
                gang=gang,
                after=after,
                priority=rng.randint(-1, 1),
                where=rng.choice([None, None, ["a"], ["b", "c"]]),
                time_limit=rng.choice([None, 5.0]),
                at_most=0 if gang else rng.choice([0, 0, 1, 2]),
            )
            counts["gangs"] += gang
            if gang and rng.random() < 0.5:
                members = [({"cpu": 1.0}, 1), ({"cpu": 0.5, "memory": 1.0}, asked["tasks"])]
                asked |= {"members": members, "tasks": 1 + asked["tasks"]}
                counts["unlike"] += 1
            tell("submit", jobs=[asked])
        elif does < 0.55:
            tell("place", limit=rng.choice([1, 100]))
            if state.scheduler.policy.preempts and rng.random() < 0.5:
                tell("preempt", limit=rng.choice([1, 100]))
        elif does < 0.75 and running:
            key = one(running)
            status = rng.choice([0, 0, 1, None])
            counts["lost"] += status is None
            tell("end", tasks=[[*key, status, ""]])  # type: ignore[misc]
        elif does < 0.8 and state.jobs:
            tell("cancel", job=one(state.jobs))
        elif does < 0.86 and state.jobs:
            tell(rng.choice(["hold", "release"]), job=one(state.jobs))
        elif does < 0.87 and state.jobs:
            job = one(state.jobs)
            if not (state.jobs[job].cancelled or state.jobs[job].members):  # type: ignore[index]
                tell("modify", job=job, changes={"priority": 3, "demand": {"cpu": 1.0}})
        elif does < 0.91 and state.jobs:
            job = one(state.jobs)
            if not state.jobs[job].gang:  # type: ignore[index]
                before = sum(user.pending for user in state.users.values())
                tell("skip", job=job, tasks=rng.sample(range(5), k=4))
                counts["skipped"] += before - sum(user.pending for user in state.users.values())
        elif does < 0.93:
            name = rng.choice(["a", "b", "c"])
            capacity = {"cpu": 4.0, "memory": 8.0, "gpu": 0.0}
            if rng.random() < 0.3:
                capacity["license"] = 1.0
            if name not in state.servers:
                tell("server", name=name, capacity=capacity, labels={}, identity="2")
            elif rng.random() < 0.5:
                tell("drain", name=name, drained=rng.random() < 0.3)
        elif does < 0.95 and state.servers:
            name = one(state.servers)
            if not state.servers[name].lost:  # type: ignore[index]
                for key in [k for k, server in running.items() if server == name]:
                    del running[key]
                tell("lost", name=name)
        elif does < 0.97:
            tell("user", name="bo", weight=rng.choice([1.0, 2.5]))
        elif does < 0.98:
            tell("policy", policy=policy, seed=order)
        elif trees:
            rows = [{"name": "team", "weight": rng.choice([1, 3])}]
            rows += [{"name": "inner", "parent": "team"}] * rng.randint(0, 1)
            users = {
                user: one(row["name"] for row in rows) for user in rng.sample(["ana", "bo"], 1)
            }
            limits = {"bo": {"cpu": 2.0}, one(["ana", "team"]): {"tasks": 3.0}}
            quotas = rng.choice([{}, {"bo": [{"cpu": 2.0}, {"cpu": 1.0, "where": {"zone": "x"}}]}])
            quotas = quotas if state.scheduler.policy.name.startswith("drf") else {}
            terms = {"limits": rng.choice([limits, {}]), "quotas": quotas}
            tell("queues", rows=rows, users=users, **terms)
    if trees:
        tell("queues", rows=[], users={}, limits={})
    for name in ("a", "b", "c"):
        if name not in state.servers:
            capacity = {"cpu": 4.0, "memory": 8.0, "gpu": 0.0}
            tell("server", name=name, capacity=capacity, labels={}, identity="3")
        elif not state.servers[name].lost:
            tell("drain", name=name, drained=False)
    for job in list(state.jobs):
        if job in state.jobs:
            tell("release", job=job)
    while state.jobs:
        now += 10.0
        tell("place", limit=100)
        if not running:
            break
        tell("end", tasks=[[*key, 0, ""] for key in list(running)])
    assert not running
    for job in state.jobs.values():  # jobs that fit on no present server, or wait for such jobs
        assert job.after or state.scheduler.explain(job.group).never  # type: ignore[arg-type]
    return counts


@pytest.mark.parametrize(
    "policy",
    ["drf/best-fit/over-share", "ps-dsf/first-fit", "easy/first-fit"],
)
def test_nothing_is_lost_and_nothing_runs_twice(policy: str) -> None:
    total: dict[str, int] = {}
    for seed in range(cases(2)):
        trees = not policy.startswith("ps-dsf")
        for what, n in drive(policy, seed, 150, trees=trees).items():
            total[what] = total.get(what, 0) + n
    assert total["starts"] > 50
    assert (total.pop("preempted") > 1) == policy.endswith("over-share")
    assert min(total.values()) > 5, total


def test_a_damaged_snapshot_is_refused() -> None:
    data = with_servers(a=1).snapshot()
    with pytest.raises(InputError):
        ServiceState.restore(data[:-1])
    with pytest.raises(InputError, match="snapshot"):
        ServiceState.restore(data[:20] + b"\0" + data[21:])


def stopped(state: ServiceState) -> list[str]:
    return [str(run.key) for run in state.take_effects().stops]


def full_lab(**asked: object) -> ServiceState:
    """Ana holds both servers; bo's tasks get half of them once two of hers have stopped."""
    state = with_servers("drf/best-fit/over-share", a=2, b=2)
    submit(state, tasks=8, **asked)
    assert len(place(state)) == 4
    submit(state, user="bo", tasks=2)
    assert place(state) == []
    state.take_effects()
    runs = state.apply("preempt", {"limit": 100}, 2.0)
    assert [run.key.job for run in runs] == [2, 2]
    check(state)
    return state


def test_a_task_starts_when_its_victims_have_ended() -> None:
    state = full_lab()
    first, second = stopped(state)
    assert state.apply("preempt", {"limit": 100}, 2.5) == []
    again = ServiceState.restore(state.snapshot())
    for held in (state, again):
        end(held, first, 143, 3.0)
        (run,) = held.take_effects().starts
        assert (run.key, run.since) == (TaskKey(2, 0, 1), 3.0)
        assert held.jobs[2].started == 3.0
        end(held, second, 0, 4.0)  # it succeeded in spite of the stop
        assert [run.key for run in held.take_effects().starts] == [TaskKey(2, 1, 1)]
        assert held.jobs[1].ended == 1
        assert place(held) == []
        check(held)
    end(state, "2.0.1")
    assert place(state)[0].startswith("1.0.2" if first == "1.0.1" else "1.")


def test_a_checkpointed_task_runs_again_whatever_its_status() -> None:
    state = full_lab(checkpoint_signal="USR1")
    for key in stopped(state):
        end(state, key, 0, 3.0)
    assert state.jobs[1].ended == 0
    assert len(state.take_effects().starts) == 2
    assert ServiceState.restore(state.snapshot()).jobs[1].checkpoint_signal == "USR1"


def test_a_job_cancelled_before_its_victims_end_never_starts() -> None:
    state = full_lab()
    victims = stopped(state)
    state.apply("cancel", {"job": 2}, 2.5)
    for key in victims:
        end(state, key, 143, 3.0)
    assert state.take_effects().starts == []
    assert 2 not in state.jobs
    assert len(place(state, 4.0)) == 2
    check(state)


def test_no_task_starts_on_a_lost_server_after_its_victims() -> None:
    state = full_lab()
    victims = stopped(state)
    state.apply("lost", {"name": "a"}, 2.5)
    check(state)
    assert state.take_effects().starts == []
    state.apply("preempt", {"limit": 100}, 2.6)
    for key in victims:
        end(state, key, 143, 3.0)
    check(state)
    assert {run.server for run in state.take_effects().starts} <= {"b"}


def test_a_throttled_job_has_a_few_tasks_at_a_time() -> None:
    state = with_servers(a=9)
    submit(state, tasks=5, at_most=2)
    submit(state, user="bo", tasks=5)
    assert place(state)[:4] == ["1.0.1 a", "2.0.1 a", "1.1.1 a", "2.1.1 a"]
    assert place(state) == []
    end(state, "1.0.1")
    assert place(state) == ["1.2.1 a"]
    state.apply("hold", {"job": 1}, 2.0)
    end(state, "1.1.1")
    assert place(state) == []
    state.apply("release", {"job": 1}, 3.0)
    again = ServiceState.restore(state.snapshot())
    for held in (state, again):
        assert place(held) == ["1.3.1 a"]
        end(held, "1.2.1", None)  # lost, so it runs again
        assert place(held) == ["1.2.2 a"]
        for key in ("1.2.2", "1.3.1"):
            end(held, key)
        assert place(held) == ["1.4.1 a"]
        end(held, "1.4.1")
        assert 1 not in held.jobs
        check(held)


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """At each walk over the running tasks of a job, their number."""
    lengths: list[int] = []

    def counted(job: Job) -> list[Running]:
        lengths.append(len(job.running))
        return [job.running[index] for index in sorted(job.running)]

    monkeypatch.setattr(Job, "running_by_index", counted)
    return lengths


def test_demands_of_tasks_are_those_of_a_walk() -> None:
    rng = random.Random(3)
    demands = [{"cpu": 1.0}, {"cpu": 2.0}, {"memory": 1.0}]
    members = [(rng.choice(demands), rng.randint(1, 4)) for _ in range(8)]
    by_task = [demand for demand, tasks in members for _ in range(tasks)]
    state = with_servers(a=1)
    job = state.jobs[submit(state, tasks=len(by_task), gang=True, members=members)]
    assert [job.demand_of(index) for index in range(job.tasks)] == by_task
    for indices in (range(job.tasks), sorted(rng.sample(range(job.tasks), k=job.tasks // 2))):
        alike = groupby(by_task[index] for index in indices)
        assert job.members_of(indices) == [(demand, len(list(these))) for demand, these in alike]


def test_lost_tasks_of_a_gang_walk_over_it_twice(walks: list[int]) -> None:
    names = [f"n{i}" for i in range(10)]
    state = with_servers(**dict.fromkeys(names, 2.0))
    submit(state, tasks=20, gang=True)
    runs = [run.split() for run in place(state)]
    for key, _ in runs[:4]:
        end(state, key)
    assert walks == [], "ends walk over no task"
    state.take_effects()
    end(state, runs[4][0], None)
    for name in names:
        state.apply("lost", {"name": name}, 2.0)
        check(state)
    assert walks == [16, 16]  # to stop the other tasks, and to let all tasks wait again
    assert state.servers == {}
    assert [past.reason for past in state.take_effects().attempts].count("server lost") == 15


def test_holds_of_a_long_job_keep_no_lists() -> None:
    state = with_servers(a=20)
    submit(state, tasks=1000)
    for _ in range(20):
        assert state.apply("place", {"limit": 1}, 1.0)
        state.apply("hold", {"job": 1}, 1.0)
        state.apply("release", {"job": 1}, 1.0)
    check(state)
    assert sum(len(job_group.indices) for job_group in state.jobs[1].groups.values()) == 1000 - 20


def test_a_task_that_a_worker_ended_too_early_never_starts() -> None:
    """A worker may report any attempt, also one whose victims still run."""
    state = full_lab()
    victims = stopped(state)
    end(state, "2.0.1", 0, 2.5)
    check(state)
    for key in victims:
        end(state, key, 143, 3.0)
    assert [run.key for run in state.take_effects().starts] == [TaskKey(2, 1, 1)]


def test_a_cancelled_victim_stays_cancelled() -> None:
    state = with_servers("drf/best-fit/over-share", a=2, b=2)
    submit(state, tasks=8)
    assert len(place(state)) == 4
    submit(state, user="bo", tasks=2)
    state.apply("cancel", {"job": 1}, 1.5)
    assert len(stopped(state)) == 4
    assert len(state.apply("preempt", {"limit": 100}, 2.0)) == 2
    assert stopped(state) == []
    assert {run.stopping for run in state.jobs[1].running.values()} == {"cancelled"}
    check(state)
