"""Time a placement with and without teams of queues, and with and without limits.

    python benchmarks/teams.py

Each queue submits 20 tasks of one shape, and all fit. Prints processor time of one call of
`Scheduler.place`, over the number of placements.
"""

from __future__ import annotations

import time

from fairlead import Scheduler

TASKS = 20
SIZES = [(10, 10), (10, 100), (100, 10), (3, 1000)]  # teams, members of each


def microseconds(teams: int, members: int, *, has_teams: bool, has_limits: bool) -> float:
    """Return the processor time of a placement, in microseconds."""
    scheduler = Scheduler(["cpu", "memory"], "drf/best-fit")
    for k in range(teams * members * TASKS // 40):
        scheduler.add_server(f"server {k}", {"cpu": 100, "memory": 200})
    for k in range(teams):
        if has_teams:
            scheduler.add_queue(f"team {k}")
            if has_limits:
                scheduler.set_limit(f"team {k}", tasks=members * TASKS)
        for m in range(members):
            queue = f"member {k} {m}"
            scheduler.add_queue(queue, parent=f"team {k}" if has_teams else None)
            scheduler.submit(queue, {"cpu": 1 + m % 3, "memory": 2 + m % 5}, TASKS)
            if has_limits:
                scheduler.set_limit(queue, {"cpu": 10**6}, tasks=TASKS)
    began = time.process_time()
    placed = scheduler.place()
    assert len(placed) == teams * members * TASKS
    return (time.process_time() - began) / len(placed) * 1e6


if __name__ == "__main__":
    print("teams  members  without, us  with limits, us  in teams, us  both, us")
    for teams, members in SIZES:
        times = [
            microseconds(teams, members, has_teams=in_teams, has_limits=limited)
            for in_teams in (False, True)
            for limited in (False, True)
        ]
        columns = zip(times, (11, 15, 12, 8), strict=True)
        print(f"{teams:5}  {members:7}  " + "  ".join(f"{t:{w}.1f}" for t, w in columns))
