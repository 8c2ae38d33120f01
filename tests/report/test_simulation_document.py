"""Documents of simulations show the numbers of the runs."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from handmade_answers import HOSTILE

from fairlead.model.cluster import FloatArray
from fairlead.model.problem import Problem
from fairlead.model.workload import Workload
from fairlead.report._policy_comparison import HALF_SECOND, compare_with_reference, takes_too_much
from fairlead.report.document import Document
from fairlead.report.numbers import duration
from fairlead.report.page import to_page
from fairlead.report.simulation_document import simulation_document
from fairlead.simulation._dedicated import replay_dedicated
from fairlead.simulation.metrics.summary import summarise
from fairlead.simulation.runs import recorded_run
from fairlead.simulation.simulate import Outcome
from oracles.plain_replay import plain_replay
from oracles.random_workloads import random_workload
from page_reader import Reader, figure_of, figures_of, read_harmless

ODD = f"{HOSTILE}\"'%{{x}} {{{{ 7 * 6 }}}} 用户\u202e" + "long" * 60
LARGEST_PAGE = 1_000_000
GAINS = "Users that gain and lose"
DEDICATED = ("drf/best-fit", "drf/best-fit, dedicated")


def outcome(workload: Workload, policy: str, name: str = "") -> Outcome:
    return measured(Outcome(name or policy, workload, plain_replay(workload, policy)))


def measured(outcome: Outcome, instants: int = 4) -> Outcome:
    """Return the outcome with fair shares at fewer instants than usual, to save time."""
    vars(outcome)["summary"] = summarise(outcome.workload, outcome.log, instants=instants)
    return outcome


def outcomes_of(workload: Workload, *policies: str) -> dict[str, Outcome]:
    return {policy: outcome(workload, policy) for policy in policies}


def odd_names(workload: Workload) -> Workload:
    cluster = workload.cluster
    return replace(
        workload,
        cluster=replace(
            cluster,
            groups=tuple(f"{name}{ODD}" for name in cluster.groups),
            resources=tuple(f"{name}{ODD}" for name in cluster.resources),
        ),
        users=tuple(f"{name}{ODD}" for name in workload.users),
        job_names=np.array([f"{name}{ODD}" for name in workload.job_names.tolist()]),
    )


def one_kind(amounts: list[float], users: int = 1) -> Workload:
    """Return a server of one cpu and jobs of one task, ten seconds apart, of the given amounts."""
    submit = np.arange(len(amounts)) * 10.0
    return workload_of([[1.0]], [[amount] for amount in amounts], submit, users=users)


def workload_of(
    capacity: list[list[float]],
    shapes: list[list[float]],
    submit: FloatArray,
    duration: float | FloatArray = 60.0,
    start: FloatArray | None = None,
    users: int = 1,
) -> Workload:
    """Return servers of the given capacities, and jobs of a task each, of users in turn."""
    n_jobs, names = len(shapes), ("cpu", "mem")[: len(shapes[0])]
    return Workload.from_arrays(
        Problem.from_arrays(capacity, shapes, resources=names).cluster,
        [f"user-{n}" for n in range(users)],
        job_user=np.arange(n_jobs) % users,
        job_submit=submit,
        set_job=range(n_jobs),
        set_tasks=[1] * n_jobs,
        shapes=shapes,
        set_shape=range(n_jobs),
        task_duration=np.broadcast_to(duration, n_jobs),
        task_start=start,
    )


@cache
def runs(name: str) -> dict[str, Outcome]:
    if name == "one policy":
        return outcomes_of(random_workload(5), "drf/best-fit")
    if name == "one user":
        return outcomes_of(one_kind([0.6, 0.4]), "drf/best-fit", "slots:2")
    if name == "nothing runs":
        return outcomes_of(one_kind([2.0, 3.0], users=2), "drf/best-fit", "slots:1")
    if name == "odd names":
        return outcomes_of(odd_names(random_workload(7)), "drf/best-fit", "slots:4")
    if name == "recorded":
        # A foreign log: the times of the last two jobs are unknown, and the third never ran.
        workload = odd_names(one_kind([0.6] * 6, users=3))
        late = np.array([0.0, 100.0, np.inf, 30.0, np.nan, np.nan])
        workload = replace(workload, task_start=workload.job_submit + late)
        log = measured(Outcome("recorded", workload, recorded_run(workload)))
        return {**outcomes_of(workload, "drf/best-fit"), "recorded": log}
    assert name == "what if"
    workload = random_workload(11)
    heavy = replace(workload, weight=workload.weight * np.arange(1, workload.n_users + 1))
    alone = replay_dedicated(workload, "drf/best-fit", plain_replay)
    return {
        **outcomes_of(workload, "drf/best-fit", "slots:3", "tsf/first-fit"),
        "drf/best-fit, weight": outcome(heavy, "drf/best-fit", "drf/best-fit, weight"),
        "drf/best-fit, dedicated": measured(Outcome("drf/best-fit, dedicated", workload, alone)),
    }


NAMES = ["one policy", "one user", "nothing runs", "odd names", "recorded", "what if"]


@cache
def document_of(name: str) -> Document:
    dedicated = DEDICATED if name == "what if" else None
    return simulation_document(runs(name), f"trace {ODD}", dedicated=dedicated)


@cache
def page_of(name: str) -> str:
    return to_page(document_of(name))


def read(name: str) -> tuple[Reader, str, dict[str, Any]]:
    reader = Reader(page_of(name))
    return reader, reader.text, figures_of(document_of(name))


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_harmless_and_every_picture_has_its_data(name: str) -> None:
    reader, shown, figures = read_harmless(page_of(name)), *read(name)[1:]
    assert "{{ 7 * 6 }}" in shown  # it is in the title, as it is
    assert len(reader.pictures()) == len(figures)
    assert not re.search(r"\bnan\b|\binf\b|None", shown)
    assert ("Gains and losses" in shown) == (name != "one policy")


@pytest.mark.parametrize("name", NAMES)
def test_the_verdict_warns_where_a_user_got_nothing(name: str) -> None:
    reader, shown, _ = read(name)
    shared = {policy: found for policy, found in runs(name).items() if "dedicated" not in policy}
    facts = {policy: found.to_dict() for policy, found in shared.items()}
    starved = [policy for policy, f in facts.items() if f["got_nothing"] or f["never_ran"]]
    classes = [a.get("class") for _, a in reader.elements]
    assert f"opening {'fails' if starved else 'muted'}" in classes
    assert (re.search("[Ee]very user (with) [^.]+ ran something", shown) is None) == bool(starved)
    for policy in starved:
        never = re.search(f"[Uu]nder {re.escape(policy)} [^;:]* never ran anything", shown)
        assert (never is not None) == bool(facts[policy]["never_ran"])


@pytest.mark.parametrize("name", ["recorded", "what if", "nothing runs"])
def test_gains_and_losses_are_counted(name: str) -> None:
    dedicated = DEDICATED if name == "what if" else None
    others = compare_with_reference(runs(name), None, dedicated).others
    rows = Reader(page_of(name)).numbers(GAINS)
    for against, row in zip(others, rows, strict=True):
        found = against.comparison
        users = (found.gained, found.lost, against.unchanged, found.unknown)
        means = np.array([*against.means("completion"), *against.means("wait")])
        expected = [*(chosen.sum() for chosen in users), *np.nan_to_num(means, nan=1e300)]
        assert row == pytest.approx(expected)


def test_the_table_of_policies_has_the_figures() -> None:
    outcomes = runs("what if")
    reader, _, _ = read("what if")
    times: list[float | None] = []
    fair: list[float | None] = []
    for found in (outcome.to_dict() for outcome in outcomes.values()):
        times += [found[key] for key in ("completed", "unplaceable", "waiting", "lost", "makespan")]
        times += [found[f"{key}_time"] for key in ("mean_completion", "p95_completion")]
        times += [found["mean_wait"], found["mean_task_wait"]]
        fair += [*found["horizon"]["utilization"].values(), found["fairness_error"]]
        fair += [found["fairness"]["over_a_week"], found["jain"]]
        fair += [found["fairness"]["jain"], found["least_share"]]
    for about, expected in (("Times under each", times), ("Use and fairness", fair)):
        values = [value for row in reader.numbers(about) for value in row]
        assert values == pytest.approx([1e300 if v is None else v for v in expected])


def test_a_user_that_waits_loses() -> None:
    """Under DRF both jobs run at once; the larger takes both slots, and the other waits 50 s."""
    reader, shown, _ = read("one user")
    wait = "under slots:2 the mean wait is 25 s in place of 0 s, and "
    assert f"{wait}0 of 1 user gain, 1 loses (completion time of user-0 +41.7 %)" in shown
    assert reader.numbers(GAINS) == [[0, 1, 0, 0, 85, 60, 25, 0]]
    cells = [a for _, a in reader.table("Mean completion time of each user") if "data-value" in a]
    (values,) = reader.numbers("Mean completion time of each user")
    assert values == pytest.approx([2, 2, 60, 0, 85 / 60])
    assert "+41.7 % waits +25 s" in shown
    assert str(cells[-1]["class"]).split() == ["num", "bad"]


def test_the_recorded_run_is_the_reference() -> None:
    outcomes = runs("recorded")
    reader, shown, _ = read("recorded")
    assert "Reference: recorded, the schedule in the log." in shown
    assert "The log lacks the times of 2 tasks of 2 jobs: under recorded these" in shown
    assert len(reader.numbers(GAINS)) == 1
    found = outcomes["recorded"].to_dict()
    assert list(found["got_nothing"].values()) == [150.0, 100.0]
    assert duration(150.0) in shown
    page = to_page(simulation_document(outcomes, "x", reference="drf/best-fit"))
    verdict = "Reference: drf/best-fit, a replay and not the schedule in the log"
    assert verdict in Reader(page).text


def test_users_that_wait_longest_come_first() -> None:
    """Jobs of the whole server are submitted ten seconds apart, and run for a minute each."""
    outcomes = outcomes_of(one_kind([1.0] * 3, users=3), "drf/first-fit")
    shown = to_page(simulation_document(outcomes, "x"))
    assert Reader(shown).numbers("Mean wait of each user's jobs") == [[1, 100], [1, 50]]
    idle = outcomes_of(one_kind([1.0], users=1), "drf/first-fit")
    assert "User by user" not in Reader(to_page(simulation_document(idle, "x"))).text


def test_jobs_that_never_ran_are_named() -> None:
    reader, shown, figures = read("nothing runs")
    assert "2 tasks of 2 jobs, under every policy: job-0, job-1" in shown
    assert "No task ever started." in shown
    assert len(figures) > 0
    assert not any(about.startswith("Distribution") for about in reader.pictures())
    assert "but 2 tasks can run nowhere" in shown


def test_sharing_is_compared_with_being_alone() -> None:
    outcomes = runs("what if")
    shown = read("what if")[1]
    shared, alone = (outcomes[name].summary.users.completion_ratio for name in DEDICATED)
    users, fewer = int((~np.isnan(shared)).sum()), int((shared < alone).sum())
    assert f"sharing: {fewer} of {users} user" in shown
    sharing = compare_with_reference(outcomes, None, DEDICATED).sharing
    assert sharing is not None
    compared = sharing.comparison.jobs > 0
    slower = (sharing.comparison.lost & compared).sum()
    assert f"and {slower} of {compared.sum()} have slower jobs on average" in shown
    # The dedicated servers have times of their own, but are no policy.
    resource = outcomes["drf/best-fit"].workload.cluster.resources[0]
    for about, lines in ((f"Use of {resource}", 4), ("Distribution of job completion", 5)):
        assert len(figure_of(document_of("what if"), about).traces) == lines


def test_large_runs_give_pages_that_a_browser_opens() -> None:
    random = np.random.default_rng(1)
    n_jobs = 5_000
    submit = np.sort(random.uniform(0, 86_400, n_jobs))
    shapes = random.uniform(0.01, 0.1, (n_jobs, 2)).tolist()
    duration = random.uniform(1, 1000, n_jobs)
    outcomes = {}
    for name in ("policy-0", "policy-1", "policy-2"):
        start = submit + random.exponential(100, n_jobs)
        workload = workload_of([[900.0, 900.0]], shapes, submit, duration, start, users=300)
        outcomes[name] = measured(Outcome(name, workload, recorded_run(workload)), instants=1)
    large = simulation_document(outcomes, "x")
    assert len(to_page(large)) < LARGEST_PAGE
    for what in ("job completion times", "the slowdown of jobs"):
        figure = figure_of(large, f"Distribution of {what}")
        assert max(len(trace.x) for trace in figure.traces) <= 500
    assert max(len(trace.y) for trace in figure_of(large, "Use of cpu").traces) <= 400


# One after the other: the next one starts in the second in which the last one ended.
IN_TURN = [(k // 2, (k + 1) // 2) for k in range(8)]


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        (IN_TURN, False),
        ([(5, 5)] * 9 + [(5, 6)], False),
        ([*IN_TURN, (2, 3), (2, 3)], True),  # of a second each, beside those of 0 s
        # Bins of 2000 s, in one of which 1 s (.05 %) or 3 s (.15 %) are taken twice.
        ([(0, 300_501), (300_500, 600_000)], False),
        ([(0, 300_503), (300_500, 600_000)], True),
    ],
)
def test_rounded_times_are_no_overuse(jobs: list[tuple[int, int]], expected: bool) -> None:
    """Each job takes the whole server from its start to its end, in seconds."""
    start, end = np.array(jobs, dtype=float).T
    duration = np.maximum(end - start, HALF_SECOND)
    workload = workload_of([[1.0]], [[1.0]] * len(jobs), np.zeros(len(jobs)), duration, start)
    outcome = measured(Outcome("recorded", workload, recorded_run(workload)), instants=0)
    assert takes_too_much(outcome) == expected
