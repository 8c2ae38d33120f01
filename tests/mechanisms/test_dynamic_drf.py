"""Dynamic DRF: its solvers beside the definition, the users of a problem, and refusals."""

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
from effort import cases
from fairlead import Problem
from fairlead.certificates.dynamic_levels import certify_dynamic
from fairlead.errors import CertificateError, InputError, RefusalError
from fairlead.mechanisms import dynamic_run as module
from fairlead.mechanisms.catalogue import solve
from fairlead.mechanisms.dynamic_drf import SOLVERS, DynamicDRF, _PlainSolver
from fairlead.mechanisms.dynamic_run import run_dynamic
from fairlead.properties.dynamic import DynamicShares, check_dynamic
from fairlead.solvers.level_raising import raise_by_water
from oracles.dynamic import exact_levels


@given(
    sequences(),
    st.lists(st.sampled_from([1e-3, 1.0, 7.0]), min_size=4, max_size=4),
    st.sampled_from([1e-6, 0.3, 1e5]),
)
def test_only_shares_and_ratios_of_weights_matter(
    sequence: Sequence, units: list[float], heavier: float
) -> None:
    n, m = sequence.demand.shape
    weight = sequence.weight * heavier
    agents = DynamicDRF(n, m, total_weight=float(weight.sum()), capacity=units[:m])
    tasks = np.arange(1, n + 1)[:, None] * sequence.demand * np.array(units[:m])
    levels = agents.arrive_all(tasks, weight)
    plain = sequence.run()
    assert levels[-1] * heavier == pytest.approx(plain.levels.min(), rel=1e-9)
    assert agents.shares == pytest.approx(plain.shares, rel=1e-9)


def test_memory_does_not_follow_what_was_announced() -> None:
    agents = DynamicDRF(10**15, 2)
    assert agents.arrive([1, 1]) == pytest.approx(1e-15)


@pytest.mark.parametrize(
    ("demand", "weight", "message"),
    [
        ([1.0], 1.0, "demand: must have 2 amounts each, not 1"),
        (1.0, 1.0, "demand: must have 2 amounts each"),
        ({"cpu": 1, "memory": 2}, 1.0, "demand: must be a table of numbers"),
        ([1.0, -0.5], 1.0, "demand.memory: must be a finite number >= 0, not -0.5"),
        ([1.0, float("nan")], 1.0, "demand.memory: must be a finite number >= 0, not nan"),
        (np.array([1.0, np.nan]), 1.0, "demand.memory: must be a finite number >= 0, not nan"),
        ([float("inf"), 1.0], 1.0, "demand.cpu: must be a finite number >= 0, not inf"),
        ([0.0, 0.0], 1.0, "demand: demands nothing"),
        ([[1.0], 1.0], 1.0, "demand: must be a table of numbers"),
        ([1.0, 1.0], 0.0, "weight: must be a positive number, not 0"),
        ([1.0, 1.0], float("nan"), "weight: must be a positive number, not nan"),
        ([1.0, 1.0], 1.01, "weight: weights add up to 2.01, more than the 2 announced"),
        ([1.0, 1.0], "one", "weight: must be a table of numbers"),
    ],
)
def test_a_refused_arrival_changes_nothing(demand: Any, weight: Any, message: str) -> None:
    agents = DynamicDRF(2, ["cpu", "memory"])
    agents.arrive([1, 0.5])
    with pytest.raises(InputError) as caught:
        agents.arrive(demand, weight)
    assert str(caught.value).startswith(message)
    assert (agents.arrived, agents.budget, agents.levels.tolist()) == (1, 0.5, [0.5])
    agents.arrive([1, 1])
    with pytest.raises(InputError, match="all 2 announced agents have already arrived"):
        agents.arrive([1, 1])


@pytest.mark.parametrize("solver", ["stack", "water", "halving"])
def test_one_by_one_is_the_same_as_a_batch(solver: str) -> None:
    rng = np.random.default_rng(2)
    rows, weight = rng.uniform(0, 5, (30, 3)), rng.choice([0.5, 1.0, 2.0], 30)
    rows[(rows < 1) & (solver != "halving")] = 0.0
    rows[:, 0] += 0.1
    together, alone = (
        DynamicDRF(30, 3, total_weight=weight.sum(), capacity=[3.0, 0.7, 11.0], solver=solver)
        for _ in range(2)
    )
    levels = together.arrive_all(rows, weight)
    # An array is read like a list.
    given = [row if n % 2 else row.tolist() for n, row in enumerate(rows)]
    found = [alone.arrive(row, float(w)) for row, w in zip(given, weight, strict=True)]
    assert found == levels.tolist()
    assert np.array_equal(alone.shares, together.shares)
    assert np.array_equal(alone.used, together.used)


def test_a_refused_batch_changes_nothing() -> None:
    agents = DynamicDRF(3, ["cpu", "memory"])
    agents.arrive([1, 1])
    with pytest.raises(InputError, match=r"demand\[1\].cpu: must be a finite number"):
        agents.arrive_all([[1, 1], [-1, 1]])
    with pytest.raises(InputError, match=r"weight\[0\]: must be a positive number"):
        agents.arrive_all([[1, 1], [1, 1]], [0, 1])
    with pytest.raises(InputError, match="weight: must be 2 numbers"):
        agents.arrive_all([[1, 1], [1, 1]], [1])
    with pytest.raises(InputError, match="4 agents arrive, but only 3 were announced"):
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
        ({"resources": 0}, "resources: must be a positive whole number, not 0"),
        ({"resources": 10**9}, "resources: must be at most 1,000,000, not 1000000000"),
        (
            {"announced": 10**400},
            "announced: must be at most 9,007,199,254,740,992, not a whole number of more than 40 "
            "digits",
        ),
        ({"resources": []}, "resources: names no resource"),
        ({"resources": ["cpu", "cpu"]}, "resources: names a resource twice"),
        ({"resources": "cpu"}, "resources: must be a number or several names, not 'cpu'"),
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


def test_a_step_that_has_not_been() -> None:
    agents = DynamicDRF(2, 1)
    agents.arrive([1])
    for step in (0, 2):
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


def problem_of(sequence: Sequence, **options: Any) -> Problem:
    """Put the pool into two unlike groups, in units of its own."""
    m = sequence.demand.shape[1]
    capacity = np.vstack([np.full(m, 30.0), np.arange(1, m + 1)])
    return Problem.from_arrays(
        capacity,
        sequence.demand * capacity.sum(axis=0) * 0.01,
        weight=sequence.weight,
        **options,
    )


@given(sequences())
def test_the_run_is_what_the_agents_get_one_by_one(sequence: Sequence) -> None:
    run, agents = run_dynamic(problem_of(sequence)), sequence.run()
    for k in range(1, run.n_steps + 1):
        assert run.shares_at(k) == pytest.approx(agents.shares_at(k), rel=1e-9)
    assert run.used == pytest.approx(agents.used)
    assert run.certificate.holds


@given(sequences())
def test_full_knowledge_is_drf(sequence: Sequence) -> None:
    problem = problem_of(sequence)
    run, drf = run_dynamic(problem), solve(problem, "drf")
    assert run.full_knowledge_shares == pytest.approx(drf.dominant_share)
    least = (drf.dominant_share / problem.weight).min()
    assert run.full_knowledge_levels[-1] == pytest.approx(least, rel=1e-7)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"eligible": [[True, False], [True, True]]}, "placement constraints"),
        ({"task_limit": [3, np.inf]}, "finite tasks"),
        ({"rates": [[1, 1], [1, 1]]}, "given rates"),
        ({"weight": [[1, 2], [2, 1]]}, "weights per resource"),
    ],
)
def test_what_the_theory_does_not_define_is_refused(options: dict[str, Any], reason: str) -> None:
    problem = Problem.from_arrays([[4, 4], [4, 4]], [[1, 2], [2, 1]], **options)
    with pytest.raises(RefusalError, match=f"dynamic: its definition does not admit {reason}"):
        run_dynamic(problem)


def test_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PORTION", 2)
    told: list[tuple[int, int]] = []
    problem = Problem.from_arrays([[4, 4]], np.ones((5, 2)))
    run_dynamic(problem, "halving", lambda done, total: told.append((done, total)))
    assert told == [(2, 5), (4, 5), (5, 5)]


def test_an_answer_without_proof_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_much(use: np.ndarray, level: np.ndarray, budget: float) -> np.ndarray:
        return raise_by_water(use, level, 1.01 * budget)

    monkeypatch.setitem(SOLVERS, "halving", lambda r: _PlainSolver(r, too_much))
    with pytest.raises(CertificateError, match="dynamic: the answer of halving misses"):
        run_dynamic(Problem.from_arrays([[4, 4]], [[1, 2], [2, 1], [1, 1]]), "halving")


FOR_ZEROS = ("stack", "water", "lp")
ALL = (*FOR_ZEROS, "halving")


def levels_of_all_steps(sequence: Sequence, solver: str) -> list[np.ndarray]:
    log = sequence.run(solver).log
    return [log.levels_at(k) for k in range(1, len(sequence.weight) + 1)]


@pytest.mark.parametrize(("zeros", "solvers"), [(False, ALL), (True, FOR_ZEROS)])
@given(data=st.data())
def test_levels_are_those_of_exact_water_filling(
    zeros: bool, solvers: tuple[str, ...], data: st.DataObject
) -> None:
    sequence = data.draw(sequences(zeros=zeros))
    exact = exact_levels(sequence.demand.tolist(), sequence.weight.tolist())
    for solver in solvers:
        for ours, theirs in zip(levels_of_all_steps(sequence, solver), exact, strict=True):
            assert ours == pytest.approx([float(level) for level in theirs], rel=1e-9)


@pytest.mark.parametrize("tiny", [1e-9, 1e-12])
def test_demands_next_to_nothing_are_demands(tiny: float) -> None:
    """HiGHS takes coefficients of 1e-9 for zeros, and what they use is used."""
    rng = np.random.default_rng(9)
    for _ in range(6):
        n, m = rng.integers(2, 7), rng.integers(2, 4)
        demand = np.where(rng.random((n, m)) < 0.5, tiny, rng.uniform(0.1, 1, (n, m)))
        demand[np.arange(n), rng.integers(0, m, n)] = 1.0
        problem = Problem.from_arrays(np.ones((1, m)), demand)
        run = run_dynamic(problem, "lp")
        assert run.certificate.violation < 1e-12
        assert run.levels == pytest.approx(run_dynamic(problem, "stack").levels, rel=1e-9)


@pytest.mark.parametrize("zeros", [0.0, 0.4])
def test_demands_and_weights_of_very_different_size(zeros: float) -> None:
    rng = np.random.default_rng(6)
    for k in range(cases(8)):
        n, m = rng.integers(2, 12), rng.integers(1, 5)
        demand = 10.0 ** rng.uniform(-12 if k % 2 else -300, 0, (n, m))
        demand[rng.random((n, m)) < zeros] = 0.0
        demand[~(demand > 0).any(axis=1), 0] = 1.0
        demand /= demand.max(axis=1, keepdims=True)
        sequence = Sequence(demand, 10.0 ** rng.uniform(-5, 5, n))
        run, total = sequence.run(), float(sequence.weight.sum())
        exact = exact_levels(sequence.demand.tolist(), sequence.weight.tolist())[-1]
        shares = [w * float(level) for w, level in zip(sequence.weight, exact, strict=True)]
        assert run.shares == pytest.approx(shares, rel=1e-9, abs=1e-14)
        for solver in ("stack", "water") if zeros else ("stack", "water", "halving"):
            log = sequence.run(solver).log
            assert certify_dynamic(demand, sequence.weight, total, log).holds
        course = DynamicShares(demand, sequence.weight, total, run.shares_at)
        assert [v.verdict for v in check_dynamic(course)] == ["holds"] * 3


def test_equal_agents_are_raised_together() -> None:
    """One stair stands for all agents of a kind at a level, up to rounding."""
    (kind,) = Sequence(np.ones((50, 2)), np.ones(50)).run()._solver._stacks.kinds
    assert len(kind.levels) <= 10


def test_halving_refuses_zero_demands_and_takes_nobody_in() -> None:
    agents = DynamicDRF(3, 2, solver="halving")
    agents.arrive([1.0, 0.5])
    with pytest.raises(RefusalError, match="'halving' admits no zero demands"):
        agents.arrive([1.0, 0.0])
    assert agents.arrived == 1
    assert len(agents.levels) == 1
