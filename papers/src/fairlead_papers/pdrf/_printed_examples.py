"""Reproduce the examples of Metin: turns (3), higher-order cycles (6.1), Pareto (6.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import gcd, lcm

import numpy as np

from fairlead.mechanisms.catalogue import solve
from fairlead.model.problem import Problem
from fairlead_papers.pdrf import PAPER
from fairlead_papers.reproduction import (
    Finding,
    PrintedClaim,
    Reading,
    Reproduction,
    TextTable,
    compare_amount,
)
from fairlead_papers.setting import Setting

Number = int | Fraction


@dataclass(frozen=True)
class Cycle:
    """A cycle of turns."""

    occurrences: tuple[int, ...]  # (N,): turns of each user in the cycle

    @property
    def length(self) -> int:
        """Turns in the cycle."""
        return sum(self.occurrences)


@dataclass(frozen=True)
class HigherOrderCycle:
    """A cycle of some of the users, repeated while it fits, and the amounts that it used."""

    users: tuple[int, ...]  # indices of the users in it
    tasks: tuple[int, ...]  # tasks of each of them in one repetition
    repetitions: int
    used: tuple[Fraction, ...]  # (R,): used by all repetitions
    left: tuple[Fraction, ...]  # (R,): unused after them


def find_cycle(shares: Sequence[Number]) -> Cycle:
    """Return the full cycle, after which the order of turns repeats exactly.

    `shares` (N,) are positive: the dominant share of one task of each user. User n occurs
    ``lcm(shares) / shares[n]`` times (Metin, 3.3).

    >>> find_cycle([2, 4, 10]).occurrences
    (10, 5, 2)
    """
    # The least common multiple of fractions in lowest terms.
    common = Fraction(
        lcm(*(share.numerator for share in shares)), gcd(*(share.denominator for share in shares))
    )
    return Cycle(tuple(int(common / share) for share in shares))


def find_basic_subcycle(shares: Sequence[Number]) -> Cycle:
    """Return the basic subcycle, with ``floor(max(shares) / shares[n])`` turns (Metin, 3.3)."""
    return Cycle(tuple(int(max(shares) // share) for share in shares))


def find_nested_subcycle(shares: Sequence[Number]) -> Cycle:
    """Return the subcycle as the example of Metin, 6.1, counts it.

    The user with the largest share has one turn. Each other user has ``floor(next larger share /
    its share)`` times the turns of the user with the next larger share. With demands 2, 4 and 10
    there are 4, 2 and 1 turns, where `find_basic_subcycle` has 5, 2 and 1.
    """
    occurrences = [1] * len(shares)
    order = sorted(range(len(shares)), key=lambda n: (-shares[n], n))
    for larger, n in pairwise(order):
        occurrences[n] = occurrences[larger] * int(shares[larger] // shares[n])
    return Cycle(tuple(occurrences))


def find_higher_order_cycles(
    capacity: Sequence[Number],
    demand: Sequence[Sequence[Number]],
    shares: Sequence[Number],
    *,
    nested: bool = True,
) -> list[HigherOrderCycle]:
    """Repeat the subcycle while it fits, drop the user with the largest share, and start again.

    Returns the cycles that fit into `capacity` (R,), for tasks of `demand` (N, R). Their sum need
    not be fair (Metin, 6.1): this is analysis, not a mechanism. `nested` takes the subcycles of
    `find_nested_subcycle`, as the example does, otherwise of `find_basic_subcycle` (3.3).
    """
    left = [Fraction(amount) for amount in capacity]
    find_subcycle = find_nested_subcycle if nested else find_basic_subcycle
    users = list(range(len(demand)))
    cycles = []
    while users:
        tasks = find_subcycle([shares[n] for n in users]).occurrences
        once = [
            sum(t * demand[n][r] for t, n in zip(tasks, users, strict=True))
            for r in range(len(left))
        ]
        times = int(min(c // u for c, u in zip(left, once, strict=True) if u > 0))
        if times > 0:
            used = [Fraction(times * amount) for amount in once]
            left = [c - u for c, u in zip(left, used, strict=True)]
            cycles.append(HigherOrderCycle(tuple(users), tasks, times, tuple(used), tuple(left)))
        users.remove(max(users, key=lambda n: shares[n]))
    return cycles


DEMAND = ((1, 4), (3, 1))
POOL = (9, 18)
SHARES = (Fraction(2, 9), Fraction(1, 3))
HUNDREDTH = 0.01  # digit of whole numbers: smaller than any difference
ROUNDING = 1e-9  # digit of fractions, which are printed exactly
TURNS = "BAABA"
CYCLE_POOL, CYCLE_DEMANDS = 35, (2, 4, 10)
PARETO_POOL = (59, 19)
# One pool of 10 cores and users with tasks of 1, 4 and 5, as in examples/refuted.
REFUTED_POOL, REFUTED_DEMANDS = 10, (1, 4, 5)
REFUTED_FILE = "examples/refuted/pdrf-pareto-optimality.yaml"


@PAPER.reproduces(
    "section-3",
    "Section 3",
    "turns of two users on a pool of 9 CPU and 18 GB, and their cycle",
    "dominant shares of 2/9 and 1/3; A has 3 tasks and B 2, each 2/3 of its dominant resource",
    "a second",
)
def reproduce_section_3(setting: Setting) -> Reproduction:  # noqa: ARG001 (nothing is random)
    """Divide 9 CPU and 18 GB between A, with tasks of (1, 4), and B, with tasks of (3, 1)."""
    problem = Problem.from_arrays([POOL], DEMAND)
    allocation, formula = solve(problem, "drf-algorithm-1"), solve(problem, "pdrf-without-top-up")
    tasks, share = allocation.user_tasks, allocation.dominant_share
    readings = (
        *(
            Reading(
                f"dominant share of a task of {user}",
                float(share[n] / tasks[n]),
                float(of),
                ROUNDING,
            )
            for n, (user, of) in enumerate(zip("AB", SHARES, strict=True))
        ),
        *(
            _compare_whole(f"tasks of {u}", tasks[n], x)
            for n, (u, x) in enumerate((("A", 3), ("B", 2)))
        ),
        *(
            Reading(f"dominant share of {user} in the end", float(share[n]), 2 / 3, ROUNDING)
            for n, user in enumerate("AB")
        ),
    )
    turns = take_turns(SHARES, int(tasks.sum()))
    left = np.array(POOL) - allocation.usage[0]
    return Reproduction(
        setting="Algorithm 1 on one pool of 9 CPU and 18 GB; nothing is random.",
        readings=readings,
        claims=(
            PrintedClaim(f"turns go {', '.join(TURNS)}", turns == TURNS, ", ".join(turns)),
            PrintedClaim(
                "in the end the CPU is used up", bool(left[0] == 0), f"{left[0]:g} CPU left"
            ),
            PrintedClaim(
                "PDRF's formula gives the same tasks as the turns (3.4)",
                bool((formula.user_tasks == tasks).all()),
                " and ".join(f"{x:g}" for x in formula.user_tasks),
            ),
            *judge_extra_turns(),
        ),
        findings=(_wrong_cycle(),),
        tables=(
            TextTable(
                "Tasks of A and B.",
                ["", "A", "B"],
                [
                    ["paper", "3", "2"],
                    ["ours, Algorithm 1", *(f"{x:g}" for x in tasks)],
                    ["ours, PDRF's formula", *(f"{x:g}" for x in formula.user_tasks)],
                ],
            ),
        ),
        data={"tasks": tasks, "formula": formula.user_tasks, "turns": list(turns)},
    )


def take_turns(shares: Sequence[Fraction], number: int) -> str:
    """Return the users of the first `number` turns, as letters.

    Task t of a user has its turn at the dominant share of the t - 1 tasks before; of equal shares
    the user with the larger task is first.
    """
    turns = sorted((t * share, -share, n) for n, share in enumerate(shares) for t in range(number))
    return "".join("ABCDEFGH"[n] for _, _, n in turns[:number])


def judge_extra_turns() -> tuple[PrintedClaim, ...]:
    """Judge the printed numbers of extra turns beyond the basic subcycle, for two users (3.3)."""
    claims = []
    for ratio, more, of in ((Fraction(5, 4), 1, 4), (Fraction(7, 5), 2, 5)):
        shares = (Fraction(1), ratio)
        small, large = find_cycle(shares).occurrences
        once = find_basic_subcycle(shares).occurrences[0]
        claims.append(
            PrintedClaim(
                f"with a ratio of dominant shares of {float(ratio):g}, in {more} of {of} "
                "subcycles the user with the smaller share has one more turn",
                (small - large * once, large) == (more, of),
                f"{small} turns in {large} subcycles",
            )
        )
    return tuple(claims)


def _wrong_cycle() -> Finding:
    ratio, cycle = SHARES[1] / SHARES[0], find_cycle(SHARES).occurrences
    twice = [2 * (2 * DEMAND[0][r] + DEMAND[1][r]) for r in (0, 1)]
    return Finding(
        "3.3: in the example the larger dominant share is twice the smaller; the cycle is one "
        "task of B and two of A, and the second cycle uses up the CPU",
        f"The ratio of 1/3 and 2/9 is {ratio}; the cycle has {cycle[0]} tasks of A and {cycle[1]} "
        f"of B, and runs once. Two of the paper's cycles would take {twice[0]} CPU of {POOL[0]}.",
        "fairlead reproduce pdrf/section-3",
    )


@PAPER.reproduces(
    "section-6.1",
    "Section 6.1",
    "cycles of three users on one resource, then of two, as the third does not fit",
    "4, 2 and 1 tasks take 26 of 35 units; 9 are left, and 2 and 1 tasks take 8 of them",
    "a second",
)
def reproduce_section_6_1(setting: Setting) -> Reproduction:  # noqa: ARG001 (nothing is random)
    """Repeat cycles of three users on 35 units, then of the two with smaller demands."""
    first, second = find_cycles(nested=True)[:2]
    by_formula = find_cycles(nested=False)
    readings = (
        *(
            _compare_whole(f"tasks of {user} in a cycle", x, printed)
            for user, x, printed in zip("ABC", first.tasks, (4, 2, 1), strict=True)
        ),
        _compare_whole("units that a cycle takes", first.used[0] / first.repetitions, 26),
        _compare_whole("cycles", first.repetitions, 1),
        _compare_whole("units left", first.left[0], 9),
        *(
            _compare_whole(f"tasks of {user} in a second-order cycle", x, printed)
            for user, x, printed in zip("AB", second.tasks, (2, 1), strict=True)
        ),
        _compare_whole("units that second-order cycles take", second.used[0], 8),
        _compare_whole("second-order cycles", second.repetitions, 1),
    )
    rows = [[f"ours, {k + 1}", *_cycle_row(c)] for k, c in enumerate((first, second))]
    rows += [[f"by the formula of 3.3, {k + 1}", *_cycle_row(c)] for k, c in enumerate(by_formula)]
    return Reproduction(
        setting="One resource, 35 units; tasks of 2, 4 and 10 units. Nothing is random.",
        readings=readings,
        findings=(_other_subcycle(first, by_formula),),
        tables=(TextTable("Cycles.", ["order", "tasks", "times", "units", "left"], rows),),
        data={"tasks": [first.tasks, second.tasks], "left": [int(first.left[0])]},
    )


def find_cycles(*, nested: bool) -> list[HigherOrderCycle]:
    """Return the higher-order cycles of the example in 6.1."""
    demands = [[demand] for demand in CYCLE_DEMANDS]
    return find_higher_order_cycles([CYCLE_POOL], demands, CYCLE_DEMANDS, nested=nested)


def _other_subcycle(first: HigherOrderCycle, by_formula: Sequence[HigherOrderCycle]) -> Finding:
    texts = [", ".join(map(str, cycle.tasks)) for cycle in (first, by_formula[0])]
    then = [", ".join(map(str, cycle.tasks)) for cycle in by_formula[1:]]
    return Finding(
        f"6.1: with demands of 2, 4 and 10 a cycle has {texts[0]} tasks",
        f"The formula of 3.3, the largest dominant share over each, rounded down, gives "
        f"{texts[1]}: {by_formula[0].used[0]} units, {by_formula[0].left[0]} left, and then "
        f"cycles of {' and '.join(then)}. The example divides each share by the next smaller "
        "one, rounds down, and multiplies the turns.",
        "fairlead reproduce pdrf/section-6.1",
    )


@PAPER.reproduces(
    "section-6.2",
    "Section 6.2",
    "a pool on which DRF's Algorithm 1 stops early",
    "it stops with 2 and 8 tasks and (33, 3) left, where 3 more tasks of B fit",
    "a second",
)
def reproduce_section_6_2(setting: Setting) -> Reproduction:  # noqa: ARG001 (nothing is random)
    """Stop at the first user that does not fit, or let the others go on."""
    problem = Problem.from_arrays([PARETO_POOL], DEMAND)
    stopped, going_on = solve(problem, "drf-algorithm-1"), solve(problem, "drf-tasks")
    left = np.array(PARETO_POOL) - stopped.usage[0]
    more = int((left // np.array(DEMAND[1])).min())
    readings = (
        _compare_whole("tasks of A, Algorithm 1", stopped.user_tasks[0], 2),
        _compare_whole("tasks of B, Algorithm 1", stopped.user_tasks[1], 8),
        _compare_whole("turns", stopped.user_tasks.sum(), 10),
        _compare_whole("first resource left", left[0], 33),
        _compare_whole("second resource left", left[1], 3),
        _compare_whole("tasks of B that fit into the rest", more, 3),
    )
    excluded = going_on.user_tasks - stopped.user_tasks
    return Reproduction(
        setting="One pool of (59, 19), A with tasks of (1, 4) and B of (3, 1). Nothing is random.",
        readings=readings,
        claims=(
            PrintedClaim(
                "if users that do not fit leave, and the others go on, B takes the rest",
                excluded.tolist() == [0, more],
                f"A {excluded[0]:g} and B {excluded[1]:g} tasks more",
            ),
        ),
        findings=(_top_up_short_of_pareto(),),
        tables=(
            TextTable(
                "Tasks.",
                ["", "A", "B"],
                [
                    ["paper, Algorithm 1", "2", "8"],
                    ["ours, Algorithm 1", *(f"{x:g}" for x in stopped.user_tasks)],
                    ["ours, users that do not fit leave", *(f"{x:g}" for x in going_on.user_tasks)],
                ],
            ),
        ),
        data={"stopped": stopped.user_tasks, "going_on": going_on.user_tasks, "left": left},
    )


def _top_up_short_of_pareto() -> Finding:
    demands = [[demand] for demand in REFUTED_DEMANDS]
    allocation = solve(Problem.from_arrays([[REFUTED_POOL]], demands), "pdrf")
    left = REFUTED_POOL - float(allocation.usage[0, 0])
    sizes = ", ".join(map(str, REFUTED_DEMANDS))
    tasks = ", ".join(f"{x:g}" for x in allocation.user_tasks)
    return Finding(
        "5: one more task each, from the least served upward, may suffice for Pareto efficiency",
        f"It does not. One pool of {REFUTED_POOL}, tasks of {sizes}: PDRF with its top-up gives "
        f"{tasks} tasks, and {left:g} is left, in which one more task of the first user fits.",
        f"fairlead audit {REFUTED_FILE} -m pdrf",
    )


def _compare_whole(what: str, ours: float | Fraction, printed: int) -> Reading:
    return compare_amount(what, ours, printed, HUNDREDTH)


def _cycle_row(cycle: HigherOrderCycle) -> list[str]:
    tasks = ", ".join(map(str, cycle.tasks))
    return [tasks, str(cycle.repetitions), str(cycle.used[0]), str(cycle.left[0])]
