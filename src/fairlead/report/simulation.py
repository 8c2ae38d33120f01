"""Documents of simulations: what other policies would have done to everybody."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from fairlead.model.workload import Workload
from fairlead.report.charts import Figure, css, css_dash, shortened
from fairlead.report.document import (
    FAILS,
    HOLDS,
    PAGE,
    TERMINAL,
    Block,
    Cards,
    Cell,
    Column,
    Content,
    Document,
    Facts,
    Legend,
    Listing,
    Picture,
    Prose,
    Section,
    Statement,
    Table,
    Tabs,
    table_of,
    words,
)
from fairlead.report.numbers import counted, duration, named, short_duration, short_percent
from fairlead.report.simulation_against import (
    LONGEST_NAME,
    SAME_USE,
    STARVED_NAMED,
    Against,
    AgainstToday,
    Figures,
    against_today,
    difference_text,
    facts,
    got_nothing,
    most_of,
    most_used,
    ratio_text,
    unrecorded,
    what_cannot_run,
    without_anything,
)
from fairlead.report.simulation_figures import (
    LARGEST_ERROR,
    LEAST_REDUCTION,
    PolicyStyle,
    balance_figure,
    completion_figure,
    done_figure,
    fairness_figure,
    policy_styles,
    ratios_figure,
    reduction_figure,
    shares_figure,
    slowdown_figure,
    users_drawn,
    utilisation_figure,
    waiting_figure,
)
from fairlead.simulation.metrics.comparison import Comparison
from fairlead.simulation.simulate import Outcome

JOBS_NAMED = 8
LONGEST_WAITS = 10
PICTURES_OF_RESOURCES = 12
NOT_KNOWN = 1e300  # sorted last


def simulation_document(
    outcomes: Mapping[str, Outcome],
    title: str,
    *,
    format_: str = "",
    today: str | None = None,
    dedicated: tuple[str, str] | None = None,
    reasons: Iterable[Block] = (),
    values: Callable[[], Mapping[str, Any]] = dict,
) -> Document:
    """Show what each policy did, and who would gain and lose by it against today's.

    Parameters
    ----------
    outcomes : mapping of str to Outcome
        As `fairlead.simulation.simulate.simulate` returned them; at least one.
    title : str
        What was simulated, such as the name of the trace.
    format_ : str
        The format of the trace.
    today : str, optional
        The name of the policy in force today; when absent ``recorded``, what the log says
        happened, if that is there, else the first.
    dedicated : (str, str), optional
        Names of a policy and of its run with every user alone on its own servers.
    reasons : iterable of blocks
        Why somebody waited, if that was asked.
    values : callable
        Returns the answer as plain values.

    Notes
    -----
    Rendering costs O(P (T log T + N B)) time for P policies and B bins of time, and
    O(P (N + B R)) characters: distributions are drawn with a few hundred points, however many jobs
    there are.
    """
    standing = against_today(outcomes, today, dedicated)
    found = {name: outcome.to_dict() for name, outcome in outcomes.items()}
    styles = policy_styles(list(outcomes), standing.today)
    workload = outcomes[standing.today].workload
    of = f"{format_}; " if format_ else ""
    return Document(
        title,
        "what policies would have done",
        f"{of}{size_of_workload(workload)}. {_about_today(standing)}",
        _verdict(standing, found),
        list(_blocks(standing, found, styles, reasons)),
        values,
    )


def size_of_workload(workload: Workload) -> str:
    """Describe the size of a workload."""
    counts = (
        counted(workload.n_servers, "server"),
        counted(workload.n_users, "user"),
        counted(workload.n_jobs, "job"),
        counted(workload.n_tasks, "task"),
    )
    return f"{', '.join(counts)} over {duration(workload.span)}"


def _about_today(standing: AgainstToday) -> str:
    """Describe the reference policy, and how closely it repeats what happened."""
    today = shortened(standing.today, LONGEST_NAME)
    if standing.is_recorded:
        return f"Today: {today}, what the log says happened."
    if standing.outcomes[standing.today].workload.has_starts:
        return f"Today's policy: {today}. It is a replay, and not what the log says happened."
    return f"Today's policy: {today}. The trace does not say when tasks started."


def _verdict(standing: AgainstToday, found: Mapping[str, Figures]) -> Statement:
    """Describe users who would gain or lose, or got nothing."""
    users = standing.outcomes[standing.today].workload.n_users
    nowhere = {name: sets.tasks for sets in what_cannot_run(standing.shared) for name in sets.names}
    said = []
    for k, a in enumerate(standing.others[:3]):
        gained, lost = int(a.comparison.gained.sum()), int(a.comparison.lost.sum())
        gain, lose = _gain_and_lose(gained, lost, users if k == 0 else 0)
        cannot = nowhere.get(a.name, 0)
        unplaced = f", but {counted(cannot, 'task')} can run nowhere" if cannot else ""
        said.append(f"under {_short(a.name)}: {gain}, {lose}{unplaced}")
    more = len(standing.others) - len(said)
    text = f"Against {_short(standing.today)}, {'; '.join(said)}" if said else ""
    if more > 0:
        text += f"; {more:,} other {'policy' if more == 1 else 'policies'} below"
    if not said:
        one = found[standing.today]
        text = f"{one['completed']:,} tasks are completed under {_short(standing.today)}"
    unlucky = [
        f"under {_short(name)} {' and '.join(said)}"
        for name in standing.shared
        if (said := without_anything(found[name]))
    ]
    known = any(found[name]["unrecorded"] for name in standing.shared)
    fine = f"every user {'whose runs are known' if known else 'with tasks'} ran something"
    nothing = "; ".join(unlucky) if unlucky else fine
    nothing = nothing[0].upper() + nothing[1:]
    return Statement(FAILS if unlucky else HOLDS, f"{text}. {nothing}.")


def _blocks(
    standing: AgainstToday,
    found: Mapping[str, Figures],
    styles: Mapping[str, PolicyStyle],
    reasons: Iterable[Block],
) -> Iterator[Block]:
    others, shared = standing.others, standing.shared
    if others:
        yield Picture(
            "Who gains and who loses against today's, by the mean completion time of each user's "
            "jobs that are complete under both; a change of less than 0.1 % is none.",
            balance_figure(others),
            "Users who gain and lose under each policy; the numbers are in a table below",
        )
    else:
        yield from _pictures(
            [("Jobs complete within", completion_figure(shared, styles), "Completion times")]
        )
    yield from _warnings(standing, found)
    yield _starved(standing, found)
    yield from _gains(standing, found, styles)
    yield Section("Policies side by side", list(_side_by_side(standing, found, styles)))
    yield Section("User by user", list(_users(standing, found, styles)))
    if standing.sharing is not None:
        yield _sharing(standing.sharing)
    yield from reasons
    yield Section("Over time", lambda: _over_time(standing, styles), only=PAGE)
    yield Section("Jobs and tasks", lambda: _distributions(standing, styles), only=PAGE)


def _short(name: str) -> str:
    return shortened(name, LONGEST_NAME)


def _gain_and_lose(gained: int, lost: int, users: int) -> tuple[str, str]:
    """Describe how many users gain and lose, of how many if given."""
    of = f" of {counted(users, 'user')}" if users else ""
    gain = "gains" if gained == 1 or users == 1 else "gain"
    return f"{gained:,}{of} {gain}", f"{lost:,} {'loses' if lost == 1 else 'lose'}"


def _pictures(drawn: Iterable[tuple[str, Figure | None, str]]) -> list[Picture]:
    """Return the pictures in which there is something to see."""
    return [
        Picture("", figure, about, heading, small=True)
        for heading, figure, about in drawn
        if figure is not None
    ]


def _warnings(standing: AgainstToday, found: Mapping[str, Figures]) -> Iterator[Block]:
    """Describe tasks that could not run, and what a log lacks."""
    lines = []
    for nowhere in what_cannot_run(standing.shared):
        jobs = named([_short(job) for job in nowhere.jobs], JOBS_NAMED)
        where = "under every policy" if nowhere.everywhere else f"under {'; '.join(nowhere.names)}"
        tasks = f"{counted(nowhere.tasks, 'task')} of {counted(len(nowhere.jobs), 'job')}"
        lines.append(f"{tasks}, {where}: {jobs}")
    if lines:
        yield Listing(lines, "Could run nowhere", "warning")
        yield Prose(
            "A task of theirs is larger than every server that it may use, or than what a slot "
            "holds; or they are gangs with more tasks than all those servers hold at once. All are "
            "in the output of --json.",
            "small",
        )
    for name in standing.shared:
        if found[name]["unrecorded"]:
            compared = "; its figures do not compare with the others'" if len(found) > 1 else ""
            yield Prose(
                f"When {unrecorded(found[name])} ran is not known: under {_short(name)} they count "
                f"nowhere{compared}.",
                "warning",
            )
        if most_used(standing.outcomes[name]) > 1 + SAME_USE:
            yield Prose(
                f"At times more ran under {_short(name)} than the servers of the trace hold: use "
                "and shares pass 100 %.",
                "warning",
            )


def _starved(standing: AgainstToday, found: Mapping[str, Figures]) -> Section:
    """List users that got nothing while waiting, by policy."""
    users = standing.outcomes[standing.today].workload.n_users
    lines = []
    for name in standing.shared:
        starved, never = found[name]["got_nothing"], found[name]["never_ran"]
        line = f"{_short(name)}: {'' if starved or never else 'nobody; '}"
        line += ": ".join(got_nothing(found[name], users))
        if never:
            line += (
                f"; never ran anything: {named([_short(user) for user in never], STARVED_NAMED)}"
            )
        lines.append(line)
    bad = any(found[name]["got_nothing"] or found[name]["never_ran"] for name in standing.shared)
    about = (
        "Users that wanted something while jobs came and ran nothing in that time, or never ran "
        "anything, also where none of their tasks could run anywhere. How long: the longest time "
        "without a break in which tasks of theirs waited and "
        "none ran."
    )
    heading = "Who got nothing while waiting"
    blocks = (
        Prose(heading, "strong", only=TERMINAL),
        Listing(lines, kind="warning" if bad else ""),
        Prose(about, "small"),
    )
    return Section(heading, blocks)


def _gains(
    standing: AgainstToday, found: Mapping[str, Figures], styles: Mapping[str, PolicyStyle]
) -> Iterator[Block]:
    """List gains and losses of users, by policy."""
    if not standing.others:
        only = "There is one policy only: name another with --policy to see who would gain by it."
        yield Section("Who would gain, who would lose", [Prose(only)], only=PAGE)
        return
    rows: list[list[Content]] = []
    cards = []
    for against in standing.others:
        comparison = against.comparison
        gained, lost, unknown = comparison.gained, comparison.lost, comparison.unknown
        counts = [int(those.sum()) for those in (gained, lost, against.unchanged, unknown)]
        name = _short(against.name)
        rows.append([name, *(Cell(f"{count:,}", count) for count in counts)])
        most = most_of(against, gained, least=True), most_of(against, lost, least=False)
        users = len(comparison.users)
        lines = [
            f"{what}{f': {who}' if who else ''}."
            for what, who in zip(_gain_and_lose(counts[0], counts[1], users), most, strict=True)
        ]
        if counts[2]:
            lines.append(f"{counts[2]:,} unchanged.")
        if counts[3]:
            lines.append(f"{counts[3]:,} unknown: the log does not say when their tasks ran.")
        pairs = facts(against, found[against.name], found[standing.today])
        blocks: list[Block] = [*(Prose(text) for text in lines), Facts(pairs)]
        cards.append((css(styles[against.name].colour), Section(name, blocks)))
    headings = ("gain", "lose", "unchanged", "unknown")
    yield Section(
        "Who would gain, who would lose",
        [
            table_of(
                "Users who gain and lose under each policy",
                [words("policy"), *map(Column, headings)],
                rows,
                only=TERMINAL,
            ),
            Cards(cards, only=PAGE),
        ],
    )


def _side_by_side(
    standing: AgainstToday, found: Mapping[str, Figures], styles: Mapping[str, PolicyStyle]
) -> Iterator[Block]:
    """Set the figures of all policies side by side: how long, and how full and fair."""
    first = found[standing.today]
    horizon, arrivals = duration(first["horizon"]["time"]), duration(first["arrivals_until"])
    resources = standing.outcomes[standing.today].workload.cluster.resources
    times = {
        "makespan": "makespan",
        "completion": "mean_completion_time",
        "95 % within": "p95_completion_time",
        "wait": "mean_wait",
        "wait of tasks": "mean_task_wait",
    }

    def name_of(policy: str) -> Cell:
        note = "today" if policy == standing.today and standing.others else ""
        return Cell(policy, swatch=css(styles[policy].colour), note=note)

    slow: list[list[Content]] = [
        [
            name_of(name),
            *(Cell(f"{figures[key]:,}", figures[key]) for key in ("completed", "unplaceable")),
            *(_cell(figures[key], short_duration) for key in times.values()),
        ]
        for name, figures in found.items()
    ]
    fair: list[list[Content]] = []
    for name, figures in found.items():
        fairness = figures["fairness"]
        jain = None if fairness is None else fairness["jain"]
        fair.append(
            [
                name_of(name),
                *(
                    _cell(used, short_percent)
                    for used in figures["horizon"]["utilization"].values()
                ),
                _cell(figures["fairness_error"], short_percent),
                *(_cell(index, "{:.3f}".format) for index in (figures["jain"], jain)),
                _cell(figures["least_share"], short_percent),
            ]
        )
    yield table_of(
        "How long things take under each policy",
        [words("policy"), *map(Column, ("completed", "unplaceable", *times))],
        slow,
    )
    used = [Column(f"{shortened(resource)} used") for resource in resources]
    of_fair = map(Column, ("fairness error", "Jain, shares", "Jain, of fair", "least share"))
    yield table_of(
        "How full and how fair it is under each policy", [words("policy"), *used, *of_fair], fair
    )
    yield Prose(
        "completed, unplaceable: tasks. completion, wait: means of the jobs completed, from "
        "submission to the end of the last task and to the start of the first. wait of tasks: of "
        f"those that started. used: in the first {horizon}. fairness error: how far users' "
        "dominant shares are from the exact fair ones at a hundred instants, relative; that, "
        f"Jain's indices and the least share are of the first {arrivals}, in which jobs come; "
        "after that few are left, who get all they want. Jain's index is 1 where all are alike: of "
        "users' mean dominant shares per weight, and of what they hold over what is fair. least "
        "share: of those who want something, per weight, in the mean over time.",
        "small",
    )


def _cell(value: float | None, write: Callable[[float], str]) -> Cell:
    return Cell("–", NOT_KNOWN) if value is None else Cell(write(value), value)


def _users(
    standing: AgainstToday, found: Mapping[str, Figures], styles: Mapping[str, PolicyStyle]
) -> Iterator[Block]:
    """Describe who waits longest, and who gains and loses."""
    yield from _waits(found)
    if not standing.others:
        return
    ratios = ratios_figure(standing.others, styles)
    if ratios is not None:
        yield Legend(_legend(styles, (a.name for a in standing.others)))
        yield Picture(
            "Each user's mean completion time over today's, of jobs complete under both, sorted: "
            "below ×1 it gains.",
            ratios,
            "Mean completion time of each user over today's, sorted; a table has the numbers",
            "Winners and losers",
        )
    done = [
        (a.name, done_figure(a), f"Part of each user's tasks done under {a.name} against today")
        for a in standing.others
    ]
    panels = {_short(picture.heading): [picture] for picture in _pictures(done)}
    if panels:
        about = (
            "Which part of its tasks each user has done at the end of the trace (its last "
            "submission or event of a server), under the policy (upright) and today (level). Large "
            "dots have many tasks. Blue is above the line: more done than today; orange is below."
        )
        yield Section("Tasks done", [Tabs("Policy", panels), Prose(about, "small")], 3, only=PAGE)
    yield _changes(standing)
    yield Prose(
        "Under each policy: mean completion time against today's, of jobs complete under both, and "
        "by how much longer or shorter those jobs wait in the mean.",
        "small",
        only=PAGE,
    )


def _waits(found: Mapping[str, Figures]) -> Iterator[Block]:
    """List the users who wait longest under any policy, the longest wait first."""
    users = next(iter(found.values()))["users"]
    waits = {u: [figures["users"][u]["mean_wait"] for figures in found.values()] for u in users}
    longest = {u: max((w for w in row if w is not None), default=0) for u, row in waits.items()}
    listed = sorted((u for u in users if longest[u] > 0), key=lambda u: -longest[u])
    if not listed:
        return

    def row(k: int) -> list[Content]:
        user = listed[k]
        jobs = users[user]["jobs"]
        cells = (_cell(wait, short_duration) for wait in waits[user])
        return [_short(user), Cell(f"{jobs:,}", jobs), *cells]

    yield Table(
        "Mean wait of each user's jobs under each policy",
        (words("mean wait by user"), Column("jobs"), *(Column(_short(name)) for name in found)),
        len(listed),
        row,
        each="user",
        rest="with shorter or equal waits",
        on_terminal=LONGEST_WAITS,
    )


def _changes(standing: AgainstToday) -> Table:
    """Set users against the other policies: by how much jobs take longer or shorter."""
    outcome = standing.outcomes[standing.today]
    users, names = outcome.summary.users, outcome.workload.users

    def row(n: int) -> list[Content]:
        today = [
            _cell(float(v) if np.isfinite(v) else None, short_duration)
            for v in (users.completion[n], users.wait[n])
        ]
        counts = [Cell(f"{int(c[n]):,}", int(c[n])) for c in (users.jobs, users.tasks)]
        return [_short(names[n]), *counts, *today, *(_change(a, n) for a in standing.others)]

    headings = ("jobs", "tasks", "completion today", "wait today")
    return Table(
        "Mean completion time of each user's jobs",
        (words("user"), *map(Column, headings), *(Column(_short(a.name)) for a in standing.others)),
        len(names),
        row,
        size=users.tasks.astype(float),
        each="user",
        rest="with fewer tasks",
        only=PAGE,
    )


def _change(against: Against, n: int) -> Cell:
    """Describe how a user's completion times differ from today's."""
    comparison = against.comparison
    ratio, wait = float(comparison.completion_ratio[n]), float(against.other_wait[n])
    more = int(comparison.completed_difference[n])
    kind = "bad" if comparison.lost[n] else "good" if comparison.gained[n] else "dim"
    if comparison.unknown[n]:
        return Cell("unknown", NOT_KNOWN, kind=kind)
    if not np.isfinite(ratio):
        return Cell(f"{more:+,} tasks" if more else "–", NOT_KNOWN, kind=kind)
    note = f"waits {difference_text(wait)}" if wait else ""
    return Cell(ratio_text(ratio), ratio, kind=kind, note=note)


def _sharing(sharing: Against) -> Section:
    """List users who are worse off sharing than alone."""
    comparison = sharing.comparison
    shown = _pictures(
        [("", done_figure(sharing, "alone"), "Part of each user's tasks done when sharing")]
    )
    about = (
        "Which part of its tasks each user has done, sharing (upright) and alone (level). Large "
        "dots have many tasks; orange, below the line, is worse off by sharing."
    )
    said = f"Under {_short(sharing.name)}, sharing: {sharing_text(comparison)}."
    blocks: list[Block] = [Prose(said), *shown]
    if shown:
        blocks.append(Prose(about, "small", only=PAGE))
    return Section("Sharing, or being alone", blocks)


def sharing_text(sharing: Comparison) -> str:
    """Count users who do worse on a shared cluster than on dedicated parts of it."""
    users = int((~np.isnan(sharing.horizon_difference)).sum())
    fewer = int((sharing.horizon_difference < 0).sum())
    compared, slower = int((sharing.jobs > 0).sum()), int((sharing.lost & (sharing.jobs > 0)).sum())
    part = f" ({short_percent(fewer / users)})" if users else ""
    return (
        f"{fewer:,} of {counted(users, 'user')}{part} have fewer tasks done after "
        f"{short_duration(sharing.horizon)} than each alone on its own part of the servers, and "
        f"{slower:,} of {compared:,} have slower jobs on average"
    )


def _legend(
    styles: Mapping[str, PolicyStyle], names: Iterable[str]
) -> list[tuple[str, str, str, str, str]]:
    return [
        (style.key, _short(name), css(style.colour), css_dash(style.dash), "line")
        for name in names
        for style in (styles[name],)
    ]


def _over_time(standing: AgainstToday, styles: Mapping[str, PolicyStyle]) -> Iterator[Block]:
    shared = standing.shared
    workload = standing.outcomes[standing.today].workload
    resources = workload.cluster.resources
    yield Legend(_legend(styles, shared))
    yield from _pictures(
        (f"{_short(resource)} in use", utilisation_figure(shared, styles, r), f"Use of {resource}")
        for r, resource in enumerate(resources[:PICTURES_OF_RESOURCES])
    )
    some = min(len(resources), PICTURES_OF_RESOURCES)
    of = f"; {some} of {len(resources)} resources" if some < len(resources) else ""
    yield Prose(f"What running tasks take of what the servers that are there have{of}.", "small")
    fairness = fairness_figure(shared, styles)
    if fairness is not None:
        fair = standing.outcomes[standing.today].summary.fairness
        mechanism = "" if fair is None else fair.mechanism.upper()
        yield Picture(
            f"How far users' dominant shares are from what {mechanism} would give to those who "
            "want something then, relative to that, as long as jobs come. Errors above "
            f"{100 * LARGEST_ERROR:.0f} % are drawn as that.",
            fairness,
            "Fairness error over time; its mean is in the table above",
            "Fairness error",
        )
    users = users_drawn(shared)
    until = max(outcome.summary.until for outcome in shared.values())
    panels = {
        _short(name): [
            Picture(
                "",
                shares_figure(outcome, users, until),
                f"Dominant shares over time under {name}",
            )
        ]
        for name, outcome in shared.items()
    }
    about = (
        "Dominant shares one above the other: the largest part that a user holds of any resource. "
        "They may be of different resources, so their sum may pass 100 %. Drawn by themselves are "
        "those who hold most over the time of all policies together."
    )
    yield Section("Who holds what", [Tabs("Policy", panels), Prose(about, "small")], 3)


def _distributions(standing: AgainstToday, styles: Mapping[str, PolicyStyle]) -> Iterator[Block]:
    outcomes, others = standing.outcomes, standing.others
    pictures = _pictures(
        [
            (
                "Jobs complete within",
                completion_figure(outcomes, styles),
                "Distribution of job completion times",
            ),
            (
                "How many times jobs were slowed down, at most",
                slowdown_figure(outcomes, styles),
                "Distribution of the slowdown of jobs",
            ),
            (
                "Tasks started within",
                waiting_figure(outcomes, styles),
                "Distribution of waiting times",
            ),
            (
                "Shorter than today, by size of the job",
                reduction_figure(others, styles) if others else None,
                "Reduction of the mean completion time by number of tasks",
            ),
        ]
    )
    if not pictures:
        yield Prose("No task ever started.")
        return
    yield Legend(_legend(styles, outcomes))
    yield from pictures
    clipped = any((a.comparison.reduction.of_means < LEAST_REDUCTION).any() for a in others)
    than = "; those that take more than twice as long are drawn as that" if clipped else ""
    yield Prose(
        "Parts are of the jobs that were complete, and of the tasks that started, under each "
        "policy: the table above says how many. Slowdown: completion time over the duration of the "
        "job's longest task. Shorter than today: by how much the mean completion time is reduced, "
        f"of jobs complete under both; below zero they take longer{than}.",
        "small",
    )
