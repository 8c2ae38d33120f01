"""Work on the nodes of a Ray cluster: what a lost node did is done again elsewhere.

Ray is given no more than a little ahead of what its processors do, and never retries by itself:
without retries it says within a second that a node is lost. Everything travels as bytes that the
other side unpickles after it has said which fairlead it is.
"""

from __future__ import annotations

import os
import pickle
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from threading import Thread
from time import monotonic, sleep
from typing import Any

from fairlead.errors import FairleadError, InputError, how_to_install
from fairlead.executors.executor import Answer, WorkerDiedError

if find_spec("ray") is None:
    raise InputError(f"ray is not installed: {how_to_install('ray')}", "--ray")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # asked when Ray is imported

import ray
from ray import cloudpickle, exceptions
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fairlead.executors import ray_node

LOCAL = "local"
# Seconds until nobody is there, until a cluster is joined or started, until nodes have said which
# fairlead they have, and without any node that could work.
REACH_SECONDS, JOIN_SECONDS, NODE_SECONDS, ALONE_SECONDS = 5.0, 30.0, 60.0, 60.0
LOOK_SECONDS, NODES_SECONDS = 0.2, 1.0
# Jobs that Ray has for each processor: one that runs, and one that waits.
JOBS_PER_CPU = 2
# Workers that may die under a job before it is taken to be at fault, and not their nodes.
MOST_DEATHS = 5


@contextmanager
def joined_ray(address: str) -> Iterator[None]:
    """Be in a Ray cluster until the end of the block; one that this process is in stays as it is.

    Parameters
    ----------
    address : str
        ``host:port``, ``auto`` for the one of this machine, or ``local`` to start one here.

    Raises
    ------
    InputError
        When there is none, or it has another Ray or Python, or no processors.
    """
    if ray.is_initialized():
        yield
        return
    _check_reachable(address)
    _join(address)
    try:
        if not working_nodes():
            raise InputError("the Ray cluster has no processors", "--ray", address)
        yield
    finally:
        ray.shutdown()


def _check_reachable(address: str) -> None:
    """Refuse at once where nobody listens; Ray would try for long."""
    host, _, port = address.rpartition(":")
    if address in ("auto", LOCAL) or "/" in address:
        return
    if not (host and port.isdigit()):
        fault = f"must be HOST:PORT, auto or {LOCAL}, not {address!r:.60}"
        raise InputError(fault, "--ray")
    try:
        socket.create_connection((host, int(port)), REACH_SECONDS).close()
    except (OSError, OverflowError) as fault:
        why = getattr(fault, "strerror", None) or str(fault)
        raise InputError(f"no Ray cluster is there: {why.lower()}", "--ray", address) from None


def _join(address: str) -> None:
    """Join or start a cluster; say why that cannot be, or that it takes too long."""
    faults: list[Exception] = []

    def begin() -> None:
        here = {"include_dashboard": False} if address == LOCAL else {}
        try:
            ray.init(address=address, logging_level="error", log_to_driver=False, **here)
        except (OSError, ValueError, RuntimeError, exceptions.RayError) as fault:
            faults.append(fault)

    if address == LOCAL:
        begin()  # what a thread starts ends with the thread
    else:
        thread = Thread(target=begin, daemon=True)
        thread.start()
        thread.join(JOIN_SECONDS)
        if thread.is_alive():
            fault = f"no Ray cluster answers there within {JOIN_SECONDS:.0f} s"
            raise InputError(fault, "--ray", address)
    if faults:
        why = " ".join(str(faults[0]).split()).rstrip(".")
        raise InputError(f"no Ray cluster can be joined: {why:.300}", "--ray", address) from None


def working_nodes() -> dict[str, tuple[str, float]]:
    """Return the name and the processors of each node that can work, by its id."""
    return {
        node["NodeID"]: (node["NodeName"], node["Resources"]["CPU"])
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
    }


@contextmanager
def ray_executor(address: str) -> Iterator[RayExecutor]:
    """Provide an executor on a Ray cluster's nodes, joined by `joined_ray`, in a block.

    Raises
    ------
    InputError
        As `joined_ray`; or when a node has no fairlead, or another one, or another Python.
    """
    with joined_ray(address):
        yield RayExecutor(address)


class RayExecutor:
    """The Ray cluster that this process is in; see `fairlead.executors.executor.Executor`.

    Parameters
    ----------
    address : str
        What errors call it.
    """

    is_here = False

    def __init__(self, address: str) -> None:
        self._address = address
        self._stamp = ray_node.stamp()
        self._attempt = ray.remote(num_cpus=1, max_retries=0, scheduling_strategy="SPREAD")(
            _travelling()
        )
        self._check_nodes()

    def _check_nodes(self) -> None:
        """Refuse nodes that would work otherwise; each of them has a process ready afterwards."""
        asked = {
            self._attempt.options(
                num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)
            ).remote(self._stamp, None, 0, None): name
            for node, (name, _) in working_nodes().items()
        }
        ready, silent = ray.wait(list(asked), num_returns=len(asked), timeout=NODE_SECONDS)
        for ref in ready:
            try:
                self._like_here(ray.get(ref))
            except exceptions.RayError as fault:
                why = f"node {asked[ref]} cannot work: {last_line(fault)}"
                raise InputError(why, "--ray", self._address) from None
        if silent:
            why = f"node {asked[silent[0]]} does not answer within {NODE_SECONDS:.0f} s"
            raise InputError(why, "--ray", self._address)

    def _like_here(self, answered: tuple[str, bytes]) -> bytes:
        """Return what a node made, unless it is unlike this one."""
        unlike, content = answered
        if unlike:
            fault = f"{unlike}; here is {ray_node.in_words(self._stamp)}"
            raise InputError(fault, "--ray", self._address)
        return content

    def _room(self) -> int:
        """Return how many jobs Ray is to have at a time."""
        # Without its head Ray answers nothing for a minute, and then ends this process.
        host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), REACH_SECONDS).close()
        except OSError as fault:
            why = (fault.strerror or str(fault)).lower()
            raise FairleadError(
                f"{self._address}: the head of the Ray cluster is lost: {why}"
            ) from None
        return JOBS_PER_CPU * sum(int(cpus) for _, cpus in working_nodes().values())

    def do_all(
        self,
        work: Callable[..., Answer],
        jobs: Sequence[Any],
        on_finished: Callable[[int, Answer], None],
        on_report: Callable[..., None] | None = None,
    ) -> None:
        """Do the same work for each of several jobs; see `Executor`."""
        # In a list it is handed on as it is, and fetched once by each process.
        given = [ray.put(cloudpickle.dumps((work, list(jobs))))]
        reports = None if on_report is None else _reports_here()
        waiting = list(range(len(jobs)))[::-1]
        running: dict[Any, int] = {}
        deaths: Counter[int] = Counter()
        room, looked, last_sign = 0, -NODES_SECONDS, monotonic()
        try:
            while waiting or running:
                if monotonic() - looked >= NODES_SECONDS:
                    room, looked = self._room(), monotonic()
                while waiting and len(running) < room:
                    number = waiting.pop()
                    running[self._attempt.remote(self._stamp, given, number, reports)] = number
                if room:
                    last_sign = monotonic()
                elif monotonic() - last_sign > ALONE_SECONDS:
                    raise FairleadError(f"{self._address}: no node of the Ray cluster is left")
                if not running:
                    sleep(LOOK_SECONDS)
                    continue
                ready, _ = ray.wait(list(running), timeout=LOOK_SECONDS)
                for ref in ready:
                    number = running.pop(ref)
                    try:
                        content = self._like_here(ray.get(ref))
                    except exceptions.RayTaskError as fault:
                        raise RuntimeError(str(fault)) from None
                    except exceptions.RayError as fault:
                        deaths[number] += 1
                        if deaths[number] == MOST_DEATHS:
                            how = f"{MOST_DEATHS} times; at last: {last_line(fault)}"
                            raise WorkerDiedError(number, how) from None
                        waiting.append(number)
                        continue
                    answer = pickle.loads(content)
                    if isinstance(answer, Exception):
                        raise answer
                    on_finished(number, answer)
                if on_report is not None and reports is not None:
                    with suppress(exceptions.RayError):  # reports matter less than answers
                        for number, report in ray.get(reports.take.remote()):
                            on_report(number, *report)
        finally:
            for ref in running:
                ray.cancel(ref, force=True)
            if reports is not None:
                ray.kill(reports)


def _reports_here() -> Any:
    """Create an actor on this process's node that receives reports."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return ray.remote(num_cpus=0, scheduling_strategy=here)(_Reports).remote()


class _Reports:
    """The newest report of each job."""

    def __init__(self) -> None:
        self._newest: dict[int, tuple[Any, ...]] = {}

    def tell(self, number: int, *report: Any) -> None:
        """Receive a report."""
        self._newest[number] = report

    def take(self) -> list[tuple[int, tuple[Any, ...]]]:
        """Return what was heard since this was last asked."""
        taken, self._newest = list(self._newest.items()), {}
        return taken


def _travelling() -> Callable[..., tuple[str, bytes]]:
    """Return what nodes do, as a function that travels whole and needs no fairlead to arrive."""

    def attempt_on_node(
        wanted: tuple[str, str, str], given: Any, number: int, reports: Any
    ) -> tuple[str, bytes]:
        """Return in what way this node is unlike the one that asks, or the pickled answer."""
        import platform  # noqa: PLC0415

        import ray  # noqa: PLC0415

        node = ray.util.get_node_ip_address()
        try:
            from fairlead.executors import ray_node  # noqa: PLC0415
        except ImportError:
            version = platform.python_version()
            return f"node {node} has no fairlead that works on Ray, with Python {version}", b""
        if ray_node.stamp() != wanted:
            return f"node {node} has {ray_node.in_words(ray_node.stamp())}", b""
        return "", b"" if given is None else ray_node.do_one(given[0], number, reports)

    return attempt_on_node


def last_line(fault: Exception) -> str:
    """Return the last line of what an error says: Ray puts the cause there."""
    lines = str(fault).strip().splitlines() or [type(fault).__name__]
    return lines[-1].strip()[:300]
