"""``fairlead trace generate``: a Google-like day, or the script of a published figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fairlead.cli.options import AsJson
from fairlead.cli.parameters import Option
from fairlead.cli.progress import progress_bar
from fairlead.cli.streams import emit
from fairlead.cli.trace_options import check_trace_output, write_trace
from fairlead.errors import InputError

if TYPE_CHECKING:
    from fairlead.model.workload import Workload
    from fairlead.traces.generator import Arrivals

DEFAULT_USERS = 250
DEFAULT_SERVERS = 2000
DEFAULT_HOURS = 24.0


def generate(
    output: Annotated[
        Path,
        Option("--output", "-o", metavar="OUT", help="OUT.parquet, or a folder for CSV files."),
    ],
    servers: Annotated[
        int | None,
        Option(metavar="N", help="Servers, drawn from Google's park of 2011. [default: 2000]"),
    ] = None,
    exact_park: Annotated[
        bool,
        Option("--exact-park", help="In the park's proportions, not drawn; 12583 are all."),
    ] = False,
    users: Annotated[int | None, Option(metavar="N", help="Users. [default: 250]")] = None,
    jobs: Annotated[
        int | None, Option(metavar="N", help="Jobs; as many as bring the load.")
    ] = None,
    load: Annotated[
        float | None,
        Option(
            metavar="SHARE",
            help="What tasks ask for, of what the servers have meanwhile; 1 unless --jobs says.",
        ),
    ] = None,
    hours: Annotated[
        float | None, Option(metavar="H", help="Hours over which jobs arrive. [default: 24]")
    ] = None,
    seed: Annotated[int, Option(metavar="N", min=0, help="Seed of all chance.")] = 0,
    job_events: Annotated[
        list[Path] | None,
        Option(
            metavar="PART",
            help="Part of Google's job events, or their folder: real users and arrivals. Repeat.",
        ),
    ] = None,
    figure_4: Annotated[
        bool,
        Option("--figure-4", help="The script of Fig. 4 of Wang, Liang and Li 2014 instead."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Generate a day like one of Google's cluster of 2011, the same for the same seed.

    Servers are drawn from the published park; arrivals, users and durations follow the trace's job
    events, or are theirs (--job-events); the rest is documented in docs/traces.md.

    \b
    Example:
      fairlead trace generate -o day.parquet --servers 2000 --load 0.8 --hours 24 --seed 1
    """  # noqa: D301 (the help formatter reads \b as "keep these lines")
    given = {
        "--servers": servers,
        "--exact-park": exact_park or None,
        "--users": users,
        "--jobs": jobs,
        "--load": load,
        "--hours": hours,
        "--job-events": job_events or None,
    }
    check_trace_output(output, job_events or [])
    workload: Workload
    if figure_4:
        for name, value in given.items():
            if value is not None:
                raise InputError("is settled by the script of --figure-4", name)
        from fairlead.traces.generator import figure_4 as script

        workload = script(seed)
    else:
        if job_events and users is not None:
            raise InputError("is settled by --job-events", "--users")
        arrivals = _arrivals(job_events) if job_events else None
        from fairlead.traces.generator import generate_day

        workload = generate_day(
            DEFAULT_SERVERS if servers is None else servers,
            users=DEFAULT_USERS if users is None else users,
            jobs=jobs,
            load=load,
            hours=DEFAULT_HOURS if hours is None else hours,
            seed=seed,
            exact=exact_park,
            arrivals=arrivals,
        )
    write_trace(workload, output)
    say_written(workload, output, as_json)


def say_written(workload: Workload, output: Path, as_json: bool, **more: str) -> None:
    """Describe the written files, as JSON or text."""
    if as_json:
        import json

        from fairlead.traces.trace_summary import summarize

        figures = {"fairlead": 1, "output": str(output), **more, **summarize(workload)}
        emit(json.dumps(figures, indent=2, allow_nan=False) + "\n")
        return
    notes = [f"{what}: {count:,}\n" for what, count in workload.notes.items()]
    emit(
        f"{workload.n_servers:,} servers, {workload.n_users:,} users, {workload.n_jobs:,} jobs, "
        f"{workload.n_tasks:,} tasks\n{''.join(notes)}wrote {output}\n"
    )


def _arrivals(parts: list[Path]) -> Arrivals:
    from fairlead.traces.google import read_job_arrivals
    from fairlead.traces.google_tables import PART

    files: list[Path] = []
    for part in parts:
        found = sorted(part.glob(PART)) if part.is_dir() else [part]
        if not found:
            raise InputError("holds no part-00000-of-00500.csv.gz or the like", "", str(part))
        files += found
    with progress_bar("Reading job events") as report:
        return read_job_arrivals(files, on_progress=report)
