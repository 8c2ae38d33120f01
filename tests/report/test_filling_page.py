"""The page of whole tasks is whole by itself, harmless, and says how much is chance."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from handmade_answers import HOSTILE

from fairlead.errors import RefusalError
from fairlead.model.problem import Problem
from fairlead.report import page as module
from fairlead.report.filling import about, filling_document
from fairlead.report.page import to_page
from fairlead.scheduler.policies import SELECTIONS, find_policy
from fairlead.simulation.trials import Trials, run_trials
from page_reader import Reader, read_harmless

# Users, groups, selection, runs and size of the servers.
PAGES = {
    "one filling": (3, 2, "best-fit", 1, 40),
    "one of chance": (3, 2, "rrr", 1, 40),
    "a few": (3, 2, "rrr", 4, 40),
    "one group": (3, 1, "rrr", 4, 40),
    "many": (60, 30, "rrr", 3, 40),
    "little chance": (8, 6, "rrr", 3, 40_000),
    "no tasks": (0, 0, "rrr", 3, 0),
}


@cache
def trials_of(page: str) -> Trials:
    users, groups, select, trials, size = PAGES[page]
    random = np.random.default_rng(1)
    problem = Problem.from_arrays([[1]], [[2]])
    if users:
        problem = Problem.from_arrays(
            random.integers(20, 60, (groups, 2)) * size // 40,
            random.integers(1, 9, (users, 2)),
            users=[f"{HOSTILE}{n}" for n in range(users)],
            groups=[f"g{HOSTILE}{g}" for g in range(groups)],
        )
    return run_trials(problem, find_policy("drf", select), trials, 1)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fetches_nothing_and_every_picture_has_its_data(name: str) -> None:
    page = to_page(filling_document(trials_of(name), HOSTILE, [HOSTILE]))
    read = read_harmless(page)
    identities = [a["id"] for _, a in read.elements if "id" in a]
    assert len(identities) == len(set(identities))
    spread = [about for about in read.pictures() if about.startswith("Mean tasks")]
    assert len(spread) == trials_of(name).varies


@pytest.mark.parametrize("name", ["a few", "one group"])
def test_the_table_of_chance_holds_every_mean_margin_and_deviation(name: str) -> None:
    trials = trials_of(name)
    read = Reader(to_page(filling_document(trials, "t")))
    table = read.table("Mean tasks")
    cells = [float(str(a["data-value"])) for _, a in table if "data-value" in a]
    assert trials.total.margin is not None
    assert trials.total.sd is not None
    total = [float(v) for v in (trials.total.mean, trials.total.margin, trials.total.sd)]
    assert cells[-4:] == pytest.approx([*total, total[2] / total[0]])
    del cells[-4:]
    expected = []
    for n in range(trials.problem.n_users):
        held = np.flatnonzero(trials.tasks.mean[n] > 0)
        for summary, index in [(trials.tasks, (n, g)) for g in held] + [(trials.user_tasks, (n,))]:
            assert summary.margin is not None
            assert summary.sd is not None
            if summary is trials.user_tasks and len(held) == 1:
                continue
            mean, sd = summary.mean[index], summary.sd[index]
            expected += [mean, summary.margin[index], sd, sd / mean]
    assert cells == pytest.approx(expected)


def test_the_table_of_what_is_left_over_holds_every_mean_margin_and_deviation() -> None:
    trials = trials_of("a few")
    read = Reader(to_page(filling_document(trials, "t")))
    table = read.table("What nobody holds")
    cells = [float(str(a["data-value"])) for _, a in table if "data-value" in a]
    unused = trials.unused
    assert unused.margin is not None
    assert unused.sd is not None
    capacity = trials.problem.group_capacity
    columns = (unused.mean, unused.margin, unused.sd, capacity, unused.mean / capacity)
    assert cells == pytest.approx(np.stack(columns, axis=-1).ravel())


def test_bars_reach_as_far_as_the_numbers_say() -> None:
    trials = trials_of("a few")
    assert trials.tasks.sd is not None
    assert trials.tasks.margin is not None
    *bars, dots = Reader(to_page(filling_document(trials, "t"))).figure("Mean tasks")["data"]
    held = trials.tasks.mean > 0
    assert dots["x"] == pytest.approx(trials.tasks.mean[held], rel=1e-5)
    reach = [bar["error_x"]["array"][0] for bar in bars]
    assert reach[0::2] == trials.tasks.sd[held].tolist()
    assert reach[1::2] == trials.tasks.margin[held].tolist()


def test_what_cannot_be_seen_at_scale_is_drawn_as_a_share_of_the_mean() -> None:
    trials = trials_of("little chance")
    *bars, dots = Reader(to_page(filling_document(trials, "t"))).figure("Mean tasks")["data"]
    assert set(dots["x"]) == {0.0}
    assert trials.user_tasks.sd is not None
    expected = trials.user_tasks.sd / trials.user_tasks.mean
    assert [bar["error_x"]["array"][0] for bar in bars[0::2]] == pytest.approx(expected.tolist())


def test_long_tables_say_what_they_leave_to_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_ON_PAGE", 50)
    text = Reader(to_page(filling_document(trials_of("many"), "t"))).text
    assert "… and 10 users with smaller shares; all are in the output of --json" in text
    assert "on all servers; group by group: --json" in text


def test_every_policy_says_what_it_does() -> None:
    said = {}
    for criterion in ("drf", "tsf", "ps-dsf"):
        for select in SELECTIONS:
            for residual in (False, True):
                try:
                    policy = find_policy(criterion, select, residual)
                except RefusalError:
                    continue
                said[policy.name] = about(policy)[0]
    assert len(set(said.values())) == len(said)
    assert "Wang" in about(find_policy("drf", "best-fit"))[1]
    assert "Kesidis" in about(find_policy("drf", "best-fit-first"))[1]
