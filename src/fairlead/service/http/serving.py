"""`fairlead serve`: a service and its HTTP server, until a signal stops it."""

from __future__ import annotations

import gc
import ipaddress
import logging
import socket
import time
from collections.abc import Sequence
from threading import Thread

from fairlead.errors import InputError
from fairlead.service import tls_certificate
from fairlead.service.http.api import application
from fairlead.service.http.http_server import HttpServer
from fairlead.service.journal.event_journal import Journal
from fairlead.service.rate_limits import Limits
from fairlead.service.service import Service, Settings

LOG = logging.getLogger("fairlead.service")
COLLECT_SECONDS = 5.0  # between scans of new objects
YOUNG, NEVER = 10_000, 10**6  # thresholds of Python's collector for young and older objects
REPEAT_SECONDS = 60.0  # each kind of warning is shown once in this time
MOST_WARNINGS = 1000  # kinds of warnings that are remembered


def serve(
    listening: Sequence[socket.socket],
    journal: Journal,
    settings: Settings,
    limits: Limits,
    version: str,
) -> None:
    """Serve on sockets until a signal; raise `InputError` if other machines need no token."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(RepeatFilter())
    for sock in listening:
        host = sock.getsockname()[0] if sock.family != socket.AF_UNIX else "127.0.0.1"
        if not ipaddress.ip_address(host).is_loopback and not journal.tokens.all():
            raise InputError(
                "other machines would reach a service without tokens; make one first: "
                "fairlead token add NAME --role admin",
                f"--host {host}",
            )
    service = Service(journal, settings)
    app = application(service, limits, version=version)
    state = service.state_thread.state
    LOG.info(
        "serving %s on %s; journal %s: %d jobs, %d servers",
        state.scheduler.policy.name,
        " and ".join(_address(sock) for sock in listening),
        journal.path,
        len(state.jobs),
        len(state.servers),
        extra={"events_after_snapshot": service.state_thread.recovered},
    )
    Thread(target=_collect_seldom, name="collector", daemon=True).start()
    server = HttpServer(
        app,
        listening,
        lambda: tls_certificate.server_context(
            journal.tokens.service_secret(tls_certificate.KEY, tls_certificate.make)
        ),
        service.wake,
    )
    server.run()


def _address(sock: socket.socket) -> str:
    if sock.family == socket.AF_UNIX:
        return f"unix:{sock.getsockname()}"
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _collect_seldom() -> None:
    """Keep Python's garbage collector from scanning all jobs, which takes a second.

    Jobs have no reference cycles, so older objects are moved to the permanent generation every few
    seconds. At 2,000 starts a second, one scan of everything a minute delayed some answers by 0.4
    to 0.7 s.
    """
    gc.set_threshold(YOUNG, NEVER, NEVER)
    gc.freeze()
    gc.enable()
    while True:
        time.sleep(COLLECT_SECONDS)
        gc.collect()
        gc.freeze()


class RepeatFilter(logging.Filter):
    """Shows each kind of warning once a minute, with the number of suppressed repetitions."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: dict[tuple[str, str], float] = {}
        self._suppressed: dict[tuple[str, str], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        # The kind of an error is its whole text; the kind of a warning, the text without arguments.
        is_error = record.levelno >= logging.ERROR
        kind = record.name, record.getMessage() if is_error else str(record.msg)
        now = time.monotonic()
        if now - self._shown.get(kind, -REPEAT_SECONDS) < REPEAT_SECONDS:
            self._suppressed[kind] = self._suppressed.get(kind, 0) + 1
            return False
        if len(self._shown) >= MOST_WARNINGS:
            self._shown.clear()
            self._suppressed.clear()
        self._shown[kind] = now
        if suppressed := self._suppressed.pop(kind, 0):
            record.msg = f"{record.getMessage()} ({suppressed:,} more since it was last shown)"
            record.args = ()
        return True
