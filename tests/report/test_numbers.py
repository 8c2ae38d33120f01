"""Shares are written so that those of many users can be told apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fairlead.model.holdings import Holdings
from fairlead.model.problem import Problem
from fairlead.properties.audit import audit
from fairlead.properties.verdict_text import format_percent
from fairlead.report.numbers import percent, precise_percent, short_percent


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (1.0, "100.0 %"),
        (0.4, "40.00 %"),
        (1 / 9, "11.11 %"),
        (1 / 3500, "0.02857 %"),
        (4.426e-4, "0.04426 %"),
        (0.0, "0.000 %"),
    ],
)
def test_percentages_have_four_digits(share: float, text: str) -> None:
    assert precise_percent(share) == text


@pytest.mark.parametrize("write", [percent, short_percent, precise_percent, format_percent])
@pytest.mark.parametrize("share", [1.3e-16, -2e-12, 9.9e-7, 1.1e-6, 0.00003, 0.02, 1.0])
def test_no_percentage_is_written_in_powers_of_ten(
    write: Callable[[float], str], share: float
) -> None:
    text = write(share).replace("\u00a0", " ")
    assert "e" not in text
    assert (text == "~0 %") == (abs(share) < 1e-6)


def test_a_cluster_that_is_next_to_empty() -> None:
    problem = Problem.from_arrays([[1.0]], [[1.0]])
    found = audit(problem, Holdings(problem, np.array([[1.3e-16]])))
    assert found["feasibility"].sentence.endswith("(most used: ~0 %)")
