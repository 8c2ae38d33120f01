"""The page of ``fairlead top``: shares, servers and jobs, cut to the size of the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.text import Text

from fairlead.report.live import (
    LiveTable,
    Row,
    jobs_table,
    part_of,
    servers_table,
    shares_table,
)
from fairlead.report.numbers import percent, printable

SMALLEST_ROWS = 3  # shown of each table, if it has them
AROUND_TABLES = 3  # lines: the first one, one for an error, and the last line of the screen
AROUND_ROWS = 6  # lines of a table: blank, title, blank, heading, rule, count of other rows
Size = tuple[int, int]  # columns and lines of the terminal


def screen(shares: Row, servers: Sequence[Row], jobs: Sequence[Row], size: Size) -> Group:
    """Lay out shares, servers and jobs for a terminal; users below their fair share come first."""
    users = sorted(shares["users"], key=_need)
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
    first = min(short, key=_need)
    who = "One user holds" if len(short) == 1 else f"{len(short):,} users hold"
    held, fair = (percent(part_of(first, name)) for name in ("share", "fair_share"))
    name = printable(first["name"])
    return Text(f"✗ {who} less than is fair; {name} holds {held}, not {fair}.", "bold red")


def _need(user: Row) -> tuple[bool, float, str]:
    """Return a sort key: users below their fair share first, the furthest below at the top."""
    missing = part_of(user, "fair_share") - part_of(user, "share")
    return not user["is_short"], -missing if user["is_short"] else 0.0, user["name"]


def _first_rows(table: LiveTable, rows: int) -> Text:
    """Return a table as text, with at most `rows` rows and the number of the others."""
    text = table._replace(rows=table.rows[:rows]).to_text(plain=False)
    more = f"and {len(table.rows) - rows:,} more\n" if len(table.rows) > rows else ""
    return Text.from_ansi(f"\n{text}{more}")
