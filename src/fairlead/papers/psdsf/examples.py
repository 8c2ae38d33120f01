"""The examples of Khamse-Ashari et al. 2017 as problems, and how their numbers are printed."""

from __future__ import annotations

from fairlead.model.problem import Problem

# What is printed as a short decimal fraction, and follows from whole numbers, is meant exactly.
EXACT = 1e-6
THIRD_DECIMAL = 0.001
RESOURCES = ("CPU", "memory", "bandwidth")
_SERVERS = [[9.0, 12.0, 100.0], [12.0, 12.0, 0.0]]


def example_of_figure_1() -> Problem:
    """Return Fig. 1: two servers, the second without bandwidth, and three users."""
    return Problem.from_arrays(
        _SERVERS,
        [[1, 2, 10], [1, 2, 1], [1, 2, 0]],
        weight=[1, 1, 2],
        resources=RESOURCES,
        groups=["server 1", "server 2"],
        users=["user 1", "user 2", "user 3"],
    )


def example_of_figure_2() -> Problem:
    """Return Fig. 2: the same servers, and four users of equal weight."""
    return Problem.from_arrays(
        _SERVERS,
        [[1.5, 1.0, 10.0], [1.0, 2.0, 10.0], [0.5, 1.0, 0.0], [1.0, 0.5, 0.0]],
        resources=RESOURCES,
        groups=["server 1", "server 2"],
        users=["user 1", "user 2", "user 3", "user 4"],
    )


def channels_of_figure_4() -> Problem:
    """Return three channels and two users with rates that give what the text says of Fig. 4.

    The rates stand in a picture; the text has only the results, so these are ours.
    """
    return Problem.from_arrays(
        [[1], [1], [1]],
        [[1], [1]],
        rates=[[1.0, 1.0, 0.5], [0.5, 2 / 3, 2 / 3]],
        resources=["airtime"],
        groups=["channel 1", "channel 2", "channel 3"],
        users=["user 1", "user 2"],
    )
