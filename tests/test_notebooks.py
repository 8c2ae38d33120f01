"""What notebooks show of answers: frames, lines, pictures; and the notebooks of the docs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import fairlead
from fairlead.errors import CertificateError, InputError
from fairlead.mechanisms.comparison import compare_problems
from fairlead.model.allocation import Allocation, Certificate
from fairlead.model.workload import Workload, first_seconds
from fairlead.scheduler.own_rules import ClusterView, GroupView
from fairlead.simulation.simulate import Outcome, Outcomes
from fairlead.traces.generator import generate_day
from random_runs import jobs_on_a_server

pytestmark = pytest.mark.usefixtures("few_instants")


@pytest.fixture(scope="module")
def problem() -> fairlead.Problem:
    return fairlead.Problem.from_arrays(
        [[9, 18], [4, 4]], [[1, 4], [3, 1]], users=["ana", "bo"], groups=["big", "user"],
        resources=["cpu", "memory"],
    )  # fmt: skip


@pytest.fixture(scope="module")
def runs() -> Outcomes:
    day = generate_day(servers=4, users=3, jobs=20, hours=2, seed=1)
    return fairlead.simulate(day, ["drf/best-fit", "slots:7"], processes=1)


@pytest.fixture(scope="module")
def outcome(runs: Outcomes) -> Outcome:
    return runs["drf/best-fit"]


def test_a_frame_of_an_allocation_has_a_row_for_each_user(problem: fairlead.Problem) -> None:
    allocation = fairlead.solve(problem, "drfh")
    frame = allocation.to_frame()
    assert frame.columns == ["user", "weight", "tasks", "dominant_resource", "dominant_share"]
    assert frame["user"].to_list() == ["ana", "bo"]
    np.testing.assert_array_equal(frame["tasks"], allocation.user_tasks)
    np.testing.assert_array_equal(frame["dominant_share"], allocation.dominant_share)
    with pytest.raises(InputError, match="must be one of users, tasks"):
        allocation.to_frame("servers")


def test_frames_of_fillings_and_audits(problem: fairlead.Problem) -> None:
    filling = fairlead.fill(problem)
    assert filling.to_frame()["tasks"].to_list() == filling.user_tasks.tolist()
    np.testing.assert_array_equal(filling.to_frame("tasks").drop("user_"), filling.tasks)
    unused = filling.to_frame("unused")
    assert unused.columns == ["group", "cpu", "memory"]
    np.testing.assert_array_equal(unused.drop("group"), filling.unused)
    verdicts = fairlead.audit(problem, "drfh", lies=3)
    frame = verdicts.to_frame().select("property", "verdict")
    assert frame.rows() == [(verdict.name, verdict.verdict) for verdict in verdicts]


def test_the_table_of_tasks_goes_in_again_in_any_order(problem: fairlead.Problem) -> None:
    allocation = fairlead.solve(problem, "drfh")
    table = allocation.to_frame("tasks")
    assert table.columns == ["user_", "big", "user"]  # a group has the name of the first column
    np.testing.assert_array_equal(table.drop("user_"), allocation.tasks)
    shuffled = table.reverse().select("user", "user_", "big")
    for found in (table, shuffled):
        verdicts = fairlead.audit(problem, found, properties=["feasibility"])
        np.testing.assert_array_equal(verdicts.subject.tasks, allocation.tasks)


@pytest.mark.parametrize("name", ["*", "^b.*$", "^.*$"])
def test_names_that_polars_takes_for_patterns(name: str) -> None:
    problem = fairlead.Problem.from_arrays(
        [[4], [2]], [[1], [1]], users=[name, "bo"], groups=["big", name], resources=[name]
    )
    allocation, filling = fairlead.solve(problem, "drfh"), fairlead.fill(problem)
    table = allocation.to_frame("tasks")
    assert table.columns == ["user", "big", name]
    np.testing.assert_array_equal(table.to_series(2), allocation.tasks[:, 1])
    assert filling.to_frame("unused").columns == ["group", name]


def test_frames_of_runs(outcome: Outcome) -> None:
    log = outcome.log.to_frame()
    np.testing.assert_array_equal(log["start"], outcome.log.start)
    starts = outcome.to_frame("starts")
    assert starts.height == log.height
    assert starts.drop("job", "user", "server_name", "submit").equals(log)
    # The servers are numbered through both groups, and by name in each.
    groups = dict(zip(outcome.workload.cluster.groups, outcome.workload.first_server, strict=False))
    named = [name.rsplit("-", 1) for name in starts["server_name"]]
    assert [groups[group] + int(k) for group, k in named] == starts["server"].to_list()
    assert outcome.workload.n_servers > len(groups) > 1
    submit = dict(zip(outcome.workload.job_names, outcome.workload.job_submit, strict=True))
    assert [submit[job] for job in starts["job"]] == starts["submit"].to_list()
    waits = outcome.to_frame("jobs")
    assert waits.height == outcome.workload.n_jobs
    assert waits["wait"].mean() == pytest.approx(outcome.to_dict()["mean_wait"])
    users = outcome.to_frame()
    assert users["user"].to_list() == list(outcome.to_dict()["users"])


def only_small(view: ClusterView) -> GroupView | None:
    """Start tasks of one core."""
    return next((g for g in view.waiting if g.demand["cpu"] == 1 and view.fits(g)), None)


def ana_and_bo() -> Workload:
    """Return tasks of 10 s for 4 cores: ana's of 1 core at 0 s, and bo's of 2 cores at 5 s."""
    return jobs_on_a_server(4.0, [(0, 0.0, 1.0, 10.0), (1, 5.0, 2.0, 10.0)])


def test_missing_times_are_null_in_frames() -> None:
    runs = fairlead.simulate(ana_and_bo(), {"one": only_small}, processes=1)
    for frame in (runs.to_frame(), *(runs["one"].to_frame(what) for what in Outcome.frames)):
        assert frame.select(pl.selectors.float().is_nan().any()).row(0).count(True) == 0
    jobs = runs["one"].to_frame("jobs")
    for column in ("wait", "completion_time", "slowdown", "bounded_slowdown"):
        assert jobs[column].null_count() == 1
        assert jobs[column].mean() == {"wait": 0.0, "completion_time": 10.0}.get(column, 1.0)
    before = fairlead.Problem.from_arrays([[4]], [[1]], users=["ana"])
    after = fairlead.Problem.from_arrays([[4]], [[1]], users=["bo"])
    assert compare_problems(before, after).to_frame()["gain"].to_list() == [None, None]


def test_pictures_of_nothing_are_empty() -> None:
    runs = fairlead.simulate(ana_and_bo(), {"none": lambda _: None}, processes=1)
    alone = fairlead.study(ana_and_bo(), "drf/best-fit", processes=1)
    for answer, reason in ((runs, "nothing to draw"), (alone, "without values of two policies")):
        page = answer.plot().page
        assert reason in page
        assert "</svg>" not in page


def test_the_figures_of_runs_are_a_table(runs: Outcomes) -> None:
    frame = runs.to_frame()
    assert frame["policy"].to_list() == ["drf/best-fit", "slots:7"]
    assert frame["makespan"].to_list() == [runs[name].log.makespan for name in runs]
    assert "used_cpu" in frame.columns
    with pytest.raises(KeyError, match="no outcome of 'drf'; there are: drf/best-fit, slots:7"):
        runs["drf"]
    for name, row in zip(runs, runs.to_frame("figures").to_dicts(), strict=True):
        known = runs[name].to_dict()
        assert (row["mean_wait"], row["unsolved"]) == (
            known["mean_wait"],
            known["fairness"]["unsolved"],
        )


def test_a_comparison_names_what_it_left_out(problem: fairlead.Problem) -> None:
    limited = fairlead.Problem.from_arrays([[4.0]], [[1.0], [2.0]], task_limit=[1.0, np.inf])
    found = fairlead.compare(limited)
    assert "drf-tasks" not in found
    np.testing.assert_array_equal(found["drfh"].tasks, fairlead.solve(limited, "drfh").tasks)
    assert found.to_frame().columns == ["user", *found]
    assert "finite tasks" in found.refused["drf-per-server"]
    with pytest.raises(fairlead.RefusalError):
        fairlead.compare(limited, ["drf-per-server"])
    with pytest.raises(InputError, match="none of these mechanisms takes it"):
        fairlead.compare(problem, ["drfh"], alpha=2)
    names = ["drfh", "alpha-fair"]
    assert list(fairlead.compare(problem, names, alpha=1)) == names


def test_an_answer_without_proof_is_carried_by_its_error(problem: fairlead.Problem) -> None:
    fairlead.mechanism("too much")(lambda problem: 2 * problem.gamma)

    @fairlead.mechanism("unproved")
    def unproved(problem: fairlead.Problem) -> Allocation:
        return Allocation(problem, "x", 0 * problem.gamma, Certificate("c", 0.5, 1e-9))

    with pytest.raises(CertificateError) as caught:
        fairlead.solve(problem, "too much")
    assert caught.value.violation == pytest.approx(2.0)  # 27 of 9 cores
    assert "gives 27 cpu of big, which has 9" in str(caught.value)
    assert isinstance(caught.value.answer, Allocation)
    np.testing.assert_array_equal(caught.value.answer.tasks, 2 * problem.gamma)
    found = fairlead.compare(problem, ["too much", "unproved", "drfh"])
    assert list(found) == ["drfh"]
    assert repr(found) == "<Allocations by drfh (2 not proved)>"
    assert found.unproved["unproved"].violation == 0.5


def test_a_comparison_goes_on_where_a_mechanism_raises(problem: fairlead.Problem) -> None:
    @fairlead.mechanism("broken")
    def broken(problem: fairlead.Problem) -> Any:
        return problem.nothing  # type: ignore[attr-defined]

    fairlead.mechanism("narrow")(lambda problem: problem.gamma[:, :1])
    found = fairlead.compare(problem, ["broken", "drfh", "narrow"])
    assert list(found) == ["drfh"]
    assert list(found.failed) == ["broken", "narrow"]
    rows = found.to_frame("mechanisms").to_dicts()
    assert [row["mechanism"] for row in rows] == ["drfh", "broken", "narrow"]
    assert [row["tasks"] is None for row in rows] == [False, True, True]
    assert rows[0]["fault"] is None
    assert rows[1]["fault"].startswith("broken: AttributeError")
    with pytest.raises(InputError):  # mistakes of the caller still raise
        fairlead.compare(problem, ["drfh", "alpha-fair"], alpha=-1)


def test_notebooks_show_a_line_and_a_table(problem: fairlead.Problem, outcome: Outcome) -> None:
    shown = [
        fairlead.solve(problem, "drfh"), fairlead.fill(problem), fairlead.compare(problem),
        fairlead.audit(problem, "drfh", lies=3), outcome, outcome.log,
    ]  # fmt: skip
    for answer in shown:
        text = answer._repr_html_()
        assert "<table" in text
        assert "&lt;" in text or "Audit of" in text
        assert repr(answer).count("\n") <= 12


def test_a_workload_prints_its_size_and_times() -> None:
    rows = [(0, 0.0, 1.0, 10.0), (0, 5.0, 1.0, 10.0), (1, 7200.0, 1.0, 10.0)]
    workload = jobs_on_a_server(4.0, rows, users=["ana", "b&o"], weight=[1, 2])
    dated = replace(workload, start_date=86400.0)
    assert repr(dated).endswith("over 7,200 s, 1970-01-02 00:00:00 to 1970-01-02 02:00:00>")
    assert workload.to_frame().rows() == [("ana", 1.0, 2, 2), ("b&o", 2.0, 1, 1)]
    assert workload._repr_html_().startswith("<pre>&lt;Workload of 1 server")
    one = first_seconds(workload, 1)
    assert repr(one) == "<Workload of 1 server, 2 users, 1 job, 1 task, over 0 s>"


def test_names_in_notebooks_are_text() -> None:
    problem = fairlead.Problem.from_arrays([[4.0]], [[1.0]], users=["<img src=x>"])
    allocation = fairlead.solve(problem, "drf")
    assert "<img" not in allocation._repr_html_()
    assert "<img" not in allocation.plot().page


def test_each_answer_has_a_picture(
    problem: fairlead.Problem, outcome: Outcome, runs: Outcomes
) -> None:
    for answer in (
        fairlead.solve(problem, "drfh"), fairlead.fill(problem), fairlead.compare(problem),
        fairlead.audit(problem, "drfh", lies=3), outcome, runs, outcome.log,
    ):  # fmt: skip
        drawn = answer.plot()
        assert "</svg>" in drawn.page
        assert repr(drawn) == f"<picture: {drawn.title}>"
        assert drawn._repr_html_().startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')


# Four lies and an hour of jobs run all that the numbers of the notebooks do.
SIZES = {"lies": 4, "hours": 1}
NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))


def smaller(source: str) -> str:
    return re.sub(r"\b(lies|hours)=\d+", lambda size: f"{size[1]}={SIZES[size[1]]}", source)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interactiveshell = pytest.importorskip("IPython.core.interactiveshell")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    shell = interactiveshell.InteractiveShell()
    shown = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            assert not cell["outputs"]
            done = shell.run_cell(smaller("".join(cell["source"])))
            done.raise_error()
            shown += (
                shell.display_formatter.format(done.result)[0] if done.result is not None else ()
            )
    assert "text/html" in shown


@pytest.mark.parametrize(
    ("tasks", "fault"),
    [
        ([[np.nan, 0], [0, 0]], "ana a number of tasks on a that is not finite: nan"),
        ([[-1, 0], [0, 0]], "ana a negative number of tasks on a: -1"),
        ([[0, 1], [0, 0]], "ana tasks on b, where it may not or cannot run: 1"),
        ([[0, 0], [3, 0]], "gives bo 3 tasks; it has only 2"),
        ([[5, 0], [0, 0]], "5 r1 of a, which has 4"),
    ],
)
def test_a_fault_of_an_answer_is_named(tasks: list[list[float]], fault: str) -> None:
    problem = fairlead.Problem.from_arrays(
        [[4.0], [4.0]], [[1.0], [1.0]], users=["ana", "bo"], groups=["a", "b"],
        eligible=[[True, False], [True, True]], task_limit=[np.inf, 2.0],
    )  # fmt: skip
    fairlead.mechanism("wrong")(lambda _: tasks)
    with pytest.raises(CertificateError, match=fault):
        fairlead.solve(problem, "wrong")


@pytest.mark.parametrize(
    ("tasks", "fault"),
    [
        ([[0.5], [1.0]], "fractions of tasks"),
        ([[3.0], [2.0]], "more time of a group of servers than there is"),
    ],
)
def test_a_fault_of_whole_tasks_in_shared_time_is_named(
    tasks: list[list[float]], fault: str
) -> None:
    problem = fairlead.Problem.from_arrays([[4.0]], [[1.0], [1.0]])
    fairlead.mechanism("wrong", whole_tasks=True, time_shared=True)(lambda _: tasks)
    with pytest.raises(CertificateError, match=fault):
        fairlead.solve(problem, "wrong")


def test_an_answer_that_is_only_feasible_says_so(problem: fairlead.Problem) -> None:
    fairlead.mechanism("zero")(lambda problem: 0 * problem.gamma)
    fairlead.mechanism("zero, whole", whole_tasks=True)(lambda problem: 0 * problem.gamma)

    @fairlead.mechanism("zero, proved")
    def zero_proved(problem: fairlead.Problem) -> Allocation:
        return Allocation(problem, "x", 0 * problem.gamma, Certificate("c", 0.0, 1e-9))

    shown = [repr(fairlead.solve(problem, f"zero{k}")) for k in ("", ", whole", ", proved")]
    assert [text.rpartition(", ")[2] for text in shown] == ["feasible>", "feasible>", "proved>"]


def test_a_mechanism_needs_a_name_and_known_properties(problem: fairlead.Problem) -> None:
    def even(problem: fairlead.Problem) -> Any:
        return problem.gamma / problem.n_users

    decorate: Any = fairlead.mechanism
    with pytest.raises(InputError, match=r'write @fairlead.mechanism\("even"\)'):
        decorate(even)
    functions: Any = [even]
    with pytest.raises(InputError, match="names a function of your own"):
        fairlead.compare(problem, functions)
    with pytest.raises(InputError, match="did you mean 'ps-dsf'"):
        fairlead.solve(problem, "psdsf")
    with pytest.raises(InputError, match="no property is named 'envy-fre'"):
        fairlead.mechanism("claims", proved=["sharing-incentive", "envy-fre"])
