"""``fairlead top``: a live page of shares, servers and jobs of a service on the terminal."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from shutil import get_terminal_size
from typing import Annotated

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from fairlead.cli._client import Service, client
from fairlead.cli.parameters import Option
from fairlead.cli.streams import emit, wants_plain_text
from fairlead.report.live_screen import Size, screen
from fairlead.report.terminal import open_console, printed_text
from fairlead.service.client import calls
from fairlead.service.client.plain_client import NoServiceError, PlainClient

JOBS = 500  # requested at most, the oldest first
QUIT_KEYS = (b"q", b"Q", b"\x04")  # the last is Ctrl-D
ESCAPE = b"\x1b"  # quits only by itself, as arrow keys start with it
WITHOUT_TERMINAL = (100, 60)  # columns and lines


def top(
    every: Annotated[
        float,
        Option(
            "--every", "-n", min=0.5, max=3600, metavar="SECONDS", help="Time between two updates."
        ),
    ] = 2.0,
    once: Annotated[bool, Option("--once", help="Print the page once and exit.")] = False,
    server: Service = None,
) -> None:
    """Show shares, servers and jobs live; q quits.

    \b
    Example:
      fairlead top
    """
    with client(server) as service:
        if once or not (sys.stdout.isatty() and sys.stdin.isatty()):
            size = get_terminal_size(WITHOUT_TERMINAL)
            console, buffer = open_console(size.columns, wants_plain_text())
            console.print(_page(service, size))
            emit(printed_text(buffer))
            return
        with suppress(KeyboardInterrupt):
            _keep_up_to_date(service, Console(highlight=False), every)


def _keep_up_to_date(service: PlainClient, console: Console, every: float) -> None:
    """Show the page until a key quits; update it every `every` seconds."""
    shown, fault = Group(), Text()
    with _single_keys(), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            try:
                shown = _page(service, (console.width, console.height))
                fault = Text(time.strftime("%H:%M:%S; q ends"), "dim")
            except NoServiceError as why:
                fault = Text(str(why), "bold red")
            live.update(Group(shown, fault), refresh=True)
            if select.select([sys.stdin], [], [], every)[0]:
                keys = os.read(sys.stdin.fileno(), 1024)
                if not keys or any(key in keys for key in QUIT_KEYS) or keys == ESCAPE:
                    return


def _page(service: PlainClient, size: Size) -> Group:
    """Ask the service, and return the page for a terminal of this size."""
    shares, servers = service.ask(calls.SHARES), service.ask(calls.SERVERS)["servers"]
    jobs = service.ask(calls.list_jobs(None, is_all=False, limit=JOBS))["jobs"]
    return screen(shares, servers, jobs, size)


@contextmanager
def _single_keys() -> Iterator[None]:
    """Read keys from the terminal without waiting for the end of a line."""
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
