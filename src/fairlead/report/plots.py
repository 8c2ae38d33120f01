"""Draw answers as Plotly figures, for notebooks."""

from __future__ import annotations

from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairlead.errors import FairleadError, InputError, how_to_install
from fairlead.mechanisms.comparison import Allocations
from fairlead.model.allocation import Allocation
from fairlead.model.run_log import RunLog
from fairlead.properties.audit import Audit
from fairlead.report import charts
from fairlead.report._allocation_figures import comparison_figure, share_figure
from fairlead.report._fair_comparison import compare_with_fair
from fairlead.report._fair_comparison import shares_figure as audit_figure
from fairlead.report._simulation_figures import (
    completion_figure,
    policy_styles,
    running_figure,
    shares_figure,
    users_drawn,
)
from fairlead.simulation.filling import Filling
from fairlead.simulation.metrics.dominant_shares import Shares
from fairlead.simulation.metrics.summary import summarise
from fairlead.simulation.simulate import Outcome, Outcomes

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

GREY = "#555555"  # legible on light and dark pages
LEAST_HEIGHT, ROOM_FOR_TITLE = 280, 80  # pixels


def plot(answer: object) -> Figure:
    """Draw an answer as a Plotly figure.

    - allocation, filling, or several allocations: users' shares
    - audit: held and due shares
    - outcome: shares over time, until the last submission
    - run log: running tasks over time
    - outcomes of several policies: completion times of jobs

    If there is nothing to draw, such as times of jobs that never end, the title of the empty
    figure says so.

    Raises
    ------
    InputError
        For an object that has no picture.
    FairleadError
        Without plotly.
    """
    title, drawn, across, up = _figure_of(answer)
    figure = plotly_figure(title, drawn)
    figure.update_xaxes(title=across)
    figure.update_yaxes(title=up)
    return figure


def plotly_figure(
    title: str, drawn: charts.Figure | None, why_empty: str = "nothing to draw"
) -> Figure:
    """Convert a picture of `fairlead.report.charts` to Plotly, with a title.

    Raises FairleadError without plotly.
    """
    try:
        graph_objects = import_module("plotly.graph_objects")
    except ImportError:
        raise FairleadError(f"pictures need plotly: {how_to_install('notebook')}") from None
    if drawn is None:
        title, drawn = f"{title}: {why_empty}", {"data": [], "layout": charts.layout()}
    # On a page, HTML around the picture has the title and the legend.
    layout = drawn["layout"] | {
        "title": {"text": title, "font": {"size": 15}},
        "template": "plotly_white",
        "height": max(LEAST_HEIGHT, drawn["layout"].get("height", 0) + ROOM_FOR_TITLE),
        "margin": {"t": 60, "b": 50, "l": 60, "r": 20},
    }
    if "ticktext" in layout["yaxis"]:
        names = [charts.shortened(name) for name in layout["yaxis"]["ticktext"]]
        layout["yaxis"] = layout["yaxis"] | {"ticktext": names}
    figure: Figure = graph_objects.Figure(_for_plotly(drawn["data"]), _for_plotly(layout))
    return figure


def _figure_of(answer: object) -> tuple[str, charts.Figure | None, str, str]:
    """Return the title and the picture of an answer, if it has one, and titles of both axes."""
    share = "dominant share"
    if isinstance(answer, Filling):
        answer = answer.to_allocation()
    if isinstance(answer, Allocation):
        return f"Dominant shares under {answer.mechanism}", share_figure(answer), share, ""
    if isinstance(answer, Allocations):
        return "Dominant shares", comparison_figure(answer) if answer else None, share, ""
    if isinstance(answer, Audit):
        title = f"Held and due dominant shares, {answer.subject.name}"
        return title, audit_figure(answer, compare_with_fair(answer)), share, ""
    if isinstance(answer, Outcome):
        until, shares = answer.summary.arrivals, _shares_of_arrivals(answer)
        drawn = shares_figure(answer.workload, shares, users_drawn([shares]), until)
        return f"Dominant shares over time under {answer.name}", drawn, "time", share
    if isinstance(answer, RunLog):
        title = f"Running tasks under {answer.policy}"
        return title, running_figure(answer), "time", "running tasks"
    if isinstance(answer, Outcomes):
        styles = policy_styles(list(answer), next(iter(answer), ""))
        title = "Part of jobs complete within a time"
        return title, completion_figure(answer, styles), "completion time", "part of jobs"
    raise InputError(f"cannot draw a {type(answer).__name__}", "plot")


def _shares_of_arrivals(outcome: Outcome) -> Shares:
    """Return the shares until the last submission, the period of the fairness figures."""
    until = outcome.summary.arrivals
    if until == outcome.summary.until:
        return outcome.summary.shares
    return summarise(
        outcome.workload, outcome.log, since=outcome.since, until=until, instants=0
    ).shares


def _for_plotly(drawn: Any) -> Any:
    """Escape texts, in which Plotly reads tags, and replace the themed colour by grey."""
    if isinstance(drawn, dict):
        return {key: _for_plotly(value) for key, value in drawn.items()}
    if isinstance(drawn, list):
        return [_for_plotly(value) for value in drawn]
    if not isinstance(drawn, str):
        return drawn
    if drawn == charts.INK:
        return GREY
    # The first line of a text under the pointer is its heading.
    first, *lines = escape(drawn, quote=False).split("\n")
    return "<br>".join([f"<b>{first}</b>", *lines]) if lines else first
