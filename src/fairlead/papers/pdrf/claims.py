"""What Metin says of Tables 1 and 2, and whether it is so of what was counted."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.papers.pdrf.printed import N_USERS
from fairlead.papers.pdrf.runs import Counted
from fairlead.papers.verdict import Claim
from fairlead.report.numbers import number

# "47 % on average": printed are 47.5 to 48.7 %.
PRINTED_PART, TOLERANCE = 0.48, 0.03
# "Negligibly low": at most 2 users in 1,000; printed are up to 0.7.
NEGLIGIBLE = 0.002
# "Totally avoided": at most one user in a hundred runs.
AVOIDED = 0.01
# Table 2's over-allocations, printed, are 70 times the largest of Table 1.
WORSE = 10.0


def judge_average_cases(counted: Sequence[Counted]) -> tuple[Claim, ...]:
    """Say whether errors are as small as is said of Table 1; its rows in order."""
    parts = [row.under.mean / N_USERS for row in counted]
    over = max(row.over.mean / N_USERS for row in counted)
    least_demanding = counted[-1]
    return (
        _by_one(counted),
        Claim(
            f"about {100 * PRINTED_PART:g} % of the users have too few, within "
            f"{100 * TOLERANCE:g} points",
            all(abs(part - PRINTED_PART) <= TOLERANCE for part in parts),
            f"{', '.join(f'{100 * part:.1f}' for part in parts)} %",
        ),
        Claim(
            f"hardly any user has too many: at most {1000 * NEGLIGIBLE:g} in 1,000",
            over <= NEGLIGIBLE,
            f"{number(1000 * over)} in 1,000 at most",
        ),
        Claim(
            "users with too many have one task, very rarely two, and no more",
            max(row.most_over for row in counted) <= 2
            and all(row.over_by[1].mean <= row.over_by[0].mean / 10 for row in counted),
            f"{max(row.most_over for row in counted)} at most",
        ),
        Claim(
            f"with demands of {least_demanding.row.demands[0]} and more nobody has too many: at "
            "most one user in a hundred runs",
            least_demanding.over.mean <= AVOIDED,
            f"{int(least_demanding.over.values.sum())} in {least_demanding.runs:,} runs",
        ),
    )


def judge_worse_cases(counted: Sequence[Counted], most_in_table_1: float) -> tuple[Claim, ...]:
    """Say whether errors grow as is said of Table 2, of its two rows with the printed reserves.

    `most_in_table_1` is the largest mean number of users with too many there, as printed.
    """
    narrow, wide = counted[:2]
    return (
        _by_one(counted[:2]),
        Claim(
            "far more users have too many with 2 resources and wide intervals: at least "
            f"{WORSE:g} times those of Table 1",
            narrow.over.mean >= WORSE * most_in_table_1,
            f"{number(narrow.over.mean)} with demands {narrow.row.name}",
        ),
        Claim(
            "the wider the demands, the more users have too many",
            wide.over.mean > narrow.over.mean,
            f"{number(wide.over.mean)} with demands {wide.row.name}, {number(narrow.over.mean)} "
            f"with {narrow.row.name}",
        ),
    )


def _by_one(counted: Sequence[Counted]) -> Claim:
    most = max(row.most_under for row in counted)
    return Claim("whoever has too few has one task too few", most <= 1, f"{most} at most")
