"""``fairlead reproduce``: compute the tables and figures of the papers again."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fairlead.cli.options import AsJson, RayAddress, executor_on
from fairlead.cli.parameters import Argument, Option
from fairlead.cli.streams import StoppedError, complain, show, stages_bar
from fairlead.errors import InputError

if TYPE_CHECKING:
    from fairlead_papers.reproduction import Entry, Reproduction
    from fairlead_papers.setting import Setting

NOTHING_KEPT = "interrupted; nothing was kept (--runs FOLDER keeps finished runs)"


def reproduce(
    what: Annotated[
        list[str] | None,
        Argument(
            metavar="WHAT...",
            help="A table or figure, such as drfh/figure-4, or a paper, such as drfh; default all.",
        ),
    ] = None,
    list_: Annotated[
        bool, Option("--list", help="List the tables and figures, and compute nothing.")
    ] = False,
    seed: Annotated[
        int,
        Option(metavar="N", min=0, help="Seed of all random numbers."),
    ] = 0,
    quick: Annotated[
        bool,
        Option(help="Small days and few trials: a minute or two for everything."),
    ] = False,
    set_: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="NAME=NUMBER",
            help="Change a parameter of the experiment, as --list shows them; may be repeated.",
        ),
    ] = None,
    runs: Annotated[
        Path | None,
        Option(
            metavar="FOLDER",
            help="Keep results and finished runs in FOLDER, and reuse those that it has.",
        ),
    ] = None,
    processes: Annotated[
        int | None,
        Option(metavar="N", min=1, help="Parallel processes; one per processor if absent."),
    ] = None,
    ray: RayAddress = None,
    as_json: AsJson = False,
) -> None:
    """Compute tables, figures and examples of the papers, and compare them with the printed ones.

    Each gets a verdict (equal, within its interval, same shape, or differs) and a reason. Errors
    and gaps of a paper are listed, each with a command that shows it. The exit status is 1 if a
    verdict is "differs" and papers/docs/reproducing.md does not list the difference; with --set it
    is 0.

    \b
    Example:
      fairlead reproduce drfh/figure-4 --set servers=1000
    """  # noqa: D301 (the help formatter reads \b as "keep these lines")
    from fairlead_papers.entries import find_entries, parse_parameters

    entries = find_entries(what or ())
    changed = parse_parameters(entries, set_ or ())
    if list_:
        for option, given in (
            ("--runs", runs),
            ("--processes", processes),
            ("--ray", ray),
            ("--set", set_),
        ):
            if given is not None:
                raise InputError("has no effect with --list, which computes nothing", option)
        from fairlead_papers._reproduction_document import catalogue_document

        show(catalogue_document(entries), as_json)
        return
    from fairlead.simulation.runs import RunsInterrupted
    from fairlead_papers.setting import Setting

    found: dict[str, tuple[Entry, Reproduction]] = {}
    try:
        with executor_on(ray, processes) as executor:
            _reproduce_all(entries, found, Setting(seed, quick, changed, runs, executor))
        from fairlead_papers._reproduction_document import changes_of, reproductions_document

        def values() -> dict[str, Any]:
            figures = {key: reproduction.to_dict() for key, (_, reproduction) in found.items()}
            for key, (entry, _) in found.items():
                if changes_of(entry, changed or {}):  # it is not the paper's experiment
                    for judged in (figures[key], *figures[key]["readings"]):
                        judged["verdict"] = None
            options = {"seed": seed, "quick": quick, "set": changed}
            return {"fairlead": 1, **options, "reproductions": figures}

        document = reproductions_document(found, given=changed, details=bool(what), values=values)
        show(document, as_json)
    except KeyboardInterrupt as interrupted:
        done = f"{len(found)} of {len(entries)}"
        if isinstance(interrupted, RunsInterrupted) and interrupted.finished:
            done += f", and {len(interrupted.finished)} of {interrupted.runs} runs for the next,"
        elif not found and runs is not None:
            raise StoppedError(f"interrupted; none of {len(entries)} was finished") from None
        then = "continues with the others" if len(found) < len(entries) else "reads them"
        kept = f"interrupted; {done} are finished and kept in {runs}; the same command {then}"
        raise StoppedError(NOTHING_KEPT if runs is None else kept) from None
    from fairlead_papers.reproduction import DIFFERS

    if changed:
        return  # with changed parameters differences from the paper are expected
    if any(r.verdict == DIFFERS and not entry.known_to_differ for entry, r in found.values()):
        sys.exit(1)


def _reproduce_all(
    entries: list[Entry],
    found: dict[str, tuple[Entry, Reproduction]],
    setting: Setting,
) -> None:
    """Reproduce each entry, and add the result to `found`."""
    from fairlead_papers.entries import reproduce as reproduce_entry

    with stages_bar() as step:
        setting = replace(setting, on_found=_report_kept, on_progress=step, on_step=step)
        for k, entry in enumerate(entries):
            if step is not None and len(entries) > 1:
                step("tables and figures", k, len(entries))
            found[entry.key] = (entry, reproduce_entry(entry, setting))


def _report_kept(name: str, path: Path) -> None:
    complain(f"{name}: finished before, read from {path}")
