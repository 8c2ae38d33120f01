"""The certificate of dynamic DRF holds for its answers and fails when a level is changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamic_sequences import Sequence, sequences
from fairlead.certificates.dynamic_levels import certify_dynamic
from fairlead.mechanisms.dynamic_drf import DynamicDRF
from fairlead.model.allocation import Certificate
from fairlead.solvers.level_log import LevelLog, number_kinds


def certify(sequence: Sequence, log: LevelLog, least: Any = None) -> Certificate:
    return certify_dynamic(
        sequence.demand, sequence.weight, float(sequence.weight.sum()), log, least
    )


def log_of(levels: list[list[float]], demand: np.ndarray) -> LevelLog:
    """Write down the least level of every kind after each step; `levels` has them by kind."""
    entries = [
        (step + 1, kind, level)
        for step, row in enumerate(levels)
        for kind, level in enumerate(row)
        if level > 0
    ]
    step, kind, level = zip(*entries, strict=True)
    return LevelLog(number_kinds(demand), np.array(step), np.array(kind), np.array(level))


@given(sequences())
def test_answers_are_proved(sequence: Sequence) -> None:
    agents = DynamicDRF(
        len(sequence.weight), sequence.demand.shape[1], total_weight=sequence.weight.sum()
    )
    least = agents.arrive_all(sequence.demand, sequence.weight)
    assert certify(sequence, agents.log, least).violation < 1e-12
    tasks = sequence.demand * np.arange(1, len(least) + 1)[:, None]
    assert certify(sequence._replace(demand=tasks), agents.log).violation < 1e-12


@given(sequences(), st.data(), st.sampled_from([0.5, 1 - 1e-5, 1 + 1e-5, 1.5]))
def test_one_level_that_is_off(sequence: Sequence, data: Any, factor: float) -> None:
    log = sequence.run().log
    level = log.level.copy()
    level[data.draw(st.integers(0, len(level) - 1))] *= factor
    assert not certify(sequence, replace(log, level=level)).holds


@given(sequences(), st.data())
def test_an_entry_that_is_missing(sequence: Sequence, data: Any) -> None:
    """Unless no agent rose by it: agents at the level of stopped ones are logged as well."""
    log = sequence.run().log
    chosen = data.draw(st.integers(0, len(log.level) - 1))
    without = replace(
        log,
        **{name: np.delete(getattr(log, name), chosen) for name in ("step", "of_kind", "level")},
    )
    steps = range(1, len(sequence.weight) + 1)
    nothing_lost = all(
        log.levels_at(k) == pytest.approx(without.levels_at(k), rel=1e-8) for k in steps
    )
    assert certify(sequence, without).holds == nothing_lost


@given(sequences())
def test_reported_levels_that_are_off(sequence: Sequence) -> None:
    log = sequence.run().log
    least = np.array([log.levels_at(k + 1).min() for k in range(len(sequence.weight))])
    assert certify(sequence, log, least).holds
    least[-1] *= 1 + 1e-6
    assert certify(sequence, log, least).detail["misreported"] == pytest.approx(1e-6, rel=1e-3)
    for wrong in (np.nan, np.inf, -np.inf):
        least[-1] = wrong
        assert not certify(sequence, log, least).holds


def test_an_optimum_that_is_not_fair_fails() -> None:
    """All are stopped by resource 1, but one was given more of it than the other."""
    demand = np.array([[1.0, 0.0], [1.0, 1.0]])
    fair = Sequence(demand, np.ones(2))
    assert certify(fair, log_of([[0.5, 0.0], [0.5, 0.5]], demand)).holds
    unfair = certify(fair, log_of([[0.5, 0.0], [0.6, 0.4]], demand))
    assert unfair.detail["could_rise"] == pytest.approx(1 / 3)
    assert unfair.detail["step"] == 2


def test_a_level_that_falls() -> None:
    demand = np.array([[1.0, 0.0], [1.0, 1.0]])
    log = log_of([[0.5, 0.0], [0.4, 0.5]], demand)
    assert certify(Sequence(demand, np.ones(2)), log).detail["shrunk"] == pytest.approx(0.2)


@pytest.mark.parametrize(
    "broken",
    [
        {"step": np.array([1, 3])},
        {"step": np.array([2, 1])},
        {"of_kind": np.array([0, 1])},
        {"level": np.array([0.5, np.nan])},
        {"level": np.array([0.5, -0.5])},
        {"level": np.array([0.5])},
        {"kind": np.array([0])},
    ],
)
def test_what_is_no_log(broken: dict[str, Any]) -> None:
    demand = np.ones((2, 1))
    good = log_of([[0.5], [0.5]], demand)
    assert certify(Sequence(demand, np.ones(2)), good).holds
    certificate = certify(Sequence(demand, np.ones(2)), replace(good, **broken))
    assert certificate.violation == 1.0
    assert "fault" in certificate.detail
