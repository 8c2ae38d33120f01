"""Draw answers for notebooks: the pictures of pages, one by one."""

from __future__ import annotations

from fairlead.errors import InputError
from fairlead.mechanisms.comparison import Allocations
from fairlead.model.allocation import Allocation
from fairlead.model.notebooks import Plot
from fairlead.model.run_log import RunLog
from fairlead.properties.audit import Audit
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
from fairlead.report.charts import Figure
from fairlead.report.document import Block, Document, Picture, Prose
from fairlead.report.page import to_page
from fairlead.simulation.filling import Filling
from fairlead.simulation.metrics.dominant_shares import Shares
from fairlead.simulation.metrics.summary import summarise
from fairlead.simulation.simulate import Outcome, Outcomes

AROUND_PICTURE = 190  # pixels: title, legend and margins


def plot(answer: object) -> Plot:
    """Draw an answer.

    - allocation, filling, or several allocations: users' shares
    - audit: held and due shares
    - outcome: shares over time, until the last submission
    - run log: running tasks over time
    - outcomes of several policies: completion times of jobs

    If there is nothing to draw, such as times of jobs that never end, the picture says so.

    Raises
    ------
    InputError
        For an object that has no picture.
    """
    return plot_figure(*figure_of(answer))


def plot_figure(title: str, figure: Figure | None, why_empty: str = "nothing to draw") -> Plot:
    """Return a page with only a picture, or with the reason why there is none."""
    block: Block = Prose(f"{title}: {why_empty}.")
    height = 0
    if figure is not None:
        block, height = Picture("", figure, title, heading=title), figure.height
    page = to_page(Document("", "", "", None, [block], dict))
    return Plot(title, page, height + AROUND_PICTURE)


def figure_of(answer: object) -> tuple[str, Figure | None]:
    """Return the title of an answer, and its picture or None if there is nothing to draw."""
    if isinstance(answer, Filling):
        answer = answer.to_allocation()
    if isinstance(answer, Allocation):
        return f"Dominant shares under {answer.mechanism}", share_figure(answer)
    if isinstance(answer, Allocations):
        return "Dominant shares", comparison_figure(answer) if answer else None
    if isinstance(answer, Audit):
        title = f"Held and due dominant shares, {answer.subject.name}"
        return title, audit_figure(answer, compare_with_fair(answer))
    if isinstance(answer, Outcome):
        until, shares = answer.summary.arrivals, _shares_of_arrivals(answer)
        figure = shares_figure(answer.workload, shares, users_drawn([shares]), until)
        return f"Dominant shares over time under {answer.name}", figure
    if isinstance(answer, RunLog):
        return f"Running tasks over time under {answer.policy}", running_figure(answer)
    if isinstance(answer, Outcomes):
        styles = policy_styles(list(answer), next(iter(answer), ""))
        return "Part of jobs that complete within a time", completion_figure(answer, styles)
    raise InputError(f"cannot draw a {type(answer).__name__}", "plot")


def _shares_of_arrivals(outcome: Outcome) -> Shares:
    """Return the shares until the last submission, the period of the fairness figures."""
    until = outcome.summary.arrivals
    if until == outcome.summary.until:
        return outcome.summary.shares
    return summarise(
        outcome.workload, outcome.log, since=outcome.since, until=until, instants=0
    ).shares
