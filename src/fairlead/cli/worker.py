"""``fairlead worker``: run tasks of a service on this machine."""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fairlead.cli.clients.service_connection import parse_amount
from fairlead.cli.options import parse_pairs
from fairlead.cli.parameters import Option
from fairlead.cli.serve import JsonLogs, format_log, require_modules, state_folder
from fairlead.errors import InputError, ProblemError

if TYPE_CHECKING:
    from fairlead.service.engines.protocol import EngineNode

LOG = logging.getLogger("fairlead.service.worker")


def worker(
    server: Annotated[
        str | None,
        Option(
            metavar="URL",
            help="The service: http://HOST:PORT, https://HOST:PORT or unix:PATH of its socket. "
            "[default: FAIRLEAD_SERVER, or this machine]",
        ),
    ] = None,
    name: Annotated[
        str | None,
        Option(metavar="NAME", help="Name of this server. [default: the machine's name]"),
    ] = None,
    cpu: Annotated[
        float | None, Option(min=0, metavar="CORES", help="Cores for tasks. [default: all]")
    ] = None,
    memory: Annotated[
        str | None,
        Option(
            metavar="AMOUNT",
            help="Memory for tasks: a number of GiB, or with a unit, such as 64Gi. [default: all]",
        ),
    ] = None,
    gpu: Annotated[
        int | None,
        Option(
            min=0,
            metavar="N",
            help="Number of GPUs for tasks. [default: all that nvidia-smi lists]",
        ),
    ] = None,
    label: Annotated[
        list[str] | None,
        Option(
            metavar="KEY=VALUE", help="Label that `submit --where` can ask for. May be repeated."
        ),
    ] = None,
    state: Annotated[
        Path | None,
        Option(
            metavar="FOLDER",
            help="Folder of the tasks' state and output. [default: "
            "~/.local/state/fairlead/worker-NAME; for root /var/lib/fairlead-worker-NAME]",
        ),
    ] = None,
    accounts: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            envvar="FAIRLEAD_ACCOUNTS",
            help="For a worker that runs as root: YAML file of each user's Unix account; * stands "
            "for all other users.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            envvar="FAIRLEAD_TOKEN_FILE",
            help="File of mode 600 whose first line is the token, instead of FAIRLEAD_TOKEN.",
        ),
    ] = None,
    output: Annotated[
        int,
        Option(
            "--max-output",
            min=1,
            metavar="MIB",
            help="Limit on the kept output of a task, for each of its two streams, in MiB.",
        ),
    ] = 64,
    keep: Annotated[
        float,
        Option("--keep-output", min=0, metavar="DAYS", help="Days to keep the output of tasks."),
    ] = 7.0,
    grace: Annotated[
        float | None,
        Option(
            min=0,
            metavar="SECONDS",
            help="Time between SIGTERM and SIGKILL for a stopped task. [default: 10]",
        ),
    ] = None,
    json_logs: JsonLogs = False,
) -> None:
    """Run tasks of a service on this machine.

    Tasks go on when the worker stops; a worker that is restarted with the same folder finds them.
    Tasks run under the worker's account. A worker that runs as root starts each task under the
    account of its user instead: the one in --accounts, or without that file the account with the
    user's name, or nobody if there is none. Tasks never run as root.

    \b
    Example:
      fairlead worker --server http://10.0.0.1:8400 --label gpu=A100
    """
    if sys.platform != "linux":
        raise InputError("needs Linux; all other commands also run on this system", "worker")
    require_modules("h11", "psutil")
    import asyncio

    from fairlead.service.client.addresses import Address
    from fairlead.service.client.connections import Connections
    from fairlead.service.engines.worker_loop import Link, WorkerLoop
    from fairlead.service.worker.accounts import Accounts, read_accounts
    from fairlead.service.worker.machine import take_ignored_signals
    from fairlead.service.worker.worker import SECRETS, LocalProcesses
    from fairlead.service.worker.worker_token import hide_memory, read_token

    format_log(json_logs)
    take_ignored_signals()
    if fault := hide_memory():
        LOG.warning("tasks may read the worker's memory: %s", fault)
    secret = None if token_file is None else read_token(token_file)
    address = Address.of(server, secret)
    for variable in SECRETS:
        os.environ.pop(variable, None)
    machine = _machine(name, cpu, memory, gpu, label or [])
    task_accounts = Accounts(None if accounts is None else read_accounts(accounts))
    if task_accounts.is_root and not address.is_verified:
        raise InputError(
            "a worker of root runs commands under other accounts, and cannot verify this address: "
            "use the service's Unix socket (unix:PATH), https, or a token of fairlead token add",
            "--server",
        )
    if address.token and not task_accounts.is_root:
        LOG.warning(
            "tasks run under the worker's account and can read its token where it is kept: "
            "give it a token of fairlead token add --role worker --for-server %s",
            machine.name,
        )
    folder = state or _own_folder(machine.name, is_root=task_accounts.is_root)
    engine = LocalProcesses(machine, folder, task_accounts, output * 2**20, keep * 86400.0, grace)
    try:
        asyncio.run(WorkerLoop(Link(Connections(address)), engine).run())
    except ExceptionGroup as faults:
        first: Exception = faults.subgroup(InputError) or faults
        while isinstance(first, ExceptionGroup):
            first = first.exceptions[0]
        raise first from None


def _own_folder(name: str, *, is_root: bool) -> Path:
    """Return a worker's default folder; that of root is outside root's home."""
    if is_root and not os.environ.get("XDG_STATE_HOME"):
        return Path(f"/var/lib/fairlead-worker-{name}")
    return state_folder() / f"worker-{name}"


def _machine(
    name: str | None, cpu: float | None, memory: str | None, gpu: int | None, labels: list[str]
) -> EngineNode:
    """Describe this machine by the options, or as measured; raise InputError for wrong ones."""
    from fairlead.model.quantity import read_amount
    from fairlead.service.bounds import NAME
    from fairlead.service.engines.protocol import EngineNode
    from fairlead.service.worker import machine

    if cpu == 0:
        raise InputError("must be more than 0 cores; tasks request 1 by default", "--cpu")
    if name is not None and not re.fullmatch(NAME, name):
        raise InputError(f"{name!r:.60} is not a valid name of a server", "--name")
    found = machine.gpus() if gpu is None else []
    known: dict[str, str] = {}
    if found and len(set(found)) == 1:
        known["gpu"] = short_name(found[0])
    known |= parse_pairs(labels, "--label")
    try:
        amount = machine.memory() if memory is None else read_amount(parse_amount(memory), "GiB")[0]
    except ProblemError as fault:
        raise InputError(fault.fault, "--memory") from None
    cores = machine.cores() if cpu is None else cpu
    devices = len(found) if gpu is None else gpu
    capacity = {"cpu": cores, "memory": amount, "gpu": devices}
    return EngineNode(name or socket.gethostname(), capacity, known)


def short_name(gpu: str) -> str:
    """Return a GPU's short name: ``A100`` for ``NVIDIA A100-SXM4-40GB``."""
    words = [w for w in gpu.split() if w not in ("NVIDIA", "Tesla", "GeForce", "Quadro")]
    return re.sub(r"-(SXM|PCIE|PCIe|\d+GB).*", "", "-".join(words)) or gpu
