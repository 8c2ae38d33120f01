"""``fairlead converge``: servers that divide themselves, each on its own."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from fairlead.cli.options import (
    AsJson,
    ProblemFile,
    RayAddress,
    SkipUnplaceable,
    TimeShared,
    executor_on,
    read_problem,
    title_of,
)
from fairlead.cli.parameters import Option
from fairlead.cli.streams import progress_bar, show
from fairlead.errors import InputError
from fairlead.model.quantity import typed_number

if TYPE_CHECKING:
    from fairlead.model.problem import Problem
    from fairlead_papers.distributed.network_setting import Delay, JoinOrLeave

# How many periods to watch after the last change, unless told otherwise.
PERIODS = 100
NO_DELAY, PERIOD = "0", 1.0
REAL_SECONDS = 60.0


def converge(
    file: ProblemFile,
    delay: Annotated[
        str,
        Option(
            metavar="S",
            help="Seconds a message takes; A..B for a time between, drawn for each receiver.",
        ),
    ] = NO_DELAY,
    period: Annotated[
        float | None,
        Option(
            metavar="S",
            help="Seconds between two runs of a server; 1 if absent, on Ray as few as it bears.",
        ),
    ] = None,
    jitter: Annotated[
        float,
        Option(metavar="X", help="By what part of the period that varies, from 0 to 0.9."),
    ] = 0.0,
    damping: Annotated[
        float,
        Option(
            metavar="X",
            help="Part of its old belief that a server keeps when it hears news, from 0 to below "
            "1; against overreaction where delays are long.",
        ),
    ] = 0.0,
    apart: Annotated[
        bool,
        Option("--apart", help="Each server of a group decides by itself, not the group."),
    ] = False,
    until: Annotated[
        float | None,
        Option(
            metavar="S",
            help="Seconds to watch; if absent 100 periods after the last change, on Ray 60.",
        ),
    ] = None,
    leave: Annotated[
        list[str] | None,
        Option(metavar="USER:T", help="Who leaves, and at which second; may be repeated."),
    ] = None,
    join: Annotated[
        list[str] | None,
        Option(
            metavar="USER:T",
            help="Who joins, and at which second; a user that joins first was not there before.",
        ),
    ] = None,
    sample: Annotated[
        float | None,
        Option(metavar="S", help="Seconds between two looks at it; a period if absent."),
    ] = None,
    tdm: TimeShared = False,
    seed: Annotated[
        int, Option(metavar="N", min=0, help="Seed of what is random: clocks and delays.")
    ] = 0,
    ray: RayAddress = None,
    actors: Annotated[
        int | None,
        Option(
            metavar="N",
            min=1,
            help="On Ray: how many actors divide the servers among them; as many as processors.",
        ),
    ] = None,
    as_json: AsJson = False,
    skip_unplaceable: SkipUnplaceable = False,
) -> None:
    """Let servers divide themselves by messages, and measure how soon they settle.

    No server is in charge: each runs the server procedure by its own clock, knowing its own
    division and the messages that have reached it. The output shows how long it takes to settle
    after users join and leave, beside the exact answers. The exit status is 1 if it has not settled
    in the end.

    With --ray the servers are divided among actors of a Ray cluster that exchange users' totals in
    real time until the certificate holds; the servers of a lost actor move to another.

    \b
    Example:
      fairlead converge cluster.yaml --delay 0.1 --leave ana:50 --join ana:80
    """  # noqa: D301 (the help formatter reads \b as "keep these lines")
    from fairlead_papers.distributed.network_setting import Clocks

    if actors is not None and ray is None:
        raise InputError("is for --ray", "--actors")
    if ray is not None:
        simulated = {"--delay": delay != NO_DELAY, "--leave": leave, "--join": join}
        for option in (
            option for option, given in (simulated | {"--sample": sample}).items() if given
        ):
            raise InputError("not with --ray, where time is real", option)
    clocks, delays = Clocks(PERIOD if period is None else period, jitter), _delay(delay)
    problem, left_out = read_problem(file, skip_unplaceable, needs_due=True)
    changes = _changes(problem, leave, join)
    from fairlead_papers.distributed.convergence import compare_with_exact
    from fairlead_papers.distributed.network_setting import AsynchronousSetting
    from fairlead_papers.distributed.simulated_run import run_asynchronously

    latest = max((change.time for change in changes), default=0.0)
    setting = AsynchronousSetting(
        problem,
        latest + PERIODS * clocks.period if until is None else until,
        changes,
        time_shared=tdm,
        clocks=clocks,
        delay=delays,
        damping=damping,
        apart=apart,
        seed=seed,
    )
    if ray is None:
        with progress_bar("Servers") as on_progress:
            run = run_asynchronously(setting, sample=sample, on_progress=on_progress)
    else:
        with executor_on(ray), progress_bar("Servers") as on_progress:
            from fairlead_papers.distributed._ray_actors import run_in_actors

            setting = replace(setting, until=REAL_SECONDS if until is None else until)
            run = run_in_actors(setting, actors, period, on_progress)
    settlement = compare_with_exact(run)
    from fairlead_papers.distributed._convergence_document import convergence_document

    show(convergence_document(settlement, title_of(file), left_out), as_json)
    if not settlement.converged:
        sys.exit(1)


def _delay(text: str) -> Delay:
    """Read ``S`` or ``A..B``."""
    from fairlead_papers.distributed.network_setting import Delay

    shortest, _, longest = text.partition("..")
    try:
        return Delay(typed_number(shortest), typed_number(longest or shortest))
    except ValueError:
        raise InputError(
            f"must be a number of seconds, or two such as 0.1..0.5, not {text!r}", "--delay"
        ) from None


def _changes(
    problem: Problem, leave: list[str] | None, join: list[str] | None
) -> tuple[JoinOrLeave, ...]:
    """Read USER:T pairs."""
    from fairlead_papers.distributed.network_setting import JoinOrLeave

    index = {name: n for n, name in enumerate(problem.users.names)}
    changes = []
    for option, pairs in (("--leave", leave), ("--join", join)):
        for pair in pairs or ():
            name, _, when = pair.rpartition(":")
            try:
                time = typed_number(when)
            except ValueError:
                name = ""
            if not name:
                raise InputError(f"must be USER:SECONDS, not {pair!r}", option)
            if name not in index:
                raise InputError(f"no user is named {name!r}", option)
            changes.append(JoinOrLeave(time, index[name], joins=option == "--join"))
    return tuple(changes)
