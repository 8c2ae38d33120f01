"""Compiled loop of `turn_order`: compare whole tasks with the tasks that serving by turns gives."""

from __future__ import annotations

from fairlead.solvers.turn_heap import UserInTurn, precedes


def measure_turn_faults(
    users: list[UserInTurn], left: list[int], capacity: list[int], stops: bool
) -> float:
    """Return the largest violation: 0 if serving by turns gives these tasks.

    A user of k tasks that was denied a task that fitted at its turn counts 1 / (1 + k). With
    `stops`, the first task that does not fit ends the division: L tasks with later turns than this
    task of a user of k tasks count L / (1 + L + k).

    `users` have their final tasks; `left` (R,) are the free quanta at the end, `capacity` (R,) all
    quanta. Users with tasks left are judged in the order of their turns. Free quanta only fall, so
    those at the last judged turn are an upper bound, and they are recomputed only if the task fits
    into it. A user whose tasks were all served before one judged turn is skipped at later ones.
    """
    fault = 0.0
    free = capacity
    late = [user for user in users if user.taken > 0]
    for judged in sorted([user for user in users if user.taken < user.limit]):
        if not stops and not judged.fits(free):
            continue
        later = 0
        free = left.copy()
        still_late = []
        for user in late:
            excess = user.taken - _count_served(user, judged)
            if excess > 0:
                later += excess
                for r in range(len(free)):
                    free[r] += excess * user.demand[r]
                still_late.append(user)
        late = still_late
        if judged.fits(free):
            fault = max(fault, 1.0 / (1.0 + judged.taken))
        if stops:
            return max(fault, later / (1.0 + later + judged.taken))
    return fault


def _count_served(user: UserInTurn, judged: UserInTurn) -> int:
    """Return the number of a user's tasks with turns before the next task of the judged user."""
    if precedes(user, user.taken - 1, judged, judged.taken):
        return user.taken
    count = min(int(judged.taken * judged.step / user.step), user.taken - 1)
    while precedes(user, count, judged, judged.taken):
        count += 1
    while count > 0 and not precedes(user, count - 1, judged, judged.taken):
        count -= 1
    return count
