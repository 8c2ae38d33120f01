"""Quantiles of Student's t, against printed tables and their definition."""

from __future__ import annotations

import pytest

from fairlead.optimize.student import MANY_DEGREES, student_probability, student_quantile


@pytest.mark.parametrize(
    ("confidence", "degrees", "printed"),
    [(0.95, 1, 12.706), (0.95, 2, 4.303), (0.95, 5, 2.571), (0.95, 10, 2.228), (0.95, 30, 2.042),
     (0.95, 120, 1.980), (0.95, 199, 1.972), (0.95, 200, 1.972), (0.95, 1000, 1.962),
     (0.95, 10**9, 1.960), (0.99, 1, 63.657), (0.99, 10, 3.169), (0.9, 5, 2.015),
     (0.9, 300, 1.650), (0.5, 3, 0.765)],
)  # fmt: skip
def test_printed_tables(confidence: float, degrees: int, printed: float) -> None:
    assert student_quantile(confidence, degrees) == pytest.approx(printed, abs=5e-4)


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 17, 18, MANY_DEGREES - 1, MANY_DEGREES, 401])
@pytest.mark.parametrize("confidence", [0.1, 0.5, 0.95, 0.99])
def test_the_quantile_has_its_probability(confidence: float, degrees: int) -> None:
    t = student_quantile(confidence, degrees)
    assert student_probability(t, degrees) == pytest.approx(confidence, rel=1e-8)


@pytest.mark.parametrize(("t", "probability"), [(1.0, 0.5), (0.0, 0.0), (1e300, 1.0)])
def test_one_degree_is_cauchys_distribution(t: float, probability: float) -> None:
    assert student_probability(t, 1) == pytest.approx(probability)
