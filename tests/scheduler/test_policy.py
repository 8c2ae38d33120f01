"""Names of policies, refused combinations, and fillings that are too large."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.errors import InputError, RefusalError
from fairlead.model.problem import Problem
from fairlead.scheduler.policies import CRITERIA, ROWS, SELECTIONS, find_policy, parse_policy
from fairlead.simulation import filling
from fairlead.simulation.filling import fill, fill_by

TWO = Problem.from_arrays([[100, 30], [30, 100]], [[5, 1], [1, 5]])


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


@pytest.mark.parametrize(
    ("name", "known_as"),
    [
        ("slots:014", "slots:14"),
        ("drf/best-fit/over-share:6e2", "drf/best-fit/over-share:600"),
    ],
)
def test_a_number_in_a_name_is_written_in_one_way(name: str, known_as: str) -> None:
    assert parse_policy(name).name == known_as


def test_a_name_may_have_several_suffixes() -> None:
    policy = parse_policy("drf/best-fit/half-life:60/reserve:2/spare:nvidia.com/gpu")
    assert (policy.spares, policy.reserves, policy.half_life) == ("nvidia.com/gpu", 2, 60)
    for suffix in ("", "/reserve", "/spare:gpu"):
        assert parse_policy(f"drf/first-fit/residual{suffix}").residual
        assert not parse_policy(f"drf/first-fit{suffix}").residual


NO_NAMES = ["drf", "fair/first-fit", "drf/worst-fit", "drf/rrr/odd", "", "/", "drf/rrr/"]
NO_NAMES += ["drf/over-share", "over-share", "drf/best-fit/spare:"]
NO_NUMBERS = [f"slots:{slots}" for slots in ("", "0", "-1", "1000001", "x", "\u00b2")]
NO_NUMBERS += [f"drf/first-fit/reserve:{n}" for n in ("0", "1.5", "", "10001", "x", "9" * 400)]
NO_NUMBERS += [f"drf/best-fit/half-life:{seconds}" for seconds in ("0", "-1", "x", "", "inf")]
NO_NUMBERS += ["slots:3/over-share:-1"]


@pytest.mark.parametrize("name", [*NO_NAMES, *NO_NUMBERS, None, 5, ["drf"], b"drf/first-fit"])
def test_unknown_policies_are_refused(name: Any) -> None:
    with pytest.raises(InputError):
        parse_policy(name)


WITHOUT_HALF_LIFE = [*(set(ROWS) - {"drf/first-fit", "drf/best-fit"}), "slots:3"]
MEANINGLESS = [f"{policy}/half-life:10" for policy in sorted(WITHOUT_HALF_LIFE)]
MEANINGLESS += [
    "drf/rrr/oblivious/reserve",
    "fifo/first-fit/reserve",
    "easy/best-fit/reserve",
    "drf/best-fit/over-share/reserve",
    "drf/best-fit/reserve/over-share",
    "drf/best-fit/reserve/reserve:2",
    "drf/best-fit/half-life:9/over-share",
    "drf/best-fit/over-share/half-life:9",
    "drf/best-fit/over-share/over-share",
    "slots:3/over-quota",
    "tsf/best-fit/over-share",
    "ps-dsf/joint/over-share",
    "drf/rrr/over-share",
]


@pytest.mark.parametrize("name", MEANINGLESS)
def test_suffixes_without_meaning_are_refused(name: str) -> None:
    with pytest.raises(RefusalError):
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


def test_a_long_filling_reports_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "PORTION", 100)
    problem = Problem.from_arrays([[100]], [[0.25]])
    reports: list[tuple[int, int]] = []
    policy = find_policy("drf", "first-fit")
    fill_by(problem, policy, on_portion=lambda done, to_do: reports.append((done, to_do)))
    assert len(reports) > 2
    assert reports == sorted(reports)
    assert reports[-1] == (400, 400)
