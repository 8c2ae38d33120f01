"""Reproduce Figures 1 to 4 of Khamse-Ashari et al. 2017: two servers, three channels."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from fairlead.errors import NoConvergenceError
from fairlead.mechanisms.catalogue import solve
from fairlead.model.allocation import Allocation
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.fitting import use_per_task
from fairlead.model.problem import Problem
from fairlead.model.ties import first_largest_of_rows
from fairlead.properties.audit import audit
from fairlead.report.numbers import number, percent
from fairlead_papers.psdsf import PAPER
from fairlead_papers.reproduction import (
    Finding,
    PrintedClaim,
    Reading,
    Reproduction,
    TextTable,
    compare_amount,
)
from fairlead_papers.setting import Setting

# Digit of readings: short printed decimals that follow from whole numbers are exact.
EXACT = 1e-6
THIRD_DECIMAL = 0.001
RESOURCES = ("CPU", "memory", "bandwidth")
_SERVERS = [[9.0, 12.0, 100.0], [12.0, 12.0, 0.0]]
# Relative overuse of a resource that rounding may cause.
ROUNDING = 1e-9


def example_of_figure_1() -> Problem:
    """Return Fig. 1: two servers, the second without bandwidth, and three users."""
    return Problem.from_arrays(
        _SERVERS,
        [[1, 2, 10], [1, 2, 1], [1, 2, 0]],
        weight=[1, 1, 2],
        resources=RESOURCES,
        groups=["server 1", "server 2"],
        users=["user 1", "user 2", "user 3"],
    )


def example_of_figure_2() -> Problem:
    """Return Fig. 2: the same servers, and four users of equal weight."""
    return Problem.from_arrays(
        _SERVERS,
        [[1.5, 1.0, 10.0], [1.0, 2.0, 10.0], [0.5, 1.0, 0.0], [1.0, 0.5, 0.0]],
        resources=RESOURCES,
        groups=["server 1", "server 2"],
        users=["user 1", "user 2", "user 3", "user 4"],
    )


def channels_of_figure_4() -> Problem:
    """Return Fig. 4: three channels and two users, with rates of our own that give its results.

    The paper's rates are in a picture that we lack; the text has only the results.
    """
    return Problem.from_arrays(
        [[1], [1], [1]],
        [[1], [1]],
        rates=[[1.0, 1.0, 0.5], [0.5, 2 / 3, 2 / 3]],
        resources=["airtime"],
        groups=["channel 1", "channel 2", "channel 3"],
        users=["user 1", "user 2"],
    )


def range_over_placements(problem: Problem, user_tasks: FloatArray, sums: FloatArray) -> FloatArray:
    """Return the minimum and maximum of K sums over all allocations with given totals, (K, 2).

    `user_tasks` (N,) are each user's total tasks, `sums` (K, N, G) the amount that a task of user n
    on group g adds to each sum. Solves linear programmes under resource division (RDM); raises
    NoConvergenceError when no allocation has these totals.
    """
    n_users, n_groups = problem.n_users, problem.n_groups
    limits = np.einsum("rng,hg->rhng", use_per_task(problem), np.eye(n_groups))
    of_group = limits.reshape(-1, n_users * n_groups)
    of_user = np.repeat(np.eye(n_users), n_groups, axis=1)
    bounds = [(0, None if runs else 0) for runs in problem.runnable.ravel()]
    room = np.full(len(of_group), 1 + ROUNDING)
    ends = np.empty((len(sums), 2))
    for k, weights in enumerate(sums.reshape(len(sums), -1)):
        for end, sign in enumerate((1.0, -1.0)):
            answer = linprog(sign * weights, of_group, room, of_user, user_tasks, bounds)
            if answer.status != 0:
                raise NoConvergenceError(f"the linear programme ended with: {answer.message}")
            ends[k, end] = sign * float(answer.fun)
    return ends


def possible_tasks(problem: Problem, user_tasks: FloatArray) -> FloatArray:
    """Return the least and most tasks by user and group that (N,) totals allow, (N, G, 2).

    Raises NoConvergenceError when no allocation has these totals.
    """
    shape = (problem.n_users, problem.n_groups)
    one_each = np.eye(shape[0] * shape[1]).reshape(-1, *shape)
    return range_over_placements(problem, user_tasks, one_each).reshape(*shape, 2)


def tabulate_tasks(allocation: Allocation, caption: str) -> TextTable:
    """Tabulate the tasks of each user on each server, and in total."""
    groups = allocation.problem.cluster.groups
    rows = [
        [name, *(number(tasks) for tasks in mine.tolist()), number(float(mine.sum()))]
        for name, mine in zip(allocation.problem.users.names, allocation.tasks, strict=True)
    ]
    return TextTable(caption, ["tasks", *groups, "total"], rows)


# Shares with a smaller relative difference count as equal: neither is higher.
TIED = 1e-6


def virtual_shares(problem: Problem, tasks: FloatArray) -> FloatArray:
    """Return (N, G) virtual dominant shares over weights; infinite where a user may not run.

    Source: Khamse-Ashari et al. 2017, Definition 2.
    """
    held = (tasks.sum(axis=1) / problem.weight)[:, None]
    shares: FloatArray = np.full(problem.gamma.shape, np.inf)
    np.divide(held, problem.gamma, out=shares, where=problem.runnable)
    return shares


def largest_gain(problem: Problem, tasks: FloatArray) -> float:
    """Return by how much (N, G) tasks violate Definition 5 under resource division (RDM).

    The largest gain of a user's tasks, over its gamma, at which another user m loses tasks only on
    servers where the share of m is higher. The user's own tasks may move freely, which is more than
    the definition allows. Solves a linear programme of N G unknowns for each user; raises
    NoConvergenceError when one has no optimum. Source: Khamse-Ashari et al. 2017, Definition 5.
    """
    shares = virtual_shares(problem, tasks)
    gains = [_gain(problem, tasks, shares, n) for n in range(problem.n_users)]
    return max(0.0, *gains)


def _gain(problem: Problem, tasks: FloatArray, shares: FloatArray, n: int) -> float:
    """Return the largest gain of user n's tasks, over its gamma; see `largest_gain`."""
    n_users, n_groups = tasks.shape
    use = use_per_task(problem)
    limits = np.einsum("rng,hg->rhng", use, np.eye(n_groups)).reshape(-1, n_users * n_groups)
    # Overuse by rounding must not make the programme infeasible.
    used = limits @ tasks.ravel()
    protected: BoolArray = shares <= shares[n] * (1 + TIED)
    protected[n] = False
    least = np.where(protected & problem.runnable, tasks, 0.0)
    most = np.where(problem.runnable, np.inf, 0.0)
    bounds = np.stack([least.ravel(), np.maximum(most, least).ravel()], axis=1)
    objective = np.zeros((n_users, n_groups))
    objective[n] = -1.0
    answer = linprog(objective.ravel(), limits, np.maximum(1.0, used), bounds=bounds)
    if answer.status != 0:
        raise NoConvergenceError(f"the linear programme ended with: {answer.message}")
    alone = float(problem.gamma[n].sum())
    return (-float(answer.fun) - float(tasks[n].sum())) / alone


# Mechanism, its name in the paper, printed total tasks of users 1 to 3 (II-B), and the digit.
PRINTED_OF_FIGURE_1 = (
    ("ps-dsf", "PS-DSF", (3.0, 3.0, 6.0), EXACT),
    ("drfh", "C-DRFH", (2.609, 3.130, 6.261), THIRD_DECIMAL),
    ("tsf", "TSF", (2.0, 2.0, 8.0), EXACT),
)
# Tasks of user 3 on servers 1 and 2, by mechanism.
PRINTED_SPLIT = {"PS-DSF": (0.0, 6.0), "C-DRFH": (0.261, 6.0), "TSF": (2.0, 6.0)}
# Tasks that each user could run alone on both servers, without constraints.
PRINTED_GAMMA = (6.0, 6.0, 12.0)
BOTTLENECK = "bottleneck-fairness"


@PAPER.reproduces(
    "figure-1",
    "Figure 1",
    "three users whose bottleneck is the memory, two servers, three mechanisms",
    "PS-DSF gives 3, 3 and 6 tasks, which divides the memory fairly; C-DRFH 2.609, 3.130 and "
    "6.261; TSF 2, 2 and 8",
    "at once",
)
def reproduce_figure_1(setting: Setting) -> Reproduction:  # noqa: ARG001 (nothing here is random)
    """Divide the two servers by the three mechanisms."""
    problem = example_of_figure_1()
    answers = {called: solve(problem, name) for name, called, _, _ in PRINTED_OF_FIGURE_1}
    fair = {
        called: audit(problem, answer, properties=(BOTTLENECK,)).holds
        for called, answer in answers.items()
    }
    dominant = tuple(problem.cluster.resources[r] for r in dominant_resources(problem).tolist())
    return Reproduction(
        setting="Two servers and three users as printed; each mechanism's exact answer.",
        readings=compare_figure_1(answers, problem),
        claims=judge_fairness(fair, dominant, bottlenecks(problem)),
        tables=tuple(tabulate_tasks(answer, f"{name}.") for name, answer in answers.items()),
        data={
            "tasks": {name: answer.tasks for name, answer in answers.items()},
            "bottleneck_fair": fair,
        },
    )


def compare_figure_1(answers: dict[str, Allocation], problem: Problem) -> tuple[Reading, ...]:
    """Compare total tasks, the split of user 3, and gamma with the printed numbers."""
    totals = [
        compare_amount(
            f"tasks of user {n + 1}, {called}", answers[called].user_tasks[n], paper, digit
        )
        for _, called, printed, digit in PRINTED_OF_FIGURE_1
        for n, paper in enumerate(printed)
    ]
    split = [
        compare_amount(
            f"tasks of user 3 on server {g + 1}, {called}",
            answers[called].tasks[2, g],
            paper,
            THIRD_DECIMAL,
        )
        for called, printed in PRINTED_SPLIT.items()
        for g, paper in enumerate(printed)
    ]
    alone = problem.unconstrained_gamma.sum(axis=1)
    gamma = [
        compare_amount(f"tasks that user {n + 1} could run alone", alone[n], paper, EXACT)
        for n, paper in enumerate(PRINTED_GAMMA)
    ]
    return (*totals, *split, *gamma)


def dominant_resources(problem: Problem) -> IntArray:
    """Return each user's dominant resource on all servers together, as indices (N,)."""
    return first_largest_of_rows(problem.demand / problem.total_capacity)


def bottlenecks(problem: Problem) -> tuple[str, ...]:
    """Name the resources that are dominant for all users on every server where they may run."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = problem.demand[:, None, :] / problem.group_capacity[None, :, :]
    share = np.where(problem.demand[:, None, :] > 0, share, 0.0)[problem.runnable]
    dominant = share >= share.max(axis=1, keepdims=True) * (1 - ROUNDING)
    names = problem.cluster.resources
    return tuple(names[r] for r in np.flatnonzero(dominant.all(axis=0)).tolist())


def judge_fairness(
    fair: dict[str, bool], dominant: tuple[str, ...], shared: tuple[str, ...]
) -> tuple[PrintedClaim, ...]:
    """Judge which mechanisms are max-min fair on the bottleneck, by name in `fair`.

    `dominant` has each user's dominant resource on all servers together, `shared` the result of
    `bottlenecks`.
    """
    verdicts = {True: "max-min fair in memory", False: "not max-min fair in memory"}
    one = PrintedClaim(
        "memory is dominant for all users on every server where they may run",
        shared == ("memory",),
        ", ".join(shared) or "there is no such resource",
    )
    two = PrintedClaim(
        "C-DRFH takes bandwidth for the dominant resource of user 1, memory for that of users 2 "
        "and 3",
        dominant == ("bandwidth", "memory", "memory"),
        ", ".join(dominant),
    )
    three = PrintedClaim(
        "PS-DSF divides the memory fairly", fair["PS-DSF"], verdicts[fair["PS-DSF"]]
    )
    others = [
        PrintedClaim(f"{name} does not divide it fairly", not fair[name], verdicts[fair[name]])
        for name in ("C-DRFH", "TSF")
    ]
    return (one, two, three, *others)


# Tasks of users 1 to 4 on servers 1 and 2.
PRINTED_OF_FIGURE_3 = ((3.6, 0.0), (3.6, 0.0), (0.0, 8.0), (0.0, 8.0))
# Virtual dominant shares as printed, by user and server, both counted from 0.
PRINTED_SHARES = {
    (0, 0): 0.6,
    (1, 0): 0.6,
    (2, 0): 8 / 12,
    (3, 0): 12 / 12,
    (2, 1): 8 / 12,
    (3, 1): 8 / 12,
}
# The printed number of user 4 on server 1 differs from the paper's own definition.
MISPRINT = (3, 0)
TOLERANCE = 1e-6


@PAPER.reproduces(
    "figure-3",
    "Figure 3",
    "PS-DSF of the example in Fig. 2, four users on two servers",
    "3.6 tasks each for users 1 and 2 on server 1, 8 each for users 3 and 4 on server 2",
    "at once",
)
def reproduce_figure_3(setting: Setting) -> Reproduction:  # noqa: ARG001 (nothing here is random)
    """Divide the two servers by PS-DSF, and compute virtual dominant shares."""
    problem = example_of_figure_2()
    answer = solve(problem, "ps-dsf")
    shares = virtual_shares(problem, answer.tasks)
    gain = largest_gain(problem, answer.tasks)
    ours, paper = float(shares[MISPRINT]), PRINTED_SHARES[MISPRINT]
    alone = float(problem.fitting[MISPRINT])
    tasks = float(answer.user_tasks[MISPRINT[0]])
    return Reproduction(
        setting="Two servers and four users as printed; the exact answer under resource division.",
        readings=(
            *(
                compare_amount(
                    f"tasks of user {n + 1} on server {g + 1}", answer.tasks[n, g], printed, EXACT
                )
                for n, row in enumerate(PRINTED_OF_FIGURE_3)
                for g, printed in enumerate(row)
            ),
            *(
                Reading(
                    f"virtual dominant share of user {n + 1} on server {g + 1}",
                    float(shares[n, g]),
                    printed,
                    EXACT,
                )
                for (n, g), printed in PRINTED_SHARES.items()
            ),
        ),
        claims=judge_levels(shares, gain),
        findings=(
            Finding(
                f"III-A prints {number(paper)} for the virtual dominant share of user 4 on the "
                "first server, as 12 of 12 tasks.",
                f"The user has {number(tasks)} tasks, and server 1 runs {number(alone)} of them "
                f"(9 cores, one for each task), so its share is {number(tasks)}/{number(alone)} = "
                f"{number(ours)}. The result is the same: this is still the largest share there.",
                "fairlead reproduce psdsf/figure-3",
            ),
        ),
        note="One printed share is a misprint, so not all numbers are equal.",
        tables=(tabulate_tasks(answer, "Tasks."), _table(shares)),
        data={
            "tasks": answer.tasks,
            "virtual_dominant_share": np.where(problem.runnable, shares, np.nan),
        },
    )


def judge_levels(shares: FloatArray, gain: float) -> tuple[PrintedClaim, ...]:
    """Judge whether an answer is PS-DSF, from its virtual dominant shares, (4, 2).

    `gain` is the result of `largest_gain`.
    """
    first, second = shares[:, 0], shares[2:, 1]
    return (
        PrintedClaim(
            "no user can get more tasks without another user losing tasks on a server where its "
            "share is not higher",
            gain <= TOLERANCE,
            f"at most {gain:.2g} of the tasks that it could run alone",
        ),
        PrintedClaim(
            "server 1 serves the two users with the least shares there, and these are equal",
            bool(abs(first[0] - first[1]) <= TOLERANCE and max(first[:2]) < min(first[2:])),
            ", ".join(number(v) for v in first.tolist()),
        ),
        PrintedClaim(
            "on server 2 shares of users 3 and 4 are equal",
            bool(abs(second[0] - second[1]) <= TOLERANCE),
            ", ".join(number(v) for v in second.tolist()),
        ),
    )


def _table(shares: FloatArray) -> TextTable:
    rows = [
        [f"user {n + 1}", number(row[0]), number(row[1]) if n > 1 else "may not run there"]
        for n, row in enumerate(shares.tolist())
    ]
    return TextTable("Virtual dominant shares.", ["", "server 1", "server 2"], rows)


# Mb/s of users 1 and 2.
PRINTED_OF_FIGURE_4 = (1.5, 1.0)
# Fraction of each channel's time, by user.
PRINTED_TIME = ((1.0, 0.5, 0.0), (0.0, 0.5, 1.0))
NOTE = (
    "The rates are in a picture that we do not have. Ours were chosen to give the two results and "
    "the division that the text prints; many others do. So this shows that the printed answer is a "
    "PS-DSF allocation for some rates, not that it is one for the paper's."
)


@PAPER.reproduces(
    "figure-4",
    "Figure 4",
    "two users share three wireless channels by given rates",
    "1.5 and 1 Mb/s; each user has one channel, and half of the second",
    "at once",
)
def reproduce_figure_4(setting: Setting) -> Reproduction:  # noqa: ARG001 (nothing here is random)
    """Divide the channels' time by PS-DSF with given rates."""
    problem = channels_of_figure_4()
    answer, by_resource = (solve(problem, name) for name in ("ps-dsf-tdm", "ps-dsf"))
    time = answer.tasks / problem.gamma
    apart = float(np.abs(by_resource.user_tasks - answer.user_tasks).max())
    rates = [
        [f"{user}, {what}", *map(written, row)]
        for n, user in enumerate(problem.users.names)
        for what, written, row in (
            ("Mb/s when alone", number, problem.gamma[n].tolist()),
            ("share of the time", percent, time[n].tolist()),
        )
    ]
    return Reproduction(
        setting="Three channels, two users of equal weight, rates of our own choice (see below).",
        readings=tuple(
            compare_amount(f"Mb/s of user {n + 1}", mine, printed, EXACT)
            for n, (mine, printed) in enumerate(
                zip(answer.user_tasks, PRINTED_OF_FIGURE_4, strict=True)
            )
        ),
        claims=judge_channels(time, apart),
        note=NOTE,
        tables=(
            TextTable(
                "Rates, and shares of the channels' time.", ["", *problem.cluster.groups], rates
            ),
        ),
        data={"rates": problem.gamma, "time": time, "served": answer.tasks},
    )


def judge_channels(time: FloatArray, apart: float) -> tuple[PrintedClaim, ...]:
    """Judge whether the channels are divided as the text says, from (2, 3) shares of their time.

    `apart` is the largest difference in Mb/s between PS-DSF under TDM and under RDM.
    """
    off = float(np.abs(time - np.array(PRINTED_TIME)).max())
    return (
        PrintedClaim(
            "user 1 has all of the first channel, user 2 all of the third, each half of the second",
            off <= TOLERANCE,
            f"shares of the time are at most {off:.2g} off",
        ),
        PrintedClaim(
            "with one resource TDM and RDM give the same rates",
            apart <= TOLERANCE,
            f"at most {apart:.2g} Mb/s apart",
        ),
    )
