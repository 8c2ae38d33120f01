"""What a driver may ask of a Ray cluster whose users have fair shares."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from ray.exceptions import RayTaskError
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

import fairlead.ray
from conftest import ENDED, Connect, running, state, submitted, until, wait_for
from fairlead.errors import InputError
from fairlead.ray import Fair
from fairlead.ray._ray_calls import LostError
from fairlead.ray.connection import running_dispatcher

pytestmark = pytest.mark.timeout(200)
NODE = {"cpu": 2}  # all of a node


def node() -> str:
    names = {n["NodeID"]: n["NodeName"] for n in ray.nodes()}
    return str(names[ray.get_runtime_context().get_node_id()])


def used(fair: Fair, server: str, resource: str) -> float:
    return next(s for s in fair.client.servers() if s.name == server).used.get(resource, 0.0)


def test_calls_give_what_the_function_gives(connect: Connect) -> None:
    fair = connect("ana")

    @fair.remote
    def square(x: int, add: int = 0) -> int:
        return x * x + add

    refs = [square.remote(n, add=1) for n in range(30)]
    assert ray.get(refs) == [n * n + 1 for n in range(30)]
    assert ray.get(fair.submit(max, 3, 5, demand={"cpu": 0.5})) == 5
    with pytest.raises(TypeError, match="remote"):
        square(3)


def test_map_yields_in_order_with_shared_starts(connect: Connect) -> None:
    fair = connect("ana")
    before = fair.client.jobs("ana", is_all=True)
    assert list(fair.map(lambda x: x + 1, range(3000))) == list(range(1, 3001))
    until(lambda: not fair.jobs())
    ended = [j for j in fair.client.jobs("ana", is_all=True) if j not in before]
    assert sum(job.tasks for job in ended) == 3000
    assert list(fair.map(str, [])) == []


def test_large_values_and_references(connect: Connect) -> None:
    fair = connect("ana")

    @fair.remote
    def total(values: Any, factor: float = 1.0) -> float:
        return float(values.sum()) * factor

    made = fair.submit(np.ones, 10**6)
    assert ray.get(total.remote(made, factor=ray.put(2.0))) == 2e6
    assert ray.get(made).shape == (10**6,)
    assert ray.get(ray.remote(lambda v: v.size).remote(made)) == 10**6
    assert [v.sum() for v in fair.map(np.ones, [1, 2, 3])] == [1, 2, 3]


def test_an_exception_is_raised_and_not_repeated(connect: Connect, tmp_path: Path) -> None:
    fair = connect("ana")

    @fair.remote
    def fails(x: int) -> int:
        with (tmp_path / f"{x}").open("a") as file:
            file.write("x")
        if x == 2:
            raise KeyError(x)
        return x

    refs = [fails.remote(x) for x in range(4)]
    with pytest.raises(KeyError):
        ray.get(refs[2])
    assert ray.get([refs[0], refs[1], refs[3]]) == [0, 1, 3]
    assert (tmp_path / "2").read_text() == "x"
    results = fails.options(name="again").map(range(4))
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(KeyError):
        next(results)
    of_an_argument = ray.remote(lambda: 1 / 0).remote()
    with pytest.raises(ZeroDivisionError):
        ray.get(fair.submit(abs, of_an_argument), timeout=60)


def test_where_and_other_resources(connect: Connect) -> None:
    fair = connect("ana")
    assert set(fair.map(lambda _: node(), range(4), where={"gpu": "T4"})) == {"n0"}
    assert set(fair.map(lambda _: node(), range(4), where=["n1"])) == {"n1"}
    licensed = fair.remote(cpu=0.5, resources={"license": 1}, memory="16Mi")(node)
    assert ray.get([licensed.remote() for _ in range(3)]) == ["n1"] * 3
    held = fair.submit(time.sleep, 600, demand={"cpu": 1, "license": 1})
    until(lambda: used(fair, "n1", "license") == 1)
    ray.cancel(held)
    until(lambda: used(fair, "n1", "license") == 0)


def test_no_node_runs_more_than_it_has(connect: Connect) -> None:
    def note() -> tuple[str, float, float]:
        began = time.time()
        time.sleep(0.1)
        return node(), began, time.time()

    rows = ray.get([f.submit(note) for _ in range(15) for f in (connect("ana"), connect("bo"))])
    for name in ("n0", "n1"):
        times = sorted((t, d) for n, a, b in rows if n == name for t, d in ((a, 1), (b, -1)))
        assert max(np.cumsum([d for _, d in times])) == 2


def test_a_new_user_has_the_fair_share_a_task_later(connect: Connect, tmp_path: Path) -> None:
    ana, bo = connect("ana"), connect("bo", weight=3.0)
    refs = [ana.submit(wait_for, tmp_path / "first") for _ in range(4)]
    until(lambda: running(ana) == 4)
    refs += [ana.submit(wait_for, tmp_path / "later") for _ in range(4)]
    refs += [bo.submit(wait_for, tmp_path / "later") for _ in range(6)]
    until(lambda: (submitted(ana), submitted(bo)) == (8, 6))
    (tmp_path / "first").touch()
    until(lambda: (running(ana), running(bo)) == (1, 3))
    view = ana.shares()
    assert view["certificate"]["holds"]
    shares = {u["name"]: round(u["share"], 3) for u in view["users"] if u["running"]}
    assert shares == {"ana": 0.25, "bo": 0.25}
    (tmp_path / "later").touch()
    ray.get(refs, timeout=60)
    bo.set_weight(1.0)


def test_an_actor_holds_its_amounts_until_it_ends(connect: Connect) -> None:
    fair = connect("ana")

    @fair.remote(cpu=2, where={"gpu": "T4"})
    class Counting:
        def __init__(self, begin: int) -> None:
            self.n = begin

        def add(self) -> tuple[int, str]:
            self.n += 1
            return self.n, node()

    one = Counting.remote(5)
    assert ray.get([one.add.remote(), one.add.remote()]) == [(6, "n0"), (7, "n0")]
    waits = Counting.submit(0)
    until(lambda: [j["state"] for j in fair.jobs()] == ["running", "pending"])
    why = fair.explain(fair.jobs()[1]["id"])
    assert why["never"] is False
    assert {s["name"] for s in why["servers"]} <= {"n0", "n1", "head"}
    del one
    two = ray.get(waits, timeout=60)
    assert ray.get(two.add.remote())[0] == 1
    ray.kill(two)
    until(lambda: not fair.jobs())

    @fair.remote
    class Broken:
        def __init__(self) -> None:
            raise OSError("no disk")

    with pytest.raises(ray.exceptions.RayError, match="no disk"):
        Broken.remote()
    until(lambda: not fair.jobs())


def test_a_placement_group_is_on_the_counted_nodes(connect: Connect) -> None:
    fair = connect("ana")
    group = fair.placement_group([{"cpu": 1}, {"cpu": 2}])
    job = fair.jobs()[0]
    assert (job["gang"], job["running"]) == (True, 2)
    amounts = {name: used(fair, name, "cpu") for name in ("n0", "n1")}
    assert sorted(amounts.values()) == [1.0, 2.0]
    bundles = [PlacementGroupSchedulingStrategy(group, k) for k in range(2)]
    pinned = [
        ray.remote(node).options(num_cpus=1, scheduling_strategy=bundle).remote()
        for bundle in bundles
    ]
    assert [amounts[name] for name in ray.get(pinned)] == [1.0, 2.0]
    with pytest.raises(ray.exceptions.GetTimeoutError):
        fair.placement_group([NODE, NODE], timeout=0.5)
    ray.util.remove_placement_group(group)
    until(lambda: not fair.jobs())


def test_a_call_that_kills_its_worker_fails_alone(connect: Connect) -> None:
    fair = connect("ana")

    @fair.remote(cpu=1, attempts=1)
    def crashes(k: int) -> int:
        if k == 30:
            os._exit(1)
        return k

    ray.get([crashes.remote(0) for _ in range(30)])  # so it is known to be short
    refs = [crashes.remote(k) for k in range(60)]
    with pytest.raises(LostError, match="was lost 1 times"):
        ray.get(refs[30], timeout=60)
    assert ray.get(refs[:30] + refs[31:], timeout=60) == [k for k in range(60) if k != 30]


def test_a_result_that_cannot_be_pickled_fails_alone(connect: Connect) -> None:
    fair = connect("ana")
    made = fair.remote(cpu=1)(lambda k: threading.Lock() if k == 50 else [k])
    ray.get([made.remote(0) for _ in range(20)])
    refs = [made.remote(k) for k in range(100)]
    with pytest.raises((TypeError, RayTaskError), match="pickle"):
        ray.get(refs[50], timeout=60)
    assert ray.get(refs[:50] + refs[51:], timeout=60) == [[k] for k in range(100) if k != 50]


def test_a_method_runs_on_its_current_object(connect: Connect) -> None:
    class Holder:
        __hash__ = None  # type: ignore[assignment]

        def __init__(self) -> None:
            self.held = 1

        def get(self) -> int:
            return self.held

        __call__ = get

    fair, holder = connect("ana"), Holder()
    for _ in range(2):
        assert ray.get([fair.submit(holder.get), fair.submit(holder)]) == [holder.held] * 2
        holder.held += 1


def test_an_abandoned_map_is_cancelled(connect: Connect) -> None:
    fair = connect("ana")
    results = fair.map(time.sleep, [600] * 3, demand=NODE)
    until(lambda: running(fair) == 2)
    del results
    until(lambda: not fair.jobs())


def test_wrong_options_are_refused_at_once(connect: Connect) -> None:
    fair, lock = connect("ana"), threading.Lock()
    wrong: dict[str, Any] = {
        "demand: must give amounts": [1],
        "resources: must give": {"resources": ["x"]},
        "demand: takes nothing": {"cpu": 0},
        "cpu: must be at least 0.0001": {"cpu": 1e-5},
        "where: must be labels by name": {"where": "node7"},
        "num_cpus: is an option of Ray; use cpu": {"num_cpus": 1},
        "attempts: must be a whole number": {"attempts": 0},
        r"hold cpu 64: n[01] is nearest, and lacks 62 more cpu": {"cpu": 64},
        "n1 is nearest, and lacks 1 more license": {"cpu": 1, "license": 2},
        "no node is gpu=A100": {"where": {"gpu": "A100"}},
        "no node is among n7": {"where": ["n7"]},
    }
    for says, demand in wrong.items():
        with pytest.raises(InputError, match=says):
            fair.submit(abs, -1, demand=demand)
    with pytest.raises(InputError, match="max_retries: is an option of Ray"):
        fair.remote(max_retries=0)
    with pytest.raises(InputError, match="demand: takes nothing"):
        fair.placement_group([{"cpu": 0}])
    with pytest.raises(InputError, match="weight: must be a number"):
        fair.set_weight("x")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="<lambda>: cannot be pickled"):
        fair.submit(lambda: [lock])
    assert fair.jobs() == []


def test_impossible_users_are_refused(connect: Connect) -> None:
    for name, weight in (("a/b", None), (" ", None), ("ana", -1.0)):
        with pytest.raises(InputError, match=r"user|weight"):
            fairlead.ray.connect(name, weight=weight)
    with pytest.raises(InputError, match="weight"):
        fairlead.ray.start(users={"cy": 1.0, "dee": -1.0})
    ana = connect("ana")
    assert not {"a/b", " ", "cy"} & {user.name for user in ana.client.users()}
    assert ray.get(ana.submit(abs, -1)) == 1  # so nobody is kept out


@pytest.mark.usefixtures("cluster")
def test_another_dispatcher_is_refused() -> None:
    fairlead.ray.start()
    policy = state()["policy"]
    fairlead.ray.start(policy)
    wrong: dict[str, dict[str, Any]] = {
        f"policy: a dispatcher with {policy} runs already": {"policy": "tsf/rrr"},
        "policy": {"policy": "best"},
        "seed: a dispatcher with 0 runs already": {"seed": 5},
        "grace: must be from 0 to 86,400 seconds": {"grace": -1},
        "service: has its own policy and seed": {"policy": policy, "service": "http://[::1]:9"},
    }
    for says, options in wrong.items():
        with pytest.raises(InputError, match=says):
            fairlead.ray.start(**options)
    other_version = running_dispatcher().join.remote("ana-1", "ana", 99, [], None)
    assert "is of fairlead" in ray.get(other_version)["fault"]


def test_a_refused_call_fails_alone(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes to the dispatcher with others, which takes all of them or none."""
    monkeypatch.setattr("fairlead.ray.fair._check_amounts", lambda _: None)
    fair = connect("ana")
    taken = [fair.submit(abs, -k) for k in range(3)]
    refused = fair.submit(abs, -3, demand={"cpu": 0})
    taken += [fair.submit(abs, -k) for k in range(3, 6)]
    with pytest.raises(ValueError, match="takes nothing"):
        ray.get(refused, timeout=60)
    assert ray.get(taken, timeout=60) == list(range(6))


def test_a_cancelled_call_ends_alone(connect: Connect) -> None:
    """By chance the others were started while Ray answered the first: that ended them, too."""
    fair = connect("ana")
    refs = [fair.submit(time.sleep, 600, demand=NODE) for _ in range(2)]
    until(lambda: running(fair) == 2)
    refs.append(fair.submit(time.sleep, 600, demand=NODE))
    for ref in refs[1:]:
        ray.cancel(ref)
        with pytest.raises(ENDED):
            ray.get(ref, timeout=60)
    until(lambda: running(fair) == 1)
    assert ray.get(fair.submit(lambda: 7), timeout=60) == 7
    until(lambda: running(fair) == 1)


def test_a_time_limit_ends_a_call(connect: Connect) -> None:
    late = connect("ana").remote(time_limit=0.1)(lambda: time.sleep(600))
    with pytest.raises(ENDED):
        ray.get(late.remote(), timeout=60)


def test_a_function_passes_fair_on(connect: Connect) -> None:
    fair = connect("ana")

    @fair.remote(cpu=0.5)
    def outer(n: int) -> int:
        return sum(fair.map(lambda x: x, range(n), demand={"cpu": 0.5}))

    assert ray.get(outer.remote(10)) == 45
