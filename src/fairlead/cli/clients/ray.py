"""``fairlead ray``: share a Ray cluster fairly among users."""

from __future__ import annotations

import os
import sys
from getpass import getuser
from pathlib import Path
from typing import Annotated

from fairlead.cli.clients import cluster, jobs
from fairlead.cli.clients.service_connection import (
    RAY_PREFIX,
    JobArgument,
    environment,
    parse_where,
)
from fairlead.cli.clients.submit import SubmittingUser, TaskOptions
from fairlead.cli.options import AsJson, parse_numbers
from fairlead.cli.parameters import Argument, Option
from fairlead.cli.streams import complain, emit_json, emit_lines
from fairlead.errors import InputError

Address = Annotated[
    str | None,
    Option(
        "--address",
        metavar="HOST:PORT",
        help="Address of the Ray cluster. [default: RAY_ADDRESS, or the cluster on this machine]",
    ),
]


def start(
    policy: Annotated[
        str | None,
        Option(
            "--policy",
            "-p",
            metavar="POLICY",
            help="Scheduling policy CRITERION/SELECTION, such as ps-dsf/joint. "
            "[default: drf/best-fit]",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        Option(metavar="N", min=0, help="Random seed of the policy. [default: 0]"),
    ] = None,
    user: Annotated[
        list[str] | None,
        Option(
            metavar="USER=WEIGHT",
            help="Let only these users submit, with these weights. May be repeated.",
        ),
    ] = None,
    service: Annotated[
        str | None,
        Option(
            metavar="URL",
            help="Let this fairlead service decide where tasks start; FAIRLEAD_TOKEN holds a token "
            "for it.",
        ),
    ] = None,
    db: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="Keep users and jobs in this journal, a file on Ray's head node.",
        ),
    ] = None,
    grace: Annotated[
        float | None,
        Option(
            min=0,
            metavar="SECONDS",
            help="Time between the KeyboardInterrupt in a preempted call and the kill of the call. "
            "[default: 10]",
        ),
    ] = None,
    address: Address = None,
) -> None:
    """Start a dispatcher, which chooses the next user and the node of each task.

    If none runs, the first driver that connects starts one with the default options.

    \b
    Example:
      fairlead ray start --policy ps-dsf/best-fit --user ana=2 --user bo=1
    """
    weights = parse_numbers(user, "--user")
    from fairlead.ray.connection import start

    token = os.environ.get("FAIRLEAD_TOKEN", "")
    start(policy, weights or None, service, token, db, address, seed, grace)


def stop(address: Address = None) -> None:
    """Stop the dispatcher; running tasks go on.

    \b
    Example:
      fairlead ray stop
    """
    from fairlead.ray.connection import stop

    stop(address)


def status(address: Address = None, as_json: AsJson = False) -> None:
    """Show the dispatcher's policy, service, journal, nodes and drivers.

    \b
    Example:
      fairlead ray status
    """
    from fairlead.ray.connection import BEGIN_SECONDS, answer_of, running_dispatcher
    from fairlead.report.numbers import counted

    view = answer_of(running_dispatcher(address).state.remote(), BEGIN_SECONDS)
    if as_json:
        emit_json(view)
        return
    drivers = ", ".join(sorted({row["user"] for row in view["agents"]})) or "none"
    lines = (
        f"policy    {view['policy']}",
        f"service   {view['service']}",
        f"journal   {view['journal'] or 'kept by the service'}",
        f"nodes     {', '.join(view['nodes'])}",
        f"drivers   {len(view['agents'])}, of {drivers}",
        f"running   {counted(view['running'], 'task')}",
    )
    emit_lines(lines)


def submit(
    command: Annotated[
        list[str] | None, Argument(metavar="-- python SCRIPT ARG...", help="Command of the driver.")
    ] = None,
    user: SubmittingUser = None,
    *,
    options: TaskOptions,
    bundles: Annotated[
        int,
        Option(
            min=1,
            metavar="N",
            help="Number of bundles, each of --cpu, --memory and --gpu, perhaps on several nodes.",
        ),
    ] = 1,
    address: Address = None,
) -> None:
    """Queue a driver, and run it when its user's turn comes.

    The driver's tasks and actors stay within the requested amounts. This command prints the
    driver's output, and exits with its status.

    \b
    Example:
      fairlead ray submit --user ana --cpu 2 --bundles 4 -- python train.py
    """
    if not command:
        raise InputError("give a command after --", "COMMAND")
    bundle: dict[str, object] = {"cpu": 1.0}
    bundle |= {name: amount for name, amount in options.amounts().items() if amount is not None}
    if not options.gpu:
        bundle.pop("gpu", None)
    from fairlead.ray.entrypoint import check_command, run_captured
    from fairlead.ray.fair import connect

    check_command(command, str(Path.cwd()))
    with connect(user or getuser(), address) as fair:
        try:
            status = run_captured(
                fair,
                command,
                [bundle] * bundles,
                parse_where(options.where),
                str(Path.cwd()),
                environment(),
            )
        except Exception as fault:
            if type(fault).__module__.partition(".")[0] != "ray":
                raise
            complain(str(fault).strip().splitlines()[-1])
            status = 1
    sys.exit(status)


def shares(address: Address = None, as_json: AsJson = False) -> None:
    """Compare each user's share with the fair one, and show whether the fair shares are proved.

    \b
    Example:
      fairlead ray shares --json
    """
    cluster.shares(None, _in_ray(address), as_json)


def explain(job: JobArgument, address: Address = None, as_json: AsJson = False) -> None:
    """Explain why a job waits, and what would let its first task start.

    \b
    Example:
      fairlead ray explain 17
    """
    jobs.explain_live(job, _in_ray(address), as_json)


def _in_ray(address: str | None) -> str:
    """Return the service address by which `client` connects to the dispatcher in Ray."""
    return f"{RAY_PREFIX}{address or ''}"
