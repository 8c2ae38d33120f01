"""``fairlead serve`` and ``token``: the service and its tokens."""

from __future__ import annotations

import json
import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fairlead.cli.options import AsJson, PolicySuffixes, TreeFile, parse_seconds
from fairlead.cli.parameters import Argument, Option
from fairlead.cli.streams import emit, emit_json, emit_lines
from fairlead.errors import InputError, how_to_install
from fairlead.garbage_collection import garbage_collection_paused

if TYPE_CHECKING:
    import socket

Database = Annotated[
    str | None,
    Option(
        "--db",
        metavar="FILE",
        help="The journal, a SQLite file. [default: ~/.local/state/fairlead/journal.db]",
    ),
]
JsonLogs = Annotated[
    bool, Option("--json-logs", help="Log JSON, one object a line, on standard error.")
]
SQLITE = "sqlite:///"
DAY = 86400.0
STANDARD_FIELDS = logging.makeLogRecord({}).__dict__.keys()


def serve(
    host: Annotated[str, Option(help="TCP address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, Option(min=0, max=65535, help="TCP port to listen on; 0 for any free port.")
    ] = 8400,
    unix: Annotated[
        Path | None,
        Option(
            "--socket",
            metavar="PATH",
            help="Also listen on this Unix socket. [default: fairlead.sock in a folder of "
            "$XDG_RUNTIME_DIR or /tmp; for root /run/fairlead/fairlead.sock]",
        ),
    ] = None,
    db: Database = None,
    policy: Annotated[
        str | None,
        Option(
            "--policy",
            "-p",
            metavar="POLICY",
            help="Scheduling policy CRITERION/SELECTION, such as ps-dsf/joint. [default: the "
            "journal's, or drf/best-fit]",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        Option(
            metavar="N",
            min=0,
            help="Random seed of the policy. [default: the journal's, or 0]",
        ),
    ] = None,
    *,
    suffixes: PolicySuffixes,
    queues: TreeFile = None,
    grace: Annotated[
        float,
        Option(
            min=1.0,
            metavar="SECONDS",
            help="If a worker has sent no message for this time, run its tasks again elsewhere.",
        ),
    ] = 60.0,
    pending: Annotated[
        int,
        Option(
            "--max-pending", min=1, metavar="N", help="Limit on the waiting tasks of each user."
        ),
    ] = 1_000_000,
    rate: Annotated[
        float, Option(min=0.1, metavar="N", help="Limit on the requests of each user per second.")
    ] = 100.0,
    live: Annotated[
        int,
        Option(
            "--max-live",
            min=1,
            metavar="MIB",
            help="Limit on the stored requests of each user's unfinished jobs, in MiB.",
        ),
    ] = 256,
    keep: Annotated[
        float,
        Option(
            min=0, metavar="DAYS", help="Days to keep ended jobs and events; 0 keeps them for ever."
        ),
    ] = 90.0,
    notify: Annotated[
        str | None,
        Option(metavar="URL", help="Send alerts and ends of jobs to this webhook."),
    ] = None,
    notify_secret: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="File of the secret that signs webhook messages, created if missing. "
            "[default: webhook-secret in the folder of --db]",
        ),
    ] = None,
    alert_owed: Annotated[
        float,
        Option(
            min=0,
            metavar="HOURS",
            help="Alert when a user with waiting tasks is owed more than this many GPU-hours; in a "
            "cluster without GPUs, core-hours.",
        ),
    ] = 24.0,
    alert_after: Annotated[
        str,
        Option(
            metavar="TIME",
            help="Alert only if a user was owed more than --alert-owed for longer than this.",
        ),
    ] = "1h",
    json_logs: JsonLogs = False,
) -> None:
    """Run the scheduler as a service: an API under /v1, with a journal on disk.

    If the service is killed, nothing is lost, and tasks go on. Clients on this machine use the
    service's Unix socket, which identifies them by account. Clients on TCP need a token; until the
    first token is made, root and the service's own account need none.

    \b
    Example:
      fairlead serve --policy ps-dsf/best-fit
    """
    require_modules(
        "fastapi", "uvicorn", "sqlalchemy", "httpx", "prometheus_client", "cryptography"
    )
    from fairlead.service.client import addresses

    format_log(json_logs)
    # Clients that connect during imports and the reading of the journal wait for their answers.
    listening = [addresses.listen_tcp(host, port)]
    try:
        listening += _unix_sockets(unix)
        with garbage_collection_paused():  # all objects made here stay alive
            from fairlead import __version__
            from fairlead.formats.queue_file import load_queues
            from fairlead.model.arguments import whole_number
            from fairlead.scheduler.policies import parse_policy
            from fairlead.service.alerts import Thresholds
            from fairlead.service.http.http_server import serve as run
            from fairlead.service.journal.event_journal import Journal
            from fairlead.service.rate_limits import Limits
            from fairlead.service.service import Settings
            from fairlead.service.webhook import Receiver, check_url, read_secret

            if policy is None and suffixes.is_any:
                raise InputError("need --policy", "--preempt, --half-life, --reserve, --spare")
            if policy is not None:
                policy = suffixes.added_to(policy)
                parse_policy(policy)
            if seed is not None:
                whole_number(seed, "--seed")
            tree = None if queues is None else load_queues(queues)
            thresholds = Thresholds(alert_owed, parse_seconds(alert_after, "--alert-after"))
            if notify_secret is not None and notify is None:
                raise InputError("needs --notify", "--notify-secret")
            receiver = None
            if notify is not None:
                check_url(notify)
                file = notify_secret or journal_path(db).with_name("webhook-secret")
                receiver = Receiver(notify, read_secret(file))
            journal = Journal(journal_path(db))
            try:
                settings = Settings(
                    policy=policy,
                    seed=seed,
                    queues=tree,
                    grace=grace,
                    pending_tasks=pending,
                    live_bytes=live * 2**20,
                    keep=keep * DAY,
                    receiver=receiver,
                    thresholds=thresholds,
                )
                run(listening, journal, settings, Limits(rate=rate, burst=5 * rate), __version__)
            finally:
                journal.close()
    finally:
        addresses.close(listening)


def _unix_sockets(path: Path | None) -> list[socket.socket]:
    """Listen on the given Unix socket, or on the default one if possible."""
    from fairlead.service.client import addresses

    if path is not None:
        return [addresses.listen_unix(path)]
    try:
        return [addresses.listen_unix(addresses.own_socket())]
    except InputError as fault:
        logging.getLogger("fairlead.service").warning("no Unix socket: %s", fault)
        return []


def token(
    action: Annotated[
        str, Argument(metavar="add|list|remove", help="Add or remove a token, or list all.")
    ],
    name: Annotated[str | None, Argument(metavar="NAME", help="Name of the token.")] = None,
    role: Annotated[
        str, Option(metavar="ROLE", help="Role of the token: admin, user or worker.")
    ] = "user",
    user: Annotated[
        str | None, Option(metavar="USER", help="User of a token of role user. [default: NAME]")
    ] = None,
    server: Annotated[
        str | None,
        Option(
            "--for-server",
            metavar="SERVER",
            help="Let a worker with this token take only this name as a server.",
        ),
    ] = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Add, list and remove tokens; clients read theirs from FAIRLEAD_TOKEN.

    Only an account with write access to the journal can make tokens. A token is printed once; the
    journal keeps only its digest. A token also holds the digest of the service's TLS certificate,
    so that clients send the token to no other service. Once a token exists, every client on TCP
    needs one.

    \b
    Example:
      fairlead token add ana --role user
    """
    require_modules("sqlalchemy", "cryptography")
    import secrets

    from fairlead.service import tls_certificate
    from fairlead.service.bounds import LONGEST_NAME, NAME
    from fairlead.service.client.addresses import PREFIX
    from fairlead.service.journal.event_journal import Journal
    from fairlead.service.journal.tokens import Caller, check_name

    if action not in ("add", "list", "remove"):
        raise InputError(f"must be add, list or remove, not {action!r:.40}", "action")
    if action != "list" and not name:
        raise InputError("must be given", "NAME")
    if action == "add" and name:
        check_name(name)
        if role not in ("admin", "user", "worker"):
            raise InputError(f"must be admin, user or worker, not {role!r:.40}", "--role")
        for given, option, needed in ((user, "--user", "user"), (server, "--for-server", "worker")):
            if given is not None and role != needed:
                raise InputError(f"needs --role {needed}", option)
        for text, place in ((name, "NAME"), (user, "--user"), (server, "--for-server")):
            if text is not None and not 0 < len(text.strip()) <= LONGEST_NAME:
                raise InputError(f"must have 1 to {LONGEST_NAME} characters", place)
            if text is not None and not re.fullmatch(NAME, text):
                raise InputError(f"{text!r:.60} has characters that are not allowed", place)
    journal = Journal(journal_path(db), shared=True, must_exist=action != "add")
    try:
        if action == "list":
            rows = [kept._asdict() for kept in journal.tokens.all().values()]
            if as_json:
                emit_json({"tokens": rows})
            else:
                lines = (f"{row['name']}  {row['role']}  {row['subject']}".rstrip() for row in rows)
                emit_lines(lines)
            return
        assert name is not None
        if action == "remove":
            journal.tokens.remove(name)
            return
        subject = {"admin": "", "user": user or name, "worker": server or ""}[role]
        pin = tls_certificate.digest(
            journal.tokens.service_secret(tls_certificate.KEY, tls_certificate.make)
        )
        secret = f"{PREFIX}{secrets.token_urlsafe(32)}.{pin}"
        answer = {"name": name, "role": role, "subject": subject, "token": secret}
        with journal.tokens.adding(Caller(name, role, subject), secret):  # undone if not printed
            if as_json:
                emit_json(answer)
            else:
                emit(f"{secret}\n")
    finally:
        journal.close()


def require_modules(*modules: str) -> None:
    """Raise InputError if a module of the extra ``serve`` is not installed."""
    from importlib.util import find_spec

    for module in modules:
        if find_spec(module) is None:
            raise InputError(f"{module} is not installed: {how_to_install('serve')}")


def format_log(as_json: bool) -> None:
    """Format the log on standard error as JSON lines, or as lines with a time."""
    for handler in logging.getLogger().handlers:
        if as_json:
            handler.setFormatter(JsonLines())
        else:
            handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    logging.getLogger("httpx").setLevel(logging.WARNING)


def journal_path(db: str | None) -> Path:
    """Return the file that ``--db`` names: a path, or ``sqlite:///PATH``."""
    if db is None:
        return state_folder() / "journal.db"
    path = db.removeprefix(SQLITE)
    if not path or "://" in path:
        raise InputError(f"must be a file or sqlite:///FILE, not {db!r:.80}", "--db")
    return Path(path)


def state_folder() -> Path:
    """Create and return the state folder, by the XDG specification."""
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
        line |= {k: v for k, v in record.__dict__.items() if k not in STANDARD_FIELDS}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
