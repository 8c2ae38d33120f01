"""What Metin's Tables 1 and 2 got wrong or left open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairlead.papers.pdrf.printed import Row
from fairlead.papers.pdrf.runs import Counted
from fairlead.papers.reproduction import Finding

# Four numbers with three digits.
ROUNDING = 4 * 0.0005 + 1e-9


def find_reserves(counted: Sequence[Counted], command: str) -> Finding | None:
    """Say that the last row of Table 2 cannot be of the reserves it prints; None if it can.

    `counted` has the rows of Table 2, then the last one with ten times the reserves.
    """
    _, printed, likelier = counted
    most_served = int(printed.served.values.max())
    if most_served >= printed.row.under[0]:
        return None
    return Finding(
        f"Table 2, demands {printed.row.name}: {printed.row.under[0]:g} users have too few and "
        f"{printed.row.over[0]:g} too many, with reserves {_reserves(printed)}",
        f"With those at most {most_served} of the 1,000 users have any task in {printed.runs:,} "
        f"runs, {printed.served.mean:.0f} on average: {printed.under.mean:.1f} have too few and "
        f"{printed.over.mean:.1f} too many. With ten times the reserves it is "
        f"{likelier.under.mean:.1f} and {likelier.over.mean:.1f}, which is not what is printed "
        "either.",
        command,
    )


def find_largest_excess(counted: Iterable[Counted], command: str) -> Finding | None:
    """Say where users have far more than the printed maximum; None if nowhere."""
    wrong = [
        f"with demands {row.row.name} and reserves {_reserves(row)} the most is {row.most_over} in "
        f"{row.runs:,} runs, and {row.over_by[2].mean:.2f} users have more than two too many "
        f"(printed: {row.row.most_over}, {row.row.over_by[2]:g})"
        for row in counted
        if row.most_over > row.row.most_over
    ]
    if not wrong:
        return None
    return Finding(
        "4: users rarely have more than 2 tasks too many; Table 2 prints at most 3 and 32",
        _sentence(wrong),
        command,
    )


def find_sums(rows: Iterable[Row], command: str) -> Finding | None:
    """Say where the printed mean is not the sum of its parts; None if nowhere."""
    wrong = [
        f"with demands {row.name} they add up to {sum(row.over_by):.3f}, printed is {row.over[0]:g}"
        for row in rows
        if abs(sum(row.over_by) - row.over[0]) > ROUNDING
    ]
    if not wrong:
        return None
    return Finding(
        "Table 2: users with 1, 2 and more tasks too many, and their average number",
        f"{_sentence(wrong)} In Table 1 they do add up.",
        command,
    )


def find_excess_of_large_demands(counted: Counted, command: str) -> Finding | None:
    """Say that over-allocations are not avoided by demands of 10 and more; None if they are."""
    users = int(counted.over.values.sum())
    if users == 0:
        return None
    return Finding(
        f"4: with demands {counted.row.name} over-allocations are totally avoided",
        f"They are rare, not impossible: {users} in {counted.runs:,} runs.",
        command,
    )


def find_short_top_up(counted: Sequence[Counted], command: str) -> Finding | None:
    """Say that one more task each does not make up for all; None if it does."""
    short = [
        f"{row.still_under.mean:.1f} by up to {row.most_still_under} with demands {row.row.name} "
        f"and reserves {_reserves(row)}"
        for row in counted
        if row.most_still_under
    ]
    if not short:
        return None
    return Finding(
        "5: since all under-allocations are by one task, one more task each, from the least "
        "served upward, may suffice",
        "It does not make up for all. Where whoever does not fit leaves and the others go on "
        f"(6.2), users have more tasks than after it: {'; '.join(short)}.",
        command,
    )


def _reserves(counted: Counted) -> str:
    low, high = counted.row.reserves
    return f"{low:,}-{high:,}"


def _sentence(parts: list[str]) -> str:
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."
