"""``fairlead trace``: describe, convert and generate traces."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fairlead.cli.log_options import LogOptions, WindowOptions
from fairlead.cli.options import AsJson
from fairlead.cli.parameters import Argument, Option
from fairlead.cli.streams import emit_json, emit_lines, progress_bar, show
from fairlead.errors import InputError

if TYPE_CHECKING:
    from fairlead.model.workload import Workload
    from fairlead.traces.generator import Arrivals
    from fairlead.traces.logs.metacentrum import ConvertedLog

PARQUET_SUFFIX = ".parquet"
PROBLEM_SUFFIXES = (".yaml", ".yml", ".json")
WAY_TO_WRITE_A_TRACE = "a trace is written as OUT.parquet"
DEFAULT_USERS = 250


def info(
    trace: Annotated[Path, Argument(metavar="TRACE", help="Trace of any format listed above.")],
    log_options: LogOptions,
    as_json: AsJson = False,
) -> None:
    """Describe a trace: classes of machines, users, jobs, tasks, demands, durations.

    The format is found by the content of TRACE:

    \b
      a trace of this project, in Parquet
      the output of Slurm's sacct --parsable2
      the output of kubectl get nodes,pods -A -o json
      the journal of fairlead serve
      a log in Standard Workload Format
      a log of MetaCentrum, or of FIT's workflows, with its machine file
      a folder of tables of Google (2011 or 2019), PAI, Philly or Helios
      openb's table of pods, next to its table of nodes
      a workload of Batsim, or a trace of Gavel
      the table of Alibaba's DLRM instances

    \b
    Example:
      fairlead trace info examples/logs/metacentrum.swf.gz
    """
    workload, found = log_options.read(trace)
    from fairlead.traces.trace_summary import summarize

    figures = {"fairlead": 1, "trace": str(trace), "format": found, **summarize(workload)}
    from fairlead.report.trace_document import trace_document

    show(trace_document(figures), as_json)


def convert(
    log: Annotated[
        Path,
        Argument(metavar="TRACE", help="Trace of any format in `trace info --help`."),
    ],
    output: Annotated[
        Path,
        Option(
            "--output",
            "-o",
            metavar="OUT",
            help=(
                "To write a trace: OUT.parquet. To write a problem file of a MetaCentrum log or a "
                "Kubernetes dump: OUT.yaml, OUT.json, or - for standard output."
            ),
        ),
    ],
    *,
    log_options: WindowOptions,
    as_json: AsJson = False,
) -> None:
    """Convert a trace into this project's format, or a log or a dump into a problem file.

    A trace keeps every job with its arrival and duration. In a problem file each user's task is one
    node of the user's median job; it is restricted to a group of servers if at least half of the
    user's jobs require that group.

    \b
    Examples:
      fairlead trace convert examples/logs/metacentrum.swf.gz -o metacentrum.parquet
      fairlead trace convert examples/logs/metacentrum.swf.gz -o day.parquet --from 1d --to 2d
      fairlead trace convert examples/logs/metacentrum.swf.gz -o metacentrum.yaml
    """
    machines = log_options.machines
    if output.suffix == PARQUET_SUFFIX:
        _check_trace_output(output, [log, *([machines] if machines else [])])
        workload, found = log_options.read_window(log)
        from fairlead.traces.parquet_trace import write_parquet

        write_parquet(workload, output)
        _show_trace(workload, output, as_json, format=found)
        return
    if str(output) != "-" and output.suffix not in PROBLEM_SUFFIXES:
        fault = f"{WAY_TO_WRITE_A_TRACE}; a problem file as OUT.yaml, OUT.json or - "
        raise InputError(f"{fault}(standard output)", "", str(output))
    others = ("servers", "cores", "memory", "user_from", "exclude", "weights")
    for_traces = {name: f"--{name.replace('_', '-')}" for name in others}
    for name, option in ({"begin": "--from", "end": "--to"} | for_traces).items():
        if getattr(log_options, name) is not None:
            raise InputError("is for traces, not for a problem file", option)
    _convert_to_problem(log, output, machines, as_json)


def generate(
    output: Annotated[
        Path,
        Option("--output", "-o", metavar="OUT", help="OUT.parquet."),
    ],
    servers: Annotated[
        int, Option(metavar="N", help="Number of servers, drawn from Google's cluster of 2011.")
    ] = 2000,
    exact_park: Annotated[
        bool,
        Option(
            help="Take servers in the exact proportions of Google's 12,583 servers, not at random.",
        ),
    ] = False,
    users: Annotated[
        int | None, Option(metavar="N", help="Number of users. [default: 250]")
    ] = None,
    jobs: Annotated[
        int | None, Option(metavar="N", help="Number of jobs. [default: as many as --load needs]")
    ] = None,
    load: Annotated[
        float | None,
        Option(
            metavar="SHARE",
            help="Total demand of the jobs over --hours, relative to the servers' capacity. "
            "[default: 1 without --jobs]",
        ),
    ] = None,
    hours: Annotated[float, Option(metavar="H", help="Hours over which jobs arrive.")] = 24.0,
    seed: Annotated[int, Option(metavar="N", min=0, help="Random seed of the trace.")] = 0,
    job_events: Annotated[
        list[Path] | None,
        Option(
            metavar="PART",
            help="Take users and arrivals from this file of Google's job events, or from all such "
            "files in this folder. Repeatable.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Generate a day like one of Google's cluster of 2011; the same seed gives the same day.

    Servers are drawn from the published ones. Users and arrivals are drawn by laws that were
    measured on Google's job events, or with --job-events taken from such events. All laws are
    listed by help("fairlead.traces.generator") in Python.

    \b
    Example:
      fairlead trace generate -o day.parquet --servers 2000 --load 0.8 --hours 24 --seed 1
    """
    _check_trace_output(output, job_events or [])
    if job_events and users is not None:
        raise InputError("is fixed by --job-events", "--users")
    arrivals = _read_arrivals(job_events) if job_events else None
    from fairlead.traces.generator import generate_day
    from fairlead.traces.parquet_trace import write_parquet

    workload = generate_day(
        servers,
        users=DEFAULT_USERS if users is None else users,
        jobs=jobs,
        load=load,
        hours=hours,
        seed=seed,
        exact=exact_park,
        arrivals=arrivals,
    )
    write_parquet(workload, output)
    _show_trace(workload, output, as_json)


def _dump_to_problem(path: Path, output: Path, as_json: bool) -> None:
    """Write the problem of a Kubernetes dump: a user per namespace, a group per kind of node."""
    from fairlead.formats.kubernetes import read_kubernetes
    from fairlead.formats.problem_file import dump
    from fairlead.model.reductions import group_equal_servers
    from fairlead.report.numbers import counted

    holdings = read_kubernetes(path)
    problem = group_equal_servers(holdings.problem)
    dump(problem, output)
    servers = int(problem.count.sum())
    sizes = {
        "users": problem.n_users,
        "groups": problem.n_groups,
        "servers": servers,
        "not_modelled": list(holdings.not_modelled),
    }
    groups = counted(problem.n_groups, "group")
    size = f"{counted(problem.n_users, 'user')}, {counted(servers, 'server')} in {groups}"
    notes = (f"not modelled: {note}" for note in holdings.not_modelled)
    _show_written([size, *notes], sizes, output, as_json)


def _convert_to_problem(log: Path, output: Path, machines: Path | None, as_json: bool) -> None:
    """Write the problem of a whole log or dump; raise InputError for another format."""
    from fairlead.formats.problem_file import dump
    from fairlead.traces.logs.metacentrum import machine_file_beside, problem_from_jobs, read_jobs
    from fairlead.traces.logs.metacentrum_machines import read_machines
    from fairlead.traces.readers import KUBERNETES, METACENTRUM, detect_format

    machine_file = machines if machines is not None else machine_file_beside(log)
    if str(output) != "-":
        _check_file(output, (log, machine_file))
    elif as_json:
        raise InputError("standard output cannot take both the problem and --json", "", "-o -")
    found = detect_format(log)
    if found == KUBERNETES:
        _dump_to_problem(log, output, as_json)
        return
    if found != METACENTRUM:
        fault = (
            f"a problem file is made of a MetaCentrum log or a Kubernetes dump, and this was read "
            f"as {found}; "
        )
        raise InputError(f"{fault}{WAY_TO_WRITE_A_TRACE}", "", str(log))
    if not machine_file.exists():
        fault = "there is no such machine file; name one with --machines"
        fault = fault if machines is None else "there is no such file"
        raise InputError(fault, "", str(machine_file))
    with progress_bar(f"Reading {log.name}") as report:
        jobs = read_jobs(log, report)
        machine_list = read_machines(machine_file)
        try:
            converted = problem_from_jobs(jobs, machine_list)
        except InputError as error:
            raise (error if error.source else error.within(str(log))) from None
    dump(converted.problem, output)
    _show_written(_summary(converted), converted.to_dict(), output, as_json)


def _summary(converted: ConvertedLog) -> list[str]:
    """Describe a problem that was made of a log, in a few lines."""
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
    return lines


def _show_trace(workload: Workload, output: Path, as_json: bool, **more: str) -> None:
    """Describe a written trace, as JSON or text."""
    from fairlead.traces.trace_summary import summarize

    sizes = (
        f"{workload.n_servers:,} servers, {workload.n_users:,} users, {workload.n_jobs:,} jobs, "
        f"{workload.n_tasks:,} tasks"
    )
    notes = (f"{what}: {count:,}" for what, count in workload.notes.items())
    figures = {**more, **summarize(workload)} if as_json else {}
    _show_written([sizes, *notes], figures, output, as_json)


def _show_written(
    lines: Sequence[str], figures: Mapping[str, object], output: Path, as_json: bool
) -> None:
    """Describe a written file: as JSON, or as lines, which leave standard output to the file."""
    if as_json:
        emit_json({"fairlead": 1, "output": str(output), **figures})
    elif str(output) == "-":
        sys.stderr.write("".join(f"{line}\n" for line in lines))
    else:
        emit_lines([*lines, f"wrote {output}"])


def _read_arrivals(parts: list[Path]) -> Arrivals:
    """Read users and arrivals from Google's job events: files, or folders of them."""
    from fairlead.traces.logs.google import read_job_arrivals
    from fairlead.traces.logs.google_tables import PART

    files: list[Path] = []
    for part in parts:
        found = sorted(part.glob(PART)) if part.is_dir() else [part]
        if not found:
            raise InputError("holds no part-00000-of-00500.csv.gz or the like", "", str(part))
        files += found
    with progress_bar("Reading job events") as report:
        return read_job_arrivals(files, on_progress=report)


def _check_trace_output(output: Path, inputs: Sequence[Path]) -> None:
    """Raise InputError for an unwritable trace, before a long one is read."""
    if output.suffix != PARQUET_SUFFIX:
        raise InputError(WAY_TO_WRITE_A_TRACE, "", str(output))
    _check_file(output, inputs)


def _check_file(output: Path, inputs: Sequence[Path]) -> None:
    """Raise InputError for a file that cannot be written, or that is an input."""
    from fairlead.formats.atomic_files import check_writable

    for read in inputs or ("-",):
        check_writable(output, str(read), "input")
