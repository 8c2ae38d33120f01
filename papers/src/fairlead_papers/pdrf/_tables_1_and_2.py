"""Tables 1 and 2 of Metin: users that have less or more by PDRF's formula than by DRF."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairlead.report.numbers import number
from fairlead_papers.pdrf import PAPER
from fairlead_papers.pdrf._runs_of_formula import (
    MOST_UNDER,
    N_USERS,
    ROWS,
    RUNS_OF_ROW,
    Counted,
    PrintedRow,
    Sample,
    count_table_1,
    count_table_2,
    read_row,
    runs_text,
)
from fairlead_papers.reproduction import Finding, PrintedClaim, Reproduction, TextTable
from fairlead_papers.setting import Setting

# "47 % on average": printed are 47.5 to 48.7 %.
PRINTED_PART, TOLERANCE = 0.48, 0.03
# "Negligibly low": at most 2 users in 1,000; printed are up to 0.7.
NEGLIGIBLE = 0.002
# "Totally avoided": at most one user in a hundred runs.
AVOIDED = 0.01
# Table 2's over-allocations, printed, are 70 times the largest of Table 1.
WORSE = 10.0
# Four numbers with three digits.
ROUNDING = 4 * 0.0005 + 1e-9


def judge_average_cases(counted: Sequence[Counted]) -> tuple[PrintedClaim, ...]:
    """Check whether errors are as small as is said of Table 1; its rows in order."""
    parts = [row.under.mean / N_USERS for row in counted]
    over = max(row.over.mean / N_USERS for row in counted)
    least_demanding = counted[-1]
    return (
        _by_one(counted),
        PrintedClaim(
            f"about {100 * PRINTED_PART:g} % of the users have too few, within "
            f"{100 * TOLERANCE:g} points",
            all(abs(part - PRINTED_PART) <= TOLERANCE for part in parts),
            f"{', '.join(f'{100 * part:.1f}' for part in parts)} %",
        ),
        PrintedClaim(
            f"hardly any user has too many: at most {1000 * NEGLIGIBLE:g} in 1,000",
            over <= NEGLIGIBLE,
            f"{number(1000 * over)} in 1,000 at most",
        ),
        PrintedClaim(
            "users with too many have one task, very rarely two, and no more",
            max(row.most_over for row in counted) <= 2
            and all(row.over_by[1].mean <= row.over_by[0].mean / 10 for row in counted),
            f"{max(row.most_over for row in counted)} at most",
        ),
        PrintedClaim(
            f"with demands of {least_demanding.row.demands[0]} and more nobody has too many: at "
            "most one user in a hundred runs",
            least_demanding.over.mean <= AVOIDED,
            f"{int(least_demanding.over.values.sum())} in {least_demanding.runs:,} runs",
        ),
    )


def judge_worse_cases(
    counted: Sequence[Counted], most_in_table_1: float
) -> tuple[PrintedClaim, ...]:
    """Check whether errors grow as is said of Table 2, of its two rows with the printed reserves.

    `most_in_table_1` is the largest mean number of users with too many there, as printed.
    """
    narrow, wide = counted[:2]
    return (
        _by_one(counted[:2]),
        PrintedClaim(
            "far more users have too many with 2 resources and wide intervals: at least "
            f"{WORSE:g} times those of Table 1",
            narrow.over.mean >= WORSE * most_in_table_1,
            f"{number(narrow.over.mean)} with demands {narrow.row.name}",
        ),
        PrintedClaim(
            "the wider the demands, the more users have too many",
            wide.over.mean > narrow.over.mean,
            f"{number(wide.over.mean)} with demands {wide.row.name}, {number(narrow.over.mean)} "
            f"with {narrow.row.name}",
        ),
    )


def _by_one(counted: Sequence[Counted]) -> PrintedClaim:
    most = max(row.most_under for row in counted)
    return PrintedClaim("whoever has too few has one task too few", most <= 1, f"{most} at most")


def find_reserves(counted: Sequence[Counted], command: str) -> Finding | None:
    """Check that the last row of Table 2 cannot be of the reserves it prints; None if it can.

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
    """Find where users have far more than the printed maximum; None if nowhere."""
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
    """Find where the printed mean is not the sum of its parts; None if nowhere."""
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
    """Check that over-allocations are not avoided by demands of 10 and more; None if they are."""
    users = int(counted.over.values.sum())
    if users == 0:
        return None
    return Finding(
        f"4: with demands {counted.row.name} over-allocations are totally avoided",
        f"They are rare, not impossible: {users} in {counted.runs:,} runs.",
        command,
    )


def find_short_top_up(counted: Sequence[Counted], command: str) -> Finding | None:
    """Check that one more task each does not make up for all; None if it does."""
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


NOTE_1 = (
    "The paper's DRF is taken to be Algorithm 1 of its authors, which ends with the first user "
    "who does not fit. The form in which that user leaves gives nearly the same numbers."
)
NOTE_2 = (
    "The row 1-1,000 cannot be of the reserves that are printed; what else the paper drew is not "
    "known. Of the row 1-100 the mean of users with too many comes out, not how many tasks that "
    "is: see what was found."
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
    "users that PDRF gives less or more than DRF does, 10 resources, three ranges of demands",
    "47 % of 1,000 users have one task too few; at most 0.7 have too many, by at most 2",
    "ten seconds",
    parameters=(RUNS_OF_ROW,),
)
def reproduce_table_1(setting: Setting) -> Reproduction:
    """Compare PDRF with DRF for ten resources; ten seconds."""
    counted = setting.share(count_table_1)
    command = f"fairlead reproduce pdrf/table-1 --seed {setting.seed}"
    found = (
        find_excess_of_large_demands(counted[-1], command),
        find_short_top_up(counted, command),
    )
    return _reproduction(setting, counted, judge_average_cases(counted), found, NOTE_1)


@PAPER.reproduces(
    "table-2",
    "Table 2",
    "users that PDRF gives less or more than DRF does, 2 resources, two ranges of demands",
    "41 or 42 % of 1,000 users have one task too few; 50 and 84 have too many, by at most 3 and 32",
    "ten seconds",
    known_to_differ=True,
    parameters=(RUNS_OF_ROW,),
)
def reproduce_table_2(setting: Setting) -> Reproduction:
    """Compare PDRF with DRF for two resources and wide intervals of demands; ten seconds."""
    counted = setting.share(count_table_2)
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
    counted: list[Counted],
    claims: tuple[PrintedClaim, ...],
    found: Sequence[Finding | None],
    note: str,
) -> Reproduction:
    return Reproduction(
        setting=runs_text(counted, setting),
        # The row with other reserves than the printed ones has nothing to be compared with.
        readings=tuple(reading for row in counted if row.row in ROWS for reading in read_row(row)),
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


def _table(counted: Sequence[Counted]) -> TextTable:
    """Lay out ours and the paper's below each other, as the paper has its columns."""
    rows = []
    for row in counted:
        if row.row in ROWS:
            rows.append([f"{row.row.name}, paper", *_printed(row.row)])
            rows.append(["    ours", *_counted(row)])
        else:
            rows.append(["    ours, ten times the reserves", *_counted(row)])
    return TextTable(
        "Users, of 1,000, means over the runs; tasks where it says most.", HEADINGS, rows
    )


def _printed(row: PrintedRow) -> list[str]:
    under, over = ([f"{value:.3f}" for value in pair] for pair in (row.under, row.over))
    by = [f"{value:.3f}" for value in row.over_by]
    return [*under, str(MOST_UNDER), *by, *over, str(row.most_over)]


def _counted(row: Counted) -> list[str]:
    def pair(sample: Sample) -> list[str]:
        return [f"{sample.mean:.3f}", f"{sample.sd:.3f}"]

    by = [f"{sample.mean:.3f}" for sample in row.over_by]
    return [*pair(row.under), str(row.most_under), *by, *pair(row.over), str(row.most_over)]
