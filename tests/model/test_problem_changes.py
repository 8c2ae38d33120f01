"""Changes of problems, and the comparison of two: who gains, who loses, and why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fairlead
from equal_problems import assert_same
from fairlead.mechanisms.comparison import TwoProblems, compare_problems
from fairlead.model.problem_changes import change_problem, rebuilt, with_weights
from faults import fault_of
from random_problems import random_problem


@pytest.fixture
def problem() -> fairlead.Problem:
    return fairlead.Problem.from_arrays(
        [[4.0, 8.0], [8.0, 4.0]], [[1.0, 2.0], [2.0, 1.0]], count=[2, 3], users=["ana", "bo"],
        groups=["a", "b+1"], resources=["cpu", "memory"], task_limit=[np.inf, 5.0],
        eligible=[[True, True], [False, True]],
    )  # fmt: skip


def test_a_change_is_one_number(problem: fairlead.Problem) -> None:
    assert change_problem(problem, "weight:bo=2.5").weight.tolist() == [1.0, 2.5]
    assert change_problem(problem, "tasks:ana=7").task_limit.tolist() == [7.0, 5.0]
    assert change_problem(problem, "tasks:bo=inf").task_limit.tolist() == [np.inf, np.inf]
    assert change_problem(problem, "servers:b+1+4").count.tolist() == [2, 7]
    assert change_problem(problem, "servers:a-2").count.tolist() == [0, 3]
    assert change_problem(problem, "servers:a+9999999999").count.tolist() == [10**10 + 1, 3]
    changed = change_problem(problem, "servers:a+1")
    assert changed.users.eligible.tolist() == problem.users.eligible.tolist()
    assert problem.count.tolist() == [2, 3]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("weight:cy=2", "no user is named 'cy'; known: ana, bo"),
        ("weight:ana", "must be weight:USER=NUMBER"),
        ("weight:ana=x", "'x' is not a number"),
        ("weight:ana=-1", "must be a number from 0, not -1"),
        ("tasks:cy=2", "no user is named 'cy'; known: ana, bo"),
        ("servers:a", "must be servers:GROUP+NUMBER or servers:GROUP-NUMBER"),
        ("tasks:ana=-1", "must be a number from 0, not -1"),
        ("servers:a-3", "cannot remove 3: a has 2 servers"),
        ("servers:c+3", "no group is named 'c'"),
        ("gpus:a+3", "must be weight:USER=NUMBER, tasks:"),
    ],
)
def test_an_impossible_change_is_refused(
    problem: fairlead.Problem, change: str, fault: str
) -> None:
    assert fault in fault_of(change_problem, problem, change)


def test_one_weight_is_not_changed_among_several(problem: fairlead.Problem) -> None:
    rates = rebuilt(problem, weight=[[1.0, 2.0], [1.0, 1.0]])
    assert "the problem has weights per resource" in fault_of(with_weights, rates, {"ana": 2.0})


def test_a_partition_stands_for_its_only_group() -> None:
    slurm = fairlead.Problem.from_arrays(
        [[32.0, 0.0], [64.0, 8.0], [64.0, 4.0]], [[1.0, 0.0]], count=[4, 2, 1],
        groups=["n1..n4", "g1..g2", "h1"], resources=["cpu", "gpu"], units=["cores", ""],
        labels=[{"partition": "main"}, {"partition": "a100,gpu"}, {"partition": "gpu"}],
    )  # fmt: skip
    assert change_problem(slurm, "servers:a100+8").count.tolist() == [4, 10, 1]
    assert change_problem(slurm, "servers:main-1").count.tolist() == [3, 2, 1]
    fault = fault_of(change_problem, slurm, "servers:gpu+1")
    assert "2 groups are of the partition 'gpu': g1..g2, h1" in fault
    fault = fault_of(change_problem, slurm, "servers:g1+1")
    assert "no group is named 'g1'; known: n1..n4, g1..g2, h1" in fault


def test_a_queue_has_a_weight_too(problem: fairlead.Problem) -> None:
    tree = problem.with_queues([{"name": "team"}], ["team", None])
    both = with_weights(tree, {"team": 3.0, "ana": 2.0})
    assert both.users.queues is not None
    assert (both.users.queues.weight.tolist(), both.weight.tolist()) == ([3.0], [2.0, 1.0])
    fault = fault_of(change_problem, tree, "weight:team=0")
    assert "must be a positive number" in fault
    more = change_problem(tree, "servers:a+1")
    assert more.users.queues is not None
    # Reasons are left out, as a difference alone may have no place in a tree.
    found = compare_problems(tree, more, "drfh")
    assert found.effects == ()
    assert [difference.text for difference in found.differences] == ["a: 2 to 3 servers"]


def test_changed_queues_are_differences(problem: fairlead.Problem) -> None:
    before = problem.with_queues([{"name": "x", "weight": 2}, {"name": "y"}], ["x", "y"])
    after = problem.with_queues([{"name": "x", "weight": 3}, {"name": "y"}], ["x", "x"])
    texts = [difference.text for difference in TwoProblems(before, after).differences()]
    assert texts == ["x: weight 2 to 3", "bo: queue y to x"]


def test_a_name_with_demand_of_is_no_changed_demand() -> None:
    names = ["ana", "demand of bo"]
    before, after = (
        fairlead.Problem.from_arrays([[6.0 * k]], [[1.0], [1.0]], users=names, weight=[1, k])
        for k in (1, 2)
    )
    gains = compare_problems(before, after, "drf").gains  # of tasks: from 3 to 4, from 3 to 8
    assert gains == pytest.approx({"ana": 1 / 3, "demand of bo": 5 / 3})


def test_all_differences_together_are_the_second_problem() -> None:
    """Each difference of random problems, applied after the others, gives the second one."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        before, after = (random_problem(rng, 4, 3, 2) for _ in range(2))
        here = before
        while found := TwoProblems(here, after).differences():
            here = TwoProblems(here, after).with_one(found[0])
        assert_same(here, after)


def test_differences_are_said_in_words(problem: fairlead.Problem) -> None:
    after = fairlead.Problem.from_arrays(
        [[8.0, 6.0], [1.0, 1.0]], [[2.0, 2.0], [1.0, 1.0]], count=[5, 1], users=["bo", "cy"],
        groups=["b+1", "c"], resources=["cpu", "memory"], weight=[3.0, 1.0],
    )  # fmt: skip
    texts = [difference.text for difference in TwoProblems(problem, after).differences()]
    assert texts == [
        "without a",
        "b+1: 3 to 5 servers, memory 4 to 6",
        "1 server c",
        "without ana",
        "bo: weight 1 to 3, demand of memory 1 to 2, 5 to any number of tasks",
        "new user cy",
    ]


def test_effects_are_those_of_each_difference_alone(problem: fairlead.Problem) -> None:
    after = change_problem(change_problem(problem, "weight:bo=4"), "servers:a+3")
    found = compare_problems(problem, after, "drfh")
    first, second = (fairlead.solve(p, "drfh").user_tasks for p in (problem, after))
    assert list(found.gains.values()) == pytest.approx(second / first - 1)
    for change, text in [
        ("servers:a+3", "a: 2 to 5 servers"),
        ("weight:bo=4", "bo: weight 1 to 4"),
    ]:
        alone = fairlead.solve(change_problem(problem, change), "drfh").user_tasks / first - 1
        (effect,) = [effect for effect in found.effects if effect.difference.text == text]
        expected = {name: gain for name, gain in zip(("ana", "bo"), alone, strict=True)
                    if abs(gain) > 1e-6}  # fmt: skip
        assert dict(effect.gains) == pytest.approx(expected)


def test_rates_on_a_new_group_come_with_it() -> None:
    rates = np.array([[4.0, 4.0], [2.0, 6.0]])
    before, after = (
        fairlead.Problem.from_arrays(np.full((k, 1), 4.0), [[1.0], [1.0]], rates=rates[:, :k])
        for k in (1, 2)
    )
    found = compare_problems(before, after, "ps-dsf-tdm")
    ((difference, gain),) = found.reasons("u2")
    assert (difference.text, gain) == ("1 server g2", pytest.approx(found.gains["u2"]))
    assert repr(found).endswith("1 differences: 2 users gain, 0 lose>")


def test_shares_are_compared_where_a_demand_differs(problem: fairlead.Problem) -> None:
    """In the effects of each difference, too: tasks of other sizes are not alike."""
    users = problem.users
    after = fairlead.Problem.from_arrays(
        problem.cluster.capacity, [[1.0, 2.0], [4.0, 2.0]], count=problem.count,
        eligible=users.eligible, users=users.names, groups=problem.cluster.groups,
        resources=problem.cluster.resources, task_limit=users.task_limit,
    )  # fmt: skip
    found = compare_problems(problem, after, "drfh")
    shares = [fairlead.solve(p, "drfh").dominant_share[1] for p in (problem, after)]
    assert found.gains["bo"] == pytest.approx(shares[1] / shares[0] - 1)
    ((_, reason),) = found.reasons("bo")
    assert reason == pytest.approx(found.gains["bo"])


def test_two_units_of_a_resource_are_refused() -> None:
    one, two = (
        fairlead.Problem.from_arrays([[4.0]], [[1.0]], resources=["memory"], units=[unit])
        for unit in ("GiB", "MiB")
    )
    assert "units GiB and MiB" in fault_of(compare_problems, one, two)


def test_users_who_come_and_go_have_no_gain(problem: fairlead.Problem) -> None:
    alone = fairlead.Problem.from_arrays([[4.0, 8.0]], [[1.0, 2.0]], users=["cy"], groups=["a"],
                                         resources=["cpu", "memory"])  # fmt: skip
    found = compare_problems(problem, alone, "drfh")
    assert found.gains == {}
    rows: list[dict[str, Any]] = found.to_dict()["users"]
    assert [row["name"] for row in rows] == ["ana", "bo", "cy"]
    assert rows[2]["tasks"][0] is rows[0]["tasks"][1] is rows[2]["gain"] is None
