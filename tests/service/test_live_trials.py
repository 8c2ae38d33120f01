"""Trials of changes give what the events would do, and change nothing."""

from __future__ import annotations

import random
from typing import Any

import pytest

from asked_service import Asked, served
from effort import cases
from fairlead.errors import InputError
from fairlead.report.live import what_if_table
from fairlead.service._state_thread import Transaction
from fairlead.service._what_if import try_changes
from fairlead.service.messages import WhatIfRequest
from fairlead.service.service_state import ServiceState
from service.test_state import place, submit, with_servers


def crowded(policy: str = "drf/best-fit") -> ServiceState:
    """Return a state in which ana holds server a, bo holds server b, and both wait for more."""
    state = with_servers(policy, a=4, b=4)
    for user in ("ana", "bo"):
        submit(state, user=user, tasks=20)
    place(state, 1.0)
    return state


def tried(state: ServiceState, **changes: Any) -> dict[str, Any]:
    before = state.snapshot()
    answer = try_changes(state, WhatIfRequest(**changes), 2.0).answer()
    assert state.snapshot() == before
    return answer | {user["name"]: user for user in answer["users"]}


def test_users_of_weight_zero_hold_parts_of_the_cluster_too() -> None:
    state = crowded()
    state.on_user(1.0, "ana", 0)
    found = tried(state, weights={"ana": 1, "bo": 0})
    for user in ("ana", "bo"):
        assert found[user]["held"] == found[user]["held_after"] == pytest.approx(0.5)


def test_tasks_of_drained_servers_stay_unless_these_are_removed() -> None:
    state = crowded()
    drained = tried(state, drain=["a"])
    assert (drained["stops"], drained["stays"]) == (0, 4)
    assert tried(state, drain=["a", "b", "a"], remove=["b"])["stays"] == 4


def test_a_quota_takes_back_under_a_policy_that_preempts() -> None:
    state = with_servers("drf/best-fit/over-quota", a=4)
    submit(state, user="ana", tasks=9)
    place(state, 1.0)
    submit(state, user="bo", tasks=3)
    assert tried(state, weights={"bo": 5})["stops"] == 0
    found = tried(state, quotas={"bo": {"cpu": 2}})
    assert (found["ana"]["stops"], found["bo"]["starts"]) == (2, 2)


def test_quotas_that_no_server_can_meet_are_said() -> None:
    state = with_servers("drf/best-fit/over-quota", a=4)
    for user in ("ana", "bo"):
        submit(state, user=user, tasks=9)
    assert tried(state, quotas={"bo": {"cpu": 4}})["unmet_quotas"] == ""
    found = tried(state, quotas={"bo": {"cpu": 9}})
    assert "9 cpu are guaranteed to bo; the servers have 4" in found["unmet_quotas"]
    assert tried(state, quotas={"bo": {"cpu": 9}}, like={"a": 2})["unmet_quotas"] == ""
    assert tried(state, quotas={"bo": {"cpu": 4}}, remove=["a"])["unmet_quotas"] != ""


def test_quotas_on_named_servers_stay_in_a_trial() -> None:
    state = with_servers("drf/best-fit/over-quota", a=4)
    for user in ("ana", "bo"):
        submit(state, user=user)
    quotas = {"ana": [{"cpu": 4}, {"cpu": 4, "where": ["a"]}]}
    state.apply("queues", {"rows": [], "users": {}, "limits": {}, "quotas": quotas}, 1.0)
    both = {"ana": {"cpu": 4}, "bo": {"cpu": 2}}
    found = tried(state, quotas=both)["unmet_quotas"]
    assert "6 cpu are guaranteed to ana, bo; the servers have 4" in found
    assert tried(state, quotas=both, like={"a": 1})["unmet_quotas"] == ""
    quotas["ana"][0]["cpu"] = quotas["ana"][1]["cpu"] = 8
    state.apply("queues", {"rows": [], "users": {}, "limits": {}, "quotas": quotas}, 1.0)
    assert "8 cpu" in tried(state, like={"a": 1})["unmet_quotas"]  # the new one is not named a


@pytest.mark.parametrize("policy", ["drf/best-fit", "ps-dsf/first-fit", "tsf/best-fit"])
@pytest.mark.parametrize("seed", range(cases(1)))
def test_a_trial_is_what_the_events_would_do(policy: str, seed: int) -> None:
    """The same changes are made for good in a copy of the state."""
    rng = random.Random(seed)
    state = with_servers(policy, a=4, b=3, c=2)
    for _ in range(15):
        demand = {"cpu": rng.choice([0.5, 1.0, 2.0]), "memory": rng.choice([0.5, 1.0])}
        submit(state, user=rng.choice(["ana", "bo", "cy"]), demand=demand, tasks=rng.randint(1, 4))
    place(state, 1.0)
    state.take_effects()
    found = tried(state, weights={"bo": 3}, like={"b": 1}, drain=["a"], remove=["c"])
    assert not found["is_cut"]
    for queue in state.scheduler.shares().queues:
        assert found[queue.name]["held"] == pytest.approx(queue.share)
        assert found[queue.name]["fair"] == pytest.approx(queue.fair_share)

    copy = ServiceState.restore(state.snapshot())
    more = copy.servers["b"]
    before = {name: user.running for name, user in copy.users.items()}
    copy.apply("user", {"name": "bo", "weight": 3.0}, 2.0)
    new = {"name": "b2", "capacity": more.capacity, "labels": more.labels, "identity": "x"}
    copy.apply("server", new, 2.0)
    copy.apply("drain", {"name": "a"}, 2.0)
    copy.apply("lost", {"name": "c"}, 2.0)
    lost = {user: n - copy.users[user].running for user, n in before.items()}
    held = {name: user.running for name, user in copy.users.items()}
    copy.apply("place", {"limit": 1000}, 2.0)
    shares = {queue.name: queue for queue in copy.scheduler.shares().queues}
    for user in ("ana", "bo", "cy"):
        assert found[user]["stops"] == lost[user]
        assert found[user]["starts"] == copy.users[user].running - held[user]
        weight = copy.users[user].weight
        assert found[user]["held_after"] == pytest.approx(weight * shares[user].share)
        assert found[user]["fair_after"] == pytest.approx(weight * shares[user].fair_share)


@pytest.mark.parametrize(
    "changes",
    [
        {"weights": {"cy": 2}},
        {"remove": ["c"]},
        {"quotas": {"cy": {"cpu": 1}}},
        {"quotas": {"ana": {"tpu": 1}}},
    ],
)
def test_unknown_names_are_refused_and_change_nothing(changes: dict[str, Any]) -> None:
    state = crowded()
    before = state.snapshot()
    with pytest.raises(InputError, match=r"(c|cy|tpu)"):
        try_changes(state, WhatIfRequest(**changes), 2.0)
    assert state.snapshot() == before


@served
async def test_a_service_answers_and_stays_as_it_is(ask: Asked) -> None:
    await ask.join("a", cpu=2)
    await ask.submit({"tasks": 4}, {"user": "bo", "tasks": 4})

    async def snapshot() -> bytes:
        def read(tx: Transaction) -> bytes:
            return tx.state.snapshot()

        return await ask.service.state_thread.run(read)

    before = await snapshot()
    found = await ask("POST", "/v1/what-if", json={"weights": {"bo": 2}, "like": {"a": 1}})
    assert found["starts"] == 2
    assert before == await snapshot()
    for like in ({"a": 10**6}, {"a": 600, "b": 600}):
        await ask("POST", "/v1/what-if", json={"like": like}, status=422)
    text = what_if_table({**found, "stays": 1, "unmet_quotas": "x"}).to_text(plain=True)
    assert "2 tasks would start now, and 0 would stop. 1 task would go on running" in text
    assert "Not all quotas could be met: " in text


@pytest.mark.parametrize("policy", ["ps-dsf/best-fit", "drf/best-fit/over-share"])
@served
async def test_another_policy_is_that_of_a_switched_service(ask: Asked, policy: str) -> None:
    """A service that has switched to the policy gives the shares and starts of the trial."""
    rows = [{"name": f"n{k}", "cpu": 2 + 4 * k, "memory": f"{9 - 4 * k}Gi"} for k in range(3)]
    await ask("POST", "/v1/workers/join", json={"identity": "1", "servers": rows})
    for user, cpu, memory in (("ana", 0.5, 1), ("bo", 1, 0.25), ("cy", 1, 2)):
        await ask.submit({"user": user, "tasks": 9, "cpu": cpu, "memory": memory})
    state = ask.service.state_thread.state
    before = state.snapshot()
    found = await ask("POST", "/v1/what-if", json={"policy": policy, "weights": {"ana": 3}})
    assert state.snapshot() == before
    running = {name: user.running for name, user in state.users.items()}

    def switch(tx: Transaction) -> None:
        tx.apply("user", name="ana", weight=3.0)
        tx.apply("policy", policy=policy, seed=0)

    await ask.service.state_thread.run(switch)
    shares = {user["name"]: user for user in (await ask("GET", "/v1/shares"))["users"]}
    for user in found["users"]:
        factor = 3 if user["name"] == "ana" else 1
        assert user["fair_after"] == pytest.approx(factor * shares[user["name"]]["fair_share"])
        more = state.users[user["name"]].running - running[user["name"]]
        if "over-share" not in policy:  # a service preempts later, in rounds, so its starts differ
            assert user["starts"] == more


@served
async def test_a_policy_that_cannot_be_tried_is_refused(ask: Asked) -> None:
    await ask("POST", "/v1/what-if", json={"policy": "drf/x"}, status=422)
    refused = await ask(
        "POST", "/v1/what-if", json={"policy": "fifo/first-fit", "drain": ["zz"]}, status=422
    )
    assert "no server" in refused["detail"]
