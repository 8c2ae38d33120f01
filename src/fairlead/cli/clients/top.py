"""``fairlead top``: a live page of shares, servers and jobs of a service on the terminal."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from shutil import get_terminal_size
from typing import Annotated

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from fairlead.cli.clients.service_connection import Service, client
from fairlead.cli.parameters import Option
from fairlead.cli.streams import emit, wants_plain_text
from fairlead.report.live import (
    LiveTable,
    Row,
    jobs_table,
    part_of,
    servers_table,
    shares_table,
)
from fairlead.report.numbers import percent, printable
from fairlead.report.terminal import open_console, printed_text
from fairlead.service.client import calls
from fairlead.service.client.plain_client import NoServiceError, PlainClient

JOBS = 500  # requested at most, the oldest first
QUIT_KEYS = (b"q", b"Q", b"\x04")  # the last is Ctrl-D
ESCAPE = b"\x1b"  # quits only by itself, as arrow keys start with it
WITHOUT_TERMINAL = (100, 60)  # columns and lines
SMALLEST_ROWS = 3  # shown of each table, if it has them
AROUND_TABLES = 3  # lines: the first one, one for an error, and the last line of the screen
AROUND_ROWS = 6  # lines of a table: blank, title, blank, heading, rule, count of other rows
Size = tuple[int, int]  # columns and lines of the terminal


def top(
    every: Annotated[
        float,
        Option(
            "--every", "-n", min=0.5, max=3600, metavar="SECONDS", help="Time between two updates."
        ),
    ] = 2.0,
    server: Service = None,
) -> None:
    """Show shares, servers and jobs live; q quits.

    \b
    Example:
      fairlead top
    """
    with client(server) as service:
        if not (sys.stdout.isatty() and sys.stdin.isatty()):
            size = get_terminal_size(WITHOUT_TERMINAL)
            console, buffer = open_console(size.columns, wants_plain_text())
            console.print(_page(service, size))
            emit(printed_text(buffer))
            return
        with suppress(KeyboardInterrupt):
            _show_live(service, Console(highlight=False), every)


def _show_live(service: PlainClient, console: Console, every: float) -> None:
    """Show the page until a key quits; update it every `every` seconds."""
    shown, last_line = Group(), Text()
    with _single_keys(), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            try:
                shown = _page(service, (console.width, console.height))
                last_line = Text(time.strftime("%H:%M:%S; q ends"), "dim")
            except NoServiceError as error:
                last_line = Text(str(error), "bold red")
            live.update(Group(shown, last_line), refresh=True)
            if select.select([sys.stdin], [], [], every)[0]:
                keys = os.read(sys.stdin.fileno(), 1024)
                if not keys or any(key in keys for key in QUIT_KEYS) or keys == ESCAPE:
                    return


def _page(service: PlainClient, size: Size) -> Group:
    """Return the page for a terminal of this size, with the present state of the service."""
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


def screen(shares: Row, servers: Sequence[Row], jobs: Sequence[Row], size: Size) -> Group:
    """Lay out shares, servers and jobs for a terminal; users below their fair share come first."""
    users = sorted(shares["users"], key=_shortage_key)
    servers = sorted(servers, key=lambda server: (server["state"] == "ready", server["name"]))
    jobs = sorted(jobs, key=lambda job: job["state"] != "running")
    tables = [
        shares_table({**shares, "users": users})._replace(note=""),
        servers_table(servers),
        jobs_table([{**job, "reason": ""} for job in jobs]),
    ]
    rows = max(SMALLEST_ROWS, (size[1] - AROUND_TABLES) // len(tables) - AROUND_ROWS)
    lines = [verdict(users), *(_first_rows(table, rows) for table in tables)]
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*lines)


def verdict(users: Sequence[Row]) -> Text:
    """Describe the waiting users below their fair share in one sentence."""
    short = [user for user in users if user["is_short"]]
    if not users:
        return Text("No users yet.", "bold")
    if not short:
        return Text("✓ No waiting user is below its fair share.", "bold green")
    first = min(short, key=_shortage_key)
    holders = "One user holds" if len(short) == 1 else f"{len(short):,} users hold"
    held, fair = (percent(part_of(first, name)) for name in ("share", "fair_share"))
    name = printable(first["name"])
    return Text(f"✗ {holders} less than is fair; {name} holds {held}, not {fair}.", "bold red")


def _shortage_key(user: Row) -> tuple[bool, float, str]:
    """Return a sort key: users below their fair share first, the furthest below at the top."""
    missing = part_of(user, "fair_share") - part_of(user, "share")
    return not user["is_short"], -missing if user["is_short"] else 0.0, user["name"]


def _first_rows(table: LiveTable, rows: int) -> Text:
    """Return a table as text, with at most `rows` rows and the number of the others."""
    text = table._replace(rows=table.rows[:rows]).to_text(plain=False)
    more = f"and {len(table.rows) - rows:,} more\n" if len(table.rows) > rows else ""
    return Text.from_ansi(f"\n{text}{more}")
