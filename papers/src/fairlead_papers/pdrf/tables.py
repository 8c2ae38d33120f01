"""Tables 1 and 2 of Metin: users that have less or more by PDRF's formula than by DRF."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead_papers.pdrf import PAPER
from fairlead_papers.pdrf.claims import (
    find_excess_of_large_demands,
    find_largest_excess,
    find_reserves,
    find_short_top_up,
    find_sums,
    judge_average_cases,
    judge_worse_cases,
)
from fairlead_papers.pdrf.printed import MOST_UNDER, ROWS, PrintedRow
from fairlead_papers.pdrf.runs import (
    Counted,
    Sample,
    count_table_1,
    count_table_2,
    read_row,
    runs_text,
)
from fairlead_papers.reproduction import Finding, Reproduction, TextTable
from fairlead_papers.setting import Setting
from fairlead_papers.verdict import PrintedClaim

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
