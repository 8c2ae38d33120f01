"""``fairlead reproduce``: tables and figures of papers, computed again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairlead.cli.options import AsJson, ReportPath
from fairlead.cli.progress import replay_bars
from fairlead.cli.streams import (
    StoppedError,
    complain,
    emit,
    terminal_width,
    wants_plain_text,
)


def reproduce(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WHAT]...",
            help="Such as drfh/figure-4, or drfh for a whole paper; what there is if absent.",
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="Seed of what is random: days, durations, clocks."),
    ] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small day in the place of the paper's, in seconds.")
    ] = False,
    runs: Annotated[
        Path | None,
        typer.Option(
            "--runs",
            metavar="FOLDER",
            help="Keep what each policy did, as Parquet; what is there already is not repeated.",
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Policies at a time; as many as processors."),
    ] = None,
    as_json: AsJson = False,
    report: ReportPath = None,
) -> None:
    """Compute tables and figures of papers again, and set them beside what is printed.

    Each gets a verdict: equal, within its interval, same shape, or differs, and why. Figures of
    one day share their runs. The exit status is 1 if one differs.

    \b
    Example:
      fairlead reproduce drfh/figure-4 --report figure-4.html
    """  # noqa: D301 (the help formatter reads \b as "keep these lines")
    from fairlead.papers.catalogue import find_entries

    if not what:
        _list(as_json)
        return
    entries = find_entries(what)
    if report is not None:
        from fairlead.report.writing import check_writable

        check_writable(report)
    from fairlead.papers.catalogue import reproduce as reproduce_entry
    from fairlead.papers.setting import Setting
    from fairlead.papers.verdict import DIFFERS
    from fairlead.simulation.runs import RunsInterrupted

    try:
        with replay_bars() as on_progress:
            setting = Setting(
                seed=seed,
                quick=quick,
                folder=runs,
                processes=processes,
                on_found=_say_found,
                on_progress=on_progress,
            )
            found = {entry.key: (entry, reproduce_entry(entry, setting)) for entry in entries}
    except RunsInterrupted as interrupted:
        kept = f"; {len(interrupted.finished)} of {interrupted.runs} runs are finished and kept in "
        raise StoppedError(
            "interrupted; nothing is kept (what is finished is with --runs FOLDER)"
            if interrupted.folder is None
            else f"interrupted{kept}{interrupted.folder}; the same command goes on with the others"
        ) from None
    if report is not None:
        from fairlead.papers.page import reproductions_page
        from fairlead.report.writing import write_page

        write_page(report, reproductions_page(found))
    if as_json:
        import json

        figures = {key: reproduction.to_dict() for key, (_, reproduction) in found.items()}
        answer = {"fairlead": 1, "seed": seed, "quick": quick, "reproductions": figures}
        emit(json.dumps(answer, indent=2, allow_nan=False) + "\n")
    else:
        from fairlead.papers.tables import reproduction_tables

        emit(reproduction_tables(found, width=terminal_width(), plain=wants_plain_text()))
    if any(reproduction.verdict == DIFFERS for _, reproduction in found.values()):
        raise typer.Exit(1)


def _list(as_json: bool) -> None:
    from fairlead.papers.catalogue import CATALOGUE

    if as_json:
        import json

        rows = {
            entry.key: {
                "paper": f"{entry.paper.authors}, {entry.paper.title}, {entry.paper.venue}",
                "number": entry.number,
                "shows": entry.shows,
                "printed": entry.printed,
                "takes": entry.takes,
            }
            for entry in CATALOGUE.values()
        }
        emit(json.dumps({"fairlead": 1, "catalogue": rows}, indent=2) + "\n")
    else:
        from fairlead.papers.tables import catalogue_text

        text = catalogue_text(CATALOGUE.values(), width=terminal_width(), plain=wants_plain_text())
        emit(text)


def _say_found(name: str, path: Path) -> None:
    complain(f"{name}: finished before, read from {path}")
