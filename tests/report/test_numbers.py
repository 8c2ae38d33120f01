"""Shares are written so that those of many users can be told apart."""

from __future__ import annotations

import pytest

from fairlead.report.numbers import precise_percent


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
