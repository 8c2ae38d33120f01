"""Tables of what fairness costs."""

from __future__ import annotations

from math import isfinite

from rich.text import Text

from fairlead.properties.trade_off import TradeOff
from fairlead.report.numbers import number, percent
from fairlead.report.terminal import finished, open_console, plain_table, print_table, size_of


def division_text(trade_off: TradeOff) -> str:
    """Say how servers are divided."""
    return "shared by time (TDM)" if trade_off.time_shared else "divided by resource (RDM)"


def trade_off_tables(trade_off: TradeOff, *, width: int | None, plain: bool) -> str:
    """Say what each alpha gives: tasks, the least share, and who envies.

    The other arguments and what it returns are as in `fairlead.report.tables.allocation_tables`.
    """
    console, buffer = open_console(width, plain)
    console.print(
        Text(f"alpha-fair, servers {division_text(trade_off)}: {size_of(trade_off.problem)}"),
        style="bold",
    )
    table = plain_table()
    for heading in ("alpha", "tasks", "of the most", "least share", "users with envy", "envy"):
        table.add_column(heading, justify="right", no_wrap=True)
    most = max((point.tasks for point in trade_off.points), default=0.0)
    for point in trade_off.points:
        table.add_row(
            f"{point.alpha:g}",
            number(point.tasks),
            percent(point.tasks / most),
            percent(point.least_share),
            f"{point.envious:,}",
            percent(point.largest_envy) if isfinite(point.largest_envy) else "all",
        )
    print_table(console, table)
    console.print(
        Text(
            "least share: of its dominant resource, over its weight, weights scaled to a mean of "
            "1; envy: the most that a user would gain with another's bundle, relative to what it "
            "has (all: it has nothing)",
            style="dim",
        )
    )
    return finished(buffer)
