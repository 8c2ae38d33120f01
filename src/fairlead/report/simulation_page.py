"""The page of a simulation: what other policies would have done to everybody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from fairlead.metrics.outcomes import Outcome
from fairlead.model.run_log import RECORDED
from fairlead.model.workload import Workload
from fairlead.report.figures import COLOUR_OF_OTHERS, COLOURS, Figure, shortened
from fairlead.report.numbers import counted, short_percent
from fairlead.report.page import LONGEST_TABLE, embedded_json, environment
from fairlead.report.simulation_figures import (
    LARGEST_ERROR,
    LEAST_REDUCTION,
    PolicyStyle,
    completion_figure,
    fairness_figure,
    policy_styles,
    reduction_figure,
    shares_figure,
    slowdown_figure,
    users_drawn,
    utilisation_figure,
    waiting_figure,
)
from fairlead.report.simulation_sentences import (
    LONGEST_NAME,
    difference_text,
    got_nothing,
    ratio_text,
    sentences,
    unrecorded,
)
from fairlead.report.simulation_standing import (
    SAME_WAIT,
    Against,
    Standing,
    is_overfull,
    standing_of,
    what_cannot_run,
)
from fairlead.report.simulation_user_figures import done_figure, ratios_figure, sharing_figure
from fairlead.report.times import short_duration

JOBS_NAMED = 8
_TIMES = (
    "makespan",
    "mean_completion_time",
    "p95_completion_time",
    "mean_wait",
    "mean_task_wait",
)
PICTURES_OF_RESOURCES = 12


def simulation_page(
    outcomes: Mapping[str, Outcome],
    title: str,
    *,
    today: str | None = None,
    dedicated: tuple[str, str] | None = None,
) -> str:
    """Show what each policy did, and who would gain and lose by it against today's.

    Parameters
    ----------
    outcomes : mapping of str to Outcome
        As `fairlead.metrics.outcomes.simulate` returned them; at least one.
    title : str
        What was simulated, such as the name of the trace.
    today : str, optional
        The name of the policy in force today; when absent ``recorded``, what the log says
        happened, if that is there, else the first.
    dedicated : (str, str), optional
        Names of a policy and of its run with every user alone on its own servers.

    Returns
    -------
    str
        A whole HTML document.

    Notes
    -----
    Cost O(P (T log T + N B)) time for P policies and B bins of time, and O(P (N + B R))
    characters: distributions are drawn with a few hundred points, however many jobs there are.
    """
    standing = standing_of(outcomes, today, dedicated)
    workload = outcomes[standing.today].workload
    styles = policy_styles(list(outcomes), standing.today)
    figures, pictures = _figures(standing, styles)
    found = {name: outcome.to_dict() for name, outcome in outcomes.items()}
    against = [
        sentences(other, found[other.name], found[standing.today])
        | {"colour": styles[other.name].css}
        for other in standing.others
    ]
    return (
        environment()
        .get_template("simulation.html")
        .render(
            title=title,
            left_out=[],
            size=size_of_workload(workload),
            today=shortened(standing.today, LONGEST_NAME),
            fair=_fair_name(standing),
            is_recorded=standing.is_recorded,
            has_starts=workload.has_starts,
            unrecorded=found[standing.today]["unrecorded"],
            not_comparable=_not_comparable(found),
            overfull=is_overfull(standing.outcomes[standing.today]),
            starved=_starved(found, standing),
            arrivals=short_duration(standing.outcomes[standing.today].summary.arrivals),
            horizon=short_duration(found[standing.today]["horizon"]["time"]),
            against=against,
            cannot_run=_cannot_run(standing.shared),
            resources=[shortened(name) for name in workload.cluster.resources],
            policies=_policies(found, styles, standing),
            legend=_legend(styles, standing, outcomes),
            legend_over_time=_legend(styles, standing, standing.shared),
            shared=list(standing.shared),
            others=[(k, a.name) for k, a in enumerate(standing.others)],
            sharing=_sharing(standing),
            users=_users(standing, workload),
            n_users=workload.n_users,
            longest_table=LONGEST_TABLE,
            largest_error=LARGEST_ERROR,
            clipped=any(_clipped(a) for a in standing.others),
            figures=embedded_json(figures),
            plotly=Markup(get_plotlyjs()),
            **pictures,
        )
    )


def size_of_workload(workload: Workload) -> str:
    """Say how large a workload is."""
    counts = (
        counted(workload.n_servers, "server"),
        counted(workload.n_users, "user"),
        counted(workload.n_jobs, "job"),
        counted(workload.n_tasks, "task"),
    )
    return f"{', '.join(counts)} over {short_duration(workload.span)}"


def _figures(
    standing: Standing, styles: Mapping[str, PolicyStyle]
) -> tuple[dict[str, Figure], dict[str, Any]]:
    """Draw everything; return the pictures by their key, and what the page says of them."""
    outcomes, others, shared = standing.outcomes, standing.others, standing.shared
    resources = outcomes[standing.today].workload.cluster.resources
    drawn: dict[str, Figure | None] = {
        "completion": completion_figure(outcomes, styles),
        "slowdown": slowdown_figure(outcomes, styles),
        "waiting": waiting_figure(outcomes, styles),
        "fairness": fairness_figure(shared, styles),
    }
    if others:
        drawn["reduction"] = reduction_figure(others, styles)
        drawn["ratios"] = ratios_figure(others, styles)
    if standing.sharing is not None:
        drawn["sharing"] = sharing_figure(standing.sharing)
    for k, against in enumerate(others):
        drawn[f"done-{k}"] = done_figure(against)
    for r in range(min(len(resources), PICTURES_OF_RESOURCES)):
        drawn[f"used-{r}"] = utilisation_figure(shared, styles, r)
    users, names = users_drawn(shared), outcomes[standing.today].workload.users
    until = max(outcome.summary.until for outcome in shared.values())
    for k, outcome in enumerate(shared.values()):
        drawn[f"shares-{k}"] = shares_figure(outcome, users, until)
    largest = [
        (shortened(names[n], LONGEST_NAME), COLOURS[k % len(COLOURS)])
        for k, n in enumerate(users.tolist())
    ]
    if len(names) > len(users):
        largest.append((counted(len(names) - len(users), "other user"), COLOUR_OF_OTHERS))
    said = {
        "has": {key for key, figure in drawn.items() if figure is not None},
        "used": resources[:PICTURES_OF_RESOURCES],
        "largest_users": largest,
    }
    return {key: figure for key, figure in drawn.items() if figure is not None}, said


def _legend(
    styles: Mapping[str, PolicyStyle], standing: Standing, drawn: Iterable[str]
) -> list[dict[str, str]]:
    css = {"solid": "solid", "dot": "dotted"}
    return [
        {
            "name": name,
            "key": styles[name].key,
            "colour": styles[name].css,
            "style": css.get(styles[name].dash, "dashed"),
            "note": "today" if name == standing.today else "",
        }
        for name in drawn
    ]


def _policies(
    found: Mapping[str, Mapping[str, Any]], styles: Mapping[str, PolicyStyle], standing: Standing
) -> list[dict[str, Any]]:
    """List the figures of each policy: a value to sort by and a text for each column."""
    rows = []
    for name, figures in found.items():
        fairness = figures["fairness"]
        fair_jain = None if fairness is None else fairness["jain"]
        cells = [
            (figures["completed"], f"{figures['completed']:,}"),
            (figures["unplaceable"], f"{figures['unplaceable']:,}"),
            *(_cell(figures[key], short_duration) for key in _TIMES),
            *(_cell(used, short_percent) for used in figures["horizon"]["utilization"].values()),
            _cell(figures["fairness_error"], short_percent),
            *(_cell(jain, "{:.3f}".format) for jain in (figures["jain"], fair_jain)),
            _cell(figures["least_share"], short_percent),
        ]
        rows.append(
            {
                "name": name,
                "colour": styles[name].css,
                "today": name == standing.today,
                "cells": cells,
            }
        )
    return rows


def _cell(value: float | None, write: Any) -> tuple[float, str]:
    return (1e300, "–") if value is None else (value, write(value))


def _fair_name(standing: Standing) -> str:
    fairness = standing.outcomes[standing.today].summary.fairness
    return "" if fairness is None else fairness.mechanism.upper()


def _not_comparable(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Say what the figures of a log leave out and those of replays do not."""
    recorded = found.get(RECORDED)
    return unrecorded(recorded) if recorded and recorded["unrecorded"] and len(found) > 1 else ""


def _starved(
    found: Mapping[str, Mapping[str, Any]], standing: Standing
) -> list[dict[str, str | bool]]:
    """Say under each policy who got nothing while waiting."""
    users = standing.outcomes[standing.today].workload.n_users
    return [
        {
            "name": shortened(name, LONGEST_NAME),
            "text": ": ".join(got_nothing(found[name], users)),
            "bad": bool(found[name]["got_nothing"]),
        }
        for name in standing.shared
    ]


def _cannot_run(outcomes: Mapping[str, Outcome]) -> list[str]:
    lines = []
    for found in what_cannot_run(outcomes):
        named = ", ".join(shortened(job, LONGEST_NAME) for job in found.jobs[:JOBS_NAMED])
        more = len(found.jobs) - JOBS_NAMED
        where = "under every policy" if found.everywhere else f"under {'; '.join(found.names)}"
        lines.append(
            f"{counted(found.tasks, 'task')} of {counted(len(found.jobs), 'job')}, {where}: {named}"
            + (f" and {more:,} more" if more > 0 else "")
        )
    return lines


def _sharing(standing: Standing) -> dict[str, Any] | None:
    """Say who is worse off by sharing than alone."""
    sharing = standing.sharing
    if sharing is None:
        return None
    comparison = sharing.comparison
    users = int((~np.isnan(comparison.horizon_difference)).sum())
    fewer = int(sharing.fewer_done.sum())
    slower = int((comparison.lost & (comparison.jobs > 0)).sum())
    return {
        "name": sharing.name,
        "fewer": fewer,
        "users": users,
        "part": short_percent(fewer / users) if users else "none",
        "horizon": short_duration(sharing.horizon),
        "slower": slower,
        "compared": int((comparison.jobs > 0).sum()),
    }


def _users(standing: Standing, workload: Workload) -> list[dict[str, Any]]:
    """List everybody, or of very many those with the most tasks."""
    summary = standing.outcomes[standing.today].summary
    users = summary.users
    chosen = np.argsort(-users.tasks, kind="stable")[:LONGEST_TABLE].tolist()
    return [
        {
            "name": shortened(workload.users[n], LONGEST_NAME),
            "jobs": int(users.jobs[n]),
            "tasks": int(users.tasks[n]),
            "completion": _known(users.completion[n], short_duration),
            "wait": _known(users.wait[n], short_duration),
            "others": [_user_cell(against, n) for against in standing.others],
        }
        for n in chosen
    ]


def _user_cell(against: Against, n: int) -> dict[str, Any]:
    comparison = against.comparison
    value, text = _known(comparison.completion_ratio[n], ratio_text)
    wait = float(comparison.wait_difference[n])
    lost, gained = bool(comparison.lost[n]), bool(comparison.gained[n])
    more = int(comparison.completed_difference[n])
    if comparison.unknown[n]:
        text = "unknown"
    elif value == 1e300 and more:
        text = f"{more:+,} tasks"
    return {
        "value": value,
        "text": text,
        "kind": "bad" if lost else "good" if gained else "dim",
        "wait": f"waits {difference_text(wait)}" if abs(wait) > SAME_WAIT else "",
    }


def _known(value: float, write: Any) -> tuple[float, str]:
    return _cell(float(value) if np.isfinite(value) else None, write)


def _clipped(against: Against) -> bool:
    return bool((against.comparison.reduction.of_means < LEAST_REDUCTION).any())
