"""The users of a problem as agents that arrive in the file's order."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from dynamic_sequences import Sequence, sequences
from fairlead.errors import CertificateError, InputError, RefusalError
from fairlead.mechanisms import dynamic_run as module
from fairlead.mechanisms.catalogue import solve
from fairlead.mechanisms.dynamic_drf import SOLVERS, _PlainSolver
from fairlead.mechanisms.dynamic_run import run_dynamic
from fairlead.model.problem import Problem
from fairlead.solvers.level_raising import raise_by_water


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
def test_the_json_says_all_steps(sequence: Sequence) -> None:
    run = run_dynamic(problem_of(sequence), "water")
    answer = json.loads(json.dumps(run.to_dict(), allow_nan=False))
    assert answer["fairlead"] == 1
    assert answer["solver"] == "water"
    assert [s["step"] for s in answer["steps"]] == list(range(1, run.n_steps + 1))
    names = run.problem.users.names
    for k, step in enumerate(answer["steps"], start=1):
        assert step["arrived"] == names[k - 1]
        assert list(step["shares"]) == list(names[:k])
        assert list(step["shares"].values()) == run.shares_at(k).tolist()
        weight = run.problem.weight[:k]
        assert step["level"] == pytest.approx((run.shares_at(k) / weight).min())
        assert step["full_knowledge_level"] >= step["level"] * (1 - 1e-9)
    assert answer["certificate"]["holds"] is True
    (last,) = run.to_dict(all_steps=False)["steps"]
    assert last == answer["steps"][-1]


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


def test_an_unknown_solver() -> None:
    with pytest.raises(InputError, match="no solver is named 'magic'"):
        run_dynamic(Problem.from_arrays([[4]], [[1]]), "magic")


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
