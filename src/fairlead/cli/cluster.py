"""``fairlead users``, ``servers``, ``shares``, ``drain``, ``history``: a service's cluster."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from fairlead.cli.jobs import Service, client
from fairlead.cli.options import AsJson
from fairlead.cli.serve import _need
from fairlead.cli.streams import emit, emit_lines, show
from fairlead.errors import InputError

OF_WEIGHT = "2 is for twice the share of 1; 0 for what no other user can use."
ServerName = Annotated[str, typer.Argument(metavar="NAME", help="As fairlead servers lists it.")]


def users(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Only this one.")] = None,
    weight: Annotated[float | None, typer.Option(metavar="W", help=OF_WEIGHT)] = None,
    server: Service = None,
    as_json: AsJson = False,
) -> None:
    """List users of a running service, or set the weight of one.

    \b
    Example:
      fairlead users ana --weight 2
    """  # noqa: D301 (the help formatter reads \b as "keep these lines")
    _need("httpx")
    from fairlead.report.live import users_document
    from fairlead.service.messages import check_weight

    if name is None and weight is not None:
        raise InputError("goes with NAME", "--weight")
    if weight is not None:
        check_weight(weight, "--weight")
    with client(server) as service:
        if name is not None and weight is not None:
            service.set_user(name, weight)
        views = [view for view in service.users() if name is None or view.name == name]
    if not views and name is not None:
        raise InputError(f"there is no user {name!r:.60}", "NAME")
    show(users_document([view.model_dump() for view in views]), as_json)


def servers(server: Service = None, as_json: AsJson = False) -> None:
    """List servers of a running service, and what is used of each.

    \b
    Example:
      fairlead servers
    """  # noqa: D301
    _need("httpx")
    from fairlead.report.live import servers_document

    with client(server) as service:
        views = service.servers()
    show(servers_document([view.model_dump() for view in views]), as_json)


def shares(server: Service = None, as_json: AsJson = False) -> None:
    """Show what users hold now beside what is fair, and whether that is proved.

    \b
    Example:
      fairlead shares --json
    """  # noqa: D301
    _need("httpx")
    from fairlead.report.live import shares_document

    with client(server) as service:
        view = service.shares()
    show(shares_document(view.model_dump()), as_json)


def history(server: Service = None, as_json: AsJson = False) -> None:
    """Show hours of cores, GiB and GPUs by month and user.

    \b
    Example:
      fairlead history
    """  # noqa: D301
    _need("httpx")
    from fairlead.report.live import history_document

    with client(server) as service:
        rows = service.history()
    show(history_document([row.model_dump() for row in rows]), as_json)


def drain(
    name: ServerName,
    undo: Annotated[bool, typer.Option("--undo", help="Use it again.")] = False,
    remove: Annotated[
        bool,
        typer.Option(
            "--remove",
            help="Give it up: its tasks run again elsewhere. A worker that still runs joins again.",
        ),
    ] = False,
    server: Service = None,
    as_json: AsJson = False,
) -> None:
    """Start no more tasks on a server; those that run there go on.

    \b
    Example:
      fairlead drain node3
    """  # noqa: D301
    _need("httpx")
    if undo and remove:
        raise InputError("is given beside --remove", "--undo")
    with client(server) as service:
        if remove:
            view = service.remove(name)
        else:
            view = service.undrain(name) if undo else service.drain(name)
    if as_json:
        emit(json.dumps(view.model_dump()) + "\n")
    else:
        emit_lines([f"{view.name}: {view.state}"])
