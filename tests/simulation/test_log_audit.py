"""Audits of recorded runs: shares and waits by hand, and the limits of a gate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from fairlead.cli.main import run
from fairlead.model.problem import Problem
from fairlead.model.workload import DRAIN, JOIN, LEAVE, Workload
from fairlead.simulation import log_audit
from fairlead.simulation.log_audit import audit_log, worst_time
from fairlead.simulation.metrics.fairness_error import FairnessError
from fairlead.traces.time_window import time_window
from page_reader import Reader

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def few_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare shares at 20 instants, not at 500."""
    monkeypatch.setattr(log_audit, "audit_log", partial(audit_log, instants=20))


NODES = """\
NodeName=g1 CPUTot=8 RealMemory=8192 Gres=gpu:4 State=IDLE Partitions=gpu
NodeName=g2 CPUTot=8 RealMemory=8192 Gres=gpu:4 State=IDLE Partitions=gpu
"""
HEADING = "JobID|User|Partition|Submit|Start|End|State|AllocTRES|ReqTRES|NNodes|NodeList\n"
ASKS = "cpu=8,mem=8G,gres/gpu=4,node=1"
DAY = "2025-01-01T"


def row(job: int, user: str, times: tuple[str, str, str], state: str, node: str = "") -> str:
    submit, start, end = (t if t == "Unknown" else DAY + t for t in times)
    held = ASKS if node else ""
    return f"{job}|{user}|gpu|{submit}|{start}|{end}|{state}|{held}|{ASKS}|1|{node}\n"


@pytest.fixture
def hog(tmp_path: Path) -> list[str]:
    """Hugo has both nodes from 08:00 on; cy's and bo's jobs wait from 10:00 on."""
    table = HEADING + row(1, "ana", ("07:00:00", "07:00:00", "08:00:00"), "COMPLETED", "g1")
    for job, node in ((2, "g1"), (3, "g2")):
        table += row(job, "hugo", ("08:00:00", "08:00:00", "Unknown"), "RUNNING", node)
    for job, user in ((4, "bo"), (5, "cy")):
        table += row(job, user, ("10:00:00", "Unknown", "Unknown"), "PENDING")
    (tmp_path / "sacct.txt").write_text(table)
    (tmp_path / "nodes.txt").write_text(NODES)
    return f"trace audit {tmp_path}/sacct.txt --machines {tmp_path}/nodes.txt".split()


# The ten hours in which all jobs wait or run.
TEN_HOURS = ["--from", f"{DAY}10:00", "--to", f"{DAY}20:00"]


def answer_of(capsys: Capture, words: Sequence[str], status: int = 0) -> dict[str, Any]:
    assert run([*words, "--json"]) == status
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def replace_in(path: str, old: str, new: str) -> None:
    text = Path(path).read_text()
    assert old in text
    Path(path).write_text(text.replace(old, new))


def add_row(hog: list[str], text: str) -> None:
    Path(hog[2]).write_text(Path(hog[2]).read_text() + text)


def test_a_user_that_holds_all_is_found(hog: list[str], capsys: Capture) -> None:
    """Each of the three users is due a third."""
    users = answer_of(capsys, [*hog, *TEN_HOURS])["users"]
    assert users.keys() == {"hugo", "bo", "cy"}
    for user, held, longest in (("hugo", 10, 0), ("bo", 0, 36_000), ("cy", 0, 36_000)):
        found = users[user]
        assert found["held_cluster_hours"] == pytest.approx(held)
        assert found["due_cluster_hours"] == pytest.approx(10 / 3)
        assert found["owed_cluster_hours"] == pytest.approx(10 / 3 - held)
        assert found["under"] == pytest.approx(1 - held * 3 / 10)
        assert found["longest_wait"] == longest
        assert (found["running_tasks"], found["waiting_tasks"]) == ((2, 0) if held else (0, 1))


@pytest.mark.parametrize(
    ("limit", "beyond"),
    [
        (["--max-owed", "3"], True),
        (["--max-owed", "3.4"], False),
        (["--max-wait", "9h59m"], True),
        (["--max-wait", "10h"], False),
        (["--max-under", "99%"], True),
        (["--max-under", "1.0"], False),
        (["--max-under", "50%", "--min-due", "3.3"], True),
        (["--max-under", "50%", "--min-due", "3.4"], False),
    ],
)
def test_limits_decide_the_status(
    hog: list[str], capsys: Capture, limit: list[str], beyond: bool
) -> None:
    found = answer_of(capsys, [*hog, *TEN_HOURS, *limit], status=beyond)
    assert [b["user"] for b in found["beyond"]] == (["bo", "cy"] if beyond else [])
    if limit[-1] == "3.4" and "--min-due" in limit:
        assert run([*hog, *TEN_HOURS, *limit]) == 0
        assert "No user's share is judged" in capsys.readouterr().out


def test_the_last_hours_end_at_the_last_event(hog: list[str], capsys: Capture) -> None:
    """The last event is the submission at 10:00; nobody waits before it."""
    found = answer_of(capsys, [*hog, "--last", "90m"])
    assert (found["since"], found["until"]) == pytest.approx((5400, 10_800), abs=1)
    assert found["users"]["hugo"]["owed_cluster_hours"] == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--from", "2h", "--last", "1h"], "--last: cannot be given with --from"),
        (["--to", "99h"], "--to: is after the last event"),
        (["--from", f"{DAY}12:00"], "--from: is not before the end"),
        (["--max-owed", "-1"], "'--max-owed': must be at least 0"),
        (["--max-owed", "inf", "--json"], "--max-owed: must be a finite number"),
        (["--min-due", "inf", "--max-under", "5%"], "--min-due: must be a finite number"),
        (["--max-under", "130%"], "--max-under: must be a fraction"),
        (["--max-wait", "12"], "--max-wait: must be a time above 0 with a unit"),
        (["--last", "0d"], "--last: must be a time above 0 with a unit"),
        (["--min-due", "3"], "--min-due: needs --max-under"),
        (["--fair", "none"], "fair: must be one of"),
    ],
)
def test_odd_options_are_refused(
    hog: list[str], capsys: Capture, words: list[str], fault: str
) -> None:
    assert run([*hog, *words]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert fault in told.err


EVENING = ["--to", f"{DAY}20:00"]
ONE_SERVER = ["--servers", "1", "--cores", "8", *EVENING]
TWO_SERVERS = ["--servers", "2", "--cores", "8", *EVENING]


class Unfit(NamedTuple):
    """A log on which no limit can be checked, made from that of the hog."""

    fault: str
    words: Sequence[str] = ()  # further options
    table: tuple[str, str] = ("", "")  # text of the table, and what replaces it
    nodes: tuple[str, str] | None = ("", "")  # the same of the nodes; None without their file


LAST_ROW = row(5, "cy", ("10:00:00", "Unknown", "Unknown"), "PENDING")
LAST_HOURS = [*EVENING, "--last", "10h"]
UNFIT = [
    Unfit("may be cut off", table=(LAST_ROW, LAST_ROW.rstrip())),
    Unfit("ask sacct for ReqTRES: 2", table=("ReqTRES", "Other")),
    Unfit("jobs of a partition that no node has", table=("4|bo|gpu", "4|bo|fast")),
    Unfit(
        "column Partition: 5",
        EVENING,
        ("|Partition|", "|Other|"),
        (
            "NodeName=g1 CPUTot=8 RealMemory=8192 Gres=gpu:4 State=IDLE Partitions=gpu",
            "NodeName=g1 CPUTot=8 RealMemory=8192 Gres=gpu:4 State=IDLE Partitions=cpu",
        ),
    ),
    *(
        Unfit("arrays whose jobs cannot be read", table=("\n4|", f"\n4_{jobs}|"))
        for jobs in ("[1,3,...]", "[9-2]", "[x]")
    ),
    Unfit("(column NodeList) of 2 of 2 tasks", nodes=("NodeName=g", "NodeName=other")),
    Unfit("have no partitions: 5", table=("4|bo|gpu|", "4|bo|cpu|"), nodes=("Partitions=gpu", "")),
    Unfit("took more than their nodes have", nodes=("CPUTot=8", "CPUTot=7")),
    Unfit("held more than all servers have", ONE_SERVER, (",gres/gpu=4", ""), None),
    Unfit("as many GPUs as the largest task holds: 5", TWO_SERVERS, nodes=None),
    Unfit("after the last event of the table", ["--to", "2025-01-08", "--last", "1d"]),
    Unfit("ended 60 min after its start", ["--from", f"{DAY}07:30"]),
    Unfit("no job of the table has ended", EVENING, table=("COMPLETED", "RUNNING")),
    Unfit("12 h before the end: none can be above", [*LAST_HOURS, "--max-wait", "12h"]),
]


@pytest.mark.parametrize("case", UNFIT, ids=lambda case: case.fault[:30])
def test_a_gate_refuses_what_it_cannot_judge(hog: list[str], capsys: Capture, case: Unfit) -> None:
    replace_in(hog[2], *case.table)
    if case.nodes is not None:
        replace_in(hog[4], *case.nodes)
    words = [*(hog if case.nodes is not None else hog[:3]), *case.words]
    assert run([*words, "--max-owed", "30"]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert case.fault in told.err
    if "--max-wait" not in words:
        assert run(words) == 0


def test_a_gate_takes_what_it_can_judge(hog: list[str]) -> None:
    """Waits as long as the table can show, and a table that names no partition of one."""
    assert run([*hog, *LAST_HOURS, "--max-wait", "11.9h"]) == 0
    replace_in(hog[2], "|Partition|", "|Other|")
    assert run([*hog, *EVENING, "--max-owed", "30"]) == 0


@pytest.mark.parametrize(
    ("jobs", "is_refused"),
    [
        # Times of hours, cores, GPUs, nodes. Together more cores, or GPUs, than a node has:
        ([("01", "02", 5, 1, "g1"), ("01", "03", 4, 1, "g1")], True),
        ([("01", "03", 1, 3, "g1"), ("02", "03", 1, 2, "g1")], True),
        # One ends when the other starts; both on other nodes.
        ([("02", "03", 5, 1, "g1"), ("01", "02", 4, 1, "g1")], False),
        ([("01", "03", 5, 3, "g1"), ("01", "03", 5, 3, "g2")], False),
        # A run of no second, and parts of a job that sacct does not tell.
        ([("01", "01", 5, 1, "g1"), ("01", "02", 4, 1, "g1")], False),
        ([("01", "02", 10, 2, "g[1-2]"), ("01", "03", 4, 1, "g2")], False),
    ],
)
def test_a_gate_refuses_nodes_that_are_overfull(
    hog: list[str], capsys: Capture, jobs: list[tuple[str, str, int, int, str]], is_refused: bool
) -> None:
    rows = row(1, "ana", ("00:00:00", "00:00:00", "00:30:00"), "COMPLETED", "g1")
    for k, (start, end, cores, gpus, nodes) in enumerate(jobs):
        each = row(k + 2, "bo", ("00:00:00", f"{start}:00:00", f"{end}:00:00"), "COMPLETED", nodes)
        count = 2 if "[" in nodes else 1
        rows += each.replace(ASKS, f"cpu={cores},mem=8G,gres/gpu={gpus},node={count}")
    Path(hog[2]).write_text(HEADING + rows)
    assert run([*hog, "--max-owed", "30"]) == (2 if is_refused else 0)
    assert ("took more than their nodes have" in capsys.readouterr().err) == is_refused


def test_a_gate_refuses_a_copy_without_the_last_jobs(
    hog: list[str], tmp_path: Path, capsys: Capture
) -> None:
    copy = str(tmp_path / "copy.parquet")
    assert run(["trace", "convert", *hog[2:], "-o", copy]) == 0
    assert run(["trace", "audit", copy]) == 0
    capsys.readouterr()
    assert run(["trace", "audit", copy, "--max-owed", "3"]) == 2
    assert "audit the sacct table itself" in capsys.readouterr().err


def test_the_time_begins_where_the_table_is_complete(hog: list[str], capsys: Capture) -> None:
    """Ana's job was submitted at 01:00; jobs that ended before 08:00 may be missing."""
    replace_in(hog[2], f"ana|gpu|{DAY}07", f"ana|gpu|{DAY}01")
    found = answer_of(capsys, hog)
    assert (found["since"], "ana" in found["users"]) == (7 * 3600, False)
    assert "ana" in answer_of(capsys, [*hog, "--from", f"{DAY}01:00"])["users"]


def test_rounding_passes_no_limit_of_0(hog: list[str], capsys: Capture) -> None:
    """From 08:00 to 10:00 hugo alone has jobs, and all that he asks for."""
    window = ["--from", f"{DAY}08:00", "--to", f"{DAY}09:59"]
    assert answer_of(capsys, [*hog, *window, "--max-owed", "0", "--max-under", "0"])["beyond"] == []


@pytest.mark.parametrize(
    ("rows", "window", "fault"),
    [
        (5, ("07:30", "07:40"), ""),  # ana's job runs, and later ones are in the table
        (1, ("09:00", "20:00"), "no limit can be checked: no job ran or waited in this period"),
        (1, ("07:30", "20:00"), "no job runs or waits at the end of the period"),
        (1, ("07:30", "08:00"), ""),  # it ended then, and so does the time
        (2, ("07:30", "20:00"), ""),  # hugo's job had not ended
    ],
)
def test_a_gate_refuses_a_table_without_what_runs_now(
    hog: list[str], capsys: Capture, rows: int, window: tuple[str, str], fault: str
) -> None:
    """As one of COMPLETED jobs alone, or one of last week."""
    table = Path(hog[2])
    lines = table.read_text().splitlines(keepends=True)[: 1 + rows]
    other = row(9, "zoe", ("06:00:00", "06:00:00", "06:30:00"), "COMPLETED", "g2")
    table.write_text("".join([*lines, other]))
    begin, end = (f"{DAY}{time}" for time in window)
    words = ["--from", begin, "--to", end, "--max-owed", "30"]
    assert run([*hog, *words]) == (2 if fault else 0)
    assert fault in capsys.readouterr().err


def test_a_gate_refuses_the_jobs_of_one_user(hog: list[str], capsys: Capture) -> None:
    replace_in(hog[2], "|bo|", "|hugo|")
    one = [*hog, "--from", f"{DAY}08:30", *EVENING, "--exclude", "ana", "--exclude", "cy"]
    assert run(one) == 0
    assert run([*one, "--max-owed", "30"]) == 2
    assert "the only user is 'hugo'; sacct --allusers shows" in capsys.readouterr().err


def test_a_user_of_weight_0_is_beyond_no_limit(
    hog: list[str], tmp_path: Path, capsys: Capture
) -> None:
    weights = tmp_path / "weights.yaml"
    words = [*hog, *EVENING, "--max-wait", "5h", "--weights", str(weights)]
    for text, users in (("bo: 1", {"bo", "cy"}), ("bo: 0", {"cy"})):
        weights.write_text(text)
        assert {b["user"] for b in answer_of(capsys, words, status=1)["beyond"]} == users


def test_waits_are_of_one_kind_of_tasks_and_from_their_begin(
    hog: list[str], capsys: Capture
) -> None:
    """A task of bo without GPUs hides no wait of the one with them, which began at 10:00."""
    small = row(6, "bo", ("09:00:00", "09:00:00", "Unknown"), "RUNNING", "g1")
    add_row(hog, small.replace(ASKS, "cpu=1,mem=1G,node=1"))
    add_row(hog, row(7, "zoe", ("19:00:00", "Unknown", "Unknown"), "PENDING"))
    replace_in(hog[4], "CPUTot=8", "CPUTot=9")
    window = ["--from", f"{DAY}18:00", *EVENING]
    bo = answer_of(capsys, [*hog, *window, "--max-wait", "9h"], status=1)["users"]["bo"]
    assert (bo["longest_wait"], bo["wait_from"]) == (36_000, 3 * 3600)
    assert bo["wait_of"] == "cpu, memory, gpu on all servers"


def test_a_task_that_fits_no_server_waits_for_nobody(hog: list[str], capsys: Capture) -> None:
    large = row(6, "dee", ("09:00:00", "Unknown", "Unknown"), "PENDING").replace("gpu=4", "gpu=9")
    add_row(hog, large)
    found = answer_of(capsys, [*hog, *EVENING])
    assert ("dee" in found["users"], found["unplaceable"]) == (False, ["dee"])
    assert run([*hog, "--max-owed", "9"]) == 2
    assert "tasks of dee, such as those of job 6" in capsys.readouterr().err
    withdrawn = large.replace("Unknown|Unknown|PENDING", f"None|{DAY}09:30:00|CANCELLED by 7")
    replace_in(hog[2], large, withdrawn)
    assert run([*hog, *EVENING, "--last", "10h", "--max-owed", "9"]) == 0
    assert run([*hog, *EVENING, "--last", "11h", "--max-owed", "9"]) == 2


def test_a_job_of_more_than_a_node_waits_for_several(hog: list[str], capsys: Capture) -> None:
    """Until it starts ReqTRES has one node."""
    large = row(6, "dee", ("09:00:00", "Unknown", "Unknown"), "PENDING")
    add_row(hog, large.replace("cpu=8", "cpu=15"))
    found = answer_of(capsys, [*hog, *EVENING, "--max-wait", "10.5h"], status=1)
    assert found["users"]["dee"]["waiting_tasks"] == 2
    assert [breach["user"] for breach in found["beyond"]] == ["dee"]
    assert found["unplaceable"] == []


def test_most_of_what_is_owed_has_the_shortest_time() -> None:
    """At most 19 are owed, from hour 1 or from hour 3 on; four fifths of it in no less time."""
    owed = np.array([-2, 1, -1, 9, -1, 11, -5.0])[:, None]
    fairness = FairnessError(
        "drfh",
        np.arange(7) * 3600.0 + 1800,
        held=-owed @ [[1.0, 0.0]],
        fair=np.zeros((7, 2)),
        active=np.ones((7, 2), dtype=bool),
        weight=np.ones(2),
        interval=3600.0,
    )
    assert worst_time(fairness, 0) == (3 * 3600, 6 * 3600)
    assert worst_time(fairness, 1) is None


def test_most_of_a_steady_loss_is_four_fifths_of_its_time() -> None:
    """A sum of equal shares may exceed its four fifths by a rounding error."""
    time, owed = np.arange(50.0) + 0.5, np.full((50, 1), 0.7)
    active, weight = np.ones((50, 1), dtype=bool), np.ones(1)
    fairness = FairnessError("drfh", time, 0 * owed, owed, active, weight, interval=1.0)
    assert worst_time(fairness, 0) == (0, 40)


def test_a_column_that_comes_twice_is_refused(hog: list[str], capsys: Capture) -> None:
    replace_in(hog[2], "JobID|User|", "JobID|User|User|")
    assert run(hog) == 2
    assert "has column user twice" in capsys.readouterr().err


def test_waits_count_from_the_first_end_of_a_job(hog: list[str], capsys: Capture) -> None:
    add_row(hog, row(6, "dee", ("07:10:00", "Unknown", "Unknown"), "PENDING"))
    words = [*hog, *EVENING, "--last", "1d"]
    assert run([*words, "--max-owed", "30"]) == 2
    capsys.readouterr()
    found = answer_of(capsys, words)
    dee = found["users"]["dee"]
    assert (found["since"], dee["longest_wait"], dee["wait_from"]) == (3600, 12 * 3600, 3600)


def test_a_job_that_has_no_times_waits_whatever_its_state(hog: list[str], capsys: Capture) -> None:
    replace_in(hog[2], "PENDING", "REQUEUE_HOLD")
    beyond = answer_of(capsys, [*hog, *EVENING, "--max-wait", "9h"], status=1)["beyond"]
    assert {breach["user"] for breach in beyond} == {"bo", "cy"}


def test_a_node_that_is_down_counts_only_if_tasks_ran_on_it(
    hog: list[str], capsys: Capture
) -> None:
    """Of one node that hugo has, bo and cy are due a third each, as of two where hugo ran."""
    down = NODES.splitlines()[0].replace("=g1", "=g3").replace("IDLE", "DOWN")
    Path(hog[4]).write_text(NODES + down)
    for n_servers in (2, 3):
        if n_servers == 3:
            replace_in(hog[2], "|g2", "|g3")
        hugo = answer_of(capsys, [*hog, *TEN_HOURS])["users"]["hugo"]
        assert hugo["held_cluster_hours"] == pytest.approx(10 * 2 / n_servers)


def test_a_server_that_joins_after_a_window_counts_never() -> None:
    """Bo's task takes half of the only server; the other server joins, drains and leaves later."""
    trace = Workload.from_arrays(
        Problem.from_arrays([[4], [4]], [[1]], resources=["cpu"]).cluster,
        ["bo"],
        job_user=[0, 0, 0],
        job_submit=[0, 10, 25],
        set_job=[0, 1, 2],
        set_tasks=[1, 1, 1],
        shapes=[[2], [2], [2]],
        task_duration=[10, 10, 5],
        task_start=[0, 10, 25],
        server_time=[20, 30, 40],
        server_event=[JOIN, DRAIN, LEAVE],
        server=[1, 1, 1],
    )
    hours = audit_log(time_window(trace, 0, 15), instants=5).fairness.held_hours
    assert hours * 3600 == pytest.approx([15 / 2])


def test_a_trace_without_starts_is_refused(tmp_path: Path, capsys: Capture) -> None:
    day = str(tmp_path / "day.parquet")
    assert run(["trace", "generate", "-o", day, "--servers", "20", "--jobs", "20"]) == 0
    capsys.readouterr()
    assert run(["trace", "audit", day]) == 2
    assert "does not record when its tasks started; fairlead simulate" in capsys.readouterr().err


def test_a_page_has_the_hours_of_each_user(hog: list[str], tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "page.html"
    assert run([*hog, *EVENING, "--report", str(page)]) == 0
    capsys.readouterr()
    users = answer_of(capsys, [*hog, *EVENING])["users"]
    hours = sorted((u["held_cluster_hours"], u["due_cluster_hours"]) for u in users.values())
    rows = Reader(page.read_text()).numbers("What each user held and was due")
    assert sorted(row[:2] for row in rows) == pytest.approx(np.array(hours))
