"""All solvers of dynamic DRF do what the definition says, and the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from dynamic_sequences import Sequence, random_sequence, sequences
from effort import cases
from fairlead import Problem
from fairlead.certificates.dynamic_levels import certify_dynamic
from fairlead.errors import RefusalError
from fairlead.mechanisms.dynamic_drf import DynamicDRF
from fairlead.mechanisms.dynamic_run import run_dynamic
from fairlead.properties.dynamic import DynamicShares, check_dynamic
from fairlead_papers.dynamic._solvers_compared import printed_algorithm_1
from oracles.dynamic import exact_levels

FOR_ZEROS = ("stack", "water", "lp")
ALL = (*FOR_ZEROS, "halving")


def levels_of_all_steps(sequence: Sequence, solver: str) -> list[np.ndarray]:
    log = sequence.run(solver).log
    return [log.levels_at(k) for k in range(1, len(sequence.weight) + 1)]


@pytest.mark.parametrize(("zeros", "solvers"), [(0.0, ALL), (0.4, FOR_ZEROS)])
def test_all_solvers_agree(zeros: float, solvers: tuple[str, ...]) -> None:
    rng = np.random.default_rng(5)
    for k in range(cases(60)):
        sequence = random_sequence(rng, zeros)
        # A linear programme takes a hundred times as long as what the others do.
        asked = [solver for solver in solvers if solver != "lp" or k % 20 == 0]
        first, *others = (np.concatenate(levels_of_all_steps(sequence, solver)) for solver in asked)
        for other in others:
            assert other == pytest.approx(first, rel=1e-9, abs=1e-9)


@settings(max_examples=15)
@given(sequences())
def test_levels_are_those_of_exact_water_filling(sequence: Sequence) -> None:
    exact = exact_levels(sequence.demand.tolist(), sequence.weight.tolist())
    positive = bool((sequence.demand > 0).all())
    for solver in ALL if positive else FOR_ZEROS:
        for ours, theirs in zip(levels_of_all_steps(sequence, solver), exact, strict=True):
            assert ours == pytest.approx([float(level) for level in theirs], rel=1e-9)


@pytest.mark.parametrize("tiny", [1e-8, 1e-9, 1e-10, 1e-12])
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
    for _ in range(cases(25)):
        n, m = rng.integers(2, 10), rng.integers(1, 5)
        demand = 10.0 ** rng.uniform(-12, 0, (n, m))
        demand[rng.random((n, m)) < zeros] = 0.0
        demand[~(demand > 0).any(axis=1), 0] = 1.0
        demand /= demand.max(axis=1, keepdims=True)
        sequence = Sequence(demand, 10.0 ** rng.uniform(-5, 5, n))
        run = sequence.run()
        exact = exact_levels(sequence.demand.tolist(), sequence.weight.tolist())[-1]
        shares = [w * float(level) for w, level in zip(sequence.weight, exact, strict=True)]
        assert run.shares == pytest.approx(shares, rel=1e-9, abs=1e-14)
        total = float(sequence.weight.sum())
        assert certify_dynamic(demand, sequence.weight, total, run.log).holds
        course = DynamicShares(demand, sequence.weight, total, run.shares_at)
        assert [v.verdict for v in check_dynamic(course)] == ["holds"] * 3


@given(sequences(zeros=False))
def test_lemmas_1_and_2(sequence: Sequence) -> None:
    agents = DynamicDRF(
        len(sequence.weight), sequence.demand.shape[1], total_weight=sequence.weight.sum()
    )
    least = agents.arrive_all(sequence.demand, sequence.weight)
    before = np.zeros(0)
    for k in range(1, len(least) + 1):
        level = agents.log.levels_at(k)
        assert level == pytest.approx(np.maximum([*before, 0.0], least[k - 1]))
        assert (np.diff(level) <= 1e-15).all()
        before = level


def test_algorithm_1_as_printed_overfills() -> None:
    """Its first test always holds, so it divides as if no agent held anything."""
    demand = [[1.0, 0.25], [0.25, 1.0], [1.0, 1.0]]
    printed = printed_algorithm_1(demand)[-1]
    used = [sum(float(x) * row[r] for x, row in zip(printed, demand, strict=True)) for r in (0, 1)]
    assert used == pytest.approx([10 / 9, 10 / 9])
    for solver in ALL:
        agents = DynamicDRF(3, 2, solver=solver)
        agents.arrive_all(demand)
        assert agents.used == pytest.approx([1.0, 1.0])


def test_the_right_first_test_takes_its_branch() -> None:
    """The newcomer takes so little that all rise above the former highest level."""
    demand = [[1.0, 0.5], [1.0, 0.5], [0.01, 1.0]]
    agents = DynamicDRF(3, 2, solver="halving")
    *_, before, after = agents.arrive_all(demand)
    assert agents.shares_at(2).max() == before < after
    assert agents.levels == pytest.approx([after] * 3)


def test_next_to_nothing_is_not_lost_beside_much() -> None:
    """Sums from which the many are taken away again may have nothing left of the others."""
    rng = np.random.default_rng(7)
    for _ in range(cases(20)):
        demand = np.where(rng.random((12, 3)) < 0.5, 1.0, 10.0 ** rng.uniform(-300, -14, (12, 3)))
        demand /= demand.max(axis=1, keepdims=True)
        sequence = Sequence(demand, 10.0 ** rng.uniform(-4, 4, 12))
        for solver in ("stack", "water", "halving"):
            log = sequence.run(solver).log
            total = float(sequence.weight.sum())
            assert certify_dynamic(demand, sequence.weight, total, log).holds


def test_halving_refuses_zero_demands_and_takes_nobody_in() -> None:
    agents = DynamicDRF(3, 2, solver="halving")
    agents.arrive([1.0, 0.5])
    with pytest.raises(RefusalError, match="'halving' admits no zero demands"):
        agents.arrive([1.0, 0.0])
    assert agents.arrived == 1
    assert len(agents.levels) == 1


@pytest.mark.parametrize("solver", ALL)
def test_a_batch_is_the_same_as_one_by_one(solver: str) -> None:
    sequence = random_sequence(np.random.default_rng(3), 0.0, 40, weighted=True)
    agents = DynamicDRF(
        len(sequence.weight),
        sequence.demand.shape[1],
        total_weight=sequence.weight.sum(),
        solver=solver,
    )
    for row, weight in zip(sequence.demand, sequence.weight, strict=True):
        agents.arrive(row.tolist(), float(weight))
    together = sequence.run(solver)
    assert np.array_equal(agents.levels, together.levels)
    assert np.array_equal(agents.used, together.used)
