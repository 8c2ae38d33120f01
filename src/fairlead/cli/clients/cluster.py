"""Commands on a service's cluster: users, servers, shares, what-if, history, drain."""

from __future__ import annotations

from typing import Annotated, Any

from fairlead.cli.clients.service_connection import Service, client
from fairlead.cli.options import AsJson, parse_number, parse_numbers, parse_pairs, parse_time_limit
from fairlead.cli.parameters import Argument, Option
from fairlead.cli.streams import emit_json, emit_lines, show_table
from fairlead.errors import InputError
from fairlead.service.bounds import check_weight
from fairlead.service.client import calls

WEIGHT_HELP = "Set the user's weight: 2 gets twice the share of 1, 0 only what others leave."
ServerName = Annotated[
    str, Argument(metavar="SERVER", help="Name of the server, as listed by fairlead servers.")
]


def users(
    name: Annotated[str | None, Argument(metavar="USER", help="List only this user.")] = None,
    weight: Annotated[float | None, Option(metavar="W", help=WEIGHT_HELP)] = None,
    server: Service = None,
    as_json: AsJson = False,
) -> None:
    """List users of a running service, or set the weight of one.

    \b
    Example:
      fairlead users ana --weight 2
    """
    from fairlead.report.live import users_table

    if name is None and weight is not None:
        raise InputError("goes with USER", "--weight")
    if weight is not None:
        check_weight(weight, "--weight")
    with client(server) as service:
        if name is not None and weight is not None:
            service.ask(calls.set_user(name, weight))
        rows = service.ask(calls.USERS)["users"]
        rows = [row for row in rows if name is None or row["name"] == name]
        if not rows and name is not None:
            raise InputError(f"there is no user {name!r:.60}", "USER")
        show_table(users_table(rows), as_json)


def servers(server: Service = None, as_json: AsJson = False) -> None:
    """List servers of a running service, with used and total amounts.

    \b
    Example:
      fairlead servers
    """
    from fairlead.report.live import servers_table

    with client(server) as service:
        show_table(servers_table(service.ask(calls.SERVERS)["servers"]), as_json)


def shares(
    over: Annotated[
        str | None,
        Option(
            metavar="TIME",
            help="Compare the shares that users held and were due over the last TIME, such as 7d.",
        ),
    ] = None,
    server: Service = None,
    as_json: AsJson = False,
) -> None:
    """Compare each user's share with the fair one, and show whether the fair shares are proved.

    \b
    Example:
      fairlead shares --over 7d
    """
    from fairlead.report.live import quotas_table, share_hours_table, shares_table

    seconds = None if over is None else parse_time_limit(over, "--over")
    if over is not None and seconds is None:
        raise InputError("must be a time, such as 7d", "--over")
    with client(server) as service:
        if seconds is not None:
            show_table(share_hours_table(service.ask(calls.shares_over(seconds))), as_json)
            return
        answer = service.ask(calls.SHARES)
        show_table(shares_table(answer), as_json)
        if answer.get("quotas") and not as_json:
            show_table(quotas_table(answer), as_json)


def what_if(
    weight: Annotated[
        list[str] | None, Option(metavar="USER=W", help="Give a user this weight.")
    ] = None,
    like: Annotated[
        list[str] | None,
        Option(metavar="SERVER=N", help="Add N servers like this one."),
    ] = None,
    drain: Annotated[list[str] | None, Option(metavar="SERVER", help="Drain this server.")] = None,
    remove: Annotated[
        list[str] | None,
        Option(metavar="SERVER", help="Remove this server; its tasks wait again."),
    ] = None,
    quota: Annotated[
        list[str] | None,
        Option(
            metavar="QUEUE=AMOUNTS",
            help="Give a queue this quota, such as ana=gpu:4,cpu:16.",
        ),
    ] = None,
    policy: Annotated[
        str | None, Option("--policy", "-p", metavar="POLICY", help="Use another policy.")
    ] = None,
    server: Service = None,
    as_json: AsJson = False,
) -> None:
    """Show which users would gain or lose by a change; the service stays unchanged.

    \b
    Example:
      fairlead what-if --weight ana=2 --like node3=8
    """
    from fairlead.report.live import what_if_table

    changes: dict[str, Any] = {
        "weights": parse_numbers(weight, "--weight"),
        "like": parse_numbers(like, "--like"),
        "drain": drain or [],
        "remove": remove or [],
        "quotas": {
            name: _parse_amounts(text, "--quota")
            for name, text in parse_pairs(quota or [], "--quota").items()
        },
    }
    if policy is not None:
        changes["policy"] = policy
    if not any(changes.values()):
        raise InputError("give a change, such as --weight or --like", "what-if")
    with client(server) as service:
        show_table(what_if_table(service.ask(calls.what_if(changes))), as_json)


def _parse_amounts(text: str, option: str) -> dict[str, float]:
    """Parse amounts by resource, such as ``gpu:4,cpu:16``; raise InputError for another text."""
    found = {}
    for part in text.split(","):
        name, colon, amount = part.partition(":")
        if not (name and colon):
            raise InputError(f"must be RESOURCE:AMOUNT,..., not {text!r:.60}", option)
        if name in found:
            raise InputError(f"gives {name!r:.60} twice", option)
        found[name] = parse_number(amount, option)
    return found


def history(server: Service = None, as_json: AsJson = False) -> None:
    """Show used core-hours, GiB-hours and GPU-hours by month and user.

    \b
    Example:
      fairlead history
    """
    from fairlead.report.live import history_table

    with client(server) as service:
        show_table(history_table(service.ask(calls.HISTORY)["usage"]), as_json)


def drain(
    name: ServerName,
    undo: Annotated[bool, Option(help="Undo a drain: start tasks on the server again.")] = False,
    remove: Annotated[
        bool,
        Option(
            help="Remove the server; its tasks run again elsewhere. If its worker still runs, it "
            "joins again.",
        ),
    ] = False,
    server: Service = None,
    as_json: AsJson = False,
) -> None:
    """Drain a server: start no more tasks on it; running tasks go on.

    \b
    Example:
      fairlead drain node3
    """
    if undo and remove:
        raise InputError("cannot be combined with --remove", "--undo")
    with client(server) as service:
        call = calls.undrain if undo else calls.drain
        row = service.ask(calls.remove(name) if remove else call(name))
        if as_json:
            emit_json(row)
        else:
            emit_lines([f"{row['name']}: {row['state']}"])
