"""Fair shares without an answer at some instants: counted, named, and never the end of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairlead
from fairlead.cli.main import run
from fairlead.errors import FairleadError, InputError
from fairlead.model.workload import Workload
from fairlead.scheduler.own_rules import ClusterView
from fairlead.simulation.log_audit import audit_log
from fairlead.simulation.metrics.summary import summarise
from fairlead.traces.parquet_trace import write_parquet
from random_runs import jobs_on_a_server

pytestmark = pytest.mark.usefixtures("few_instants")  # at 1, 3, 5, 7 and 9 s
POLICIES: Any = ["drf/first-fit"]


def never(view: ClusterView) -> None:
    """Start nothing."""


def ana_then_bo_then_cy() -> Workload:
    """Return tasks of 1 of 4 cores: ana's of 10 s at 0 s, bo's of 1 s at 4 s, and cy's at 10 s."""
    rows = [(0, 0.0, 1.0, 10.0), (1, 4.0, 1.0, 1.0), (2, 10.0, 1.0, 1.0)]
    return jobs_on_a_server(4.0, rows, users=["ana", "bo", "cy"])


@pytest.fixture
def alone() -> str:
    """Name a mechanism that has an answer for one user only."""

    @fairlead.mechanism("alone")
    def alone(problem: fairlead.Problem) -> Any:
        if problem.n_users > 1:
            return 2 * problem.gamma
        return fairlead.solve(problem, "drfh").tasks

    return "alone"


@pytest.fixture
def broken() -> str:
    @fairlead.mechanism("broken")
    def broken(problem: fairlead.Problem) -> Any:
        return problem.nothing  # type: ignore[attr-defined]

    return "broken"


def test_frames_count_the_instants_without_an_answer(alone: str) -> None:
    runs = fairlead.simulate(
        ana_then_bo_then_cy(), ["drf/first-fit", never], fair=alone, processes=1
    )
    # Bo's task is over before the instant of 5 s, or waits at three instants.
    for what in ("policies", "figures"):
        frame = runs.to_frame(what)
        place = frame.columns.index("fairness_error")
        assert frame.columns[place + 1] == "unsolved"
        assert frame["unsolved"].to_list() == [0, 3]
        assert frame["fairness_error"].to_list() == pytest.approx([0.0, 1.0])
    fine, gaps = (outcome.to_dict()["fairness"] for outcome in runs.values())
    assert fine["fault"] is None
    assert gaps["fault"].startswith("alone: gives u1 ")


def test_a_mechanism_that_raises_leaves_other_figures(broken: str) -> None:
    runs = fairlead.simulate(ana_then_bo_then_cy(), POLICIES, fair=broken, processes=1)
    (row,) = runs.to_frame().to_dicts()
    assert (row["fairness_error"], row["unsolved"]) == (None, 5)
    assert (row["makespan"], row["mean_wait"]) == (11.0, 0.0)
    figures = runs["drf/first-fit"].to_dict()
    assert figures["fairness"]["fault"].startswith("broken: AttributeError: ")
    assert figures["fairness"]["jain"] is figures["fairness"]["over_a_day"] is None
    assert figures["users"]["ana"]["owed_cluster_hours"] is None
    with pytest.raises(InputError, match="nonsense"):
        summarise(ana_then_bo_then_cy(), runs["drf/first-fit"].log, mechanism="nonsense")


def test_a_study_warns_of_such_instants(alone: str, broken: str) -> None:
    day = ana_then_bo_then_cy()
    found = fairlead.study({"a": day, "b": day}, ["drf/first-fit", never], fair=alone, processes=1)
    assert found.unsolved == {"drf/first-fit": 0, "never": 6}
    (caution,) = (each for each in found.cautions if "fair shares" in each)
    assert caution.startswith("under never ")
    found = fairlead.study(day, POLICIES, fair=broken, processes=1)
    assert found.mean("makespan", "drf/first-fit").mean == 11.0
    assert found.mean("fairness_error", "drf/first-fit").count == 0


@pytest.mark.parametrize("more", [[], ["--format", "csv"]])
def test_the_command_warns_of_such_instants(
    more: list[str], broken: str, tmp_path: Path, capsys: Any
) -> None:
    write_parquet(ana_then_bo_then_cy(), tmp_path / "a.parquet")
    words = f"simulate {tmp_path}/a.parquet -p drf/first-fit --fair {broken}".split()
    assert run([*words, *more, "--report", str(tmp_path / "page.html")]) == 0
    shown = capsys.readouterr()
    text = " ".join((shown.err if more else shown.out).split())
    assert "broken has no certified answer at " in text
    assert "AttributeError" in text
    assert "has no certified answer" in (tmp_path / "page.html").read_text()
    assert "fair share all the time" not in shown.out


@pytest.mark.parametrize("until", [10.0, 1000.0])
def test_an_audit_of_a_log_needs_an_answer(broken: str, until: float) -> None:
    """Instants without an active user, such as those after the last job, are none."""
    log = replace(ana_then_bo_then_cy(), task_start=np.array([0.0, 4.0, 10.0]))
    audit_log(log, 0.0, until, instants=5)
    with pytest.raises(FairleadError, match="broken: AttributeError"):
        audit_log(log, 0.0, until, mechanism=broken, instants=500)
