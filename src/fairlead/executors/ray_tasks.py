"""An executor on the nodes of a Ray cluster; jobs of a lost node run again elsewhere.

At most two jobs for each processor are submitted to Ray at a time. Jobs and answers are pickled. A
node runs jobs only if it has the same versions of fairlead and Python as this process.
"""

from __future__ import annotations

import os
import pickle
import platform
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib.util import find_spec
from time import monotonic, sleep
from typing import Any

from fairlead.errors import FairleadError, InputError, how_to_install
from fairlead.executors.executor import Answer, Reporter, WorkerDiedError, answer_or_error

if find_spec("ray") is None:
    raise InputError(f"ray is not installed: {how_to_install('ray')}", "--ray")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read when Ray is imported

import ray
from ray import cloudpickle, exceptions
from ray._private import services
from ray.util.queue import Queue
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fairlead.source_digest import digest_of_sources

LOCAL = "local"
REACH_SECONDS = 5.0  # timeout of a connection to an address
NO_NODE_SECONDS = 60.0  # timeout for a node to return when none is left
POLL_SECONDS = 0.2  # between checks for finished jobs
COUNT_SECONDS = 1.0  # between counts of the cluster's processors
SECONDS_BETWEEN_REPORTS = 0.5
# Jobs submitted to Ray for each processor: one runs, and one waits.
JOBS_PER_CPU = 2
# Number of deaths of its worker after which a job fails: the job is the cause, not the nodes.
MOST_DEATHS = 5

Version = tuple[str, str, str]  # version of fairlead, digest of its sources, version of Python


@contextmanager
def joined_ray(address: str) -> Iterator[None]:
    """Join a Ray cluster for a block, unless this process has already joined one.

    `address` is ``host:port``, ``auto`` for the cluster of this machine, or ``local`` to start one.
    Raises InputError for an unreachable cluster, one with another Ray or Python, or one without
    processors.
    """
    if ray.is_initialized():
        yield
        return
    host, _, port = address.rpartition(":")
    if address not in ("auto", LOCAL) and "/" not in address and not (host and port.isdigit()):
        fault = f"must be HOST:PORT, auto or {LOCAL}, not {address!r:.60}"
        raise InputError(fault, "--ray")
    dashboard = {"include_dashboard": False} if address == LOCAL else {}
    join_cluster(address, "--ray", logging_level="error", log_to_driver=False, **dashboard)
    try:
        if not working_nodes():
            raise InputError("the Ray cluster has no processors", "--ray", address)
        yield
    finally:
        ray.shutdown()


def join_cluster(address: str, place: str = "", **options: Any) -> None:
    """Join a Ray cluster, with options of `ray.init`; raise InputError at `place` if it fails."""
    resolved = address
    if address == "auto":  # Ray would try the recorded address of a stopped cluster for minutes
        try:
            resolved = services.canonicalize_bootstrap_address("auto") or address
        except ConnectionError:
            fault_text = "no Ray cluster is there; ray start --head starts one"
            raise InputError(fault_text, place) from None
    host, _, port = resolved.rpartition(":")
    has_listener = bool(host) and port.isdigit() and "/" not in resolved
    if has_listener:
        try:
            check_listener(resolved)
        except (OSError, OverflowError) as fault:
            why = reason_of(fault)
            raise InputError(f"no Ray cluster is there: {why}", place, resolved) from None
    try:  # not the resolved address: Ray sends its token only for "auto"
        ray.init(address=address, **options)
    except (OSError, ValueError, RuntimeError, exceptions.RayError) as fault:
        why = str(fault).strip().splitlines()[0].rstrip(".")
        text = f"no Ray cluster is there ({why:.300}); ray start --head starts one"
        if has_listener:
            how = "if it asks for a token, set RAY_AUTH_MODE=token"
            text = f"the Ray cluster there admits no driver ({why:.300}); {how}"
        raise InputError(text, place) from None


def check_listener(address: str) -> None:
    """Raise OSError if nothing listens at an address, because Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    socket.create_connection((host, int(port)), REACH_SECONDS).close()


def reason_of(fault: Exception) -> str:
    """Return the reason of a failed connection as text."""
    return (getattr(fault, "strerror", None) or str(fault)).lower()


def working_nodes() -> dict[str, tuple[str, float]]:
    """Return the name and the number of processors of each usable node, by its id."""
    return {
        node["NodeID"]: (node["NodeName"], node["Resources"]["CPU"])
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
    }


@contextmanager
def ray_executor(address: str) -> Iterator[RayExecutor]:
    """Yield an executor on the Ray cluster at an address; see `joined_ray`."""
    with joined_ray(address):
        yield RayExecutor(address)


class RayExecutor:
    """Runs jobs on the nodes of the joined Ray cluster; see `fairlead.executors.executor.Executor`.

    Raises InputError when a job arrives at a node without fairlead, or with another version of
    fairlead or Python.
    """

    starts_processes = False

    def __init__(self, address: str) -> None:
        self._address = address
        self._version = installed_version()
        self._attempt = ray.remote(
            num_cpus=1, max_retries=MOST_DEATHS - 1, scheduling_strategy="SPREAD"
        )(_node_function())

    def _job_limit(self) -> int:
        """Return the largest number of jobs to submit to Ray at a time."""
        # Without its head node Ray does not respond for a minute, and then kills this process.
        try:
            check_listener(ray.get_runtime_context().gcs_address)
        except OSError as fault:
            text = f"{self._address}: the head of the Ray cluster is lost: {reason_of(fault)}"
            raise FairleadError(text) from None
        return JOBS_PER_CPU * sum(int(cpus) for _, cpus in working_nodes().values())

    def do_all(
        self,
        work: Callable[..., Answer],
        jobs: Sequence[Any],
        on_finished: Callable[[int, Answer], None],
        on_report: Callable[..., None] | None = None,
    ) -> None:
        """Run the work for each job; see `Executor`."""
        # In a list, so that Ray does not fetch it for each job: each process fetches it once.
        work_and_jobs = [ray.put(cloudpickle.dumps((work, list(jobs))))]
        reports = None if on_report is None else _queue_here()
        waiting = list(range(len(jobs)))[::-1]
        running: dict[Any, int] = {}  # by reference: the number of the job
        limit, counted_at, last_nonzero_at = 0, -COUNT_SECONDS, monotonic()
        try:
            while waiting or running:
                if monotonic() - counted_at >= COUNT_SECONDS:
                    limit, counted_at = self._job_limit(), monotonic()
                while waiting and len(running) < limit:
                    number = waiting.pop()
                    running[self._attempt.remote(self._version, work_and_jobs, number, reports)] = (
                        number
                    )
                if limit:
                    last_nonzero_at = monotonic()
                elif monotonic() - last_nonzero_at > NO_NODE_SECONDS:
                    raise FairleadError(f"{self._address}: no node of the Ray cluster is left")
                if not running:
                    sleep(POLL_SECONDS)
                    continue
                ready, _ = ray.wait(list(running), timeout=POLL_SECONDS)
                for ref in ready:
                    number = running.pop(ref)
                    on_finished(number, self._answer_of(ref, number))
                if on_report is not None and reports is not None:
                    with suppress(exceptions.RayError):  # reports matter less than answers
                        for number, report in reports.get_nowait_batch(reports.qsize()):
                            on_report(number, *report)
        finally:
            for ref in running:
                ray.cancel(ref, force=True)
            if reports is not None:
                reports.shutdown(force=True)

    def _answer_of(self, ref: Any, number: int) -> Any:
        """Return the answer of a job; raise its error."""
        try:
            difference, content = ray.get(ref)
        except exceptions.RayTaskError as fault:
            raise RuntimeError(str(fault)) from None
        except exceptions.RayError as fault:
            how = f"{MOST_DEATHS} times; last cause: {last_line(fault)}"
            raise WorkerDiedError(number, how) from None
        if difference:
            fault_text = f"{difference}; here is {format_version(self._version)}"
            raise InputError(fault_text, "--ray", self._address)
        answer = pickle.loads(content)
        if isinstance(answer, Exception):
            raise answer
        return answer


def _queue_here() -> Queue:
    """Create a queue of reports on this process's node."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return Queue(actor_options={"num_cpus": 0, "scheduling_strategy": here})


def _node_function() -> Callable[..., tuple[str, bytes]]:
    """Return the function that nodes run.

    It is pickled by value, so that a node without fairlead can run it, and report that.
    """

    def attempt_on_node(
        wanted: Version, work_and_jobs: list[Any], number: int, reports: Any
    ) -> tuple[str, bytes]:
        """Return how this node's version differs, or an empty text; and the pickled answer."""
        import platform  # noqa: PLC0415

        import ray  # noqa: PLC0415

        node = ray.util.get_node_ip_address()
        try:
            from fairlead.executors import ray_tasks  # noqa: PLC0415, PLW0406
        except ImportError:
            version = platform.python_version()
            return (
                f"node {node}, with Python {version}, has no fairlead that can run jobs of Ray",
                b"",
            )
        here = ray_tasks.installed_version()
        if here != wanted:
            return f"node {node} has {ray_tasks.format_version(here)}", b""
        return "", ray_tasks.run_job(work_and_jobs[0], number, reports)

    return attempt_on_node


def installed_version() -> Version:
    """Return the `Version` of this process."""
    return sys.modules["fairlead"].__version__, digest_of_sources(), platform.python_version()


def format_version(version: Version) -> str:
    """Return the versions of fairlead and of Python in words."""
    return f"fairlead {version[0]} (sources {version[1][:8]}) with Python {version[2]}"


def run_job(reference: Any, number: int, reports: Any) -> bytes:
    """On a node: run job `number`, and return its pickled answer or error."""
    work, jobs = _unpickle(reference)
    reporters = []
    if reports is not None:
        send = reports.put_nowait
        reporters.append(Reporter(lambda *r: send((number, r)), SECONDS_BETWEEN_REPORTS))
    return pickle.dumps(answer_or_error(work, jobs[number], *reporters))


@lru_cache(maxsize=1)
def _unpickle(reference: Any) -> tuple[Callable[..., Any], Sequence[Any]]:
    """Return the work and the jobs from a reference to their pickled pair."""
    work, jobs = pickle.loads(ray.get(reference))
    return work, jobs


def last_line(fault: Exception) -> str:
    """Return the last line of an error, where Ray names the cause."""
    lines = str(fault).strip().splitlines() or [type(fault).__name__]
    return lines[-1].strip()[:300]
