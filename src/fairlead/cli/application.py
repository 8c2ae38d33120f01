"""The command ``fairlead``: its verbs, and how every failure becomes an exit status.

Exit statuses: 0, 1 (it ran, and the answer is no: no certified answer was found), 2 (unusable
input: one line on standard error), 130 (interrupted), 141 (nobody reads standard output any more).

Verbs import what computes and draws inside their functions, so that ``--help`` stays quick.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import typer

from fairlead.cli.allocate import allocate
from fairlead.cli.audit import audit
from fairlead.cli.cluster import drain, history, servers, shares, users
from fairlead.cli.compare import compare
from fairlead.cli.converge import converge
from fairlead.cli.dynamic import dynamic
from fairlead.cli.explain import explain
from fairlead.cli.fill import fill
from fairlead.cli.jobs import cancel, hold, jobs, logs, modify, release, submit, wait, when
from fairlead.cli.main import INTERRUPTED
from fairlead.cli.mechanisms import mechanisms
from fairlead.cli.ray import app as ray
from fairlead.cli.reproduce import reproduce
from fairlead.cli.serve import serve, token
from fairlead.cli.simulate import simulate
from fairlead.cli.spreading import with_address
from fairlead.cli.streams import (
    ReaderGoneError,
    StoppedError,
    complain,
    emit,
    fault_of,
    silence_standard_output,
)
from fairlead.cli.trace import app as trace
from fairlead.cli.trade_off import trade_off
from fairlead.cli.worker import worker
from fairlead.errors import CertificateError, FairleadError
from fairlead.model.quantity import show

NO_ANSWER = 1
UNUSABLE_INPUT = 2
READER_GONE = 141

app = typer.Typer(
    name="fairlead",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog="\b\nExample:\n  fairlead allocate cluster.yaml -m ps-dsf",
)
app.command(short_help="Divide the cluster by one mechanism.")(allocate)
app.command(short_help="Check which fairness properties hold.")(audit)
app.command(short_help="Divide the cluster by several mechanisms, side by side.")(compare)
app.command(short_help="Let every server divide itself.")(converge)
app.command(short_help="Divide among users who arrive one by one.")(dynamic)
app.command(short_help="Say why a job waits.")(explain)
app.command(short_help="Fill the servers with whole tasks.")(fill)
app.command(short_help="List the mechanisms, and what is proved of each.")(mechanisms)
app.command(short_help="Compute what papers print again, beside it.")(reproduce)
app.command(short_help="Replay a trace under several policies.")(simulate)
app.command(name="trade-off", short_help="Show what alpha-fairness costs.")(trade_off)
# A service, its workers, and what asks it.
LIVE: dict[str, tuple[Callable[..., None], str]] = {
    "serve": (serve, "Run the scheduler as a service."),
    "worker": (worker, "Run tasks of a service on this machine."),
    "token": (token, "Say who may use a service."),
    "submit": (submit, "Have a command run when it is its turn."),
    "jobs": (jobs, "List jobs of a running service."),
    "cancel": (cancel, "Drop jobs, and end what runs of them."),
    "hold": (hold, "Start no more tasks of jobs."),
    "release": (release, "Let held jobs start."),
    "modify": (modify, "Change what a job that waits asks for."),
    "logs": (logs, "Print what a task wrote."),
    "wait": (wait, "Wait until jobs are over."),
    "when": (when, "Say when a job starts, as far as known."),
    "users": (users, "List users of a service, or weigh one."),
    "servers": (servers, "List servers of a running service."),
    "shares": (shares, "Show what users hold, and what is fair."),
    "drain": (drain, "Start no more tasks on a server."),
    "history": (history, "Show hours used by month and user."),
}
for _command_of_it, _summary in LIVE.values():
    app.command(short_help=_summary)(_command_of_it)
app.add_typer(ray, name="ray", no_args_is_help=False)
app.add_typer(trace, name="trace", no_args_is_help=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        from fairlead import __version__
        from fairlead.scheduler.build import how_it_runs

        emit(f"fairlead {__version__} ({how_it_runs()})\n")
        raise typer.Exit


@app.callback()
def fairlead(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Divide a heterogeneous cluster fairly among its users, and prove the answer."""


@cache
def _command() -> Any:
    """Return the verbs as the parser reads them; whoever runs many commands builds that once."""
    return typer.main.get_command(app)


def run_command(words: list[str]) -> int:
    """Run one command and return its exit status.

    Parameters
    ----------
    words : list of str
        The command line after the program's name.

    Returns
    -------
    int
        The exit status.
    """
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("fairlead").setLevel(logging.INFO)
    try:
        status = _command().main(
            with_address(words) or ["--help"], prog_name="fairlead", standalone_mode=False
        )
    except typer.TyperException as error:
        complain(_usage_fault(error))
        return UNUSABLE_INPUT
    except CertificateError as error:
        complain(str(error))
        return NO_ANSWER
    except FairleadError as error:
        complain(str(error))
        return UNUSABLE_INPUT
    except (OSError, MemoryError, OverflowError) as error:
        complain(fault_of(error))
        return UNUSABLE_INPUT
    except ReaderGoneError:
        silence_standard_output()
        return READER_GONE
    except StoppedError as stopped:
        complain(str(stopped))
        return INTERRUPTED
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted")
        return INTERRUPTED
    if status == INTERRUPTED:  # where the parser met the interruption
        complain("interrupted")
    return status if isinstance(status, int) else 0


def _usage_fault(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "fairlead"
    if isinstance(error, typer.BadParameter):
        error.message = _number_fault(error.__cause__) or error.message
    message = error.format_message().rstrip(".")
    return f"{message[:1].lower()}{message[1:]} (see {command} --help)"


def _number_fault(cause: BaseException | None) -> str:
    """Say in our own words what the library that reads numbers says; empty for other faults."""
    from pydantic import ValidationError

    if not isinstance(cause, ValidationError):
        return ""
    fault = cause.errors()[0]
    bounds, kind, given = fault.get("ctx", {}), fault["type"], show(fault["input"])
    if kind.startswith(("float", "int")):
        return f"must be a {'whole ' if kind.startswith('int') else ''}number, not {given}"
    if kind == "greater_than_equal":
        return f"must be at least {bounds['ge']:,.9g}, not {given}"
    if kind == "less_than_equal":
        return f"must be at most {bounds['le']:,.9g}, not {given}"
    return ""
