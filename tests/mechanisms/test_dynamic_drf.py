"""Agents that arrive one after another: their shares, and refusals."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamic_sequences import Sequence, sequences
from fairlead.errors import InputError
from fairlead.mechanisms.dynamic_drf import DynamicDRF


@given(sequences(), st.lists(st.sampled_from([1e-3, 1.0, 7.0]), min_size=4, max_size=4))
def test_only_shares_of_the_pool_matter(sequence: Sequence, units: list[float]) -> None:
    n, m = sequence.demand.shape
    total = float(sequence.weight.sum())
    agents = DynamicDRF(n, m, total_weight=total, capacity=units[:m])
    tasks = np.arange(1, n + 1)[:, None] * sequence.demand * np.array(units[:m])
    levels = agents.arrive_all(tasks, sequence.weight)
    plain = DynamicDRF(n, m, total_weight=total)
    assert levels == pytest.approx(plain.arrive_all(sequence.demand, sequence.weight), rel=1e-9)
    assert agents.shares == pytest.approx(plain.shares, rel=1e-9)


@given(sequences(), st.sampled_from([1e-6, 0.3, 1e5]))
def test_only_ratios_of_weights_matter(sequence: Sequence, unit: float) -> None:
    scaled = Sequence(sequence.demand, sequence.weight * unit).run()
    assert scaled.shares == pytest.approx(sequence.run().shares, rel=1e-9)


def test_an_example_by_hand() -> None:
    agents = DynamicDRF(3, ["cpu", "memory"])
    assert agents.arrive([2, 1]) == pytest.approx(1 / 3)
    assert agents.budget == pytest.approx(1 / 3)
    # cpu: 1/3 + x/2 = 2/3 would be x = 2/3; both rise together from 1/3: 1.5 x = 2/3.
    assert agents.arrive([1, 2]) == pytest.approx(4 / 9)
    # all that is left is 1/3 of both.
    assert agents.arrive([1, 1]) == pytest.approx(1 / 3)
    assert agents.shares == pytest.approx([4 / 9, 4 / 9, 1 / 3])
    assert agents.shares_at(1) == pytest.approx([1 / 3])
    assert agents.used == pytest.approx([1, 1])
    assert agents.arrived == 3


def test_agents_without_a_used_up_resource_go_on() -> None:
    agents = DynamicDRF(2, 3)
    assert agents.arrive([1, 0, 0.5]) == pytest.approx(1 / 2)
    assert agents.arrive([0, 1, 0]) == pytest.approx(1.0)
    assert agents.shares == pytest.approx([1.0, 1.0])
    assert agents.used == pytest.approx([1.0, 1.0, 0.5])


def test_memory_does_not_follow_what_was_announced() -> None:
    agents = DynamicDRF(10**15, 2)
    assert agents.arrive([1, 1]) == pytest.approx(1e-15)


def nothing_changed(agents: DynamicDRF) -> bool:
    return agents.arrived == 1 and agents.budget == 0.5 and agents.levels.tolist() == [0.5]


@pytest.mark.parametrize("solver", ["stack", "water"])
@pytest.mark.parametrize(
    ("demand", "weight", "message"),
    [
        ([1.0], 1.0, "demand: must have 2 amounts each, not 1"),
        ([1.0, 2.0, 3.0], 1.0, "demand: must have 2 amounts each, not 3"),
        (1.0, 1.0, "demand: must have 2 amounts each"),
        ([[1.0, 2.0]], 1.0, "demand: must have 2 amounts each"),
        ({"cpu": 1, "memory": 2}, 1.0, "demand: must be numbers, as many in each row"),
        ([1.0, -0.5], 1.0, "demand.memory: must be a finite number >= 0, not -0.5"),
        ([1.0, float("nan")], 1.0, "demand.memory: must be a finite number >= 0, not nan"),
        ([float("nan"), 1.0], 1.0, "demand.cpu: must be a finite number >= 0, not nan"),
        ([float("inf"), 1.0], 1.0, "demand.cpu: must be a finite number >= 0, not inf"),
        ([0.0, 0.0], 1.0, "demand: demands nothing"),
        (["much", 1.0], 1.0, "demand: must be numbers, as many in each row"),
        ([[1.0], 1.0], 1.0, "demand: must be numbers, as many in each row"),
        ([1.0, 1.0], 0.0, "weight: must be a positive number, not 0"),
        ([1.0, 1.0], -1.0, "weight: must be a positive number, not -1"),
        ([1.0, 1.0], float("nan"), "weight: must be a positive number, not nan"),
        ([1.0, 1.0], 1.01, "weight: weights add up to 2.01, more than the 2 announced"),
        ([1.0, 1.0], "one", "weight: must be numbers, as many in each row"),
    ],
)
def test_a_refused_arrival_changes_nothing(
    demand: Any, weight: Any, message: str, solver: str
) -> None:
    agents = DynamicDRF(2, ["cpu", "memory"], solver=solver)
    agents.arrive([1, 0.5])
    with pytest.raises(InputError) as caught:
        agents.arrive(demand, weight)
    assert str(caught.value) == message
    assert nothing_changed(agents)
    agents.arrive([1, 1])
    with pytest.raises(InputError, match="an arrival after the last of 2 steps"):
        agents.arrive([1, 1])


def test_one_by_one_is_the_same_in_any_units() -> None:
    capacity = [3.0, 0.7, 11.0]
    rows = np.random.default_rng(2).uniform(0, 5, (30, 3))
    rows[rows < 1] = 0.0
    rows[:, 0] += 0.1
    together = DynamicDRF(30, 3, capacity=capacity)
    levels = together.arrive_all(rows)
    alone = DynamicDRF(30, 3, capacity=capacity)
    assert [alone.arrive(row.tolist()) for row in rows] == levels.tolist()
    assert np.array_equal(alone.shares, together.shares)


def test_an_array_is_read_like_a_list() -> None:
    listed, array = DynamicDRF(3, 2), DynamicDRF(3, 2)
    for row in ([1, 0.3], [0, 2], [7, 7]):
        assert listed.arrive(row) == array.arrive(np.array(row))
    with pytest.raises(InputError, match=r"demand\.r2: must be a finite number >= 0, not nan"):
        DynamicDRF(1, 2).arrive(np.array([1, np.nan]))


def test_a_refused_batch_changes_nothing() -> None:
    agents = DynamicDRF(3, ["cpu", "memory"])
    agents.arrive([1, 1])
    with pytest.raises(InputError, match=r"demand\[1\].cpu: must be a finite number"):
        agents.arrive_all([[1, 1], [-1, 1]])
    with pytest.raises(InputError, match=r"weight\[0\]: must be a positive number"):
        agents.arrive_all([[1, 1], [1, 1]], [0, 1])
    with pytest.raises(InputError, match="weight: must be 2 numbers"):
        agents.arrive_all([[1, 1], [1, 1]], [1])
    with pytest.raises(InputError, match="4 arrivals where 3 were announced"):
        agents.arrive_all([[1, 1]] * 3)
    assert agents.arrive_all([]).tolist() == []
    assert agents.arrived == 1


def test_a_resource_of_capacity_0_cannot_be_demanded() -> None:
    agents = DynamicDRF(2, ["cpu", "gpu"], capacity=[4, 0])
    with pytest.raises(InputError, match=r"demand\.gpu: the capacity of this resource is 0"):
        agents.arrive([1, 1])
    assert agents.arrive([1, 0]) == 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"announced": 0}, "announced: must be a positive whole number, not 0"),
        ({"announced": 2.5}, "announced: must be a positive whole number, not 2.5"),
        ({"announced": True}, "announced: must be a positive whole number, not True"),
        ({"resources": 0}, "resources: must be a positive whole number, not 0"),
        ({"resources": []}, "resources: names no resource"),
        ({"resources": ["cpu", "cpu"]}, "resources: names a resource twice"),
        ({"resources": "cpu"}, "resources: must be a number or several names, not 'cpu'"),
        ({"total_weight": 0}, "total_weight: must be a positive number, not 0"),
        ({"total_weight": float("nan")}, "total_weight: must be a positive number, not nan"),
        (
            {"solver": "guess"},
            "solver: no solver is named 'guess'; known: stack, halving, water, lp",
        ),
        ({"capacity": [1]}, "capacity: must be 2 numbers"),
        ({"capacity": [1, -1]}, "capacity.r2: must be a finite number >= 0, not -1"),
    ],
)
def test_what_has_no_meaning_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        DynamicDRF(**({"announced": 2, "resources": 2} | arguments))
    assert str(caught.value) == message


@pytest.mark.parametrize("step", [0, 2, -1])
def test_a_step_that_has_not_been(step: int) -> None:
    agents = DynamicDRF(2, 1)
    agents.arrive([1])
    with pytest.raises(InputError, match=f"step: must be between 1 and 1, not {step}"):
        agents.shares_at(step)


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda agents: pickle.loads(pickle.dumps(agents))]
)
def test_copies_go_on_by_themselves(copied: Callable[[DynamicDRF], DynamicDRF]) -> None:
    demands = np.random.default_rng(5).uniform(0.1, 1, (30, 3))
    demands[::3, 1] = 0
    whole = DynamicDRF(30, 3)
    whole.arrive_all(demands)
    half = DynamicDRF(30, 3)
    half.arrive_all(demands[:15])
    other = copied(half)
    other.arrive_all(demands[15:])
    assert half.arrived == 15
    np.testing.assert_array_equal(other.levels, whole.levels)
    np.testing.assert_array_equal(other.used, whole.used)
    np.testing.assert_array_equal(other.log.level, whole.log.level)
