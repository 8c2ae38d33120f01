"""No digit of an audit is lost on a narrow terminal."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead import Problem, audit
from fairlead.report.audit_tables import audit_tables
from fairlead.report.numbers import number


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("most", [9.0, 9e8])
def test_no_digit_is_cut(width: int, most: float) -> None:
    rng = np.random.default_rng(3)
    problem = Problem.from_arrays(
        rng.uniform(most / 2, most, (3, 2)),
        rng.uniform(0.5, 3, (4, 2)),
        weight=[1, 20.25, 12345, 2],
    )
    found = audit(problem, problem.gamma / 4, fair="drfh", properties=["sharing-incentive"])
    shown = audit_tables(found, width=width, plain=True)
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    for values in (problem.weight, found.slices, found.subject.holdings.user_tasks):
        for value in values.tolist():
            assert number(value) in shown.split()
