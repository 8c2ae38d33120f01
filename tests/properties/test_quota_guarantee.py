"""The quota guarantee of divisions by mechanisms, by hand, and with whole tasks."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.errors import InputError
from fairlead.model.holdings import Holdings
from fairlead.model.problem import Problem
from fairlead.model.verdict import Verdict
from fairlead.properties.audit import audit
from fairlead.properties.queue_guarantees import QUOTAS as NAME
from fairlead.properties.queue_guarantees import SHARES


def lab() -> Problem:
    """Return two teams on four GPUs of one kind and two of another."""
    problem = Problem.from_arrays(
        [[8, 4], [8, 2]], [[1, 1], [1, 1], [1, 0]], users=["ana", "bo", "cy"], resources=["c", "g"]
    )
    return problem.with_queues([{"name": "team"}], ["team", None, None])


def verdict(tasks, quotas, **changes):
    problem = lab()
    holdings = Holdings(problem, np.array(tasks, dtype=float), **changes)
    return audit(problem, holdings, properties=[NAME], quotas=quotas)[NAME]


def test_a_queue_below_its_quota_is_named() -> None:
    found = verdict([[1, 1], [3, 1], [0, 0]], {"team": [{"g": 3}], "bo": [{"g": 2}]})
    assert found.verdict == "fails"
    assert found.witness == {"queue": "team", "resource": "g", "held": 2.0, "quota": 3.0}
    assert verdict([[1, 2], [3, 0], [0, 0]], {"team": [{"g": 3}]}).verdict == "holds"


def test_servers_of_a_quota_are_told_apart() -> None:
    there = {"team": [{"g": 2, "where": [lab().cluster.groups[0]]}]}
    assert verdict([[1, 2], [3, 0], [0, 0]], there).verdict == "fails"
    assert verdict([[2, 1], [2, 1], [0, 0]], there).verdict == "holds"


def test_a_task_must_stay_within_all_quotas_of_its_queue() -> None:
    """As in the scheduler: with two GPUs of the one kind, none of the other is owed."""
    two = {"bo": [{"g": 2}, {"g": 1, "where": [lab().cluster.groups[0]]}]}
    for whole in (False, True):
        assert verdict([[0, 0], [0, 2], [0, 0]], two, whole_tasks=whole).verdict == "holds"
        assert verdict([[0, 0], [0, 1], [0, 0]], two, whole_tasks=whole).verdict == "fails"


def test_whole_tasks_need_not_fill_a_quota() -> None:
    half = {"team": [{"g": 1.5}]}
    assert verdict([[1, 0], [3, 2], [0, 0]], half, whole_tasks=True).verdict == "holds"
    assert verdict([[1, 0], [3, 2], [0, 0]], half).verdict == "fails"


def test_a_task_beyond_one_amount_of_a_quota_is_beyond_it() -> None:
    both = {"bo": [{"g": 3, "c": 2}]}
    for whole in (False, True):
        assert verdict([[0, 0], [2, 0], [0, 0]], both, whole_tasks=whole).verdict == "holds"
        assert verdict([[0, 0], [1, 0], [0, 0]], both, whole_tasks=whole).verdict == "fails"
    # A task that takes one of the resources only is guaranteed that one.
    either = {"team": [{"c": 1, "g": 1}]}
    problem = lab().with_queues([{"name": "team"}], ["team", None, "team"])
    held = np.array([[0, 0], [8, 0], [0.5, 0]])
    found = audit(problem, Holdings(problem, held), properties=[NAME], quotas=either)[NAME]
    assert (found.verdict, found.witness["resource"]) == ("fails", "g")


def test_a_queue_at_a_limit_is_not_short_of_its_quota() -> None:
    """The limit may be of tasks, of another resource, of one user, or of the queue above."""
    tree = [{"name": "lab"}, {"name": "team", "parent": "lab"}]
    problem = lab().with_queues(tree, ["team", "lab", None])
    quotas = {"team": [{"g": 3}]}

    def found(whole: bool, **limits: dict[str, float]) -> str:
        held = Holdings(problem, np.array([[1.0, 1], [3, 1], [0, 0]]), whole_tasks=whole)
        verdicts = audit(problem, held, properties=[NAME], quotas=quotas, limits=limits)
        return verdicts[NAME].verdict

    for whole in (False, True):
        for at_limit in (
            {"team": {"tasks": 2}},
            {"ana": {"c": 2}},
            {"lab": {"tasks": 6}},
            {"lab": {"g": 6, "c": 6}},
        ):
            assert found(whole, **at_limit) != "fails"
        assert found(whole, lab={"tasks": 7}, team={"c": 3, "x": 1}, bo={"tasks": 4}) == "fails"
    assert found(True, ana={"c": 2.5}) != "fails"
    assert found(False, ana={"c": 2.5}) == "fails"


def test_a_queue_without_tasks_of_a_resource_is_owed_nothing() -> None:
    assert not verdict([[2, 1], [2, 1], [0, 0]], {"cy": [{"g": 3}]}).applies


def test_a_queue_below_its_part_is_named() -> None:
    """A third is due to the team, of at least one resource; a whole task less is rounding."""

    def shares(tasks: int, *, whole: bool) -> Verdict:
        held = np.array([[tasks, 0], [3, 2], [0, 0]], dtype=float)
        return audit(lab(), Holdings(lab(), held, whole_tasks=whole), properties=[SHARES])[SHARES]

    found = shares(1, whole=False)
    assert found.verdict == "fails"
    assert (found.witness["queue"], found.witness["short"]) == ("team", ["team"])
    assert found.witness["dominant_share"] == pytest.approx(1 / 6)
    assert found.witness["part"] == pytest.approx(1 / 3)
    assert shares(2, whole=False).verdict == shares(1, whole=True).verdict == "holds"
    assert shares(0, whole=True).verdict == "fails"


def test_mechanisms_are_checked_and_faults_are_raised() -> None:
    assert not audit(lab(), "drf", properties=[NAME])[NAME].applies
    found = audit(lab(), "drf", lies=0, quotas={"bo": [{"g": 2}]})
    assert found[NAME].verdict == "holds"
    assert (
        audit(lab(), "drf", quotas={"bo": [{"g": 6}]}, properties=[NAME])[NAME].verdict == "fails"
    )
    with pytest.raises(InputError, match="7 g are guaranteed to bo; the servers have 6"):
        audit(lab(), "drf", quotas={"bo": [{"g": 7}]})
