"""Measure the cost of the proof of an answer, and of the answer with its proof."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from unittest.mock import patch

import numpy as np

from fairlead import solve
from fairlead.certificates.dynamic_levels import certify_dynamic
from fairlead.certificates.filling_replay import certify_filling
from fairlead.mechanisms.dynamic_drf import DynamicDRF
from fairlead.model.problem import Problem
from fairlead.simulation.filling import fill
from growth import seconds_of
from random_problems import GOOGLE_PARK, google_park

Action = Callable[[], object]
# From a size: an action that finds and proves an answer, and one that only proves it.
Prepare = Callable[[int], tuple[Action, Action]]


def measure_proof(prepare: Prepare, size: int) -> tuple[float, float]:
    """Return the seconds of answer and proof together, and of the proof."""
    whole, proof = prepare(size)
    proof()
    return seconds_of(whole), seconds_of(proof)


def _record_proof(whole: Action, certifier: str) -> Action:
    """Find an answer, and return an action that repeats the last call of a certifier."""
    module, name = certifier.rsplit(".", 1)
    certify = getattr(__import__(module, fromlist=[name]), name)
    with patch(certifier, wraps=certify) as recorded:
        whole()
    call = recorded.call_args
    return partial(certify, *call.args, **call.kwargs)


def _on_the_park(mechanism: str, certifier: str, n_users: int) -> tuple[Action, Action]:
    whole = partial(solve, google_park(np.random.default_rng(1), n_users), mechanism)
    return whole, _record_proof(whole, certifier)


def _on_a_pool(n_users: int) -> tuple[Action, Action]:
    rng = np.random.default_rng(1)
    demand = rng.integers(1, 1_001, (n_users, 10)).astype(float)
    whole = partial(solve, Problem.from_arrays([[100_000.0 * n_users] * 10], demand), "drf-tasks")
    return whole, _record_proof(whole, "fairlead.mechanisms.drf.certify_turns")


def _of_arrivals(n_agents: int) -> tuple[Action, Action]:
    demand = np.random.default_rng(1).uniform(0.01, 1.0, (n_agents, 4))
    weight = np.ones(n_agents)
    agents = DynamicDRF(n_agents, 4)
    agents.arrive_all(demand)
    proof = partial(certify_dynamic, demand, weight, float(n_agents), agents.log)

    def whole() -> None:
        DynamicDRF(n_agents, 4).arrive_all(demand)
        proof()

    return whole, proof


def _of_a_filling(n_servers: int) -> tuple[Action, Action]:
    count = np.maximum(1, np.round(GOOGLE_PARK[:, 0] * n_servers / 12_583)).astype(int)
    demand = np.random.default_rng(1).uniform(0.005, 0.06, (100, 2))
    park = Problem.from_arrays(GOOGLE_PARK[:, 1:], demand, count=count)
    order = fill(park, "drf", "best-fit").order
    proof = partial(certify_filling, park, "drf", "best-fit", False, order)

    def whole() -> None:
        assert fill(park, "drf", "best-fit").certificate.holds

    return whole, proof


_USERS = (100, 300, 1_000, 3_000)
# Title, unit of the sizes, the sizes, and the function that prepares the two actions.
PROVED: tuple[tuple[str, str, tuple[int, ...], Prepare], ...] = (
    (
        "drfh, Google's cluster: prices",
        "users",
        _USERS,
        partial(_on_the_park, "drfh", "fairlead.mechanisms.max_min.certify_max_min"),
    ),
    (
        "ps-dsf, Google's cluster: Theorem 1",
        "users",
        _USERS,
        partial(_on_the_park, "ps-dsf", "fairlead.mechanisms.psdsf.certify_bottleneck"),
    ),
    (
        "proportional, Google's cluster: eq. 17",
        "users",
        _USERS,
        partial(
            _on_the_park, "proportional", "fairlead.mechanisms.utility.certify_largest_utility"
        ),
    ),
    ("drf-tasks, one pool: turns", "users", (300, 1_000, 3_000, 10_000), _on_a_pool),
    ("dynamic DRF: every step", "agents", (1_000, 10_000, 100_000, 1_000_000), _of_arrivals),
    ("drf/best-fit: order replayed", "servers", (125, 400, 1_250, 4_000), _of_a_filling),
)
