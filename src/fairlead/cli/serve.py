"""``fairlead serve``, ``worker`` and ``token``: what runs for as long as the cluster does."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairlead.cli.options import AsJson
from fairlead.cli.streams import emit
from fairlead.errors import InputError, ProblemError
from fairlead.formats.garbage import garbage_collection_paused

if TYPE_CHECKING:
    from fairlead.worker.worker import Declaration

Database = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="FILE",
        help="The journal, a SQLite file. [default: ~/.local/state/fairlead/journal.db]",
    ),
]
JsonLogs = Annotated[
    bool, typer.Option("--json-logs", help="Log JSON, one object a line, on standard error.")
]
SQLITE = "sqlite:///"
STANDARD = logging.makeLogRecord({}).__dict__.keys()
NEEDED = "needs more packages: pip install 'fairlead[serve]'"


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any that is free.")] = 8400,
    db: Database = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            "-p",
            metavar="POLICY",
            help="As for simulate. [default: what the journal has, or drf/best-fit]",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Of what is random in a policy. [default: what the journal has, or 0]",
        ),
    ] = None,
    grace: Annotated[
        float,
        typer.Option(
            min=1.0,
            metavar="SECONDS",
            help="After so long without a word from a worker its tasks run again elsewhere.",
        ),
    ] = 60.0,
    pending: Annotated[
        int, typer.Option("--max-pending", min=1, metavar="N", help="Tasks of a user that wait.")
    ] = 1_000_000,
    rate: Annotated[
        float, typer.Option(min=0.1, metavar="N", help="Requests a second with a user's token.")
    ] = 100.0,
    json_logs: JsonLogs = False,
) -> None:
    """Run the scheduler as a service: an API under /v1, with a journal on disk.

    Nothing is lost when it is killed; tasks go on while it is away. On loopback it needs no
    tokens; elsewhere it does.

    \b
    Example:
      fairlead serve --policy ps-dsf/best-fit
    """  # noqa: D301 (the help formatter reads \b as "keep these lines")
    _need("fastapi", "uvicorn", "sqlalchemy", "httpx", "prometheus_client")
    with garbage_collection_paused():  # until it serves: all that is imported and read stays
        from fairlead import __version__
        from fairlead.model.arguments import whole_number
        from fairlead.scheduler.arguments import LARGEST
        from fairlead.scheduler.policies import parse_policy
        from fairlead.service.api import Limits
        from fairlead.service.journal import Journal
        from fairlead.service.running import serve as run
        from fairlead.service.service import SILENT_SECONDS, Settings

        _log(json_logs)
        if policy is not None:
            parse_policy(policy)
        if seed is not None:
            whole_number(seed, "--seed", most=LARGEST)
        journal = Journal(path_of(db))
        try:
            settings = Settings(policy, seed, min(SILENT_SECONDS, grace / 2), grace, pending)
            run(host, port, journal, settings, Limits(rate=rate, burst=5 * rate), __version__)
        finally:
            journal.close()


def worker(
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            metavar="URL",
            envvar="FAIRLEAD_SERVER",
            help="The service. [default: http://127.0.0.1:8400]",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="[default: the machine's name]")
    ] = None,
    cpu: Annotated[
        float | None, typer.Option(min=0, metavar="CORES", help="[default: all there are]")
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="AMOUNT", help="GiB, or 64Gi. [default: all there is]")
    ] = None,
    gpu: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="[default: what nvidia-smi lists]")
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="For submit --where. May be repeated."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where tasks' output is kept. [default: ~/.local/state/fairlead/worker-NAME]",
        ),
    ] = None,
    accounts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="FAIRLEAD_ACCOUNTS",
            show_envvar=False,
            help="Where the worker is root: Unix account by user, YAML; * is for all others.",
        ),
    ] = None,
    output: Annotated[
        int, typer.Option("--max-output", min=1, metavar="MIB", help="Of a stream that is kept.")
    ] = 64,
    keep: Annotated[
        float, typer.Option("--keep-output", min=0, metavar="DAYS", help="For how long.")
    ] = 7.0,
    json_logs: JsonLogs = False,
) -> None:
    """Run tasks of a service on this machine.

    Tasks go on when the worker is stopped; started again with the same folder it finds them.
    Tasks run under the account of the worker, and never as root: where the worker is root, under
    the account of the same name as the user, or that of --accounts.

    \b
    Example:
      fairlead worker --server http://10.0.0.1:8400 --label gpu=A100
    """  # noqa: D301
    _need("httpx", "psutil")
    import asyncio

    import httpx

    from fairlead.engines.following import Follower
    from fairlead.engines.links import OTHER_TIME, OverHttp
    from fairlead.service.client import settings_of
    from fairlead.worker.accounts import Accounts, read_accounts
    from fairlead.worker.worker import LocalProcesses

    _log(json_logs)
    machine = _machine(name, cpu, memory, gpu, label or [])
    folder = state or state_folder() / f"worker-{machine.name}"
    who = Accounts({} if accounts is None else read_accounts(accounts))
    settings = settings_of(server, None) | {"timeout": OTHER_TIME}
    engine = LocalProcesses(machine, folder, who, output * 2**20, keep * 86400.0)
    try:
        asyncio.run(Follower(OverHttp(httpx.AsyncClient(**settings)), engine).run())
    except ExceptionGroup as faults:
        refused = faults.subgroup(InputError)
        if refused is None:
            raise
        raise refused.exceptions[0] from None


def token(
    action: Annotated[
        str, typer.Argument(metavar="add|list|remove", help="What to do with a token.")
    ],
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Its name.")] = None,
    role: Annotated[str, typer.Option(metavar="ROLE", help="admin, user or worker.")] = "user",
    user: Annotated[
        str | None, typer.Option(metavar="USER", help="Who it is. [default: NAME]")
    ] = None,
    server: Annotated[
        str | None,
        typer.Option("--for-server", metavar="SERVER", help="The one server a worker may be."),
    ] = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Say who may use a service: who shows a token in FAIRLEAD_TOKEN is what it says.

    It works on the journal, so only who may write that file makes tokens. The secret is printed
    once; the journal keeps a digest. While there are none, everybody on the machine may do
    everything.

    \b
    Example:
      fairlead token add ana --role user
    """  # noqa: D301
    _need("sqlalchemy")
    import secrets

    from fairlead.service.journal import Journal, Token
    from fairlead.service.messages import LONGEST_NAME, NAME

    journal = Journal(path_of(db), shared=True, must_exist=action != "add")
    try:
        if action == "list":
            rows = [kept._asdict() for kept in journal.tokens().values()]
            if as_json:
                emit(json.dumps({"tokens": rows}, indent=2) + "\n")
            else:
                lines = (f"{row['name']}  {row['role']}  {row['subject']}".rstrip() for row in rows)
                emit("".join(f"{line}\n" for line in lines))
            return
        if action not in ("add", "remove"):
            raise InputError(f"must be add, list or remove, not {action!r:.40}", "action")
        if not name:
            raise InputError("must be given", "NAME")
        if action == "remove":
            journal.remove_token(name)
            return
        if role not in ("admin", "user", "worker"):
            raise InputError(f"must be admin, user or worker, not {role!r:.40}", "--role")
        for given, option, its in ((user, "--user", "user"), (server, "--for-server", "worker")):
            if given is not None and role != its:
                raise InputError(f"goes with --role {its}", option)
        for text, place in ((name, "NAME"), (user, "--user"), (server, "--for-server")):
            if text is not None and not 0 < len(text.strip()) <= LONGEST_NAME:
                raise InputError(f"must have 1 to {LONGEST_NAME} characters", place)
            if text is not None and not re.fullmatch(NAME, text):
                raise InputError(f"{text!r:.60} has characters that no name has", place)
        subject = {"admin": "", "user": user or name, "worker": server or ""}[role]
        secret = f"fairlead_{secrets.token_urlsafe(32)}"
        journal.add_token(Token(name, role, subject), secret)
    finally:
        journal.close()
    answer = {"name": name, "role": role, "subject": subject, "token": secret}
    emit(json.dumps(answer, indent=2) + "\n" if as_json else f"{secret}\n")


def _machine(
    name: str | None, cpu: float | None, memory: str | None, gpu: int | None, labels: list[str]
) -> Declaration:
    from fairlead.model.quantity import read_amount
    from fairlead.service.messages import NAME
    from fairlead.worker import machine
    from fairlead.worker.worker import Declaration

    if name is not None and not re.fullmatch(NAME, name):
        raise InputError(f"{name!r:.60} is no name that a server can have", "--name")
    found = machine.gpus() if gpu is None else []
    known: dict[str, str] = {}
    if found and len(set(found)) == 1:
        known["gpu"] = short_name(found[0])
    known |= pairs_of(labels, "--label")
    try:
        amount = machine.memory() if memory is None else read_amount(_plain(memory), "GiB")[0]
    except ProblemError as fault:
        raise InputError(fault.fault, "--memory") from None
    cores = machine.cores() if cpu is None else cpu
    devices = tuple(range(len(found) if gpu is None else gpu))
    if not (cores or amount or devices):
        raise InputError("a worker without cores, memory and devices can run nothing", "--cpu")
    return Declaration(name or socket.gethostname(), cores, amount, devices, known)


def _plain(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def short_name(gpu: str) -> str:
    """Return a GPU's model as people say it: A100 for NVIDIA A100-SXM4-40GB."""
    words = [w for w in gpu.split() if w not in ("NVIDIA", "Tesla", "GeForce", "Quadro")]
    return re.sub(r"-(SXM|PCIE|PCIe|\d+GB).*", "", "-".join(words)) or gpu


def pairs_of(texts: list[str], option: str, *, may_be_empty: bool = False) -> dict[str, str]:
    """Return what was given as KEY=VALUE.

    Raises
    ------
    InputError
        When something else was given.
    """
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals and (value or may_be_empty)):
            raise InputError(f"must be KEY=VALUE, not {text!r:.60}", option)
        if key in pairs:
            raise InputError(f"gives {key!r:.60} twice", option)
        pairs[key] = value
    return pairs


def _need(*modules: str) -> None:
    """Refuse where a package of the extra is missing."""
    from importlib.util import find_spec

    for module in modules:
        if find_spec(module) is None:
            raise InputError(NEEDED)


def _log(as_json: bool) -> None:
    for handler in logging.getLogger().handlers:
        if as_json:
            handler.setFormatter(JsonLines())
        else:
            handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    logging.getLogger("httpx").setLevel(logging.WARNING)


def path_of(db: str | None) -> Path:
    """Return the file that ``--db`` names: a path, or ``sqlite:///PATH``.

    Raises
    ------
    InputError
        When it names another kind of database.
    """
    if not db:
        return state_folder() / "journal.db"
    if "://" in db and not db.startswith(SQLITE):
        raise InputError(f"must be a file or sqlite:///FILE, not {db!r:.80}", "--db")
    return Path(db.removeprefix(SQLITE))


def state_folder() -> Path:
    """Return the folder for what is kept between runs, by the XDG's rules; make it."""
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "fairlead"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o711)
    except OSError as fault:
        raise InputError(fault.strerror or str(fault), "", str(folder)) from None
    return folder


class JsonLines(logging.Formatter):
    """Log records as JSON, one a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as JSON."""
        line: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {k: v for k, v in record.__dict__.items() if k not in STANDARD}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
