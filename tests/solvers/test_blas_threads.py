"""Mechanisms solve for few unknowns by one thread, and the number of threads is put back."""

from __future__ import annotations

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import fairlead
from fairlead.mechanisms import drf
from fairlead.mechanisms.catalogue import Mechanism
from fairlead.model.allocation import Allocation
from fairlead.model.problem import Problem
from fairlead.solvers import blas_threads


def threads() -> set[int]:
    return {row["num_threads"] for row in threadpool_info() if row["user_api"] == "blas"}


@pytest.mark.parametrize(("most_unknowns", "expected"), [(1, 1), (0, 2)])
def test_few_unknowns_take_one_thread(
    most_unknowns: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: list[set[int]] = []

    def solve(problem: Problem) -> Allocation:
        met.append(threads())
        return drf.solve_drf(problem)

    monkeypatch.setattr(Mechanism, "load", lambda _row: solve)
    monkeypatch.setattr(blas_threads, "MOST_UNKNOWNS", most_unknowns)
    with threadpool_limits(2, "blas"):
        fairlead.solve(Problem.from_arrays([[4.0]], [[1.0]]), "drf")
        assert threads() == {2}
    assert met == [{expected}]
