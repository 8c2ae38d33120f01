"""The problem of one time of a trace: a known answer, its way through other verbs, and faults."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

import fairlead
from fairlead.cli.main import run
from fairlead.errors import InputError
from fairlead.formats.allocation_file import read_allocation
from fairlead.mechanisms.fair_share import FairDivider
from fairlead.model.cluster import Cluster
from fairlead.model.queues import read_queues
from fairlead.model.task_kinds import rows_of_split_users
from fairlead.model.workload import DRAIN, LEAVE, Workload
from fairlead.traces.parquet_trace import write_parquet
from fairlead.traces.problem_at_time import end_of_run, problem_at
from faults import fault_of
from oracles.random_workloads import random_workload

Capture = pytest.CaptureFixture[str]
NEVER, UNKNOWN = np.inf, np.nan
KINDS = "ana has several kinds of tasks, each a user: ana@big, ana@all\n"


def known_trace() -> Workload:
    """Return four jobs on two big servers, and on an old one that leaves at 50 s.

    ana's tasks of 1 core run from 0 to 100 s and to 40 s; that of 4 cores waits from 10 s, and runs
    from 30 s to 130 s. bo's have no recorded start, and cy's is larger than every server.
    """
    return Workload.from_arrays(
        Cluster(
            ("big", "old"),
            ("cpu",),
            np.array([[8.0], [4.0]]),
            np.array([2, 1]),
            ("cores",),
            ({},) * 2,
        ),
        ["ana", "bo", "cy"],
        weight=[2, 1, 1],
        job_user=[0, 0, 1, 2],
        job_submit=[0, 10, 20, 42],
        job_cancel=[np.inf, np.inf, 1000, np.inf],
        set_job=range(4),
        set_tasks=[2, 1, 3, 1],
        shapes=[[1], [4], [2], [16]],
        places=[[True, True], [True, False], [False, True], [True, True]],
        task_duration=[100, 40, 100, 5, 5, 5, 5],
        task_start=[0, 0, 30, UNKNOWN, UNKNOWN, UNKNOWN, NEVER],
        task_server=[0, 2, 1, -1, -1, -1, -1],
        server_time=[50],
        server_event=[LEAVE],
        server=[2],
    )


def test_users_are_those_with_active_tasks() -> None:
    found = problem_at(known_trace(), 20)
    assert (found.running, found.waiting, found.too_large) == (2, 4, 0)
    problem = found.problem
    assert problem.users.names == ("ana@big", "ana@all", "bo")
    assert found.kinds == {"ana": ["ana@big", "ana@all"]}
    assert problem.demand.tolist() == [[4], [1], [2]]
    assert problem.task_limit.tolist() == [1, 2, 3]
    # Of the weight 2 of ana, as 2 cores and 4 cores that its tasks take.
    assert problem.weight.tolist() == pytest.approx([4 / 3, 2 / 3, 1])
    assert problem.users.eligible.tolist() == [[True, False], [True, True], [False, True]]
    assert problem.count.tolist() == [2, 1]


def test_ended_tasks_and_absent_servers_do_not_count() -> None:
    found = problem_at(known_trace(), 45)
    assert (found.running, found.waiting, found.too_large) == (2, 3, 1)
    assert found.problem.demand.tolist() == [[4], [1], [2]]
    assert found.problem.task_limit.tolist() == [1, 1, 3]
    found = problem_at(known_trace(), 50)
    assert (found.running, found.waiting, found.too_large) == (2, 0, 4)
    assert found.problem.users.names == ("ana",)
    assert found.problem.count.tolist() == [2, 0]
    assert problem_at(known_trace(), 100).problem.demand.tolist() == [[4]]


def test_withdrawn_jobs_wait_no_longer() -> None:
    stays = replace(known_trace(), server=np.array([0], dtype=np.int32))
    assert problem_at(stays, 999).waiting == 3
    assert "no task that fits a server waits or runs at 1000 s" in fault_of(problem_at, stays, 1000)


def test_the_end_is_the_last_time_of_the_trace(tmp_path: Path) -> None:
    stays = replace(known_trace(), server=np.array([0], dtype=np.int32))
    assert end_of_run(stays) == 1000  # when bo's job is withdrawn
    waits = replace(stays, job_cancel=np.full(4, np.inf))
    assert end_of_run(waits) == 130  # when the last task that ran ends
    assert (problem_at(waits, 130).running, problem_at(waits, 130).waiting) == (0, 3)
    cut = replace(waits, recorded_until=100.0)
    assert end_of_run(cut) == 100
    assert "101 s is after the end of the trace, 100 s" in fault_of(problem_at, cut, 101)
    path, output = tmp_path / "x.parquet", tmp_path / "end.yaml"
    write_parquet(cut, path)
    assert convert(path, "--at", "end", "-o", output) == 0
    expected = problem_at(cut, 100).problem
    assert fairlead.load(output).task_limit.tolist() == expected.task_limit.tolist()


def test_queues_of_the_trace_stay() -> None:
    tree = read_queues([{"name": "lab", "weight": 3}], [None, "lab", None], ("ana", "bo", "cy"))
    queues = problem_at(replace(known_trace(), queues=tree), 20).problem.users.queues
    assert queues is not None
    assert (queues.names, queues.weight.tolist()) == (("lab", "ana"), [3, 2])
    assert (queues.parent.tolist(), queues.of_user.tolist()) == ([-1, -1], [1, 1, 0])


def test_a_mean_that_fits_no_server_names_its_user() -> None:
    wide = Workload.from_arrays(
        Cluster(
            ("x", "y"), ("cpu", "gpu"), np.array([[9.0, 1], [1, 9]]), np.ones(2, dtype=np.int64),
            ("", ""), ({},) * 2,
        ),
        ["ana"], job_user=[0], job_submit=[0], set_job=[0, 0], set_tasks=[1, 1],
        shapes=[[9, 1], [1, 9]], task_duration=[1, 1],
    )  # fmt: skip
    assert "user 'ana': the mean of its tasks fits no server" in fault_of(problem_at, wide, 0)


def convert(trace: Path, *words: object) -> int:
    return run(["trace", "convert", str(trace), *map(str, words)])


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "x.parquet"
    write_parquet(known_trace(), path)
    return path


def test_it_is_written_as_a_problem_file(trace: Path, tmp_path: Path, capsys: Capture) -> None:
    early = tmp_path / "early.yaml"
    assert convert(trace, "-o", early, "--at", "20s") == 0
    assert capsys.readouterr().out == (
        f"users: 3, servers: 3, running tasks: 2, waiting tasks: 4\n{KINDS}wrote {early}\n"
    )
    assert convert(trace, "-o", tmp_path / "late.json", "--at", "0:45", "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["at"], figures["running"], figures["too_large"]) == (45, 2, 1)
    # bo's tasks of 2 cores may use the old server of 4 cores only.
    answer = fairlead.solve(fairlead.load(early), "ps-dsf")
    assert answer.tasks.sum(axis=1) == pytest.approx([1, 2, 2])


def test_held_amounts_are_those_of_running_tasks(trace: Path, tmp_path: Path) -> None:
    rows = problem_at(known_trace(), 45).allocation()["users"]
    assert {row["name"]: row["amounts"] for row in rows} == {
        "ana@all": {"big": {"cpu": 1}},
        "ana@big": {"big": {"cpu": 4}},
        "bo": {},
    }
    problem, held = tmp_path / "p.yaml", tmp_path / "held.json"
    assert convert(trace, "-o", problem, "--at", 20, "--held", held) == 0
    holdings = read_allocation(held, fairlead.load(problem))
    assert holdings.held[:, :, 0].tolist() == [[0, 0], [1, 1], [0, 0]]
    assert holdings.user_tasks.tolist() == [0, 2, 0]


def test_held_amounts_are_audited(trace: Path, tmp_path: Path, capsys: Capture) -> None:
    """Due are all but one of bo's, as two fill the old server; ana holds its small ones."""
    problem, held = str(tmp_path / "p.yaml"), str(tmp_path / "held.json")
    assert convert(trace, "-o", problem, "--at", 20, "--held", held) == 0
    capsys.readouterr()
    assert run(["audit", problem, "--allocation", held, "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    verdicts = {row["name"]: row["verdict"] for row in answer["properties"]}
    assert verdicts["feasibility"] == "holds"
    assert verdicts["sharing-incentive"] == "fails"
    assert verdicts["non-wastefulness"] == "unknown"  # the file does not tell what waits
    assert [row["fair_tasks"] for row in answer["users"]] == pytest.approx([1, 2, 2])


def test_users_of_several_kinds_and_overfull_servers_are_named(
    tmp_path: Path, capsys: Capture
) -> None:
    """All three tasks of ana, of 1, 1 and 4 cores, run on the old server of 4 cores."""
    server = np.array([2, 2, 2, -1, -1, -1, -1], dtype=np.int32)
    workload = replace(known_trace(), task_server=server)
    figures = problem_at(workload, 35).to_dict()
    assert figures["kinds"] == {"ana": ["ana@big", "ana@all"]}
    assert figures["overfull"] == ["old-0"]
    path, held = tmp_path / "x.parquet", tmp_path / "held.json"
    write_parquet(workload, path)
    assert convert(path, "-o", tmp_path / "p.yaml", "--at", 35, "--held", held) == 0
    assert "hold more than their capacity: old-0\n" in capsys.readouterr().out


def test_kinds_have_names_of_their_own() -> None:
    """Tasks with and without a GPU on the same servers, and a user who has such a name."""
    groups = ("a", "b", "c", "d")
    shapes = [[1.0, 0], [1, 1], [2, 0], [1, 0], [3, 0], [1, 0]]
    places = [[0, 1, 1, 0], [0, 1, 1, 0], [0, 1, 1, 0], [1, 0, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    workload = Workload.from_arrays(
        Cluster(
            groups, ("cpu", "gpu"), np.full((4, 2), 4.0), np.ones(4, dtype=np.int64),
            ("", ""), ({},) * 4,
        ),
        ["ana", "ana@a", "bo"],
        weight=[1, 0, 1],
        job_user=[0] * 6 + [1, 2],
        job_submit=[0] * 8,
        set_job=range(8),
        set_tasks=[1] * 8,
        shapes=[*shapes, shapes[0], shapes[0]],
        places=np.array([*places, places[0], places[0]], dtype=bool),
        task_duration=[1] * 8,
    )  # fmt: skip
    found = problem_at(workload, 0)
    assert found.kinds == {
        "ana": ["ana@b+c:cpu", "ana@b+c:cpu+gpu", "ana@a (2)", "ana@a+2 more", "ana@all"]
    }
    assert found.problem.users.names == (*found.kinds["ana"], "ana@a (user)", "bo")
    assert found.renamed == {"ana@a": "ana@a (user)"}
    assert found.problem.demand.tolist()[0] == [1.5, 0]
    # Of 16 cores, their tasks take 3, 1, 1, 3 and 1; none takes more of the 16 GPUs.
    assert found.problem.weight.tolist() == pytest.approx([3 / 9, 1 / 9, 1 / 9, 3 / 9, 1 / 9, 0, 1])


@pytest.mark.parametrize(
    ("users", "new"),
    [
        (("ana", "ana@big", "cy"), "ana@big (user)"),
        (("ana", "ana@old", "ana@old (user)"), "ana@old (user 2)"),
    ],
)
def test_a_user_with_the_name_of_a_kind_is_renamed(
    tmp_path: Path, capsys: Capture, users: tuple[str, ...], new: str
) -> None:
    """Else reports would add up its rows and those of ana, or of two users ana@...."""
    trace = tmp_path / "x.parquet"
    write_parquet(replace(known_trace(), users=users), trace)
    assert convert(trace, "-o", tmp_path / "p.yaml", "--at", "20") == 0
    assert (
        f"user {users[1]} is named {new}, as {users[1]} is the name of a kind of tasks\n"
        in capsys.readouterr().out
    )
    problem = fairlead.load(tmp_path / "p.yaml")
    assert problem.users.names[-1] == new
    assert rows_of_split_users(problem.users.names, problem.cluster) == {"ana": [0, 1]}


@given(st.integers(0, 10_000))
def test_fair_shares_are_those_of_replays(seed: int) -> None:
    """The kinds of a user are due together what the figures of a run give the user."""
    workload = replace(random_workload(seed), queues=None)
    time = float(workload.job_submit[-1])
    try:
        found = problem_at(workload, time)
    except InputError:
        reject()
    assume(not found.too_large and found.problem.count.all())
    problem = found.problem
    active, task = np.zeros(workload.n_sets, dtype=np.int64), 0
    for k, tasks in enumerate(workload.set_tasks.tolist()):
        job = workload.set_job[k]
        for _ in range(tasks):
            start = workload.task_start[task]
            never = not np.isfinite(start)
            end = workload.job_cancel[job] if never else start + workload.task_duration[task]
            active[k] += workload.job_submit[job] <= time < end
            task += 1
    shares = FairDivider(
        workload.job_user[workload.set_job],
        workload.set_place,
        workload.shapes[workload.set_shape],
        workload.places,
        workload.weight,
        "drfh",
    ).fair(active, workload.cluster.capacity, problem.count)
    due = fairlead.solve(problem, "drfh").user_tasks[:, None] * problem.demand
    users = [found.kinds.get(name, [name]) for name in workload.users]
    names = problem.users.names
    sums = [due[[name in of for name in names]].sum(axis=0) for of in users]
    assert np.allclose(sums, shares.amounts, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ["link.json", "/proc/held.json"])
def test_neither_file_is_written_where_one_cannot_be(
    trace: Path, tmp_path: Path, name: str
) -> None:
    problem = tmp_path / "p.yaml"
    problem.write_text("old\n")
    (tmp_path / "link.json").symlink_to(problem)
    assert convert(trace, "-o", problem, "--at", 20, "--held", tmp_path / name) == 2
    assert problem.read_text() == "old\n"


def test_a_link_to_itself_becomes_a_file(trace: Path, tmp_path: Path) -> None:
    problem, held = tmp_path / "p.yaml", tmp_path / "held.json"
    held.symlink_to(held)
    problem.symlink_to(problem)
    assert convert(trace, "-o", problem, "--at", 20, "--held", held) == 0
    assert read_allocation(held, fairlead.load(problem)).tasks.sum() == 2


def test_a_draining_server_counts_while_tasks_run_on_it() -> None:
    drained = replace(known_trace(), server_time=np.array([30.0]), server_event=np.array([DRAIN]))
    assert problem_at(drained, 35).problem.count.tolist() == [2, 1]
    assert problem_at(drained, 45).problem.count.tolist() == [2, 0]


def test_it_goes_to_standard_output(trace: Path, capsys: Capture) -> None:
    assert convert(trace, "-o", "-", "--at", 20, "--exclude", "bo") == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("fairlead: 1\n")
    assert "bo" not in printed.out
    assert printed.err == f"users: 2, servers: 3, running tasks: 2, waiting tasks: 1\n{KINDS}"


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--at", "500"], "--at: no task that fits a server waits or runs at 500 s"),
        (["--at", "noon"], "--at: must be seconds, a number with"),
        (["--at", "20", "--from", "10"], "--from: is for traces, not for a problem file"),
        (["--at", "20", "--exclude", "dee"], "--exclude: there is no user 'dee'"),
        (["--held", "held.json"], "--held: needs --at TIME"),
        (["--at", "20", "--held", "held.yaml"], "--held: must end in .json"),
        (["--at", "20", "--held", "none/held.json"], "none/held.json: there is no folder"),
        (["--at", "20", "-o", "out.parquet"], "--at: "),
        (["--at", "20", "-o", "-", "--json"], "-o -: standard output cannot take both"),
        (["--at", "20", "-o", "absent/out.yaml"], "absent/out.yaml: there is no folder"),
    ],
)
def test_unusable_options_write_nothing(
    trace: Path, tmp_path: Path, capsys: Capture, words: list[str], fault: str
) -> None:
    assert convert(trace, "-o", tmp_path / "out.yaml", *words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"fairlead: {fault}")
    assert printed.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == [trace]


def test_unknown_servers_of_running_tasks_are_refused() -> None:
    unplaced = replace(known_trace(), task_server=np.full(7, -1, dtype=np.int32))
    assert fault_of(problem_at(unplaced, 20).allocation) == (
        "--held: the trace does not record the servers of 2 of 2 running tasks"
    )


@pytest.mark.parametrize(("second", "devices"), [(0.5, ("gpu",)), (1.0, ())])
def test_devices_stay_where_means_admit_them(second: float, devices: tuple[str, ...]) -> None:
    """Tasks of .5 and .5 are a mean of .5; those of 1 and 2 are one of 1.5, which no task takes."""
    gpus = [0.5, 0.5] if second == 0.5 else [1.0, 2.0]
    cluster = Cluster(
        ("a",), ("gpu",), np.array([[4.0]]), np.array([1]), ("",), ({},), devices=("gpu",)
    )
    workload = Workload.from_arrays(
        cluster,
        ["ana"],
        job_user=[0, 0],
        job_submit=[0, 0],
        set_job=[0, 1],
        set_tasks=[1, 1],
        shapes=[[gpu] for gpu in gpus],
        task_duration=[10, 10],
        task_start=[0, 0],
    )
    problem = problem_at(workload, 5).problem
    assert problem.cluster.devices == devices
    assert problem.demand.tolist() == [[sum(gpus) / 2]]


def test_tasks_of_several_sizes_are_no_whole_tasks(tmp_path: Path) -> None:
    """An audit then also finds users who hold less than one mean task, such as zoe of 4 GPUs."""
    cluster = Cluster(("g",), ("gpu",), np.array([[4.0]]), np.array([1]), ("",), ({},))
    workload = Workload.from_arrays(
        cluster, ["ana", "zoe"], job_user=[0, 1, 1], job_submit=[0] * 3, set_job=range(3),
        set_tasks=[8, 1, 1], shapes=[[1], [1], [4]], task_duration=[100] * 10,
        task_start=[0] * 4 + [100] * 6, task_server=[0] * 10,
    )  # fmt: skip
    found = problem_at(workload, 50)
    assert found.allocation()["whole_tasks"] is False
    held = tmp_path / "held.json"
    held.write_text(json.dumps(found.allocation()))
    assert not read_allocation(held, found.problem).whole_tasks
