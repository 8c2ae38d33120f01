"""A Ray cluster of several nodes on this machine; `make test-ray` runs what needs it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# A killed node fails a check at once; the timeout is for stalled ones, which are not lost.
SOONER = {"initial_delay_ms": 500, "period_ms": 500, "timeout_ms": 30_000, "failure_threshold": 2}
os.environ |= {f"RAY_health_check_{what}": str(number) for what, number in SOONER.items()}

import ray
from ray import exceptions
from ray.cluster_utils import Cluster

import fairlead.ray
from fairlead.errors import FairleadError
from fairlead.ray.connection import answer_of, running_dispatcher

Value = TypeVar("Value")
Connect = Callable[..., fairlead.ray.Fair]
STORE = 80 * 2**20
# Errors of calls that were ended; not `RayError`, of which a timeout of `ray.get` is one, too.
ENDED = (exceptions.RayTaskError, exceptions.TaskCancelledError, exceptions.ActorDiedError)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A head without processors, and two nodes of two: n0 has a T4, n1 a resource of its own."""
    # Else each worker would import the tests and what they import, which takes seconds.
    for module in list(sys.modules.values()):
        if Path(getattr(module, "__file__", None) or "").parent == Path(__file__).parent:
            ray.cloudpickle.register_pickle_by_value(module)
    head = {"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=head | {"node_name": "head"})
    more: tuple[dict[str, Any], ...] = ({"labels": {"gpu": "T4"}}, {"resources": {"license": 1}})
    for n, given in enumerate(more):
        made.add_node(num_cpus=2, object_store_memory=STORE, node_name=f"n{n}", **given)
    ray.init(address=made.address, logging_level="warning", log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture(scope="session")
def drivers(cluster: Cluster) -> Iterator[dict[str, fairlead.ray.Fair]]:
    """The connected users by name, for all tests: an agent takes a second to start."""
    connected: dict[str, fairlead.ray.Fair] = {}
    yield connected
    for fair in connected.values():
        fair.close()


@pytest.fixture
def connect(drivers: dict[str, fairlead.ray.Fair]) -> Iterator[Connect]:
    """Connect users; cancel all of their jobs at the end."""
    used: set[str] = set()

    def connected(user: str, weight: float | None = None) -> fairlead.ray.Fair:
        if user not in drivers:
            drivers[user] = fairlead.ray.connect(user)
        if weight is not None:
            drivers[user].set_weight(weight)
        used.add(user)
        return drivers[user]

    yield connected
    for fair in (drivers[user] for user in used):
        for job in fair.jobs():
            with suppress(FairleadError):  # it may have ended since
                fair.client.cancel(job["id"])
        until(lambda fair=fair: not fair.jobs())  # type: ignore[misc]


def state() -> dict[str, Any]:
    """Return what the dispatcher tells of itself."""
    return dict(answer_of(running_dispatcher().state.remote(), 60))


def until(true: Callable[[], Value], seconds: float = 90.0) -> Value:
    """Return what a question answers as soon as that is true."""
    end = time.monotonic() + seconds
    while not (answer := true()):
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)
    return answer


def running(fair: fairlead.ray.Fair) -> int:
    """Return the number of running tasks of a user."""
    return sum(job["running"] for job in fair.jobs())


def submitted(fair: fairlead.ray.Fair) -> int:
    """Return the number of tasks of a user's jobs that have not ended; calls arrive in parts."""
    return sum(job["tasks"] for job in fair.jobs())


def wait_for(file: Path) -> None:
    """Last until a file is there, and never so short that calls would share a start."""
    time.sleep(0.05)
    while not file.exists():
        time.sleep(0.05)
