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
from fairlead.service import certificate
from fairlead.service.http._repeat_filter import RepeatFilter
from fairlead.service.http.access import Limits
from fairlead.service.http.api import application
from fairlead.service.http.http_server import HttpServer
from fairlead.service.journal.event_journal import Journal
from fairlead.service.service import Service, Settings

LOG = logging.getLogger("fairlead.service")
COLLECT_SECONDS = 60.0
YOUNG, NEVER = 10_000, 10**6  # when Python's collector looks at its generations


def serve(
    listening: Sequence[socket.socket],
    journal: Journal,
    settings: Settings,
    limits: Limits,
    version: str,
) -> None:
    """Serve until a signal says stop.

    Parameters
    ----------
    listening : sequence of socket.socket
        As `addresses.listen_tcp` and `listen_unix` return them.
    journal : Journal
    settings : Settings
    limits : Limits
    version : str

    Raises
    ------
    InputError
        When other machines can reach it while there are no tokens.
    """
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
    state = service.engine.state
    LOG.info(
        "serving %s on %s; journal %s: %d jobs, %d servers",
        state.scheduler.policy.name,
        " and ".join(_address(sock) for sock in listening),
        journal.path,
        len(state.jobs),
        len(state.servers),
        extra={"events_after_snapshot": service.engine.recovered},
    )
    Thread(target=_collect_seldom, name="collector", daemon=True).start()
    server = HttpServer(
        app,
        listening,
        lambda: certificate.server_context(
            journal.tokens.service_secret(certificate.KEY, certificate.make)
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
    """Keep Python's collector from walking through all jobs, which takes a second and finds none.

    The objects of a job are freed with it, without the collector. So objects that are a minute old
    are moved to where it does not look. Its middle generation would stop everything for 80 ms each
    time that some 30,000 tasks have started.
    """
    gc.set_threshold(YOUNG, NEVER, NEVER)
    gc.freeze()
    gc.enable()
    while True:
        time.sleep(COLLECT_SECONDS)
        gc.collect()
        gc.freeze()
