"""Small matrices are solved by one thread, and the number of threads is put back."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from threadpoolctl import threadpool_info, threadpool_limits

import fairlead
from fairlead.mechanisms import drf
from fairlead.mechanisms.catalogue import CATALOGUE, Mechanism
from fairlead.model.allocation import Allocation
from fairlead.model.problem import Problem
from fairlead.solvers.blas_threads import MOST_UNKNOWNS, threads_for


def threads() -> set[int]:
    """Return by how many threads each library for linear algebra works."""
    np.linalg.solve(np.eye(2), np.ones(2))
    scipy.linalg.cho_factor(np.eye(2))
    return {
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    }


@pytest.mark.parametrize(
    ("unknowns", "expected"), [(1, 1), (MOST_UNKNOWNS, 1), (MOST_UNKNOWNS + 1, 2)]
)
def test_few_unknowns_take_one_thread(unknowns: int, expected: int) -> None:
    with threadpool_limits(2, "blas"):
        with threads_for(unknowns):
            assert threads() == {expected}
        assert threads() == {2}


def test_mechanisms_run_so(monkeypatch: pytest.MonkeyPatch) -> None:
    met: list[set[int]] = []

    def load(_row: Mechanism) -> object:
        def implementation(problem: Problem) -> Allocation:
            met.append(threads())
            return drf.solve_drf(problem)

        return implementation

    monkeypatch.setattr(type(CATALOGUE["drf"]), "load", load)
    with threadpool_limits(2, "blas"):
        fairlead.solve(Problem.from_arrays([[4.0]], [[1.0]]), "drf")
    assert met == [{1}]
