"""The verdict follows from numbers and statements, here made-up ones."""

from __future__ import annotations

import math

import pytest

from fairlead_papers.reproduction import (
    DIFFERS,
    EQUAL,
    FARTHER,
    SHAPE,
    VERDICTS,
    WITHIN,
    PrintedClaim,
    Reading,
    give_reason,
    judge,
)

SO = PrintedClaim("water is wet", True, "very")
NOT_SO = PrintedClaim("pigs fly", False, "0 of 3")
# Printed as 44 %: half a per cent of rounding, and an interval of 2.5 points.
AS_PRINTED = Reading("a", 0.4449, 0.44, 0.01, 0.025)
NEAR = Reading("b", 0.4649, 0.44, 0.01, 0.025)
FAR = Reading("c", 0.466, 0.44, 0.01, 0.025)


@pytest.mark.parametrize(
    ("ours", "interval", "expected"),
    [
        (0.44, None, EQUAL),
        (0.445, None, EQUAL),
        (0.4451, None, FARTHER),
        (0.4349, 0.006, WITHIN),
        (0.415, 0.025, WITHIN),
        (0.4149, 0.025, FARTHER),
        (math.nan, 0.025, FARTHER),
        (math.inf, 1.0, FARTHER),
    ],
)
def test_a_number(ours: float, interval: float | None, expected: str) -> None:
    reading = Reading("x", ours, 0.44, 0.01, interval)
    assert reading.verdict == expected
    assert reading.to_dict()["verdict"] == expected
    assert reading.to_dict()["ours"] == (ours if math.isfinite(ours) else None)


@pytest.mark.parametrize(
    ("readings", "claims", "expected"),
    [
        ([AS_PRINTED], [], EQUAL),
        ([AS_PRINTED, AS_PRINTED], [SO], EQUAL),
        ([AS_PRINTED, NEAR], [SO], WITHIN),
        ([NEAR], [], WITHIN),
        ([AS_PRINTED, NEAR, FAR], [SO], SHAPE),
        ([AS_PRINTED, NEAR, FAR], [], DIFFERS),
        ([], [SO], SHAPE),
        ([], [SO, NOT_SO], DIFFERS),
        ([AS_PRINTED], [NOT_SO], DIFFERS),
        ([FAR], [SO, NOT_SO], DIFFERS),
    ],
)
def test_the_verdict(readings: list[Reading], claims: list[PrintedClaim], expected: str) -> None:
    assert expected in VERDICTS
    assert judge(readings, claims) == expected
    assert judge(readings[::-1], claims[::-1]) == expected


def test_without_numbers_and_claims_there_is_no_verdict() -> None:
    with pytest.raises(ValueError, match="neither a number nor a claim"):
        judge([], [])


def test_the_reason_names_what_does_not_hold_and_counts_numbers() -> None:
    assert give_reason([AS_PRINTED], [SO, NOT_SO]) == "does not hold here: pigs fly (0 of 3)."
    numbers = "of 4 numbers, 1 as printed, 1 within the interval stated, 2 farther off"
    assert give_reason([AS_PRINTED, NEAR, FAR, FAR], [SO]).startswith(f"{numbers}; the statement ")
    brief = give_reason([AS_PRINTED], [SO, SO], in_full=False)
    assert brief == "of 1 number, 1 as printed; all 2 statements hold."
