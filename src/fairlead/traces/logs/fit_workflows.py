"""Read the logs of workflows named FIT, as published with the Alea simulator.

Source: github.com/aleasimulator/alea, ``data-set/FIT``. A heading is followed by a row for each job
with 20 columns separated by tabs: those of the Standard Workload Format, the workflow, and the task
in the workflow. The column of the preceding job may list several jobs, such as ``1&2&3``, which
must all end first.

A job is one task on one server. Its memory is read as KiB of the whole job. (Alea reads it per
node; if it were per core, the largest jobs would exceed every server.) Preceding jobs are counted
and not used. The log states a wait of 0 even for jobs that waited for others, so starts are
unknown.
"""

from __future__ import annotations

from pathlib import Path

from fairlead.errors import InputError
from fairlead.model.workload import Workload
from fairlead.traces._stored_files import ProgressReport, error_source, read_lines
from fairlead.traces.logs.job_collector import JobCollector
from fairlead.traces.logs.metacentrum import cluster_of, machines_of
from fairlead.traces.logs.swf import (
    FIELDS,
    KIB_PER_GIB,
    NEVER_RAN,
    NO_MEMORY,
    NO_PROCESSORS,
    NO_SUBMISSION,
    UNKNOWN,
    is_left_out,
    note_unused_columns,
    number_in_name,
    swf_row,
)

# The names of the last two columns differ among the logs.
HEADING = (
    "id submit wait runtime cpus cputimeused usedmem cpusreq walltime memreq status user group "
    "application queue partition precjob thinktime"
)
N_COLUMNS = len(FIELDS) + 2
PRECEDING = FIELDS.index("preceding job")


def is_fit_workflows(line: str) -> bool:
    """Return whether a line is the heading of a log of workflows."""
    return line.split("\t")[: len(FIELDS)] == HEADING.split()


def read_fit_workflows(
    path: Path, *, machines: Path | None = None, on_progress: ProgressReport | None = None
) -> Workload:
    """Read a log of workflows, and its machine file, which has MetaCentrum's format. O(rows)."""
    cluster = cluster_of(machines_of(path, machines))
    collected = JobCollector()
    for number, line in read_lines(path, on_progress):
        if not line or (number == 1 and is_fit_workflows(line)):
            continue
        fields = line.split("\t")
        with error_source(str(path), f"row {number}"):
            if len(fields) != N_COLUMNS:
                raise InputError(f"{len(fields)} columns separated by tabs, not {N_COLUMNS}")
            fields[PRECEDING] = fields[PRECEDING].partition("&")[0]
            row = swf_row(number, fields, str(path))
            left_out = {
                NO_SUBMISSION: row.submit == UNKNOWN,
                NEVER_RAN: row.run <= 0,
                NO_PROCESSORS: row.cores_allocated <= 0,
            }
            if is_left_out(left_out, collected.notes):
                continue
            note_unused_columns(row, collected.notes)
            collected.notes[NO_MEMORY] += row.memory_requested < 0
            collected.add_job(str(row.job), row.user_name, row.submit, limit=row.walltime)
            memory = max(row.memory_requested, 0.0) / KIB_PER_GIB
            collected.add_tasks((float(row.cores_allocated), memory), None, [row.run])
    return collected.workload(path, cluster, "FIT workflows", user_order=number_in_name)
