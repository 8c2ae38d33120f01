"""`fairlead serve`: an HTTP server around a service, until it is told to stop."""

from __future__ import annotations

import gc
import ipaddress
import logging
import signal
import socket
import time
from threading import Thread
from types import FrameType

import uvicorn

from fairlead.errors import InputError
from fairlead.service.api import Limits, application
from fairlead.service.journal import Journal
from fairlead.service.service import Service, Settings

LOG = logging.getLogger("fairlead.service")
BACKLOG = 2048
CLOSE_SECONDS = 5
COLLECT_SECONDS = 60.0
YOUNG, NEVER = 10_000, 10**6  # when Python's collector looks at its generations


class _AnnouncedServer(uvicorn.Server):
    """A server that lets go of those who wait for news when it is told to stop."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service

    def handle_exit(self, sig: int, _frame: FrameType | None) -> None:
        """Stop in good order and close the journal; uvicorn would raise the signal again."""
        self.service.wake()
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def serve(
    host: str,
    port: int,
    journal: Journal,
    settings: Settings,
    limits: Limits,
    version: str,
) -> None:
    """Serve until a signal says stop.

    Raises
    ------
    InputError
        When the address cannot be had, or is open to others while there are no tokens.
    """
    is_local = _is_loopback(host)
    if not is_local and not journal.tokens():
        raise InputError(
            "others would reach a service without tokens; make one first: "
            "fairlead token add NAME --role admin (docs/running.md says how to put TLS before it)",
            f"--host {host}",
        )
    listening = _listen(host, port)
    try:
        service = Service(journal, settings)
        app = application(service, limits, is_local=is_local, version=version)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=CLOSE_SECONDS,
            lifespan="on",
        )
        state, port = service.engine.state, listening.getsockname()[1]
        LOG.info(
            "serving %s on http://%s:%d; journal %s: %d jobs, %d servers",
            service.engine.state.core.policy,
            f"[{host}]" if ":" in host else host,
            port,
            journal.path,
            len(state.jobs),
            len(state.servers),
            extra={"events_after_snapshot": service.engine.recovered},
        )
        Thread(target=_collect_seldom, name="collector", daemon=True).start()
        _AnnouncedServer(config, service).run(sockets=[listening])
    finally:
        listening.close()


def _collect_seldom() -> None:
    """Have the collector never go through all jobs, which has no use and takes a second.

    What a job holds goes with it, without the collector. So what is there for a minute is put where
    it does not look any more. The middle generation would hold up everything for 80 ms, each time
    that some 30,000 tasks have started.
    """
    gc.set_threshold(YOUNG, NEVER, NEVER)
    gc.freeze()
    gc.enable()
    while True:
        time.sleep(COLLECT_SECONDS)
        gc.collect()
        gc.freeze()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except (OSError, OverflowError) as fault:
        why = getattr(fault, "strerror", None) or str(fault)
        raise InputError(f"cannot be listened on: {why.lower()}", f"{host}:{port}") from None
    return listening


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
