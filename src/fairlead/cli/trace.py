"""``fairlead trace``: logs of real systems."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fairlead.cli.options import AsJson
from fairlead.cli.parameters import Argument, Option
from fairlead.cli.progress import progress_bar
from fairlead.cli.streams import emit, show
from fairlead.cli.trace_generate import say_written
from fairlead.cli.trace_options import (
    WAYS_TO_WRITE_A_TRACE,
    CoresOfServer,
    MachineFile,
    MemoryOfServer,
    ServersOfLog,
    check_place,
    check_trace_output,
    is_problem,
    is_trace,
    read_any_trace,
    write_trace,
)
from fairlead.errors import InputError

if TYPE_CHECKING:
    from fairlead.traces.problem_from_log import ConvertedLog


def info(
    trace: Annotated[Path, Argument(metavar="TRACE", help="Trace of any known format.")],
    machines: MachineFile = None,
    servers: ServersOfLog = None,
    cores: CoresOfServer = None,
    memory: MemoryOfServer = None,
    as_json: AsJson = False,
) -> None:
    """Describe a trace: machines by class, users, jobs, tasks, demands, durations.

    The format is told by the content: a trace of this project (Parquet, or a folder of CSV files),
    a MetaCentrum log with its machine file, any log in Standard Workload Format, openb's table of
    pods beside its table of nodes, a folder of Google's tables of 2011, or the journal of a
    fairlead serve.

    \b
    Example:
      fairlead trace info examples/logs/metacentrum.swf.gz
    """  # noqa: D301 (the help formatter reads \b as "keep these lines")
    workload, found = read_any_trace(trace, machines, servers, cores, memory)
    from fairlead.traces.trace_summary import summarize

    figures = {"fairlead": 1, "trace": str(trace), "format": found, **summarize(workload)}
    from fairlead.report.trace import trace_document

    show(trace_document(figures), as_json)


def convert(
    log: Annotated[
        Path,
        Argument(metavar="TRACE", help="Trace of any known format; see trace info --help."),
    ],
    output: Annotated[
        Path,
        Option(
            "--output",
            "-o",
            metavar="OUT",
            help=(
                "OUT.parquet, or a folder for CSV files: a trace. OUT.yaml, OUT.json, or - for "
                "standard output: a problem file of a MetaCentrum log."
            ),
        ),
    ],
    machines: MachineFile = None,
    servers: ServersOfLog = None,
    cores: CoresOfServer = None,
    memory: MemoryOfServer = None,
    as_json: AsJson = False,
) -> None:
    """Turn a trace into one of this project's format, or a batch log into a problem file.

    A trace keeps every job, when it came and how long it ran. In a problem file each user of the
    log becomes a user whose task is one node of its median job, kept to a group of servers when at
    least half of its jobs insist on that group.

    \b
    Example:
      fairlead trace convert examples/logs/metacentrum.swf.gz -o metacentrum.parquet
      fairlead trace convert examples/logs/metacentrum.swf.gz -o metacentrum.yaml
    """  # noqa: D301 (the help formatter reads \b as "keep these lines")
    if is_trace(output):
        check_trace_output(output, [log, *([machines] if machines else [])])
        workload, found = read_any_trace(log, machines, servers, cores, memory)
        write_trace(workload, output)
        say_written(workload, output, as_json, format=found)
        return
    if not is_problem(output):
        fault = f"{WAYS_TO_WRITE_A_TRACE}; a problem file as OUT.yaml, OUT.json or - "
        raise InputError(f"{fault}(standard output)", "", str(output))
    for name, value in (("--servers", servers), ("--cores", cores), ("--memory", memory)):
        if value is not None:
            raise InputError("is for traces, and a problem file is asked for", name)
    _convert_to_problem(log, output, machines, as_json)


def _convert_to_problem(log: Path, output: Path, machines: Path | None, as_json: bool) -> None:
    from fairlead.formats.problem_file import dump
    from fairlead.traces.metacentrum import machine_file_beside, read_jobs
    from fairlead.traces.metacentrum_machines import read_machines
    from fairlead.traces.problem_from_log import problem_from_jobs
    from fairlead.traces.readers import METACENTRUM, detect_format

    machine_file = machines if machines is not None else machine_file_beside(log)
    to_standard_output = str(output) == "-"
    if to_standard_output and as_json:
        raise InputError("standard output cannot take both the problem and --json", "", "-o -")
    if not to_standard_output:
        check_place(output, (log, machine_file))
    found = detect_format(log)
    if found != METACENTRUM:
        fault = f"a problem file is made of a MetaCentrum log, and this was read as {found}; "
        raise InputError(f"{fault}{WAYS_TO_WRITE_A_TRACE}", "", str(log))
    if not machine_file.exists():
        fault = "there is no such machine file; name one with --machines"
        fault = fault if machines is None else "there is no such file"
        raise InputError(fault, "", str(machine_file))
    with progress_bar(f"Reading {log.name}") as report:
        jobs = read_jobs(log, report)
        park = read_machines(machine_file)
        try:
            converted = problem_from_jobs(jobs, park)
        except InputError as error:
            raise (error if error.source else error.within(str(log))) from None
    dump(converted.problem, output)
    if as_json:
        import json

        figures = {"fairlead": 1, "output": str(output), **converted.to_dict()}
        emit(json.dumps(figures, indent=2) + "\n")
    elif to_standard_output:
        sys.stderr.write(_summary(converted))
    else:
        emit(_summary(converted) + f"wrote {output}\n")


def _summary(converted: ConvertedLog) -> str:
    cluster = converted.problem.cluster
    groups = ", ".join(
        f"{count} {name}" for name, count in zip(cluster.groups, cluster.count, strict=True)
    )
    lines = [
        f"{converted.problem.n_users} users, {cluster.count.sum()} servers ({groups})",
        f"{converted.jobs} jobs; left out, as they never ran: {converted.dropped}",
        f"users with a placement constraint: {len(converted.restricted)}",
    ]
    lines += [f"  {user}: {', '.join(open_)}" for user, open_ in converted.restricted.items()]
    if converted.larger_than_a_server:
        count = len(converted.larger_than_a_server)
        lines.append(f"users whose task exceeds one server of a group they may use: {count}")
    return "".join(f"{line}\n" for line in lines)
