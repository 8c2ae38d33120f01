"""``fairlead converge``: let servers divide themselves without a central scheduler."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from fairlead.cli import options, streams
from fairlead.cli.parameters import Option
from fairlead.errors import InputError
from fairlead.model.quantity import number_from_text

if TYPE_CHECKING:
    from fairlead.model.problem import Problem
    from fairlead_papers.distributed.network_setting import Delay, JoinOrLeave

PERIODS = 100  # to watch after the last change, without --until
NO_DELAY, PERIOD = "0", 1.0
REAL_SECONDS = 60.0  # to watch on Ray, without --until


def converge(
    file: options.ProblemFile,
    delay: Annotated[
        str,
        Option(
            metavar="S",
            help="Seconds that a message takes; A..B draws a time between for each receiver.",
        ),
    ] = NO_DELAY,
    period: Annotated[
        float | None,
        Option(
            metavar="S",
            help="Seconds between two runs of a server's procedure. [default: 1; with --ray the "
            "shortest that Ray's messages allow]",
        ),
    ] = None,
    jitter: Annotated[
        float,
        Option(
            metavar="X", help="Largest variation of the period, as a fraction of it, from 0 to 0.9."
        ),
    ] = 0.0,
    damping: Annotated[
        float,
        Option(
            metavar="X",
            help="Weight of a server's old belief about the others when a message arrives, from 0 "
            "to below 1; prevents overreaction when delays are long.",
        ),
    ] = 0.0,
    apart: Annotated[
        bool,
        Option(help="Let each server of a group decide by itself, not the group as one."),
    ] = False,
    until: Annotated[
        float | None,
        Option(
            metavar="S",
            help="Seconds to watch. [default: 100 periods after the last change; with --ray 60]",
        ),
    ] = None,
    leave: Annotated[
        list[str] | None,
        Option(
            metavar="USER:T", help="Let a user leave T seconds after the start; may be repeated."
        ),
    ] = None,
    join: Annotated[
        list[str] | None,
        Option(
            metavar="USER:T",
            help="Let a user join T seconds after the start; may be repeated. A user whose first "
            "change is to join is absent before.",
        ),
    ] = None,
    sample: Annotated[
        float | None,
        Option(metavar="S", help="Seconds between two samples. [default: the period]"),
    ] = None,
    tdm: options.TimeShared = False,
    seed: Annotated[
        int, Option(metavar="N", min=0, help="Seed of all randomness: clocks and delays.")
    ] = 0,
    ray: options.RayAddress = None,
    actors: Annotated[
        int | None,
        Option(
            metavar="N",
            min=1,
            help="With --ray: actors that divide the servers. [default: one per processor]",
        ),
    ] = None,
    as_json: options.AsJson = False,
    skip_unplaceable: options.SkipUnplaceable = False,
) -> None:
    """Let servers divide themselves by messages, and measure how soon they settle.

    No server is in charge: each runs the server procedure by its own clock, knowing its own
    division and the messages that have reached it. The output shows how long the servers take to
    settle after users join and leave, and the exact answers. The exit status is 1 if they have not
    settled in the end.

    With --ray the servers are divided among actors of a Ray cluster that exchange users' totals in
    real time until the certificate holds; the servers of a lost actor move to another.

    \b
    Example:
      fairlead converge cluster.yaml --delay 0.1 --leave ana:50 --join ana:80
    """  # noqa: D301 (the help formatter reads \b as "keep these lines")
    from fairlead_papers.distributed.network_setting import Clocks

    if actors is not None and ray is None:
        raise InputError("needs --ray", "--actors")
    if ray is not None:
        simulated = {"--delay": delay != NO_DELAY, "--leave": leave, "--join": join}
        for option in (
            option for option, given in (simulated | {"--sample": sample}).items() if given
        ):
            raise InputError("not with --ray, where time is real", option)
    clocks, delays = Clocks(PERIOD if period is None else period, jitter), _parse_delay(delay)
    problem, left_out = options.read_problem(file, skip_unplaceable)
    options.check_due(problem, file)
    changes = _parse_changes(problem, leave, join)
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
        with streams.progress_bar("Servers") as on_progress:
            run = run_asynchronously(setting, sample=sample, on_progress=on_progress)
    else:
        with options.executor_on(ray), streams.progress_bar("Servers") as on_progress:
            from fairlead_papers.distributed._ray_actors import run_in_actors

            setting = replace(setting, until=REAL_SECONDS if until is None else until)
            run = run_in_actors(setting, actors, period, on_progress)
    settlement = compare_with_exact(run)
    from fairlead_papers.distributed.convergence import convergence_document

    streams.show(
        convergence_document(settlement, options.title_of(file)), as_json, left_out=left_out
    )
    if not settlement.converged:
        sys.exit(1)


def _parse_delay(text: str) -> Delay:
    """Parse ``S`` or ``A..B``, seconds; raise InputError for other texts."""
    from fairlead_papers.distributed.network_setting import Delay

    shortest, dots, longest = text.partition("..")
    try:
        return Delay(number_from_text(shortest), number_from_text(longest if dots else shortest))
    except ValueError:
        raise InputError(
            f"must be a number of seconds, or two such as 0.1..0.5, not {text!r}", "--delay"
        ) from None


def _parse_changes(
    problem: Problem, leave: list[str] | None, join: list[str] | None
) -> tuple[JoinOrLeave, ...]:
    """Parse USER:T pairs; raise InputError for other texts and unknown users."""
    from fairlead_papers.distributed.network_setting import JoinOrLeave

    index = {name: n for n, name in enumerate(problem.users.names)}
    changes = []
    for option, pairs in (("--leave", leave), ("--join", join)):
        for pair in pairs or ():
            name, _, when = pair.rpartition(":")
            try:
                time = number_from_text(when)
            except ValueError:
                name = ""
            if not name:
                raise InputError(f"must be USER:SECONDS, not {pair!r}", option)
            if name not in index:
                raise InputError(f"no user is named {name!r}", option)
            changes.append(JoinOrLeave(time, index[name], joins=option == "--join"))
    return tuple(changes)
