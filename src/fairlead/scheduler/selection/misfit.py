"""H of best-fit: how unlike in shape a task and the free amounts of a server are.

``H = sum over r of |d[r]/d[q] - f[r]/f[q]| * (t[q]/t[r])``, where q is the first resource that the
task takes, f what is free (at least 0) and t the pool's total. The sum is over the resources of
which the pool has any. H is a double, computed in just this order. (Wang, Liang and Li 2015.)
"""

from __future__ import annotations

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from fairlead.scheduler.tables import Shape, fits

INFINITE: Final = float("inf")


class Scales:
    """The factors ``t[q]/t[r]`` of H, which change with the pool's total."""

    total: vec[i64]  # (W,) that they are of
    rows: list[vec[float]]  # by q; 0 where the pool has nothing of r

    def __init__(self) -> None:
        self.total = vec[i64]()
        self.rows = []

    def update(self, total: vec[i64]) -> bool:
        """Compute them for a total; return whether it is another one."""
        if len(self.total) > 0 and fits(self.total, total) and fits(total, self.total):
            return False
        self.total = total[:]
        self.rows = []
        for pool in total:
            scale = vec[float]()
            for amount in total:
                scale = append(scale, float(pool) / float(amount) if amount > 0 else 0.0)
            self.rows.append(scale)
        return True

    def misfit(self, shape: Shape, free: vec[i64]) -> float:
        """Return H of free amounts."""
        return misfit(shape, self.rows[shape.lead], free, 0)


def misfit(shape: Shape, scale: vec[float], free: vec[i64], at: i64) -> float:
    """Return H of the free amounts from an index on; infinite without the task's first resource."""
    wanted, lead = shape.wanted, shape.lead
    over = float(free[at + lead])
    if over <= 0.0:
        return INFINITE
    total = 0.0
    for r in range(len(wanted)):
        if r != lead:
            total += abs(wanted[r] - float(max(free[at + r], 0)) / over) * scale[r]
    return total
