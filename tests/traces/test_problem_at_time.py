"""The problem of one time of a trace: a known answer, its way through other verbs, and faults."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fairlead
from fairlead.cli.main import run
from fairlead.errors import InputError
from fairlead.formats.allocation_file import read_allocation
from fairlead.model.cluster import Cluster
from fairlead.model.queues import read_queues
from fairlead.model.workload import DRAIN, LEAVE, Workload
from fairlead.traces.parquet_trace import write_parquet
from fairlead.traces.problem_at_time import problem_at

Capture = pytest.CaptureFixture[str]
NEVER, UNKNOWN = np.inf, np.nan
AVERAGED = "users with tasks of several shapes or places, which the mean stands for: ana\n"


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
    assert problem.users.names == ("ana", "bo")
    assert problem.demand.tolist() == [[2], [2]]  # ana's is the mean of 1, 1 and 4
    assert problem.task_limit.tolist() == [3, 3]
    assert problem.weight.tolist() == [2, 1]
    assert problem.users.eligible.tolist() == [[True, True], [False, True]]
    assert problem.count.tolist() == [2, 1]


def test_ended_tasks_and_absent_servers_do_not_count() -> None:
    found = problem_at(known_trace(), 45)
    assert (found.running, found.waiting, found.too_large) == (2, 3, 1)
    assert found.problem.demand.tolist() == [[2.5], [2]]
    found = problem_at(known_trace(), 50)
    assert (found.running, found.waiting, found.too_large) == (2, 0, 4)
    assert found.problem.users.names == ("ana",)
    assert found.problem.count.tolist() == [2, 0]
    assert problem_at(known_trace(), 100).problem.demand.tolist() == [[4]]


def test_withdrawn_jobs_wait_no_longer() -> None:
    stays = replace(known_trace(), server=np.array([0], dtype=np.int32))
    assert problem_at(stays, 999).waiting == 3
    with pytest.raises(InputError, match="no task that fits a server waits or runs at 1000 s"):
        problem_at(stays, 1000)


def test_queues_of_the_trace_stay() -> None:
    tree = read_queues([{"name": "lab", "weight": 3}], [None, "lab", None], ("ana", "bo", "cy"))
    queues = problem_at(replace(known_trace(), queues=tree), 20).problem.users.queues
    assert queues is not None
    assert (queues.names, queues.of_user.tolist()) == (("lab",), [-1, 0])


def test_a_mean_that_fits_no_server_names_its_user() -> None:
    wide = Workload.from_arrays(
        Cluster(
            ("x", "y"), ("cpu", "gpu"), np.array([[9.0, 1], [1, 9]]), np.ones(2, dtype=np.int64),
            ("", ""), ({},) * 2,
        ),
        ["ana"], job_user=[0], job_submit=[0], set_job=[0, 0], set_tasks=[1, 1],
        shapes=[[9, 1], [1, 9]], task_duration=[1, 1],
    )  # fmt: skip
    with pytest.raises(InputError, match="user 'ana': the mean of its tasks fits no server"):
        problem_at(wide, 0)


def convert(trace: Path, *words: object) -> int:
    return run(["trace", "convert", str(trace), *map(str, words)])


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "x.parquet"
    write_parquet(known_trace(), path)
    return path


def test_allocate_and_compare_take_it(trace: Path, tmp_path: Path, capsys: Capture) -> None:
    early, late = tmp_path / "early.yaml", tmp_path / "late.json"
    assert convert(trace, "-o", early, "--at", "20s") == 0
    assert capsys.readouterr().out == (
        f"users: 2, servers: 3, running tasks: 2, waiting tasks: 4\n{AVERAGED}wrote {early}\n"
    )
    assert convert(trace, "-o", late, "--at", "0:45", "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["at"], figures["running"], figures["too_large"]) == (45, 2, 1)
    expected = problem_at(known_trace(), 20).problem
    assert fairlead.load(early).demand.tolist() == expected.demand.tolist()
    assert run(["allocate", str(early), "--json"]) == 0
    # bo's tasks of 2 cores may use the old server of 4 cores only.
    answer = fairlead.solve(fairlead.load(early), "ps-dsf")
    assert answer.tasks.sum(axis=1) == pytest.approx([3, 2])
    for words in (
        ["allocate", early, "--what-if", "servers:old+1"],
        ["audit", early],
        ["compare", early, late],
    ):
        assert run(list(map(str, words))) == 0


def test_held_amounts_are_those_of_running_tasks(trace: Path, tmp_path: Path) -> None:
    problem, held = tmp_path / "p.yaml", tmp_path / "held.json"
    for seconds, on in ((20, {"big": 1, "old": 1}), (45, {"big": 5})):
        assert convert(trace, "-o", problem, "--at", seconds, "--held", held) == 0
        assert json.loads(held.read_text()) == {
            "fairlead": 1,
            "mechanism": "recorded",
            "users": [
                {
                    "name": "ana",
                    "weight": 2,
                    "amounts": {group: {"cpu": cores} for group, cores in on.items()},
                },
                {"name": "bo", "weight": 1, "amounts": {}},
            ],
        }
        holdings = read_allocation(held, fairlead.load(problem))
        assert holdings.held[:, :, 0].tolist() == [[on["big"], on.get("old", 0)], [0, 0]]
        assert holdings.tasks.sum() == sum(on.values()) / (2 if seconds == 20 else 2.5)


def test_held_amounts_are_audited(trace: Path, tmp_path: Path, capsys: Capture) -> None:
    """Due are three tasks of 2 cores to ana, who holds 2 cores; two to bo, who holds none."""
    problem, held = str(tmp_path / "p.yaml"), str(tmp_path / "held.json")
    assert convert(trace, "-o", problem, "--at", 20, "--held", held) == 0
    capsys.readouterr()
    assert run(["audit", problem, "--allocation", held, "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    verdicts = {row["name"]: row["verdict"] for row in answer["properties"]}
    assert verdicts["feasibility"] == "holds"
    assert verdicts["sharing-incentive"] == "fails"
    assert verdicts["non-wastefulness"] == "unknown"  # the file does not tell what waits
    assert [row["fair_tasks"] for row in answer["users"]] == pytest.approx([3, 2])
    assert run(["audit", problem, "--allocation", held, "--max-under", "70%", "--json"]) == 1
    gate = json.loads(capsys.readouterr().out)["max_under"]
    assert (gate["user"], gate["under"], gate["finding"]) == ("bo", 1, "fails")


def test_users_with_unlike_tasks_and_overfull_servers_are_named(
    tmp_path: Path, capsys: Capture
) -> None:
    """ana's tasks are of 1 and of 4 cores, and all three run on the old server of 4 cores."""
    path, held = tmp_path / "x.parquet", tmp_path / "held.json"
    server = np.array([2, 2, 2, -1, -1, -1, -1], dtype=np.int32)
    write_parquet(replace(known_trace(), task_server=server), path)
    assert convert(path, "-o", tmp_path / "p.yaml", "--at", 35, "--held", held, "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["averaged"], figures["overfull"]) == (["ana"], ["old-0"])
    assert convert(path, "-o", tmp_path / "p.yaml", "--at", 35, "--held", held) == 0
    assert capsys.readouterr().out.splitlines()[1:-1] == [
        AVERAGED.rstrip(),
        "servers on which more runs than they have: old-0",
        f"wrote {held}",
    ]


@pytest.mark.parametrize("name", ["link.json", "none/held.json", "/proc/held.json"])
def test_neither_file_is_written_where_one_cannot_be(
    trace: Path, tmp_path: Path, capsys: Capture, name: str
) -> None:
    problem = tmp_path / "p.yaml"
    problem.write_text("old\n")
    (tmp_path / "link.json").symlink_to(problem)
    assert convert(trace, "-o", problem, "--at", 20, "--held", tmp_path / name) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert problem.read_text() == "old\n"


def test_a_link_to_itself_becomes_a_file(trace: Path, tmp_path: Path) -> None:
    problem, held = tmp_path / "p.yaml", tmp_path / "held.json"
    held.symlink_to(held)
    problem.symlink_to(problem)
    assert convert(trace, "-o", problem, "--at", 20, "--held", held) == 0
    assert read_allocation(held, fairlead.load(problem)).tasks.sum() == 1


def test_a_draining_server_counts_while_tasks_run_on_it() -> None:
    drained = replace(known_trace(), server_time=np.array([30.0]), server_event=np.array([DRAIN]))
    assert problem_at(drained, 35).problem.count.tolist() == [2, 1]
    assert problem_at(drained, 45).problem.count.tolist() == [2, 0]


def test_it_goes_to_standard_output(trace: Path, capsys: Capture) -> None:
    assert convert(trace, "-o", "-", "--at", 20, "--exclude", "bo") == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("fairlead: 1\n")
    assert "bo" not in printed.out
    assert printed.err == f"users: 1, servers: 3, running tasks: 2, waiting tasks: 1\n{AVERAGED}"


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--at", "1d"], "--at: 86400 s is after the end of the trace, 1000 s"),
        (["--at", "500"], "--at: no task that fits a server waits or runs at 500 s"),
        (["--at", "noon"], "--at: must be seconds, a number with"),
        (["--at", "20", "--from", "10"], "--from: is for traces, not for a problem file"),
        (["--at", "20", "--exclude", "dee"], "--exclude: there is no user 'dee'"),
        (["--held", "held.json"], "--held: needs --at TIME"),
        (["--at", "20", "--held", "held.yaml"], "--held: must end in .json"),
        (["--at", "20", "--held", "none/held.json"], "none/held.json: there is no directory"),
    ],
)
def test_unusable_times_write_nothing(
    trace: Path, tmp_path: Path, capsys: Capture, words: list[str], fault: str
) -> None:
    output = tmp_path / "out.yaml"
    assert convert(trace, "-o", output, *words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"fairlead: {fault}")
    assert printed.err.count("\n") == 1
    assert not output.exists()


def test_unknown_servers_of_running_tasks_are_refused(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "x.parquet"
    write_parquet(replace(known_trace(), task_server=np.full(7, -1, dtype=np.int32)), path)
    assert convert(path, "-o", tmp_path / "p.yaml", "--at", 20, "--held", "held.json") == 2
    fault = "--held: the trace does not record the servers of 2 of 2 running tasks\n"
    assert capsys.readouterr().err == f"fairlead: {fault}"
    assert list(tmp_path.iterdir()) == [path]


def test_other_outputs_and_bad_files_are_refused(
    trace: Path, tmp_path: Path, capsys: Capture
) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_text("nothing of use\n")
    for path, words in (
        (trace, ["-o", tmp_path / "out.parquet"]),
        (trace, ["-o", "-", "--json"]),
        (trace, ["-o", tmp_path / "absent" / "out.yaml"]),
        (bad, ["-o", tmp_path / "out.yaml"]),
        (tmp_path / "none", ["-o", tmp_path / "out.yaml"]),
    ):
        assert convert(path, *words, "--at", 20) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.txt", "x.parquet"]


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
