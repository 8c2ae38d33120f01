"""Documents of simulations: outcomes of policies, and gains and losses of users."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from fairlead.model.workload import Workload
from fairlead.report._policy_comparison import (
    BY_TASKS,
    ROUNDED,
    USERS_NAMED,
    ComparedPolicy,
    Figures,
    Runs,
    compare_with_reference,
    extremes_text,
    ratio_text,
    short_name,
    starved_users,
    takes_too_much,
    unplaceable_tasks,
)
from fairlead.report._simulation_figures import (
    PolicyStyle,
    balance_figure,
    completion_figure,
    policy_styles,
    reduction_figure,
    shares_figure,
    slowdown_figure,
    users_drawn,
    utilisation_figure,
)
from fairlead.report.charts import Figure, css, shortened
from fairlead.report.document import (
    FAILS,
    MISSING,
    MUTED,
    Block,
    Cell,
    Content,
    Document,
    Listing,
    Picture,
    Prose,
    Section,
    Statement,
    Table,
    count_cell,
    figure,
    numbers,
    table_of,
    words,
)
from fairlead.report.numbers import (
    change,
    counted,
    duration,
    named,
    number,
    percent,
    time_unit,
)
from fairlead.simulation.simulate import Outcome, still_wait
from fairlead.traces.time_window import why_no_starts

JOBS_NAMED = 8
LONGEST_WAITS = 10
PICTURES_OF_RESOURCES = 12


def simulation_document(
    outcomes: Mapping[str, Outcome],
    title: str,
    *,
    format_: str = "",
    reference: str | None = None,
    dedicated: tuple[str, str] | None = None,
    changed: Collection[str] = (),
    reasons: Iterable[Block] = (),
    values: Callable[[], Mapping[str, Any]] = dict,
) -> Document:
    """Return the document of a simulation: outcomes of policies, and users that gain or lose.

    Parameters
    ----------
    outcomes : mapping of str to Outcome
        At least one outcome, by name.
    title, format_ : str
        Name and format of the simulated trace.
    reference : str, optional
        Name of the reference policy; when absent, ``recorded`` if present, else the first.
    dedicated : (str, str), optional
        Names of a policy and of its run with each user on its own servers.
    changed : collection of str
        Names of the runs of ``--what-if``, which the verdict mentions first.
    reasons : iterable of blocks
        Why jobs waited.
    values : callable
        Returns the answer as plain values.

    Rendering costs O(P (T log T + N B)) time for P policies and B time bins, and O(P (N + B R))
    characters, as distributions have a few hundred points.
    """
    runs = compare_with_reference(outcomes, reference, dedicated)
    styles = policy_styles(list(outcomes), runs.reference_name)
    of = f"{format_}; " if format_ else ""
    return Document(
        title,
        "policies compared",
        f"{of}{size_of_workload(runs.baseline.workload)}. "
        f"{_about_reference(runs)}{_about_warm_up(runs)}",
        _verdict(runs, changed),
        list(_blocks(runs, styles, reasons)),
        values,
    )


def size_of_workload(workload: Workload) -> str:
    """Return the numbers of servers, users, jobs and tasks, and the dates if known, as text."""
    counts = (
        counted(workload.n_servers, "server"),
        counted(workload.n_users, "user"),
        counted(workload.n_jobs, "job"),
        counted(workload.n_tasks, "task"),
    )
    first, last = workload.date_of(0.0), workload.date_of(workload.span)
    dates = ""
    if first is not None and last is not None:
        dates = f", from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}"
    return f"{', '.join(counts)} over {duration(workload.span)}{dates}"


def _about_reference(runs: Runs) -> str:
    """Describe the reference policy: the schedule in the log, or a replay."""
    reference = short_name(runs.reference_name)
    if runs.baseline.log.is_recorded:
        return f"Reference: {reference}, the schedule in the log."
    if runs.baseline.workload.has_starts:
        return f"Reference: {reference}, a replay and not the schedule in the log."
    why = why_no_starts(runs.baseline.workload)
    return f"Reference: {reference}. {why[:1].upper()}{why[1:]}."


def _about_warm_up(runs: Runs) -> str:
    """Describe the warm-up, if there is one."""
    since = runs.baseline.summary.since
    if not since:
        return ""
    return (
        f" Measured after a warm-up of {duration(since)}: jobs submitted before run and hold "
        "resources, but do not count. The makespan is of the whole run; pictures over time "
        "begin after the warm-up."
    )


def _verdict(runs: Runs, changed: Collection[str]) -> Statement:
    """Count users that gain or lose, and name users without any run."""
    found = runs.figures
    parts = []
    others = sorted(runs.others, key=lambda against: against.name not in changed)
    for against in others[:USERS_NAMED]:
        nowhere = found[against.name]["unplaceable"]
        unplaced = f", but {counted(nowhere, 'task')} can run nowhere" if nowhere else ""
        if waiting := found[against.name]["waiting"]:
            unplaced += f", and {still_wait(waiting)}"
        parts.append(f"{_change_text(against, runs.reference_name)}{unplaced}")
    if len(runs.others) > len(parts):
        parts.append(f"{len(runs.others) - len(parts):,} more below")
    text = f"Compared with {short_name(runs.reference_name)}: {'; '.join(parts)}"
    if not parts:
        completed = found[runs.reference_name]["completed"]
        text = f"{counted(completed, 'task')} completed under {short_name(runs.reference_name)}"
    unlucky = [
        f"under {short_name(name)} {' and '.join(starved)}"
        for name in runs.shared
        if (starved := starved_users(found[name]))
    ]
    known = any(found[name]["unrecorded"] for name in runs.shared)
    fine = f"every user {'with known runs' if known else 'with tasks'} ran something"
    nothing = "; ".join(unlucky) or fine
    summary = runs.baseline.summary
    owed = ""
    if summary.fairness is not None:
        without = zip(summary.workload.users, summary.starvation.longest.tolist(), strict=True)
        extremes = extremes_text(summary.fairness, dict(without))
        owed = f" Under {short_name(runs.reference_name)}, {extremes}."
    kind = FAILS if unlucky else MUTED
    return Statement(kind, f"{text}. {nothing[0].upper()}{nothing[1:]}.{owed}")


def _change_text(against: ComparedPolicy, reference: str) -> str:
    """Describe the change of the mean wait, and count the users that gain and lose."""
    comparison = against.comparison
    changed = against.name.removeprefix(f"{reference}, ")
    run = f"{'under' if changed == against.name else 'with'} {short_name(changed)}"
    after, before = against.means("wait")
    wait = ""
    if not np.isnan(after + before):
        unit, size = time_unit(max(after, before))
        after_text, before_text = (f"{number(time / size)} {unit}" for time in (after, before))
        wait = f" the mean wait is {after_text} in place of {before_text}, and"
    gain = _in_brackets(against.extreme(comparison.gained, reduction=True))
    loss = _in_brackets(against.extreme(comparison.lost, reduction=False))
    gained, lost = int(comparison.gained.sum()), int(comparison.lost.sum())
    gains, loses = "gains" if gained == 1 else "gain", "loses" if lost == 1 else "lose"
    users = counted(len(comparison.users), "user")
    return f"{run}{wait} {gained:,} of {users} {gains}{gain}, {lost:,} {loses}{loss}"


def _in_brackets(change: str) -> str:
    """Put the largest change of a user into brackets; empty without a change."""
    of = "" if change == BY_TASKS else "completion time of "
    return f" ({of}{change})" if change else ""


def _blocks(
    runs: Runs,
    styles: Mapping[str, PolicyStyle],
    reasons: Iterable[Block],
) -> Iterator[Block]:
    """Yield all blocks: the main picture, warnings, tables, and pictures of a page."""
    if runs.others:
        yield Picture(
            f"Users that gain and lose against {short_name(runs.reference_name)}, by the mean "
            "completion time of their jobs that are complete under both; a change of less than "
            "0.1 % is none.",
            balance_figure(runs.others),
            "Users that gain and lose under each policy; the numbers are in a table below",
        )
    else:
        drawn = completion_figure(runs.shared, styles)
        yield from _pictures([("Jobs complete within", drawn, "Completion times")])
    yield from _warnings(runs)
    yield _starved(runs)
    if runs.others:
        yield Section("Gains and losses", [_gains(runs, styles)])
    yield Section("Policies side by side", list(_side_by_side(runs, styles)))
    if users := list(_users(runs)):
        yield Section("User by user", users)
    if runs.sharing is not None:
        yield _sharing(runs.sharing)
    yield from reasons
    if notes := runs.baseline.workload.notes:
        lines = [f"{what}: {count:,}" for what, count in notes.items()]
        yield Listing(lines, "when the trace was read", "warning")
    yield Section("Over time", lambda: _over_time(runs, styles), page_only=True)
    yield Section("Jobs and tasks", lambda: _distributions(runs, styles), page_only=True)


def _pictures(drawn: Iterable[tuple[str, Figure | None, str]]) -> list[Picture]:
    """Return small pictures of (heading, figure, description), without figures that are None."""
    return [
        Picture("", data, about, heading, small=True)
        for heading, data, about in drawn
        if data is not None
    ]


def _warnings(runs: Runs) -> Iterator[Block]:
    """Warn of unplaceable tasks, missing times, missing fair shares and overuse."""
    if lines := unplaceable_tasks(runs.shared, JOBS_NAMED):
        yield Listing(lines, "Could run nowhere", "warning")
        yield Prose(
            "Such a task is larger than a slot or than every server that it may use, or it belongs "
            "to a gang with more tasks than these servers hold at once. The output of --json lists "
            "all such tasks.",
            "small",
        )
    for name in runs.shared:
        figures = runs.figures[name]
        if tasks := figures["unrecorded"]:
            jobs = counted(figures["jobs_unrecorded"], "job")
            yield Prose(
                f"The log lacks the times of {counted(tasks, 'task')} of {jobs}: under "
                f"{short_name(name)} these tasks are left out, so its use, makespan and fairness "
                "cannot be compared with the other policies'.",
                "warning",
            )
        fairness = runs.shared[name].summary.fairness
        if fairness is not None and fairness.unsolved_text:
            yield Prose(
                f"Under {short_name(name)}, {fairness.unsolved_text}; these instants do not "
                "count in the fairness error.",
                "warning",
            )
        if takes_too_much(runs.outcomes[name]):
            yield Prose(
                f"At times tasks under {short_name(name)} took more than the servers of the trace "
                "have: use and shares exceed 100 %.",
                "warning",
            )


def _starved(runs: Runs) -> Section:
    """Tabulate users without any run while they waited, by policy."""
    rows: list[list[Content]] = []
    for name in runs.shared:
        figures = runs.figures[name]
        starved, longest = figures["got_nothing"], figures["longest_without"]
        users = [
            f"{short_name(user)} for {duration(seconds)}"
            for user, seconds in list(starved.items())[:USERS_NAMED]
        ]
        worst = "none"
        if longest is not None:
            worst = f"{short_name(longest['user'])}, {duration(longest['seconds'])}"
        count = len(starved)
        never = [short_name(user) for user in figures["never_ran"]]
        rows.append(
            [
                short_name(name),
                Cell(f"{count:,}", count, kind="bad" if count else ""),
                ", ".join([*users, *(["..."] if count > len(users) else [])]),
                named(never, USERS_NAMED),
                worst,
            ]
        )
    columns = [*words("policy"), *numbers("got nothing at all")]
    columns += words("users, and for how long", "never ran anything", "longest wait with nothing")
    note = (
        "got nothing at all: users with tasks of which none ran while jobs arrived, or none ever; "
        "tasks that fit no server count, too. How long: the longest uninterrupted time in which "
        "tasks of a user waited and none ran"
    )
    until = runs.baseline.workload.recorded_until
    cut = "" if until is None else f", in the first {duration(until)}; later jobs were cut off"
    about = "Users that got nothing at all, and the longest waits with nothing"
    return Section(about, [table_of(about, columns, rows, note=f"{note}{cut}.")])


def _gains(runs: Runs, styles: Mapping[str, PolicyStyle]) -> Table:
    """Count gains and losses of users under each policy."""
    reference = short_name(runs.reference_name)
    rows: list[list[Content]] = []
    for against in runs.others:
        comparison = against.comparison
        users = (comparison.gained, comparison.lost, against.unchanged, comparison.unknown)
        rows.append(
            [
                _policy_cell(against.name, styles),
                *(count_cell(int(chosen.sum())) for chosen in users),
                against.extreme(comparison.gained, reduction=True),
                against.extreme(comparison.lost, reduction=False),
                *(figure(seconds, duration) for seconds in against.means("completion")),
                *(figure(seconds, duration) for seconds in against.means("wait")),
            ]
        )
    columns = [*words("policy"), *numbers("gain", "lose", "unchanged", "unknown")]
    columns += words("largest gain", "largest loss")
    columns += numbers("completion", f"under {reference}", "wait", f"under {reference}")
    note = (
        f"A user gains if its mean completion time is shorter than under {reference}. All times "
        "are means over jobs complete under both. unknown: the log lacks the times of the user's "
        "tasks."
    )
    return table_of("Users that gain and lose under each policy", columns, rows, note=note)


def _policy_cell(name: str, styles: Mapping[str, PolicyStyle], note: str = "") -> Cell:
    return Cell(name, swatch=css(styles[name]["colour"]), note=note)


def _side_by_side(runs: Runs, styles: Mapping[str, PolicyStyle]) -> Iterator[Block]:
    """Compare the figures of all policies: times, use and fairness."""
    first = runs.figures[runs.reference_name]
    since = first["measured_since"]
    horizon, arrivals = (
        f"time from {duration(since)} to {duration(end)}" if since else f"first {duration(end)}"
        for end in (first["horizon"]["time"], first["arrivals_until"])
    )
    counts = ("completed", "unplaceable", "waiting", "lost")
    times = {
        "makespan": "makespan",
        "completion": "mean_completion_time",
        "95 % within": "p95_completion_time",
        "wait": "mean_wait",
        "wait of tasks": "mean_task_wait",
    }
    slow: list[list[Content]] = []
    fair: list[list[Content]] = []
    for name, figures in runs.figures.items():
        policy = _policy_cell(
            name, styles, "reference" if name == runs.reference_name and runs.others else ""
        )
        fairness = figures["fairness"]
        slow.append(
            [
                policy,
                *(count_cell(figures[key]) for key in counts),
                *(figure(figures[key], duration) for key in times.values()),
            ]
        )
        fair.append(
            [
                policy,
                *(figure(used, percent) for used in figures["horizon"]["utilization"].values()),
                figure(figures["fairness_error"], percent),
                figure(None if fairness is None else fairness["over_a_week"], percent),
                figure(figures["jain"], "{:.3f}".format),
                figure(None if fairness is None else fairness["jain"], "{:.3f}".format),
                figure(figures["least_share"], percent),
            ]
        )
    columns = [*words("policy"), *numbers(*counts, *times)]
    yield table_of("Times under each policy", columns, slow)
    used = [f"{shortened(name)} used" for name in runs.baseline.workload.cluster.resources]
    of_fair = ("fairness error", "over a week", "Jain, shares", "Jain, of fair", "least share")
    columns = [*words("policy"), *numbers(*used, *of_fair)]
    note = (
        "completed to lost: numbers of tasks. completion: mean time of completed jobs from "
        "submission to the end of the last task; wait: to the start of the first task. wait of "
        f"tasks: mean over started tasks. used: in the {horizon}. fairness error: relative "
        "distance of users' dominant shares from the exact fair shares, at a hundred instants; "
        "over a week: the same, of shares summed over weeks. Errors, Jain's indices and the least "
        f"share cover the {arrivals}, while jobs arrive. Jain's index is 1 if all values are "
        "equal; Jain, shares: the index of users' mean dominant shares, each divided by the "
        "weight; Jain, of fair: the index of held / fair shares. least share: the smallest share "
        "of an active user, divided by the weight, averaged over time."
    )
    yield table_of("Use and fairness under each policy", columns, fair, note=note)


def _users(runs: Runs) -> Iterator[Block]:
    """Yield the tables of users: waits, owed hours, and gains and losses."""
    yield from _waits(runs.figures)
    clusters = {tuple(run.workload.cluster.total_capacity) for run in runs.shared.values()}
    yield from _owed(runs.figures, len(clusters) > 1)
    if runs.others:
        yield _changes(runs)


def _largest_first(found: Mapping[str, Figures], what: str) -> list[str]:
    """Return users whose figure `what` is not always 0, sorted by its maximum over policies."""
    users = next(iter(found.values()))["users"]
    values = {u: [figures["users"][u][what] for figures in found.values()] for u in users}
    maxima = {u: max((v for v in row if v is not None), default=0.0) for u, row in values.items()}
    return sorted((u for u in users if any(values[u])), key=lambda u: -maxima[u])


def _waits(found: Mapping[str, Figures]) -> Iterator[Table]:
    """Tabulate mean waits by user and policy, the longest first."""
    users, listed = next(iter(found.values()))["users"], _largest_first(found, "mean_wait")
    if not listed:
        return

    def row(k: int) -> list[Content]:
        user = listed[k]
        cells = (figure(f["users"][user]["mean_wait"], duration) for f in found.values())
        return [short_name(user), count_cell(users[user]["jobs"]), *cells]

    yield Table(
        "Mean wait of each user's jobs under each policy",
        [*words("mean wait by user"), *numbers("jobs", *map(short_name, found))],
        len(listed),
        row,
        each="user",
        rest="with shorter or equal waits",
        on_terminal=LONGEST_WAITS,
    )


def _owed(found: Mapping[str, Figures], clusters_differ: bool) -> Iterator[Table]:
    """Tabulate owed cluster-hours by user and policy, the most owed user first."""
    differ = " Clusters differ: compare the percentages." if clusters_differ else ""
    first = next(iter(found.values()))["users"]
    if not all("owed_cluster_hours" in user for user in first.values()):
        return
    listed = _largest_first(found, "owed_cluster_hours")
    if not listed:
        return

    def row(k: int) -> list[Content]:
        user = listed[k]
        return [short_name(user), *(_owed_cell(f["users"][user]) for f in found.values())]

    yield Table(
        "Cluster-hours that each user was owed under each policy",
        [*words("owed cluster-hours"), *numbers(*map(short_name, found))],
        len(listed),
        row,
        each="user",
        rest="with less",
        on_terminal=LONGEST_WAITS,
        note=(
            "owed: the fair share minus the held share, summed until the last submission, in hours "
            "of the whole cluster; a user below 0 held more than its fair share. In brackets: the "
            f"held share compared with the fair share, while the user was active.{differ}"
        ),
    )


def _owed_cell(user: Mapping[str, Any]) -> Cell:
    hours, held, fair = (user[k] for k in ("owed_cluster_hours", "held_share", "fair_share"))
    off = f" ({change(held / fair - 1.0, 'as due')})" if held is not None and fair else ""
    return figure(hours and round(hours, ROUNDED), lambda amount: f"{number(amount)}{off}")


def _changes(runs: Runs) -> Table:
    """Tabulate the change of each user's mean completion time under each policy."""
    users, names = runs.baseline.summary.users, runs.baseline.workload.users

    def row(n: int) -> list[Content]:
        return [
            short_name(names[n]),
            count_cell(int(users.jobs[n])),
            count_cell(int(users.tasks[n])),
            figure(float(users.completion[n]), duration),
            figure(float(users.wait[n]), duration),
            *(_change(against, n) for against in runs.others),
        ]

    reference = short_name(runs.reference_name)
    headings = ("jobs", "tasks", f"completion under {reference}", f"wait under {reference}")
    policies = [short_name(against.name) for against in runs.others]
    return Table(
        "Mean completion time of each user's jobs",
        [*words("user"), *numbers(*headings, *policies)],
        len(names),
        row,
        size=users.tasks.astype(float),
        each="user",
        rest="with fewer tasks",
        note="Under each policy: mean completion time and wait against those under "
        f"{reference}, of jobs complete under both, and the difference of completed tasks.",
        page_only=True,
    )


def _change(against: ComparedPolicy, n: int) -> Cell:
    """Format the change of user n's completion time, wait and completed tasks."""
    comparison = against.comparison
    ratio, wait = float(comparison.completion_ratio[n]), float(against.wait_difference[n])
    more = int(comparison.completed_difference[n])
    tasks = f"{more:+,} {'task' if abs(more) == 1 else 'tasks'}" if more else ""
    kind = "bad" if comparison.lost[n] else "good" if comparison.gained[n] else "dim"
    if comparison.unknown[n]:
        return Cell("unknown", MISSING, kind=kind)
    if not np.isfinite(ratio):
        return Cell(tasks or "–", MISSING, kind=kind)
    waits = f"waits {'−' if wait < 0 else '+'}{duration(abs(wait))}" if wait else ""
    note = ", ".join(filter(None, (waits, tasks)))
    return Cell(ratio_text(ratio), ratio, kind=kind, note=note)


def _sharing(sharing: ComparedPolicy) -> Section:
    """Count users that do worse on the shared cluster than on their dedicated servers."""
    found = sharing.comparison
    users = int((~np.isnan(found.horizon_difference)).sum())
    fewer = int((found.horizon_difference < 0).sum())
    compared, slower = int((found.jobs > 0).sum()), int((found.lost & (found.jobs > 0)).sum())
    text = (
        f"Under {short_name(sharing.name)}, sharing: {fewer:,} of {counted(users, 'user')} have "
        f"fewer tasks done after {duration(found.horizon)} than each alone on its own part of the "
        f"servers, and {slower:,} of {compared:,} have slower jobs on average."
    )
    return Section("Sharing and dedicated servers", [Prose(text)])


def _over_time(runs: Runs, styles: Mapping[str, PolicyStyle]) -> Iterator[Block]:
    """Draw utilization and holdings over time."""
    shared, resources = runs.shared, runs.baseline.workload.cluster.resources
    yield from _pictures(
        (
            f"{short_name(resource)} in use",
            utilisation_figure(shared, styles, r),
            f"Use of {resource}",
        )
        for r, resource in enumerate(resources[:PICTURES_OF_RESOURCES])
    )
    of = ""
    if len(resources) > PICTURES_OF_RESOURCES:
        of = f"; {PICTURES_OF_RESOURCES} of {len(resources)} resources"
    yield Prose(f"Amounts of running tasks relative to those of present servers{of}.", "small")
    users = users_drawn([outcome.summary.shares for outcome in shared.values()])
    until = max(outcome.summary.until for outcome in shared.values())
    pictures = _pictures(
        (
            short_name(name),
            shares_figure(outcome.workload, outcome.summary.shares, users, until),
            f"Dominant shares over time under {name}",
        )
        for name, outcome in shared.items()
    )
    about = (
        "Stacked dominant shares: the largest part that a user holds of any resource. They may be "
        "of different resources, so their sum may exceed 100 %. Only the users with the largest "
        "holdings, summed over time and policies, have their own colour."
    )
    yield Section("Holdings", [*pictures, Prose(about, "small")])


def _distributions(runs: Runs, styles: Mapping[str, PolicyStyle]) -> Iterator[Block]:
    """Draw distributions of completion times and slowdowns, and reductions by size."""
    outcomes, others, reference = runs.outcomes, runs.others, short_name(runs.reference_name)
    pictures = _pictures(
        [
            (
                "Jobs complete within",
                completion_figure(outcomes, styles),
                "Distribution of job completion times",
            ),
            (
                "Slowdown of jobs, at most",
                slowdown_figure(outcomes, styles),
                "Distribution of the slowdown of jobs",
            ),
            (
                f"Shorter than under {reference}, by size of the job",
                reduction_figure(others, styles) if others else None,
                "Reduction of the mean completion time by number of tasks",
            ),
        ]
    )
    if not pictures:
        yield Prose("No task ever started.")
        return
    yield from pictures
    yield Prose(
        "Each curve shows fractions of the jobs that are complete under its policy. "
        "Slowdown: completion time divided by the duration of the job's "
        "longest task. Shorter: the reduction of the mean completion time of jobs complete under "
        "both policies. Below zero the jobs take longer; values below −100 % are drawn as −100 %.",
        "small",
    )
