"""Audits of Google's park beside plain ones: how long a verdict and a thousand lies take.

Run with ``make bench``; the figures are listed at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fairlead.properties.audit import Audit, audit_subject
from fairlead.properties.lies import search_lies
from fairlead.properties.subject import Subject, subject_of
from random_problems import google_park

USERS, CONSTRAINED = 930, 0.3
LIES = 1_000
# Of the plain version, which takes long enough.
PLAIN_LIES = 100


@pytest.mark.parametrize("mechanism", ["drfh", "tsf", "ps-dsf", "ps-dsf-tdm", "proportional"])
def test_deterministic_audit(
    benchmark: BenchmarkFixture, report: Callable[[str], None], mechanism: str
) -> None:
    """All properties but strategy-proofness, which is a search; 40 departures are tried."""
    problem = google_park(np.random.default_rng(1), USERS, CONSTRAINED)

    def run() -> Audit:
        return audit_subject(subject_of(problem, mechanism), lies=0)

    found = benchmark.pedantic(run, rounds=1, warmup_rounds=1)
    shown = ", ".join(f"{v.name} {v.verdict}" for v in found if v.verdict != "holds")
    report(
        f"audit of {mechanism}, {USERS} users on Google's park: "
        f"{benchmark.stats.stats.median:.1f} s ({shown})"
    )


@pytest.mark.parametrize("mechanism", ["drfh", "tsf", "ps-dsf", "ps-dsf-tdm"])
def test_thousand_lies(
    benchmark: BenchmarkFixture, report: Callable[[str], None], mechanism: str
) -> None:
    """Of one user; the plain version runs the mechanism from nothing for each."""
    problem = google_park(np.random.default_rng(1), USERS, CONSTRAINED)
    subject = subject_of(problem, mechanism)
    benchmark.pedantic(search_lies, (subject, LIES), {"user": 5}, rounds=1, warmup_rounds=0)
    ours = benchmark.stats.stats.median
    plain = _seconds_from_nothing(replace(subject, divide_near=None)) * LIES / PLAIN_LIES
    report(
        f"{LIES:,} lies of one of {USERS} users to {mechanism}: {ours:.1f} s; "
        f"each from nothing {plain:.0f} s, {plain / ours:.1f} times as long"
    )


def _seconds_from_nothing(subject: Subject) -> float:
    start = time.perf_counter()
    search_lies(subject, PLAIN_LIES, user=5)
    return time.perf_counter() - start
