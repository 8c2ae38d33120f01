"""Users that are due nothing and empty groups change nothing for the others, and get nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead import Problem, audit, fill, solve
from fairlead.errors import InputError, ProblemError, RefusalError
from fairlead.mechanisms.dynamic_run import run_dynamic
from fairlead.model.holdings import Holdings
from fairlead.model.reductions import active_part
from fairlead_papers.distributed.network_setting import AsynchronousSetting
from strategies import ALL_FEATURES, admitted_by, problems

FILLINGS = [("drf", "best-fit"), ("ps-dsf", "joint")]
# One of each kind of solver, on a pool and on servers; and whole tasks.
MECHANISMS = ("drf", "drfh", "ps-dsf", "ps-dsf-tdm", "alpha-fair", "drf-tasks")


def padded(problem: Problem, at: list[int], weight: int, groups_at: list[int]) -> Problem:
    """Insert users before the given rows, of weight 0 or without tasks, and groups of no server."""
    cluster, users = problem.cluster, problem.users
    capacity, demand, copied = cluster.capacity, users.demand, [0] * len(at)
    weights = users.weight if users.resource_weight is None else users.resource_weight
    if users.rates is None and groups_at:
        # A resource that only an empty group has, and only an idle user asks for.
        capacity, demand = (np.c_[table, np.zeros(len(table))] for table in (capacity, demand))
        weights = np.c_[weights, np.ones(len(weights))] if weights.ndim == 2 else weights
    new_demand = np.ones(demand.shape[1]) if weight else demand[copied]
    eligible, rates = np.insert(users.eligible, groups_at, True, axis=1), users.rates
    if rates is not None:
        rates = np.insert(rates, groups_at, np.where(np.isnan(rates[:, :1]), np.nan, 1), axis=1)
        rates = np.insert(rates, at, np.nan if weight else rates[copied], axis=0)
    return Problem.from_arrays(
        np.insert(capacity, groups_at, 1, axis=0),
        np.insert(demand, at, new_demand, axis=0),
        count=np.insert(cluster.count, groups_at, 0),
        weight=np.insert(weights, at, weight, axis=0),
        eligible=np.insert(eligible, at, True if weight else eligible[copied], axis=0),
        task_limit=np.insert(users.task_limit, at, 0 if weight else users.task_limit[copied]),
        rates=rates,
    )


def places(length: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, length), min_size=1, max_size=3)


def draw_idle(data: st.DataObject, drawn: st.SearchStrategy[Problem]) -> tuple[Problem, Problem]:
    """Draw a problem with idle users and empty groups, and the same without."""
    problem = data.draw(drawn)
    users_at, groups_at = data.draw(places(problem.n_users)), data.draw(places(problem.n_groups))
    more = padded(problem, users_at, 3, groups_at)
    plain, _, _ = active_part(more)
    return more, plain


def draw(data: st.DataObject, drawn: st.SearchStrategy[Problem]) -> tuple[Problem, Problem]:
    """Draw the same with users of weight 0, too."""
    more, plain = draw_idle(data, drawn)
    return padded(more, data.draw(places(more.n_users)), 0, []), plain


@given(data=st.data())
def test_the_working_part_is_the_rest(data: st.DataObject) -> None:
    more, plain = draw(data, problems(features=ALL_FEATURES))
    assert not plain.due_nothing.any()
    assert plain.count.all()
    assert more.total_capacity.tolist() == plain.total_capacity.tolist()
    assert active_part(plain)[0] is plain


@pytest.mark.parametrize("mechanism", MECHANISMS)
@given(data=st.data())
@settings(max_examples=4)
def test_who_is_due_nothing_gets_nothing(mechanism: str, data: st.DataObject) -> None:
    more, plain = draw(data, admitted_by(mechanism))
    allocation, alone = solve(more, mechanism), solve(plain, mechanism)
    assert (allocation.user_tasks[more.due_nothing] == 0).all()
    np.testing.assert_allclose(
        allocation.user_tasks[~more.due_nothing], alone.user_tasks, rtol=1e-12
    )
    if allocation.problem.n_groups == more.n_groups:
        assert not allocation.tasks[:, more.count == 0].any()
    assert allocation.certificate.holds
    assert np.isfinite(allocation.dominant_share).all()


def test_tables_of_scores_lose_the_rows_of_idle_users() -> None:
    problem = Problem.from_arrays(
        [[8.0], [8.0], [2.0]], [[1.0], [1.0], [1.0]], count=[1, 0, 1], task_limit=[np.inf, 0, 9]
    )
    score = np.array([1.0, 5.0, 3.0])
    for given_score in (score, np.repeat(score[:, None], 3, axis=1)):
        tasks = solve(problem, "max-min", score=given_score).user_tasks
        assert tasks.tolist() == pytest.approx([7.5, 0, 2.5])


@pytest.mark.parametrize(("criterion", "select"), FILLINGS)
@given(data=st.data())
@settings(max_examples=5)
def test_filling_passes_idle_users_over(criterion: str, select: str, data: st.DataObject) -> None:
    more, plain = draw_idle(data, admitted_by("drfh"))
    try:
        alone = fill(plain, criterion, select)
    except RefusalError:
        return
    filled = fill(more, criterion, select)
    assert filled.order[:, 1].tolist() == alone.order[:, 1].tolist()
    assert filled.tasks[~more.due_nothing][:, more.count > 0].tolist() == alone.tasks.tolist()
    assert filled.tasks.sum() == alone.tasks.sum()
    assert filled.certificate.holds
    assert np.isfinite(filled.unused).all()


@pytest.mark.parametrize("mechanism", ["drf", "ps-dsf-tdm", "drf-tasks"])
@given(data=st.data())
@settings(max_examples=3)
def test_an_audit_asks_nothing_for_them(mechanism: str, data: st.DataObject) -> None:
    more, plain = draw(data, admitted_by(mechanism))
    found, alone = (audit(problem, mechanism, lies=5, departures=3) for problem in (more, plain))
    assert [v.verdict for v in found] == [v.verdict for v in alone]
    rows = found.to_dict()["users"]
    assert [row["name"] for row in rows] == list(more.users.names)
    assert all(
        row["tasks"] == row["slice"] == 0
        for row, i in zip(rows, more.due_nothing, strict=True)
        if i
    )
    assert list(found.due_nothing) == [
        more.users.names[n] for n in np.flatnonzero(more.due_nothing)
    ]


@pytest.mark.parametrize("count", [[1, 0], [0, 1]])
def test_a_pool_may_be_one_server_beside_an_empty_group(count: list[int]) -> None:
    problem = Problem.from_arrays([[8.0], [4.0]], [[2.0], [1.0]], count=count, task_limit=[9, 0])
    assert problem.pooled().cluster.groups == (problem.cluster.groups[count.index(1)],)
    assert solve(problem, "drf").tasks.tolist() == [[4.0 if count[0] else 2.0], [0.0]]
    assert "fails" not in {v.verdict for v in audit(problem, "drf", lies=5, departures=3)}


def test_what_an_idle_user_holds_is_infeasible() -> None:
    problem = Problem.from_arrays([[8.0], [8.0]], [[1.0], [1.0]], count=[1, 0], task_limit=[9, 0])
    for tasks, kind in (([[4.0, 0], [1, 0]], "beyond-limit"), ([[4.0, 1], [0, 0]], "misplaced")):
        found = audit(problem, np.array(tasks))
        assert found["feasibility"].verdict == "fails"
        assert found["feasibility"].witness["kind"] == kind
        assert {v.verdict for v in found if v.name != "feasibility"} == {"unknown"}
    assert audit(problem, np.array([[8.0, 0], [0, 0]]))["feasibility"].verdict == "holds"


def test_rates_of_an_idle_user_divide_no_server_by_time() -> None:
    rates = [[np.nan], [np.nan], [3.0]]
    problem = Problem.from_arrays(
        [[4.0, 4.0]], [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], rates=rates, task_limit=[9, 9, 0]
    )
    for subject in ("drf", np.array([[4.0], [4.0], [0.0]])):
        found = audit(problem, subject, lies=5, departures=3)
        assert "fails" not in {v.verdict for v in found}
        assert found["feasibility"].sentence.startswith("no server is used beyond its capacity")


@pytest.mark.parametrize("whole", [False, True])
def test_what_users_of_weight_0_hold_counts_as_free(whole: bool) -> None:
    problem = Problem.from_arrays([[8.0]], [[1.0], [1.0]], weight=[0, 1], users=["cy", "ana"])
    held = Holdings(problem, np.array([[6.0], [2.0]]), whole_tasks=whole)
    found = audit(problem, held, properties=["feasibility", "non-wastefulness", "envy-freeness"])
    assert [v.verdict for v in found] == ["holds", "fails", "holds"]
    assert found["non-wastefulness"].witness["tasks"] == 6
    assert found["non-wastefulness"].sentence.endswith(
        "the holdings of users of weight 0 count as free"
    )
    assert audit(problem, held)["pareto-optimality"].verdict == "fails"
    assert audit(problem, np.array([[0.0], [8.0]]))["pareto-optimality"].verdict == "holds"


def test_servers_on_their_own_refuse_weight_0() -> None:
    problem = Problem.from_arrays([[8.0]], [[1.0], [1.0]], weight=[0, 1], users=["cy", "ana"])
    with pytest.raises(RefusalError, match="user 'cy' has weight 0"):
        AsynchronousSetting(problem, until=1.0)


@given(data=st.data())
@settings(max_examples=5)
def test_who_is_due_nothing_does_not_arrive(data: st.DataObject) -> None:
    more, plain = draw(data, problems())
    run, alone = run_dynamic(more), run_dynamic(plain)
    assert run.levels.tolist() == alone.levels.tolist()
    assert run.to_dict()["idle"] == [more.users.names[n] for n in np.flatnonzero(more.due_nothing)]


def test_all_idle_or_no_server() -> None:
    with pytest.raises(ProblemError, match="servers: there is no server: every group has a count"):
        Problem.from_arrays([[1.0]], [[1.0]], count=[0])
    idle = Problem.from_arrays([[1.0]], [[1.0], [2.0]], task_limit=[0, 0])
    for mechanism in MECHANISMS:
        allocation = solve(idle, mechanism)
        assert allocation.user_tasks.tolist() == [0, 0]
        assert allocation.certificate.holds
    assert fill(idle).tasks.sum() == 0
    for refused in (lambda: audit(idle, "drf"), lambda: run_dynamic(idle)):
        with pytest.raises(InputError, match="no user is due anything"):
            refused()


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf, [[0.0, 1.0], [1.0, 1.0]]])
def test_other_weights_are_refused(weight: object) -> None:
    given_weights = weight if isinstance(weight, list) else [1.0, weight]
    with pytest.raises(ProblemError, match=r"users\[[01]\].weight: must be"):
        Problem.from_arrays([[8.0, 8.0]], [[1.0, 1.0], [1.0, 2.0]], weight=given_weights)
