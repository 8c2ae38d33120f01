"""Names of policies, refused combinations, and fillings that are too large."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fairlead.errors import InputError, RefusalError
from fairlead.model.problem import Problem
from fairlead.scheduler.policies import CRITERIA, SELECTIONS, find_policy, parse_policy
from fairlead.simulation import filling
from fairlead.simulation.filling import fill, fill_by

TWO = Problem.from_arrays([[100, 30], [30, 100]], [[5, 1], [1, 5]])


@pytest.mark.parametrize(
    ("criterion", "select", "residual", "reason"),
    [
        ("drf", "joint", False, "the same score on every server"),
        ("tsf", "joint", True, "the same score on every server"),
        ("ps-dsf", "first-fit", True, "infinite once one of them is full"),
        ("ps-dsf", "best-fit", True, "infinite once one of them is full"),
        ("ps-dsf", "best-fit-first", True, "infinite once one of them is full"),
    ],
)
def test_combinations_without_meaning_are_refused_by_name(
    criterion: str, select: str, residual: bool, reason: str
) -> None:
    with pytest.raises(RefusalError, match=reason) as refusal:
        find_policy(criterion, select, residual)
    assert str(refusal.value).startswith(f"{criterion}/{select}")


@pytest.mark.parametrize(
    ("criterion", "select", "fault"),
    [
        ("drfh", "rrr", "no criterion is named 'drfh'.*; did you mean 'drf'"),
        ("drf", "worst", "no selection is named"),
        ("drf", "bestfit", "; did you mean 'best-fit'"),
    ],
)
def test_unknown_names_are_refused_with_the_known_ones(
    criterion: str, select: str, fault: str
) -> None:
    with pytest.raises(InputError, match=fault) as error:
        find_policy(criterion, select)
    assert "known: " in str(error.value)


SUFFIXES = ("", "/residual", "/oblivious")
NAMES = [f"{c}/{s}{suffix}" for c in CRITERIA for s in SELECTIONS for suffix in SUFFIXES]


@pytest.mark.parametrize("name", [*NAMES, "slots:1", "slots:1000000"])
def test_a_policy_has_the_name_that_finds_it(name: str) -> None:
    try:
        policy = parse_policy(name)
    except RefusalError:
        return
    assert policy.name == name


def test_a_number_of_slots_loses_leading_zeros() -> None:
    assert parse_policy("slots:014").name == "slots:14"


NO_NAMES = ["drf", "fair/first-fit", "drf/worst-fit", "drf/rrr/odd", "", "/", "drf/rrr/"]
NO_SLOTS = [f"slots:{slots}" for slots in ("", "0", "-1", "1000001", "x", "\u00b2")]


@pytest.mark.parametrize("name", [*NO_NAMES, *NO_SLOTS, None, 5, ["drf"], b"drf/first-fit"])
def test_unknown_policies_are_refused(name: Any) -> None:
    with pytest.raises(InputError):
        parse_policy(name)


def test_policies_of_arrivals_cannot_fill() -> None:
    for name in ("fifo/first-fit", "drf/rrr/oblivious", "slots:3"):
        with pytest.raises(RefusalError):
            fill_by(TWO, parse_policy(name))


def test_given_rates_are_refused() -> None:
    problem = Problem.from_arrays([[1]], [[1]], rates=[[2]])
    with pytest.raises(RefusalError, match="given rates"):
        fill(problem)


def test_weights_per_resource_are_refused() -> None:
    problem = Problem.from_arrays([[4, 4]], [[1, 1]], weight=[[1, 2]])
    with pytest.raises(RefusalError, match="one pool only"):
        fill(problem)


def test_too_many_tasks_are_refused_with_the_count() -> None:
    for capacity, count in ((5e9, "5,000,000,000"), (5.1e7, "51,000,000")):
        problem = Problem.from_arrays([[capacity]], [[1], [1]])
        with pytest.raises(RefusalError, match=f"would place about {count} tasks"):
            fill(problem)


def test_few_tasks_may_fill_a_huge_server() -> None:
    problem = Problem.from_arrays([[5e9]], [[1], [1]], task_limit=[3, 4.9])
    assert fill(problem).user_tasks.tolist() == [3, 4]


def test_too_many_servers_are_refused_with_the_count() -> None:
    problem = Problem.from_arrays([[1]], [[1]], count=[10**12], task_limit=[1])
    with pytest.raises(RefusalError, match="1,000,000,000,000 servers"):
        fill(problem)


def test_a_seed_decides_a_filling() -> None:
    orders = [fill(TWO, "drf", "rrr", seed=seed).order for seed in (1, 1, 2)]
    assert np.array_equal(orders[0], orders[1])
    assert not np.array_equal(orders[0], orders[2])


def test_nothing_is_left_over_by_rounding() -> None:
    filled = fill(Problem.from_arrays([[0.5, 0.3]], [[0.1, 0.06]]))
    assert filled.user_tasks.tolist() == [5]
    assert filled.unused.tolist() == [[0.0, 0.0]]


def test_a_long_filling_reports_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "PORTION", 100)
    problem = Problem.from_arrays([[100]], [[0.25]])
    reports: list[tuple[int, int]] = []
    policy = find_policy("drf", "first-fit")
    fill_by(problem, policy, on_portion=lambda done, to_do: reports.append((done, to_do)))
    assert len(reports) > 2
    assert reports == sorted(reports)
    assert reports[-1] == (400, 400)


@pytest.mark.parametrize("suffix", ["", "/reserve", "/spare:gpu"])
def test_a_suffix_keeps_the_score(suffix: str) -> None:
    assert parse_policy(f"drf/first-fit/residual{suffix}").residual
    assert not parse_policy(f"drf/first-fit{suffix}").residual
