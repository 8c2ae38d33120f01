"""Progressive filling that draws a server anew for each task, with no rounds.

The paper's VI says that the order of the servers is permuted in each round. Its IV also has servers
chosen at random; that is not the same, because in a round each server comes once. This loop is
here to tell which of the two the printed numbers are of; it is no policy.
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm

import numpy as np

from fairlead.model.cluster import FloatArray, IntArray
from fairlead.papers.private_clouds.printed import CAPACITY, DEMAND

USERS = SERVERS = RESOURCES = range(2)


def draw_trials(criterion: str, trials: int, random: np.random.Generator) -> FloatArray:
    """Fill the paper's two servers several times over.

    Parameters
    ----------
    criterion : str
        ``drf``, ``tsf`` or ``ps-dsf``: who takes a task of the server that is drawn. Of equal
        users either does, by chance.
    trials : int
    random : Generator

    Returns
    -------
    (trials, 2, 2) float
        Tasks by user and server.
    """
    per_task = _scores(criterion)
    return np.stack([_fill(per_task, random) for _ in range(trials)]).astype(float)


def _scores(criterion: str) -> list[list[int]]:
    """Return what a task adds to each user's score on each server, times a common factor."""
    scores = _exact_scores(criterion)
    factor = lcm(*(score.denominator for row in scores for score in row))
    return [[int(score * factor) for score in row] for row in scores]


def _exact_scores(criterion: str) -> list[list[Fraction]]:
    def by_server(user: int) -> list[Fraction]:
        demand = DEMAND[user]
        if criterion == "drf":
            total = [sum(row[r] for row in CAPACITY) for r in RESOURCES]
            return [max(Fraction(demand[r], total[r]) for r in RESOURCES)] * len(SERVERS)
        if criterion == "tsf":
            alone = sum(min(row[r] // demand[r] for r in RESOURCES) for row in CAPACITY)
            return [Fraction(1, alone)] * len(SERVERS)
        return [max(Fraction(demand[r], CAPACITY[i][r]) for r in RESOURCES) for i in SERVERS]

    return [by_server(user) for user in USERS]


def _fill(per_task: list[list[int]], random: np.random.Generator) -> IntArray:
    free = [list(row) for row in CAPACITY]
    tasks = np.zeros((len(USERS), len(SERVERS)), dtype=np.int64)

    def fitting(server: int) -> list[int]:
        return [n for n in USERS if all(DEMAND[n][r] <= free[server][r] for r in RESOURCES)]

    while usable := [i for i in SERVERS if fitting(i)]:
        server = usable[random.integers(len(usable))]
        score = {n: int(tasks[n].sum()) * per_task[n][server] for n in fitting(server)}
        least = [n for n in score if score[n] == min(score.values())]
        user = least[random.integers(len(least))]
        tasks[user, server] += 1
        for r in RESOURCES:
            free[server][r] -= DEMAND[user][r]
    return tasks
