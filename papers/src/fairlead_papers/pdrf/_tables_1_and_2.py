"""Reproduce Tables 1 and 2 of Metin: users that have too few or too many tasks under PDRF."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairlead.report.numbers import number
from fairlead_papers.pdrf import PAPER
from fairlead_papers.pdrf._runs_of_formula import (
    MOST_UNDER,
    N_USERS,
    ROWS,
    RUNS_OF_ROW,
    CountedRow,
    PrintedRow,
    Sample,
    compare_row,
    count_table_1,
    count_table_2,
    runs_text,
)
from fairlead_papers.reproduction import Finding, PrintedClaim, Reproduction, TextTable
from fairlead_papers.setting import Setting

# "47 % on average" of the users have too few; the table has 47.5 to 48.7 %.
PRINTED_PART, TOLERANCE = 0.48, 0.03
# "Negligibly low": at most 2 users in 1,000 have too many; the table has up to 0.7.
NEGLIGIBLE = 0.002
# "Totally avoided": at most one user in a hundred runs.
AVOIDED = 0.01
# Least ratio of over-allocations in Table 2 to those in Table 1; printed, 70.
WORSE = 10.0
# Largest rounding error of a sum of three and its total, with three digits each.
ROUNDING = 4 * 0.0005 + 1e-9


def judge_average_cases(counted: Sequence[CountedRow]) -> tuple[PrintedClaim, ...]:
    """Judge whether errors are as small as the paper states; `counted` are Table 1's rows."""
    fractions = [row.under.mean / N_USERS for row in counted]
    over = max(row.over.mean / N_USERS for row in counted)
    largest_demands = counted[-1]
    return (
        _judge_under(counted),
        PrintedClaim(
            f"about {100 * PRINTED_PART:g} % of the users have too few tasks, within "
            f"{100 * TOLERANCE:g} points",
            all(abs(part - PRINTED_PART) <= TOLERANCE for part in fractions),
            f"{', '.join(f'{100 * part:.1f}' for part in fractions)} %",
        ),
        PrintedClaim(
            f"hardly any user has too many tasks: at most {1000 * NEGLIGIBLE:g} in 1,000",
            over <= NEGLIGIBLE,
            f"{number(1000 * over)} in 1,000 at most",
        ),
        PrintedClaim(
            "users with too many tasks have one too many, very rarely two, and never more",
            max(row.most_over for row in counted) <= 2
            and all(row.over_by[1].mean <= row.over_by[0].mean / 10 for row in counted),
            f"{max(row.most_over for row in counted)} at most",
        ),
        PrintedClaim(
            f"with demands of {largest_demands.row.demands[0]} and more no user has too many: at "
            "most one user in a hundred runs",
            largest_demands.over.mean <= AVOIDED,
            f"{int(largest_demands.over.values.sum())} in {largest_demands.runs:,} runs",
        ),
    )


def judge_worse_cases(
    counted: Sequence[CountedRow], most_in_table_1: float
) -> tuple[PrintedClaim, ...]:
    """Judge whether errors grow as the paper states of Table 2, from its first two rows.

    `most_in_table_1` is the largest printed mean number of users with too many tasks in Table 1.
    """
    narrow, wide = counted[:2]
    return (
        _judge_under(counted[:2]),
        PrintedClaim(
            "with 2 resources and wide intervals far more users have too many tasks: at least "
            f"{WORSE:g} times those of Table 1",
            narrow.over.mean >= WORSE * most_in_table_1,
            f"{number(narrow.over.mean)} with demands {narrow.row.name}",
        ),
        PrintedClaim(
            "the wider the interval of demands, the more users have too many tasks",
            wide.over.mean > narrow.over.mean,
            f"{number(wide.over.mean)} with demands {wide.row.name}, {number(narrow.over.mean)} "
            f"with {narrow.row.name}",
        ),
    )


def _judge_under(counted: Sequence[CountedRow]) -> PrintedClaim:
    most = max(row.most_under for row in counted)
    return PrintedClaim("users with too few tasks have one too few", most <= 1, f"{most} at most")


def find_reserves(counted: Sequence[CountedRow], command: str) -> Finding | None:
    """Return the finding that Table 2's last row contradicts its reserves; None if it does not.

    `counted` has the rows of Table 2, then the last row with ten times the reserves.
    """
    _, printed, tenfold = counted
    most_served = int(printed.served.values.max())
    if most_served >= printed.row.under[0]:
        return None
    return Finding(
        f"Table 2, demands {printed.row.name}: {printed.row.under[0]:g} users have too few and "
        f"{printed.row.over[0]:g} too many, with reserves {_reserves(printed)}",
        f"With these at most {most_served} of the 1,000 users have any task in {printed.runs:,} "
        f"runs, {printed.served.mean:.0f} on average: {printed.under.mean:.1f} have too few and "
        f"{printed.over.mean:.1f} too many. With ten times the reserves "
        f"{tenfold.under.mean:.1f} and {tenfold.over.mean:.1f} do, which are not the printed "
        "numbers, either.",
        command,
    )


def find_largest_excess(counted: Iterable[CountedRow], command: str) -> Finding | None:
    """Return the finding on rows with an excess above the printed maximum; None without any."""
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


def find_sums(rows: Iterable[PrintedRow], command: str) -> Finding | None:
    """Return the finding on rows whose printed mean is not their columns' sum; None without any."""
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


def find_excess_of_large_demands(counted: CountedRow, command: str) -> Finding | None:
    """Return the finding that demands of 10 and more have over-allocations; None if they do not."""
    users = int(counted.over.values.sum())
    if users == 0:
        return None
    return Finding(
        f"4: with demands {counted.row.name} over-allocations are totally avoided",
        f"They are rare, not impossible: {users} in {counted.runs:,} runs.",
        command,
    )


def find_short_top_up(counted: Sequence[CountedRow], command: str) -> Finding | None:
    """Return the finding that the top-up leaves users with too few tasks; None if it does not."""
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
        "It does not suffice. Some users have fewer tasks than under the DRF of 6.2, where users "
        f"that do not fit leave and the others go on: {'; '.join(short)}.",
        command,
    )


def _reserves(counted: CountedRow) -> str:
    low, high = counted.row.reserves
    return f"{low:,}-{high:,}"


def _sentence(parts: list[str]) -> str:
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


NOTE_1 = (
    "The paper's DRF is taken to be Algorithm 1 of DRF's authors, which stops at the first user "
    "that does not fit. If that user leaves and the others go on, the numbers are nearly the same."
)
NOTE_2 = (
    "The row 1-1,000 cannot come from the printed reserves; the true ones are not known. In the "
    "row 1-100 the mean number of users with too many tasks agrees, but not the number of their "
    "tasks: see the findings."
)
HEADINGS = (
    "demands",
    "too few",
    "sd",
    "most",
    "too many by 1",
    "by 2",
    "by > 2",
    "in all",
    "sd",
    "most",
)


@PAPER.reproduces(
    "table-1",
    "Table 1",
    "users with fewer or more tasks under PDRF than under DRF, 10 resources, three intervals",
    "47 % of 1,000 users have one task too few; at most 0.7 have too many, by at most 2",
    "ten seconds",
    parameters=(RUNS_OF_ROW,),
)
def reproduce_table_1(setting: Setting) -> Reproduction:
    """Compare PDRF with DRF for ten resources."""
    counted = setting.compute_once(count_table_1)
    command = f"fairlead reproduce pdrf/table-1 --seed {setting.seed}"
    found = (
        find_excess_of_large_demands(counted[-1], command),
        find_short_top_up(counted, command),
    )
    return _reproduction(setting, counted, judge_average_cases(counted), found, NOTE_1)


@PAPER.reproduces(
    "table-2",
    "Table 2",
    "users with fewer or more tasks under PDRF than under DRF, 2 resources, two intervals",
    "41 or 42 % of 1,000 users have one task too few; 50 and 84 have too many, by at most 3 and 32",
    "ten seconds",
    known_to_differ=True,
    parameters=(RUNS_OF_ROW,),
)
def reproduce_table_2(setting: Setting) -> Reproduction:
    """Compare PDRF with DRF for two resources and wide intervals of demands."""
    counted = setting.compute_once(count_table_2)
    command = f"fairlead reproduce pdrf/table-2 --seed {setting.seed}"
    most_in_table_1 = max(row.over[0] for row in ROWS if row.table == 1)
    found = (
        find_reserves(counted, command),
        find_largest_excess(counted, command),
        find_sums((row for row in ROWS if row.table == 2), command),
        find_short_top_up(counted, command),
    )
    claims = judge_worse_cases(counted, most_in_table_1)
    return _reproduction(setting, counted, claims, found, NOTE_2)


def _reproduction(
    setting: Setting,
    counted: list[CountedRow],
    claims: tuple[PrintedClaim, ...],
    found: Sequence[Finding | None],
    note: str,
) -> Reproduction:
    """Reproduce one table from the counts of its rows."""
    return Reproduction(
        setting=runs_text(counted, setting),
        # The row with ten times the reserves has no printed numbers.
        readings=tuple(
            reading for row in counted if row.row in ROWS for reading in compare_row(row)
        ),
        claims=claims,
        findings=tuple(finding for finding in found if finding is not None),
        note=note,
        tables=(_table(counted),),
        data={
            f"{row.row.name}, reserves {row.row.reserves[0]}-{row.row.reserves[1]}": {
                "under": row.under.values,
                "over": row.over.values,
                "served": row.served.values,
            }
            for row in counted
        },
    )


def _table(counted: Sequence[CountedRow]) -> TextTable:
    """Tabulate each printed row, and below it ours."""
    rows = []
    for row in counted:
        if row.row in ROWS:
            rows.append([f"{row.row.name}, paper", *_printed(row.row)])
            rows.append(["    ours", *_counted(row)])
        else:
            rows.append(["    ours, ten times the reserves", *_counted(row)])
    return TextTable(
        'Mean numbers of users, of 1,000; under "most" the largest number of tasks.', HEADINGS, rows
    )


def _printed(row: PrintedRow) -> list[str]:
    under, over = ([f"{value:.3f}" for value in pair] for pair in (row.under, row.over))
    by = [f"{value:.3f}" for value in row.over_by]
    return [*under, str(MOST_UNDER), *by, *over, str(row.most_over)]


def _counted(row: CountedRow) -> list[str]:
    def pair(sample: Sample) -> list[str]:
        return [f"{sample.mean:.3f}", f"{sample.sd:.3f}"]

    by = [f"{sample.mean:.3f}" for sample in row.over_by]
    return [*pair(row.under), str(row.most_under), *by, *pair(row.over), str(row.most_over)]
