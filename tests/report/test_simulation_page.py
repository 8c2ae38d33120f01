"""The page of a simulation is whole, harmless, and shows the numbers."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from handmade_answers import HOSTILE

from fairlead.model.cluster import Cluster
from fairlead.model.run_log import RunLog
from fairlead.model.workload import Workload
from fairlead.report.numbers import short_duration
from fairlead.report.page import to_page
from fairlead.report.simulation import simulation_document
from fairlead.report.simulation_against import against_today
from fairlead.simulation._dedicated import replay_dedicated
from fairlead.simulation.metrics.summary import summarise
from fairlead.simulation.runs import recorded_run
from fairlead.simulation.simulate import Outcome
from oracles.plain_replay import plain_replay
from oracles.random_workloads import random_workload
from page_reader import PACKED, Reader

ODD = f"{HOSTILE}\"'%{{x}} {{{{ 7 * 6 }}}} 用户\u202e" + "long" * 60
LARGEST_PAGE = 2_800_000


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
    return to_page(simulation_document(runs(name), f"trace {ODD}", dedicated=dedicated))


def read(name: str) -> tuple[Reader, str, dict[str, Any]]:
    reader = Reader(page_of(name))
    return reader, reader.text, reader.figures


def cards_of(page: str) -> list[str]:
    return re.findall(r'<article class="card [^>]*>\s*<h4>(.*?)</h4>', page)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_fetches_nothing_and_every_picture_has_its_data(name: str) -> None:
    reader, shown, figures = read(name)
    assert reader.open == []
    assert "b" not in [tag for tag, _ in reader.elements]
    assert len(reader.scripts) == 3
    page = PACKED.sub("", page_of(name)) + json.dumps(figures)
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
    assert groups == keys != set()


@pytest.mark.parametrize("name", NAMES)
def test_the_opening_warns_where_somebody_got_nothing(name: str) -> None:
    reader, shown, _ = read(name)
    shared = {policy: found for policy, found in runs(name).items() if "dedicated" not in policy}
    facts = {policy: found.to_dict() for policy, found in shared.items()}
    starved = [policy for policy, f in facts.items() if f["got_nothing"] or f["never_ran"]]
    classes = [a.get("class") for _, a in reader.elements]
    assert f"opening {'fails' if starved else 'holds'}" in classes
    assert (re.search("[Ee]very user (with|whose) [^.]+ ran something", shown) is None) == bool(
        starved
    )
    for policy in starved:
        said = re.search(f"[Uu]nder {re.escape(policy)} ([^;.]+)", shown)
        assert said is not None
        assert ("never ran anything" in said[1]) == bool(facts[policy]["never_ran"])


def test_users_that_never_ran_are_named() -> None:
    """One whose task fits nowhere runs nothing, and neither ticks nor silence say otherwise."""
    outcomes = outcomes_of(one_kind([0.5, 2.0], users=2), "drf/best-fit")
    assert outcomes["drf/best-fit"].to_dict()["never_ran"] == ["user-1"]
    reader = Reader(to_page(simulation_document(outcomes, "x")))
    assert "opening fails" in [a.get("class") for _, a in reader.elements]
    assert "Under drf/best-fit user-1 never ran anything." in reader.text


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
                gained += change < -1e-3
                lost += change > 1e-3
            else:
                gained += done[n] > done_before[n]
                lost += done[n] < done_before[n]
        card = shown[shown.rindex(f" {policy} {gained} of ") :]
        users = "user" if today.workload.n_users == 1 else "users"
        assert card.startswith(f" {policy} {gained} of {today.workload.n_users} {users} gain")
        assert re.match(rf"[^:.]*(:.*?)?\. {lost} lose", card.removeprefix(f" {policy}"))
        if policy == next(name for name in outcomes if outcomes[name].summary is not today):
            said = f"under {policy}: {gained} of {today.workload.n_users} {users} gain"
            assert said in shown
        elif len(outcomes) <= 4:
            assert f"under {policy}: {gained} gain" in shown


@pytest.mark.parametrize("name", NAMES)
def test_mean_waits_are_of_the_jobs_complete_under_both(name: str) -> None:
    standing = against_today(runs(name))
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
        means = f"{ours}, unchanged" if ours == theirs else f"{ours} instead of {theirs}"
        assert f"waiting {means} in the mean of those jobs" in shown


def test_the_table_of_policies_has_the_figures() -> None:
    outcomes = runs("what if")
    reader, _, _ = read("what if")
    times: list[float | None] = []
    fair: list[float | None] = []
    for found in (outcome.to_dict() for outcome in outcomes.values()):
        times += [found[key] for key in ("completed", "unplaceable", "makespan")]
        times += [found[f"{key}_time"] for key in ("mean_completion", "p95_completion")]
        times += [found["mean_wait"], found["mean_task_wait"]]
        fair += [*found["horizon"]["utilization"].values(), found["fairness_error"]]
        fair += [found["jain"], found["fairness"]["jain"], found["least_share"]]
    for about, expected in (("How long things take", times), ("How full and how fair", fair)):
        table = reader.table(about)
        values = [float(str(a["data-value"])) for _, a in table if "data-value" in a]
        assert values == pytest.approx([1e300 if v is None else v for v in expected])


def test_what_is_said_of_one_user() -> None:
    """Under DRF both jobs run at once; the larger takes both slots, and the other waits 50 s."""
    _, shown, _ = read("one user")
    assert "0 of 1 user gains. 1 loses: user-0, +41.7 % (85 s instead of 60 s, 2 jobs)." in shown
    for fact in (
        "jobs mean completion 85 s instead of 60 s (+41.7 %), of those complete under both",
        "waiting 25 s instead of 0 s in the mean of those jobs; 1 user waits longer (user-0, "
        "+25 s)",
        "used, first 10 s cpu 60 %, unchanged",
        "makespan 2 min instead of 70 s",
    ):
        assert fact in shown
    reader, _, _ = read("one user")
    cells = [a for _, a in reader.table("Mean completion time of each user") if "data-value" in a]
    values = [float(str(cell["data-value"])) for cell in cells]
    assert values == pytest.approx([2, 2, 60, 0, 85 / 60])
    assert "+41.7 % waits +25 s" in shown
    assert str(cells[-1]["class"]).split() == ["num", "bad"]


def test_today_may_be_another() -> None:
    outcomes = runs("what if")
    page = to_page(simulation_document(outcomes, "x", today="slots:3"))
    assert "Today's policy: slots:3." in Reader(page).text
    assert cards_of(page) == [name for name in outcomes if name != "slots:3"]


def test_what_is_recorded_is_today_wherever_it_stands() -> None:
    outcomes = runs("recorded")
    _, shown, _ = read("recorded")
    assert "Today: recorded, what the log says happened." in shown
    assert (
        "When 2 tasks of 2 jobs ran is not known: under recorded they count nowhere; its figures "
        "do not compare with the others'." in shown
    )
    assert cards_of(page_of("recorded")) == ["drf/best-fit"]
    assert "recorded: got nothing while waiting: 2 of 3 users: user-2" in shown
    assert "not known when they ran 2 tasks of 2 jobs: in recorded they are in no figure" in shown
    found = outcomes["recorded"].to_dict()
    assert list(found["got_nothing"].values()) == [150.0, 100.0]
    page = to_page(simulation_document(outcomes, "x", today="drf/best-fit"))
    said = "Today's policy: drf/best-fit. It is a replay, and not what the log says"
    assert said in Reader(page).text


def test_of_one_policy_there_is_nothing_to_gain() -> None:
    _, shown, figures = read("one policy")
    assert "There is one policy only" in shown
    pictures = read("one policy")[0].pictures()
    assert len(pictures) == len(figures) > 0
    assert not any("today" in about or "Reduction" in about for about in pictures)


def test_what_never_ran_is_named_and_nothing_is_drawn_of_it() -> None:
    _, shown, figures = read("nothing runs")
    assert "2 tasks of 2 jobs, under every policy: job-0, job-1" in shown
    assert "No task ever started." in shown
    assert len(figures) > 0
    assert not any(about.startswith("Distribution") for about in read("nothing runs")[0].pictures())
    _, shown, _ = read("slots run nothing")
    assert "2 tasks of 2 jobs, under slots:1: job-0, job-1" in shown
    assert "could not run 2 tasks instead of 0 tasks" in shown
    assert "jobs none is complete under both" in shown
    assert "0 of 2 users gain. 2 lose: by tasks completed." in shown


def test_sharing_is_held_against_being_alone() -> None:
    outcomes = runs("what if")
    _, shown, figures = read("what if")
    shared, alone = (
        outcomes[name].summary.users.completion_ratio
        for name in ("drf/best-fit", "drf/best-fit, dedicated")
    )
    users = int((~np.isnan(shared)).sum())
    fewer = int((shared < alone).sum())
    assert f"sharing: {fewer} of {users} user" in shown
    assert "have fewer tasks done" in shown
    reader = read("what if")[0]
    trace, _ = reader.figure("Part of each user's tasks done when sharing")["data"]
    points = sorted(zip(trace["x"], trace["y"], strict=True))
    expected = sorted(zip(alone[~np.isnan(shared)], shared[~np.isnan(shared)], strict=True))
    assert np.array(points) == pytest.approx(np.array(expected), rel=1e-3)
    # It is a run of its own time, and nobody's policy.
    resource = outcomes["drf/best-fit"].workload.cluster.resources[0]
    assert len(reader.figure(f"Use of {resource}")["data"]) == 4
    assert len(reader.figure("Distribution of job completion")["data"]) == 5
    done = [about for about in reader.pictures() if about.endswith("against today")]
    assert len(done) == 3
    assert len(figures) == len(reader.pictures())


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
    page = to_page(simulation_document(outcomes, "x"))
    print("SIZE", len(page))
    assert len(page) < LARGEST_PAGE
    reader = Reader(page)
    for what in ("job completion times", "the slowdown of jobs", "waiting times"):
        figure = reader.figure(f"Distribution of {what}")
        assert max(len(trace["x"]) for trace in figure["data"]) <= 500
    assert max(len(trace["y"]) for trace in reader.figure("Use of cpu")["data"]) <= 400
