"""A service with a tree of queues: order of service, restarts, errors, replays of its journal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.errors import FairleadError, InputError
from fairlead.formats.queue_file import QueueFile
from fairlead.service._views import user_views
from fairlead.service.service_state import ServiceState
from fairlead.simulation.simulate import simulate
from live_cluster import Cluster, until
from service.test_state import a_job, place, submit, with_servers
from service.test_state_thread import Writer

ROWS = [{"name": "physics"}, {"name": "theory", "parent": "physics"}, {"name": "imaging"}]
USERS = {"ana": "theory", "bo": "physics", "cy": "imaging"}
TREE = QueueFile(ROWS, USERS)


def started_by_user(state: ServiceState) -> Counter[str]:
    keys = [run.split(".")[0] for run in place(state)]
    return Counter(state.jobs[int(job)].user for job in keys)


def test_tasks_go_on_when_the_tree_changes() -> None:
    state = with_servers("ps-dsf/best-fit", a=12)
    for user in ("ana", "bo", "cy"):
        submit(state, user=user, tasks=20)
    assert started_by_user(state) == {"ana": 4, "bo": 4, "cy": 4}
    with pytest.raises(InputError, match="does not serve trees"):
        state.apply("queues", TREE.to_dict([]), 0.0)
    state.apply("policy", {"policy": "drf/first-fit"}, 0.0)
    state.apply("queues", TREE.to_dict([]), 0.0)
    with pytest.raises(InputError, match="does not serve trees"):
        state.apply("policy", {"policy": "ps-dsf/best-fit"}, 0.0)
    assert {name: user.running for name, user in state.users.items()} == dict.fromkeys(USERS, 4)
    state.apply("server", server("b", 6), 0.0)
    assert started_by_user(state) == {"ana": 1, "cy": 5}
    with pytest.raises(InputError, match="there is already a user named 'ana'"):
        state.apply("queues", {"rows": [{"name": "ana"}], "users": {}, "limits": {}}, 0.0)
    with pytest.raises(InputError, match="there is a queue 'physics'"):
        submit(state, user="physics")
    assert "physics" not in state.users
    state.apply("queues", {"rows": [], "users": {}, "limits": {}}, 0.0)
    state.apply("policy", {"policy": "ps-dsf/best-fit"}, 0.0)
    assert state.running == 18


def test_limits_hold_for_users_and_teams() -> None:
    state = with_servers(a=12)
    limits = {"physics": {"cpu": 5}, "bo": {"tasks": 2, "license": 1}, "dee": {"cpu": 1}}
    state.apply("queues", QueueFile(ROWS, USERS, limits).to_dict([]), 0.0)
    for user in ("ana", "bo", "cy", "dee"):
        submit(state, user=user, tasks=20)
    assert started_by_user(state) == {"ana": 3, "bo": 2, "cy": 6, "dee": 1}
    assert state.scheduler.explain(state.jobs[1].group).held_by == "limit"
    again = ServiceState.restore(state.snapshot())
    assert again.limits == limits
    for held in (state, again):
        held.apply("queues", QueueFile(ROWS, USERS).to_dict([]), 0.0)
        held.apply("server", server("b", 4), 0.0)
        assert sum(started_by_user(held).values()) == 4


def test_a_limit_of_any_size_is_taken() -> None:
    state = with_servers(a=2)
    limits = {"ana": {"cpu": 1e99, "memory": 1e99, "license": 1e99, "tasks": 1e99}}
    state.apply("queues", QueueFile([], {}, limits).to_dict([]), 0.0)
    submit(state, user="ana", tasks=3)
    assert started_by_user(state) == {"ana": 2}
    state.apply("server", server("b", 1, license=2.0), 0.0)
    assert started_by_user(state) == {"ana": 1}


def test_quotas_go_first_and_are_kept(tmp_path: Path) -> None:
    state = with_servers(a=12)
    quotas = {"bo": [{"cpu": 7}], "cy": [{"cpu": 3, "where": ["a"]}, {"license": 1}]}
    state.apply("queues", QueueFile([], {}, {}, quotas).to_dict([]), 0.0)
    for user in ("ana", "bo", "cy"):
        submit(state, user=user, tasks=20)
    assert started_by_user(state) == {"ana": 2, "bo": 7, "cy": 3}
    places = [(use.queue, use.where) for use in state.scheduler.quotas()]
    assert places[:2] == [("bo", None), ("cy", ["a"])]
    assert state.unmet_quotas() == "1 license are guaranteed to cy; the servers have 0"
    again = ServiceState.restore(state.snapshot())
    assert again.quotas == quotas
    assert again.snapshot() == state.snapshot()
    with pytest.raises(FairleadError, match="quotas need drf/first-fit or drf/best-fit"):
        again.apply("policy", {"policy": "tsf/first-fit"}, 0.0)
    path = tmp_path / "j.db"
    run(path, "drf/first-fit", QueueFile([], {}, {}, {"bo": [{"cpu": 7}]}), ask)
    log = simulate(path, "drf/first-fit", processes=1)["drf/first-fit"].log
    assert Counter((log.task[:12] // 20).tolist())[1] == 7
    with pytest.raises(FairleadError, match="quotas need"):
        run(path, "ps-dsf/joint", None)


def test_a_quota_of_a_queue_includes_those_of_its_users() -> None:
    state = with_servers(a=4)
    quotas = {"p": [{"cpu": 3}], "bo": [{"cpu": 2}]}
    tree = QueueFile([{"name": "p"}], {"bo": "p"}, {}, quotas)
    state.apply("queues", tree.to_dict([]), 0.0)
    assert state.unmet_quotas() == ""
    assert "5 cpu are guaranteed to p, ana" in state.unmet_quotas({"ana": {"cpu": 2}})


def test_past_use_is_kept_when_the_scheduler_is_built_anew() -> None:
    state = with_servers("drf/first-fit/half-life:10", a=4)
    submit(state, user="ana", tasks=4)
    assert started_by_user(state) == {"ana": 4}
    state.apply("queues", QueueFile([], {}, {"ana": {"tasks": 4}}).to_dict([]), 11.0)
    state.apply("server", server("b", 0, license=2.0), 21.0)
    assert state.scheduler.past_use()["ana"]["cpu"] == pytest.approx(3.0)
    again = ServiceState.restore(state.snapshot())
    assert again.snapshot() == state.snapshot()


def test_who_is_due_half_starts_once_others_have_stopped(cluster: Cluster) -> None:
    """With real tasks: one of ana's two tasks is stopped for bo's, and runs again after it."""
    cluster.serve = ("--policy", "drf/best-fit", "--preempt", "over-share:0.1")
    cluster.start_service()
    cluster.start_worker("a", "--grace", "5")
    line = "trap 'echo saved; exit 0' USR1; while :; do sleep .1; done"
    words = ["--checkpoint-signal", "USR1", "--count", "3", "--shell", line]
    submitting = ("submit", "--chdir", "/tmp", "--user")
    (first,) = cluster.run(*submitting, "ana", *words).stdout.split()
    with cluster.client() as client:
        until(lambda: client.job(first).running == 2)
        (second,) = cluster.run(*submitting, "bo", "--", "true").stdout.split()
        assert until(lambda: client.wait(second, 20).state == "finished")
        assert until(lambda: client.job(first).running == 2)
        assert client.job(first).ended_tasks == 0
        assert client.job(first).attempts == 2
        client.cancel(first)
    cluster.kill("service")
    outcome = simulate(cluster.db, "drf/best-fit/over-share:0.1", processes=1)
    log = outcome["drf/best-fit/over-share:0.1"].log
    assert log.lost.sum() >= 1


def server(name: str, cpu: float, **more: float) -> dict[str, object]:
    return {"name": name, "capacity": {"cpu": cpu, **more}, "labels": {}, "identity": name}


def run(path: Path, policy: str | None, tree: QueueFile | None, *requests: Callable) -> bytes:
    """Carry out requests in a state's thread; return its last state."""
    writer = Writer(path, policy, queues=tree)
    for request in requests:
        writer.ask(request)
    data: bytes = writer.ask(lambda tx: tx.state.snapshot())
    writer.close()
    return data


def ask(tx) -> None:
    tx.apply("server", **server("a", 12))
    for user in USERS:
        (job,) = tx.apply("submit", jobs=[a_job(user, tasks=20)])
        tx.batch.specs[job] = (user, tx.now, b'{"command":["true"]}')


def test_a_tree_is_kept_over_restarts(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    seen = []
    first = run(path, "drf/first-fit", TREE, ask, lambda tx: seen.extend(user_views(tx)))
    assert [(row["name"], row["queue"]) for row in seen] == list(USERS.items())
    assert run(path, None, None) == first
    assert run(path, None, TREE) == first
    with pytest.raises(FairleadError, match="parents of queues need drf"):
        run(path, "ps-dsf/joint", None)
    with pytest.raises(InputError, match="there is already a user named 'bo'"):
        run(path, None, QueueFile([{"name": "bo"}], {}))
    assert run(path, None, None) == first
    assert run(path, "ps-dsf/joint", QueueFile([], {})) != first
    assert run(path, "drf/best-fit", TREE) != first


def test_a_journal_is_replayed_with_its_tree(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    run(path, "drf/first-fit", TREE, ask)
    runs = simulate(path, ["drf/first-fit", "easy/first-fit"], processes=1)
    for outcome in runs.values():
        assert outcome.workload.queues is not None
        assert outcome.workload.queues.user_queue() == ["theory", "physics", "imaging"]
    at_once = runs["drf/first-fit"].log.task[:12] // 20
    assert Counter(at_once.tolist()) == {0: 3, 1: 3, 2: 6}
    with pytest.raises(FairleadError, match="does not serve trees"):
        simulate(path, "ps-dsf/joint", processes=1)


def test_limits_of_amounts_need_amounts(tmp_path: Path) -> None:
    tree = QueueFile([], {}, {"ana": {"cpu": 1}})
    with pytest.raises(FairleadError, match="limit their number instead"):
        run(tmp_path / "j.db", "slots:3", tree)
