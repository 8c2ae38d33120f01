"""The page of a simulation is whole, harmless, and shows the numbers."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from handmade_answers import HOSTILE
from page_reader import Reader
from plotly.offline import get_plotlyjs

from fairlead.metrics.outcomes import Outcome
from fairlead.metrics.summary import summarise
from fairlead.model.cluster import Cluster
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from fairlead.report.simulation_page import simulation_page
from fairlead.report.simulation_standing import standing_of
from fairlead.report.times import short_duration
from fairlead.simulation.dedicated import replay_dedicated
from fairlead.simulation.recorded import recorded_run
from oracles.plain_replay import plain_replay
from oracles.random_workloads import random_workload

ODD = f"{HOSTILE}\"'%{{x}} {{{{ 7 * 6 }}}} 用户\u202e" + "long" * 60
LARGEST_PAGE = 8_000_000


def outcome(workload: Workload, policy: str, name: str = "") -> Outcome:
    return measured(Outcome(name or policy, workload, plain_replay(workload, policy)))


def measured(outcome: Outcome, instants: int = 4) -> Outcome:
    """The outcome with what is fair at fewer instants than usual, which is quicker."""
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
    """A server of one cpu, and a job of one task for each amount, ten seconds apart."""
    n_jobs = len(amounts)
    return Workload.from_arrays(
        Cluster(("s",), ("cpu",), np.ones((1, 1)), np.array([1]), ("",), ({},)),
        [f"user-{n}" for n in range(users)],
        job_user=np.arange(n_jobs) % users,
        job_submit=np.arange(n_jobs) * 10.0,
        set_job=range(n_jobs),
        set_tasks=[1] * n_jobs,
        shapes=[[amount] for amount in amounts],
        task_duration=[60.0] * n_jobs,
    )


@cache
def runs(name: str) -> dict[str, Outcome]:
    if name == "one policy":
        return outcomes_of(random_workload(5), "drf/best-fit")
    if name == "one user":
        return outcomes_of(one_kind([0.6, 0.4]), "drf/best-fit", "slots:2")
    if name == "nothing runs":
        return outcomes_of(one_kind([2.0, 3.0], users=2), "drf/best-fit", "slots:1")
    if name == "slots run nothing":
        # A slot is as large as a server with the most of each, which there is not.
        cluster = Cluster(
            ("a", "b"), ("cpu", "mem"), np.array([[1.0, 0.5], [0.5, 1.0]]), np.ones(2, dtype=int),
            ("", ""), ({}, {}),
        )  # fmt: skip
        workload = Workload.from_arrays(
            cluster,
            ["ana", "bo"],
            job_user=[0, 1],
            job_submit=[0, 10],
            set_job=[0, 1],
            set_tasks=[1, 1],
            shapes=[[0.5, 0.5], [0.4, 0.1]],
            task_duration=[60, 60],
        )
        return outcomes_of(workload, "drf/best-fit", "slots:1")
    if name == "at once":
        return outcomes_of(one_kind([1.0], users=3), "drf/best-fit", "ps-dsf/joint")
    if name == "odd names":
        return outcomes_of(odd_names(random_workload(7)), "drf/best-fit", "slots:4")
    if name == "recorded":
        # Somebody else's log: of the last two jobs nobody knows when they ran, the third never did.
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


NAMES = [
    "one policy",
    "one user",
    "nothing runs",
    "slots run nothing",
    "at once",
    "odd names",
    "recorded",
    "what if",
]


@cache
def page_of(name: str) -> str:
    dedicated = ("drf/best-fit", "drf/best-fit, dedicated") if name == "what if" else None
    return simulation_page(runs(name), f"trace {ODD}", dedicated=dedicated)


def read(name: str) -> tuple[Reader, str, dict[str, Any]]:
    reader = Reader(page_of(name))
    shown = " ".join("".join(reader.shown).replace("\u00a0", " ").split())
    return reader, shown, reader.embedded("figures")


@pytest.mark.parametrize("name", NAMES)
def test_a_page_fetches_nothing_and_every_picture_has_its_data(name: str) -> None:
    reader, shown, figures = read(name)
    assert reader.open == []
    assert "b" not in [tag for tag, _ in reader.elements]
    assert len(reader.scripts) == 3
    page = page_of(name).replace(get_plotlyjs(), "")
    assert not re.search(r"https?:|url\(|@import|fetch\(", page)
    assert "{{ 7 * 6 }}" in shown  # it is in the title, as it is
    drawn = [a["data-figure"] for _, a in reader.elements if "data-figure" in a]
    assert sorted(figures) == sorted(d for d in drawn if d)
    assert not re.search(r"\bnan\b|\binf\b|None", shown)


@pytest.mark.parametrize("name", NAMES)
def test_lines_that_a_legend_names_can_be_hidden(name: str) -> None:
    reader, _, figures = read(name)
    keys = {a["data-toggles"] for _, a in reader.elements if "data-toggles" in a}
    groups = {
        trace["legendgroup"]
        for figure in figures.values()
        for trace in figure["data"]
        if "legendgroup" in trace
    }
    assert groups <= keys
    assert bool(groups) == (name != "nothing runs") or groups == keys


def test_names_with_tags_reach_pictures_as_text() -> None:
    _, _, figures = read("odd names")
    names = [trace.get("name", "") for figure in figures.values() for trace in figure["data"]]
    texts = [
        text
        for figure in figures.values()
        for trace in figure["data"]
        for text in trace.get("text", [])
    ]
    for text in names + texts:
        assert not re.search(r"<(?!/?b>|br>)|<b>&amp;", text)
        assert len(text) < 300
    templates = [t.get("hovertemplate", "") for f in figures.values() for t in f["data"]]
    assert not any("user" in template for template in templates)


@pytest.mark.parametrize("name", ["one user", "odd names", "what if"])
def test_who_gained_and_lost_is_counted(name: str) -> None:
    outcomes = runs(name)
    _, shown, _ = read(name)
    today = next(iter(outcomes.values())).summary
    for policy, ours in outcomes.items():
        if ours.summary is today or "dedicated" in policy:
            continue
        gained = lost = 0
        completion, before = ours.summary.jobs.completion, today.jobs.completion
        both = ~np.isnan(completion + before)
        done, done_before = ours.summary.users.completed, today.users.completed
        for n in range(today.workload.n_users):
            jobs = both & (today.workload.job_user == n)
            if jobs.any():
                change = completion[jobs].mean() / before[jobs].mean() - 1
                gained += change < -1e-9
                lost += change > 1e-9
            else:
                gained += done[n] > done_before[n]
                lost += done[n] < done_before[n]
        card = shown[shown.index(f" {policy} {gained} of ") :]
        assert card.startswith(f" {policy} {gained} of {today.workload.n_users} users gained")
        assert re.match(rf"[^:.]*(:.*?)?\. {lost} lost", card.removeprefix(f" {policy}"))


@pytest.mark.parametrize("name", NAMES)
def test_mean_waits_are_of_the_jobs_complete_under_both(name: str) -> None:
    standing = standing_of(runs(name))
    _, shown, _ = read(name)
    for against in standing.others:
        waits = [
            pair
            for pair in zip(
                against.outcome.summary.jobs.wait, against.today.summary.jobs.wait, strict=True
            )
            if not np.isnan(pair).any()
        ]
        if not waits:
            assert "waiting none is complete under both" in shown
            continue
        ours, theirs = (short_duration(mean).replace("\u00a0", " ") for mean in np.mean(waits, 0))
        means = f"{ours}, as today" if ours == theirs else f"{ours} instead of {theirs}"
        assert f"waiting {means} in the mean of those jobs" in shown


def test_the_table_of_policies_has_the_figures() -> None:
    outcomes = runs("what if")
    reader, _, _ = read("what if")
    values = [float(str(a["data-value"])) for _, a in reader.elements if "data-value" in a]
    expected = []
    for found in (outcome.to_dict() for outcome in outcomes.values()):
        row = [found[key] for key in ("completed", "unplaceable", "makespan")]
        row += [found[f"{key}_time"] for key in ("mean_completion", "p95_completion")]
        row += [found["mean_wait"], found["mean_task_wait"]]
        row += [*found["horizon"]["utilization"].values(), found["fairness_error"]]
        row += [found["jain"], found["fairness"]["jain"], found["least_share"]]
        expected += [1e300 if value is None else value for value in row]
    assert values[: len(expected)] == pytest.approx(expected)


def test_what_is_said_of_one_user() -> None:
    """Under DRF both jobs run at once; the larger takes both slots, and the other waits 50 s."""
    _, shown, _ = read("one user")
    assert "0 of 1 users gained. 1 lost: user-0, +41.7 % (85 s instead of 60 s, 2 jobs)." in shown
    for fact in (
        "jobs mean completion 85 s instead of 60 s (+41.7 %), of those complete under both",
        "waiting 25 s instead of 0 s in the mean of those jobs; 1 user waits longer (user-0, "
        "+25 s)",
        "used, first 10 s cpu 60 %, as today",
        "makespan 2 min instead of 70 s",
    ):
        assert fact in shown
    row = page_of("one user").split('<tr><th scope="row">user-0</th>')[1].split("</tr>")[0]
    values = [float(value) for value in re.findall(r'data-value="([^"]*)"', row)]
    assert values == pytest.approx([2, 2, 60, 0, 85 / 60])
    assert "+41.7\u00a0%<small>waits +25\u00a0s</small>" in row
    assert 'class="num bad"' in row


def test_today_may_be_another() -> None:
    outcomes = runs("what if")
    page = simulation_page(outcomes, "x", today="slots:3")
    shown = " ".join("".join(Reader(page).shown).split())
    assert "Today's policy: slots:3." in shown
    cards = re.findall(r'<li style="border-top-color: [^"]*"><h3>(.*?)</h3>', page)
    assert cards == [name for name in outcomes if name != "slots:3"]


def test_what_is_recorded_is_today_wherever_it_stands() -> None:
    outcomes = runs("recorded")
    _, shown, _ = read("recorded")
    assert (
        "Today: recorded, what the log says happened. When 2 of its tasks ran it does not say: "
        "under that name they count nowhere." in shown
    )
    assert re.findall(
        r'<li style="border-top-color: [^"]*"><h3>(.*?)</h3>', page_of("recorded")
    ) == ["drf/best-fit"]
    assert "recorded: got nothing while waiting: 2 of 3 users: user-2" in shown
    assert "not known when they ran 2 tasks of 2 jobs: in recorded they are in no figure" in shown
    found = outcomes["recorded"].to_dict()
    assert list(found["got_nothing"].values()) == [150.0, 100.0]
    page = simulation_page(outcomes, "x", today="drf/best-fit")
    shown = " ".join("".join(Reader(page).shown).split())
    assert "Today's policy: drf/best-fit. It is a replay, and not what the log says" in shown


def test_of_one_policy_there_is_nothing_to_gain() -> None:
    _, shown, figures = read("one policy")
    assert "There is one policy only" in shown
    assert "ratios" not in figures
    assert "reduction" not in figures


def test_what_never_ran_is_named_and_nothing_is_drawn_of_it() -> None:
    _, shown, figures = read("nothing runs")
    assert "2 tasks of 2 jobs, under every policy: job-0, job-1" in shown
    assert "No task ever started." in shown
    assert not {"completion", "waiting", "slowdown"} & set(figures)
    _, shown, _ = read("slots run nothing")
    assert "2 tasks of 2 jobs, under slots:1: job-0, job-1" in shown
    assert "could not run 2 tasks instead of 0 tasks" in shown
    assert "jobs none is complete under both" in shown
    assert "0 of 2 users gained. 2 lost: by tasks completed." in shown


def test_sharing_is_held_against_being_alone() -> None:
    outcomes = runs("what if")
    _, shown, figures = read("what if")
    shared, alone = (
        outcomes[name].summary.users.completion_ratio
        for name in ("drf/best-fit", "drf/best-fit, dedicated")
    )
    users = int((~np.isnan(shared)).sum())
    fewer = int((shared < alone).sum())
    assert f"of users ({fewer} of {users}) have fewer tasks done" in shown
    (trace,) = figures["sharing"]["data"]
    points = sorted(zip(trace["x"], trace["y"], strict=True))
    expected = sorted(zip(alone[~np.isnan(shared)], shared[~np.isnan(shared)], strict=True))
    assert np.array(points) == pytest.approx(np.array(expected), rel=1e-3)
    # It is a run of its own time, and nobody's policy.
    assert len(figures["used-0"]["data"]) == 4
    assert len(figures["completion"]["data"]) == 5
    assert not any(key.startswith("done-4") for key in figures)


def test_large_runs_give_pages_that_a_browser_opens() -> None:
    random = np.random.default_rng(1)
    n_users, n_jobs = 930, 100_000
    workload = Workload.from_arrays(
        Cluster(("s",), ("cpu", "mem"), np.ones((1, 2)), np.array([900]), ("", ""), ({},)),
        [f"somebody-with-a-name-{n}" for n in range(n_users)],
        job_user=random.integers(0, n_users, n_jobs),
        job_submit=np.sort(random.uniform(0, 86_400, n_jobs)),
        set_job=range(n_jobs),
        set_tasks=[1] * n_jobs,
        shapes=random.uniform(0.01, 0.1, (100, 2)),
        set_shape=random.integers(0, 100, n_jobs),
        task_duration=random.uniform(1, 1000, n_jobs),
    )
    task = np.arange(n_jobs, dtype=np.int32)
    outcomes = {}
    for k in range(6):
        start = workload.job_submit + random.exponential(100 * (k + 1), n_jobs)
        log = RunLog(
            f"policy-{k}",
            task,
            task % 900,
            start,
            start + workload.task_duration,
            np.zeros(n_jobs, dtype=bool),
            np.zeros(workload.n_sets, dtype=bool),
        )
        outcomes[f"policy-{k}"] = measured(Outcome(f"policy-{k}", workload, log), instants=1)
    page = simulation_page(outcomes, "x")
    assert len(page) - len(get_plotlyjs()) < LARGEST_PAGE
    figures = Reader(page).embedded("figures")
    for key in ("completion", "slowdown", "waiting"):
        assert max(len(trace["x"]) for trace in figures[key]["data"]) <= 500
    assert max(len(trace["y"]) for trace in figures["used-0"]["data"]) <= 400
