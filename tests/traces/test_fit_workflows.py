"""FIT's logs of workflows: each field of a few rows written by hand, each note, and each fault."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fairlead.traces.logs import swf as _swf
from fairlead.traces.logs.metacentrum import read_fit_workflows
from fairlead.traces.readers import FIT_WORKFLOWS, read_workload
from faults import fault_of, fault_within

HEADING = (
    "id submit wait runtime cpus cputimeused usedmem cpusreq walltime memreq status user group "
    "application queue partition precjob thinktime DAG_name Task_ID"
).replace(" ", "\t")
GIB = 2**20  # in KiB


def row(job: int, before: str = "-1", **changes: object) -> str:
    """A row of a log; `changes` are fields by the names of the heading."""
    fields: dict[str, object] = dict.fromkeys(HEADING.split("\t"), -1)
    fields |= {"id": job, "submit": 50, "wait": 0, "runtime": 60, "cpus": 3, "walltime": 90}
    fields |= {"memreq": 2 * GIB, "user": 7, "precjob": before, "thinktime": 0}
    fields |= {"DAG_name": "flow", "Task_ID": job}
    return "\t".join(map(str, (fields | changes).values()))


def write(folder: Path, *rows: str) -> Path:
    """A log with its machine file beside it."""
    log = folder / "flows.swf"
    log.write_text("".join(f"{line}\n" for line in rows))
    (folder / "flows.swf.machines").write_text(f"0\tFIT-a\t2\t4\t1\t{8 * GIB}\t30\n")
    return log


def test_a_job_of_a_workflow_is_one_task(tmp_path: Path) -> None:
    unnamed = HEADING.replace("DAG_name\tTask_ID", "DAG_id\t")
    later = row(3, "1&2", submit=55, cpus=4, user=2, runtime=9, walltime=-1)
    workload, found = read_workload(write(tmp_path, unnamed, row(1), row(2, "1"), later))
    assert found == FIT_WORKFLOWS
    assert workload.cluster.groups == ("FIT-a",)
    assert workload.cluster.capacity.tolist() == [[4, 8]]
    assert workload.cluster.count.tolist() == [2]
    assert workload.users == ("user-2", "user-7")
    assert workload.job_user.tolist() == [1, 1, 0]
    assert workload.job_submit.tolist() == [0, 0, 5]
    assert workload.job_limit.tolist() == [90, 90, np.inf]
    assert not workload.job_gang.any()
    assert workload.shapes[workload.set_shape].tolist() == [[3, 2], [3, 2], [4, 2]]
    assert workload.task_duration.tolist() == [60, 60, 9]
    assert not workload.has_starts
    assert workload.notes == {_swf.UNUSED_COLUMNS["preceding_job"]: 2}


def test_odd_jobs_of_workflows_are_counted(tmp_path: Path) -> None:
    rows = (row(1, runtime=-1), row(2, cpus=0), row(3, submit=-1), row(4, "1", memreq=-1, user=-1))
    workload = read_fit_workflows(write(tmp_path, HEADING, *rows))
    assert workload.shapes[workload.set_shape].tolist() == [[3, 0]]
    assert workload.users == ("user-unknown",)
    reasons = (_swf.NEVER_RAN, _swf.NO_PROCESSORS, _swf.NO_SUBMISSION, _swf.NO_MEMORY, _swf.NO_USER)
    waits = _swf.UNUSED_COLUMNS["preceding_job"]
    assert workload.notes == dict.fromkeys((*reasons, waits), 1)


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ((), "holds no job"),
        ((row(1), "2\t0\t0\t60"), "row 3: 4 columns separated by tabs, not 20"),
        ((row(1, "a"),), "row 2: column 17 (preceding job): 'a' is not a number"),
        ((row(1, cpus="x"),), "row 2: column 5 (cores allocated): 'x' is not a number"),
        ((row(1), row(1)), "row 3: duplicate job '1'"),
    ],
)
def test_unusable_logs_of_workflows(tmp_path: Path, rows: tuple[str, ...], fault: str) -> None:
    log = write(tmp_path, HEADING, *rows)
    assert fault_within(log, read_fit_workflows, log).startswith(fault)


def test_a_log_of_workflows_needs_its_machine_file(tmp_path: Path) -> None:
    log = write(tmp_path, HEADING, row(1))
    (tmp_path / "flows.swf.machines").unlink()
    assert "there is no such machine file" in fault_of(read_fit_workflows, log)
