"""What Tables 1 and 2 of Metin print."""

from __future__ import annotations

from dataclasses import dataclass, replace

N_USERS = 1_000
RUNS = 1_000


@dataclass(frozen=True)
class PrintedRow:
    """A row of the tables, over 1,000 runs."""

    table: int
    n_resources: int
    demands: tuple[int, int]  # least and largest
    # Mean and standard deviation of the number of users with less and with more than by DRF.
    under: tuple[float, float]
    over: tuple[float, float]
    # Mean number of users with one, two, and more tasks too many.
    over_by: tuple[float, float, float]
    most_over: int  # tasks that a user had too many
    reserves: tuple[int, int] = (50_000, 100_000)  # least and largest

    @property
    def name(self) -> str:
        """The demands, as the tables name their rows."""
        return f"{self.demands[0]:,}-{self.demands[1]:,}"


# Most tasks that a user had too few, in every row.
MOST_UNDER = 1
ROWS = (
    PrintedRow(1, 10, (1, 10), (477.623, 86.373), (0.694, 2.137), (0.693, 0.001, 0.0), 2),
    PrintedRow(1, 10, (1, 20), (474.932, 38.381), (0.192, 0.526), (0.191, 0.001, 0.0), 2),
    PrintedRow(1, 10, (10, 20), (486.521, 50.526), (0.0, 0.0), (0.0, 0.0, 0.0), 0),
    PrintedRow(2, 2, (1, 100), (423.517, 36.429), (50.407, 25.814), (44.689, 5.588, 0.48), 3),
    PrintedRow(2, 2, (1, 1_000), (407.902, 26.373), (83.959, 36.376), (56.541, 14.519, 12.989), 32),
)
# With the reserves that are printed, fewer users have any task than the last row says are short of
# one; with ten times as much it is like the row before it.
UNLIKELY = ROWS[-1]
LIKELIER = replace(UNLIKELY, reserves=(500_000, 1_000_000))
