"""What may be audited, whatever made it: the same answer in each form has the same verdicts."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairlead
from fairlead import Problem, fill, solve
from fairlead.errors import CertificateError, FairleadError, InputError, RefusalError
from fairlead.model.holdings import Holdings
from fairlead.properties.audit import PROPERTIES, audit
from strategies import admitted_by

PROBLEM = Problem.from_arrays(
    [[9.0, 12.0], [3.0, 0.0], [4.0, 4.0]],
    [[1.0, 2.0], [1.0, 0.0], [2.0, 1.0]],
    count=[1, 2, 3],
    weight=[1.0, 2.0, 1.0],
    task_limit=[np.inf, 5.0, np.inf],
)


def strict(found):
    """The audit as strict JSON, with every property and user once."""
    values = json.loads(found.to_json(), parse_constant=pytest.fail)
    assert [row["name"] for row in values["properties"]] == list(PROPERTIES)
    assert len(values["users"]) == found.subject.problem.n_users
    for verdict in found:
        fails = verdict.verdict == "fails"
        why = f"{verdict.name} {verdict.verdict}, severity {verdict.severity}: surveys count by it"
        assert fails == (verdict.severity > 0), why
    for row in values["properties"]:
        assert "nan" not in row["sentence"].split() or row["name"] == "feasibility"
    return values["properties"]


@pytest.mark.parametrize("mechanism", ["drf", "drfh", "ps-dsf-tdm", "pdrf"])
@settings(max_examples=2)
@given(data=st.data())
def test_a_mechanism_is_audited_by_name_rule_and_answer(mechanism, data):
    problem = data.draw(admitted_by(mechanism, largest_users=4, largest_groups=3))
    try:
        answer = solve(problem, mechanism)
        named = strict(audit(problem, mechanism, lies=4))
        ruled = strict(audit(problem, lambda asked: solve(asked, mechanism), lies=4))
    except CertificateError:
        return
    given_away = strict(audit(problem, answer))
    # What asks for further answers (`subject.divide`), which an allocation does not give.
    searched = ("strategy-proofness", "population-monotonicity")
    for by_name, by_rule, by_answer in zip(named, ruled, given_away, strict=True):
        if by_name["name"] == "strategy-proofness":
            continue  # rules may be lied to about servers
        assert by_rule == by_name
        if by_name["name"] not in searched:
            assert by_answer == by_name, f"does {by_name['name']} ask for further answers?"
        elif problem.n_users > 1:
            assert by_answer["verdict"] == "unknown"


def test_time_sharing_is_recognised_in_every_form():
    """Servers that are shared by time are not wasted where a resource of them is free."""
    for subject in (
        "ps-dsf-tdm",
        lambda problem: solve(problem, "ps-dsf-tdm"),
        solve(PROBLEM, "ps-dsf-tdm"),
        Holdings(PROBLEM, solve(PROBLEM, "ps-dsf-tdm").tasks, "ps-dsf-tdm"),
    ):
        found = audit(PROBLEM, subject, lies=0)
        assert found.subject.time_shared
        assert found["pareto-optimality"].verdict == "holds"
        assert found["non-wastefulness"].verdict == "holds"
    assert audit(PROBLEM, solve(PROBLEM, "ps-dsf-tdm").tasks)["pareto-optimality"].witness


def unweighted(problem):
    """Divide as if all users had the same weight."""
    users = replace(problem.users, weight=np.ones(problem.n_users))
    return solve(Problem(problem.cluster, users), "tsf")


def test_a_rule_that_overlooks_weights_is_judged_by_them():
    problem = Problem.from_arrays([[10.0]], [[1.0], [1.0]], weight=[1.0, 4.0])
    found = audit(problem, unweighted, lies=0)
    assert found.subject.problem.weight.tolist() == [1, 4]
    assert found["sharing-incentive"].witness["slice"] == 8
    assert found["envy-freeness"].witness["user"] == "u2"
    assert found["single-resource-fairness"].verdict == "fails"


def test_a_pool_is_judged_as_the_pooled_problem():
    found = audit(PROBLEM, lambda problem: solve(problem, "drf"), lies=0)
    assert found.subject.problem.n_groups == 1
    single = Problem.from_arrays([[5.0]], [[2.0]], count=[2])
    found = audit(single, "drf-tasks", lies=0)  # five tasks of the pool, of four on servers
    assert found.subject.tasks.tolist() == [[5.0]]
    assert found["pareto-optimality"].verdict == "holds"


def test_a_table_of_the_pool_is_judged_as_the_pool():
    one_server = Problem.from_arrays([[5.0], [5.0]], [[2.0]], count=[0, 1], groups=["none", "one"])
    for problem in (PROBLEM, PROBLEM.pooled(), one_server):
        allocation = solve(problem, "drf")
        found = audit(problem, allocation.to_frame("tasks"))
        assert found.subject.problem.n_groups == 1
        np.testing.assert_array_equal(found.subject.tasks, allocation.tasks)
        strict(found)


def test_fillings_have_whole_tasks():
    filled = fill(PROBLEM, criterion="drf", select="first-fit")
    found = audit(PROBLEM, filled)
    assert found.subject.holdings.whole_tasks
    strict(found)


def holdings_of(**names):
    """Return the holdings of a problem that differs from PROBLEM in names."""
    other = Problem.from_arrays(PROBLEM.cluster.capacity, PROBLEM.demand, **names)
    return Holdings(other, np.zeros((3, 3)))


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (np.zeros((2, 3)), "shape"),
        (None, "shape"),
        (np.ma.array(np.ones((3, 3)), mask=np.eye(3)), "has masked values"),
        ([[1, 2, 3], [1]], "a table of numbers"),
        (holdings_of(groups=["x", "y", "z"]), "other groups"),
        (holdings_of(users=["x", "y", "z"]), "other users"),
    ],
)
def test_what_is_no_answer_is_refused(answer, fault):
    for subject in (answer, lambda _: answer):
        with pytest.raises(InputError, match=fault):
            audit(PROBLEM, subject)


@settings(max_examples=6)
@given(seed=st.integers(0, 2**32 - 1))
def test_frames_are_laid_out_by_their_labels(seed):
    rng = np.random.default_rng(seed)
    problem = Problem.from_arrays(
        rng.uniform(1, 9, (3, 1)), rng.uniform(1, 2, (4, 1)), users=list("abcd"), groups=list("xyz")
    )
    tasks = rng.integers(0, 5, (4, 3))
    users, groups = rng.permutation(4), rng.permutation(3)
    frame = pl.DataFrame(
        {"who": [problem.users.names[n] for n in users]}
        | {problem.cluster.groups[g]: tasks[users, g] for g in groups}
    )
    for subject in (frame, lambda _: frame, Holdings(problem, frame)):
        found = audit(problem, subject, properties=["feasibility"])
        np.testing.assert_array_equal(found.subject.tasks, tasks)


@pytest.mark.parametrize("number", [0.0, -1.0, 1e300, 1e-300, np.nan, np.inf])
@pytest.mark.parametrize("whole", [False, True])
def test_odd_numbers_are_audited_quietly(number, whole):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = audit(PROBLEM, Holdings(PROBLEM, np.full((3, 3), number), whole_tasks=whole))
        rows = strict(found)
    assert rows[0]["verdict"] == ("holds" if number == 0 else "fails")
    if not np.isfinite(number):
        assert {row["verdict"] for row in rows[1:]} == {"unknown"}


def test_lists_and_whole_numbers_are_tables_too():
    whole = [[1, 0, 1], [0, 1, 0], [1, 0, 1]]
    expected = strict(audit(PROBLEM, np.array(whole, dtype=float)))
    for same in (whole, np.array(whole), Holdings(PROBLEM, whole)):
        assert strict(audit(PROBLEM, same)) == expected


@pytest.mark.parametrize(
    "problem",
    [
        Problem.from_arrays([[3.0]], [[1.0]]),
        Problem.from_arrays([[3.0], [0.0]], [[1.0]], task_limit=[1e-9]),
        Problem.from_arrays([[3.0, 0.0]], [[1.0, 0.0], [2.0, 0.0]], task_limit=[1e12, 1e-3]),
        Problem.from_arrays([[1e12]], [[1e-9], [1e9]], weight=[1e-6, 1e6]),
        Problem.from_arrays([[1.0], [2.0]], [[0.0], [1.0]], rates=[[2.0, 0.0], [np.nan] * 2]),
    ],
)
@pytest.mark.parametrize("mechanism", ["ps-dsf", "ps-dsf-tdm", "drf-tasks"])
def test_odd_problems_are_audited(problem, mechanism):
    """These mechanisms lack nothing here that is asked; what a new property finds may be right."""
    try:
        solve(problem, mechanism)
    except (RefusalError, CertificateError):
        with pytest.raises((RefusalError, CertificateError)):
            audit(problem, mechanism)
        return
    rows = strict(audit(problem, mechanism, lies=10, fair=mechanism))
    assert rows[0]["verdict"] == "holds"
    failing = {row["name"]: row["sentence"] for row in rows if row["verdict"] == "fails"}
    assert not failing, f"{mechanism} lacks something here: {failing}"
    nobody = np.zeros((problem.n_users, problem.n_groups))
    idle = audit(problem, nobody)
    strict(idle)
    assert idle["non-wastefulness"].verdict == "fails"


def test_some_properties_in_their_order_and_no_others():
    found = audit(PROBLEM, "tsf", properties=["pareto-optimality", "feasibility"])
    assert [verdict.name for verdict in found] == ["feasibility", "pareto-optimality"]
    with pytest.raises(InputError, match="properties"):
        audit(PROBLEM, "tsf", properties=["pareto"])
    with pytest.raises(InputError, match="option"):
        audit(PROBLEM, np.zeros((3, 3)), alpha=2)
    fair = audit(PROBLEM, np.zeros((3, 3)), fair="alpha-fair", alpha=0.5).fair
    assert fair.user_tasks.tolist() == solve(PROBLEM, "alpha-fair", alpha=0.5).user_tasks.tolist()


def test_amounts_that_are_no_numbers_are_told():
    amounts = np.ones((3, 3, 2))
    amounts[1, 2, 0] = np.nan
    found = audit(PROBLEM, Holdings(PROBLEM, np.ones((3, 3)), amounts=amounts))
    rows = strict(found)
    witness = {"kind": "not-a-number", "user": "u2", "group": "g3", "tasks": 1.0}
    assert rows[0]["witness"] == witness
    assert {row["verdict"] for row in rows[1:]} == {"unknown"}


def test_a_named_function_that_is_not_feasible_has_verdicts():
    """As the function itself has, whose answers to lies are left out likewise."""

    def twice(problem):
        return 2 * problem.gamma

    fairlead.mechanism("twice")(twice)
    by_name, by_itself = audit(PROBLEM, "twice", lies=5), audit(PROBLEM, twice, lies=5)
    assert by_name["feasibility"].verdict == "fails"
    assert [v.sentence for v in by_name] == [v.sentence for v in by_itself]
    with pytest.raises(CertificateError):
        fairlead.solve(PROBLEM, "twice")


@pytest.mark.parametrize("fault", [RuntimeError("no convergence"), SystemExit(3)])
@pytest.mark.parametrize("is_named", [True, False])
def test_a_function_that_fails_for_lies_keeps_its_other_verdicts(is_named, fault):
    def flaky(problem):
        if problem.n_users == 3 and (problem.users.demand != PROBLEM.users.demand).any():
            raise fault
        return solve(problem, "drfh").tasks

    fairlead.mechanism("flaky")(flaky)
    found = audit(PROBLEM, "flaky" if is_named else flaky, lies=9)
    assert found["envy-freeness"].verdict in ("holds", "fails")
    assert found["strategy-proofness"].verdict == "unknown"
    assert f" ({type(fault).__name__}: {fault} (" in found["strategy-proofness"].sentence

    def always(_problem):
        raise fault

    with pytest.raises(FairleadError, match="always"):
        audit(PROBLEM, always)
