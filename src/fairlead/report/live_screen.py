"""The page of ``fairlead top``: shares, servers and jobs, cut to the size of the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fairlead.report.live import (
    RESOURCES,
    LiveTable,
    Row,
    Short,
    jobs_table,
    part_of,
    servers_table,
    shares_table,
)
from fairlead.report.numbers import counted, number, percent, printable

BAR = 20  # length of a bar, in columns of the terminal
WIDE = 80  # columns; a narrower terminal gets no bars
GAP = 2  # columns between two columns of a table
SMALLEST_ROWS = 3  # shown of each table, if it has them
AROUND_TABLES = 3  # lines: two at the top of the screen, one for an error
AROUND_ROWS = 4  # lines of a table: blank, title, heading, count of rows left out
Size = tuple[int, int]  # columns and lines of the terminal


def screen(shares: Row, servers: Sequence[Row], jobs: Sequence[Row], size: Size) -> Group:
    """Lay out shares, servers and jobs for a terminal; users below their fair share come first."""
    width, height = size
    users = sorted(shares["users"], key=_need)
    servers = sorted(servers, key=lambda s: (s["state"] == "ready", -_busy(s), s["name"]))
    jobs = sorted(jobs, key=lambda job: job["state"] != "running")
    tables = [
        shares_table({**shares, "users": users}),
        servers_table(servers),
        jobs_table([{**job, "reason": ""} for job in jobs]),
    ]
    wanted = [len(table.rows) for table in tables]
    room = max(0, height - AROUND_TABLES - AROUND_ROWS * len(tables))
    bars = [
        [
            _bar(part_of(user, "share"), part_of(user, "fair_share"), _largest(users))
            for user in users
        ],
        [_bar(_busy(server), None, 1.0) for server in servers],
        [],
    ]
    parts = [
        _table(table, rows, column, width)
        for table, rows, column in zip(tables, divide_rows(wanted, room), bars, strict=True)
    ]
    head = verdict(users), _totals(users, servers)
    for line in head:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*head, *parts)


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


def divide_rows(wanted: Sequence[int], room: int) -> list[int]:
    """Divide `room` lines equally among tables; no table gets more rows than it has (`wanted`)."""
    found = [0] * len(wanted)
    for done, k in enumerate(sorted(range(len(wanted)), key=lambda k: wanted[k])):
        equal = (room - sum(found)) // (len(wanted) - done)
        found[k] = min(wanted[k], max(SMALLEST_ROWS, equal))
    return found


def _need(user: Row) -> tuple[bool, float, str]:
    """Return a sort key: users below their fair share first, the furthest below at the top."""
    missing = part_of(user, "fair_share") - part_of(user, "share")
    return not user["is_short"], -missing if user["is_short"] else 0.0, user["name"]


def _busy(server: Row) -> float:
    """Return the largest utilization of a server's resources, from 0 to 1."""
    capacity, used = server["capacity"], server["used"]
    return max((used.get(name, 0.0) / c for name, c in capacity.items() if c > 0), default=0.0)


def _largest(users: Sequence[Row]) -> float:
    parts = [part_of(user, name) for user in users for name in ("share", "fair_share")]
    return max(parts, default=0.0) or 1.0


def _bar(part: float, line: float | None, whole: float) -> Text:
    """Draw a bar for `part` of `whole`, with a mark at `line` of `whole`."""
    filled = round(BAR * min(1.0, part / whole))
    bar = Text("█" * filled, "cyan")
    bar.append("·" * (BAR - filled), "dim")
    if line is not None:
        at = min(BAR - 1, round(BAR * line / whole))
        bar = Text.assemble(bar[:at], ("│", "bold"), bar[at + 1 :])
    return bar


def _totals(users: Sequence[Row], servers: Sequence[Row]) -> Text:
    waiting, running = (sum(user[name] for user in users) for name in ("waiting", "running"))
    ready = sum(server["state"] == "ready" for server in servers)
    parts = [
        f"{counted(running, 'task')} {'runs' if running == 1 else 'run'}",
        f"{waiting:,} wait",
        f"{ready:,} of {counted(len(servers), 'server')} ready",
    ]
    for name, unit in RESOURCES:
        held = sum(server["used"].get(name, 0.0) for server in servers)
        capacity = sum(server["capacity"].get(name, 0.0) for server in servers)
        if capacity > 0:
            parts.append(f"{number(held)} of {number(capacity)} {unit}")
    return Text("; ".join(parts), "dim")


def _table(table: LiveTable, rows: int, bars: Sequence[Text], width: int) -> RenderableType:
    """Lay out the first rows of a table, with a bar after the first column if there is room.

    Columns that do not fit the terminal are left out, from the last.
    """
    has_bars = bool(bars) and width >= WIDE
    drawn = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    fitting = _fitting_columns(table, rows, width - (BAR + GAP) * has_bars)
    for k, column in enumerate(table.columns[:fitting]):
        drawn.add_column(
            column.text,
            justify="left" if column.is_words else "right",
            no_wrap=True,
            overflow="ellipsis",
        )
        if k == 0 and has_bars:
            drawn.add_column("")
    for k, row in enumerate(table.rows[:rows]):
        cells = [
            Text(printable(text), "red" if isinstance(text, Short) else "")
            for text in row[:fitting]
        ]
        drawn.add_row(*([cells[0], bars[k], *cells[1:]] if has_bars else cells))
    left = len(table.rows) - rows
    title = Text(f"\n{table.title}: {'' if table.rows else table.empty}".rstrip(), "bold")
    parts: list[RenderableType] = [title, drawn] if table.rows else [title]
    if left > 0:
        parts.append(Text(f"and {left:,} more", "dim"))
    return Group(*parts)


def _fitting_columns(table: LiveTable, rows: int, width: int) -> int:
    """Return how many columns fit the width, at least two."""
    taken = 0
    for k, column in enumerate(table.columns):
        cells = [column.text, *(row[k] for row in table.rows[:rows])]
        taken += max(cell_len(printable(cell)) for cell in cells)
        if taken > width and k >= 2:
            return k
        taken += GAP
    return len(table.columns)
