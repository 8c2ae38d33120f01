"""Join a Ray cluster, and find or start its dispatcher."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from re import fullmatch
from typing import Any

import ray
from ray import exceptions
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fairlead.errors import InputError
from fairlead.executors.ray_tasks import join_cluster, last_line
from fairlead.model.arguments import number, whole_number
from fairlead.ray._ray_calls import NAME, NAMESPACE, NoDispatcherError
from fairlead.scheduler.policies import parse_policy
from fairlead.service.bounds import NAME as NAME_OF_USER
from fairlead.service.bounds import check_weight
from fairlead.service.client.exchange import TIMEOUT, Reply

MOST_CALLS = 100_000  # largest number of concurrent calls of the dispatcher or an agent
BEGIN_SECONDS = 60.0  # for a dispatcher or an agent to start
LONGEST_GRACE = 86400.0  # seconds
HEAD = "node:__internal_head__"  # a resource of the head node only


def join(address: str | None = None) -> None:
    """Join a Ray cluster, unless this process is in one; raise `InputError` if there is none."""
    if not ray.is_initialized():
        where = address or os.environ.get("RAY_ADDRESS") or "auto"
        join_cluster(where, logging_level="warning", configure_logging=False)


def start(
    policy: str | None = None,
    users: Mapping[str, float] | None = None,
    service: str | None = None,
    token: str | None = None,
    journal: str | None = None,
    address: str | None = None,
    seed: int | None = None,
    grace: float | None = None,
) -> Any:
    """Return the dispatcher of a Ray cluster; start one if there is none.

    Parameters
    ----------
    policy : str, optional
        A policy of `Scheduler`; when absent, the journal's, or ``drf/best-fit``.
    users : mapping of str to float, optional
        The users that may submit, with their weights, besides those admitted before. When absent, a
        new dispatcher admits all users, with weight 1.
    service, token : str, optional
        The address of a ``fairlead serve`` that schedules instead, and a token for it.
    journal : str, optional
        A file on the head node that keeps users and jobs beyond the end of the cluster.
    address : str, optional
        The address of the Ray cluster; ``auto`` when absent.
    seed : int, optional
        The seed of random choices; when absent, the journal's, or 0.
    grace : float, optional
        Seconds from the KeyboardInterrupt of a preempted call until it is killed; 10 when absent.

    Raises
    ------
    InputError
        When there is no cluster, or the policy or the service is unknown.
    """
    if policy is not None:
        parse_policy(policy)
    if grace is not None:
        grace = number(grace, "grace")
        if not 0 <= grace <= LONGEST_GRACE:
            raise InputError(f"must be from 0 to {LONGEST_GRACE:,.0f} seconds", "grace")
    if seed is not None:
        seed = whole_number(seed, "seed")
    for name, weight in (users or {}).items():
        check_user(name, weight)
    if service is not None and (policy is not None or seed is not None):
        raise InputError("has its own policy and seed; do not give these", "service")
    join(address)
    listed = None if users is None else list(users)
    try:
        dispatcher = ray.get_actor(NAME, namespace=NAMESPACE)
    except ValueError:
        dispatcher = _create(policy, seed, service, token, journal, listed, grace)
    state = answer_of(dispatcher.state.remote(), BEGIN_SECONDS)
    asked = {"policy": policy, "seed": seed, "service": service, "grace": grace}
    asked |= {"journal": None if journal is None else str(Path(journal))}
    for what, wanted in asked.items():
        if wanted is not None and state.get(what) != wanted:
            fault = f"a dispatcher with {state.get(what)} runs already; fairlead ray stop ends it"
            raise InputError(fault, what)
    if users is not None:
        answer_of(dispatcher.allow.remote(dict(users)), BEGIN_SECONDS)
    return dispatcher


def _create(*arguments: Any) -> Any:
    """Create a dispatcher, or return one that was created meanwhile."""
    from fairlead.ray._dispatcher import Dispatcher  # noqa: PLC0415 (loads the service)

    heads = [n["NodeID"] for n in ray.nodes() if n["Alive"] and HEAD in n["Resources"]]
    where = NodeAffinitySchedulingStrategy(heads[0], soft=True) if heads else "DEFAULT"
    made = ray.remote(Dispatcher).options(
        name=NAME,
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        max_restarts=-1,
        max_task_retries=-1,
        max_concurrency=MOST_CALLS,
        num_cpus=0,
        scheduling_strategy=where,
    )
    return made.remote(*arguments)


def check_user(name: object, weight: object = None) -> None:
    """Raise `InputError` for an invalid name or weight of a user."""
    if not isinstance(name, str) or not name.strip() or not fullmatch(NAME_OF_USER, name):
        raise InputError(f"{name!r:.60} is not a valid name of a user", "user")
    if weight is not None:
        check_weight(number(weight, "weight"), "weight")


def stop(address: str | None = None) -> None:
    """Stop the dispatcher; running tasks continue, and waiting ones never start.

    Return when Ray no longer finds it by its name, so that `start` does not take it for a running
    one.
    """
    stopped = running_dispatcher(address)
    ray.kill(stopped, no_restart=True)
    deadline = time.monotonic() + BEGIN_SECONDS
    with suppress(ValueError):
        while ray.get_actor(NAME, namespace=NAMESPACE)._actor_id == stopped._actor_id:
            if time.monotonic() > deadline:
                seconds = f"{BEGIN_SECONDS:.0f} s"
                raise NoDispatcherError(f"the dispatcher did not end in {seconds}; stop it again")
            time.sleep(0.02)


def running_dispatcher(address: str | None = None) -> Any:
    """Return the running dispatcher; raise `NoDispatcherError` if there is none."""
    join(address)
    try:
        return ray.get_actor(NAME, namespace=NAMESPACE)
    except ValueError:
        fault = "no dispatcher runs in this Ray cluster; fairlead ray start starts one"
        raise NoDispatcherError(fault) from None


def answer_of(ref: Any, seconds: float) -> Any:
    """Return an answer; raise `InputError` if refused, `NoDispatcherError` if there is none."""
    try:
        return ray.get(ref, timeout=seconds)
    except exceptions.RayTaskError as fault:
        if isinstance(fault.cause, InputError):
            raise fault.cause from None
        raise NoDispatcherError(f"the dispatcher failed: {last_line(fault)}") from None
    except exceptions.GetTimeoutError:
        raise NoDispatcherError(f"the dispatcher did not answer in {seconds:.0f} s") from None
    except exceptions.RayError as fault:
        raise NoDispatcherError(f"the dispatcher is gone: {last_line(fault)}") from None


class RayExchange:
    """Sends requests to the service of a dispatcher, through Ray; see `Exchange`."""

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher

    url = "the dispatcher in this Ray cluster"

    async def ask(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Send a request to the dispatcher."""
        asked = self._dispatcher.ask.remote(method, target, body, dict(headers))
        status, content = answer_of(asked, TIMEOUT)
        return Reply(status, {}, content)

    def close(self) -> None:
        """Do nothing: Ray stays connected."""
