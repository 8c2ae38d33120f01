"""The page of what fairness costs."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from fairlead.properties.trade_off import TradeOff
from fairlead.report.page import embedded_json, environment
from fairlead.report.terminal import size_of
from fairlead.report.trade_off_figures import trade_off_figures
from fairlead.report.trade_off_tables import division_text


def trade_off_page(trade_off: TradeOff, title: str, left_out: Sequence[str] = ()) -> str:
    """Show tasks, the least share and envy along alpha, as a whole HTML document.

    The other arguments and what it returns are as in `fairlead.report.page.allocation_page`.
    """
    points = trade_off.points
    most = max((point.tasks for point in points), default=0.0)
    rows = [
        {
            **point.to_dict(),
            "of_most": point.tasks / most,
            "has_nothing": not isfinite(point.largest_envy),
        }
        for point in points
    ]
    return (
        environment()
        .get_template("trade_off.html")
        .render(
            title=title,
            size=size_of(trade_off.problem),
            division=division_text(trade_off),
            left_out=left_out,
            unproved=[f"alpha {a:g}: {why}" for a, why in trade_off.unproved.items()],
            rows=rows,
            first=rows[0] if rows else None,
            last=rows[-1] if rows else None,
            n_users=trade_off.problem.n_users,
            worst_violation=max((point.violation for point in points), default=0.0),
            figures=embedded_json(trade_off_figures(trade_off)),
            plotly=Markup(get_plotlyjs()),
        )
    )
