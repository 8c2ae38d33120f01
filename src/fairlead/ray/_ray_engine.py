"""A Ray cluster as an engine: Ray's nodes are the servers, and agents of drivers start the tasks.

An agent is an actor of the driver that submitted the tasks. So tasks have that driver's code and
environment, belong to it, and end with it. A `Session` keeps the orders that an agent has not seen
yet, as it does for a worker.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple

import ray

from fairlead.ray._ray_calls import AGENT, GIB, MOVED, STOPPED_STATUS
from fairlead.service.engines.protocol import Ending, EngineNode, Key, Start
from fairlead.service.engines.worker_loop import do_all
from fairlead.service.sessions import Session

CHECK_SECONDS = 0.5  # between checks of nodes and time limits
REJOIN_SECONDS = 10.0  # for agents to join a restarted dispatcher
NOT_COUNTED = ("object_store_memory", "node:", "accelerator_type:")  # Ray's own, by prefix
NAMES = {"CPU": "cpu", "GPU": "gpu"}  # fairlead's names of Ray's resources


class RayNode(NamedTuple):
    """A node of Ray and its id; a node that returns has another id."""

    node: EngineNode
    id: str


@dataclass
class AgentTask:
    """A task that an agent runs."""

    agent: str
    start: Start
    node_id: str
    since: float = field(default_factory=monotonic)
    stopping: str = ""  # why it was asked to stop


@dataclass
class AgentState:
    """An agent, its unfinished jobs and its unseen orders."""

    name: str
    user: str
    jobs: set[str] = field(default_factory=set)
    session: Session = field(default_factory=lambda: Session("ray", set(), ""))


def live_nodes(rows: Sequence[Mapping[str, Any]]) -> dict[str, RayNode]:
    """Return the live nodes of `ray.nodes` by name; names that are equal get a part of the id."""
    alive = [row for row in rows if row["Alive"]]
    names = Counter(row["NodeName"] for row in alive)
    found = {}
    for row in alive:
        name = row["NodeName"].replace("/", "_")
        if names[row["NodeName"]] > 1:
            name = f"{name}-{row['NodeID'][:8]}"
        capacity = {"cpu": 0.0, "memory": 0.0, "gpu": 0}
        for resource, amount in row["Resources"].items():
            if resource == "memory":
                capacity["memory"] = amount / GIB
            elif not resource.startswith(NOT_COUNTED):
                capacity[NAMES.get(resource, resource)] = amount
        capacity["gpu"] = int(capacity["gpu"])
        labels = {k: v for k, v in row["Labels"].items() if k != "ray.io/node-id" and v}
        found[name] = RayNode(EngineNode(name, capacity, labels), row["NodeID"])
    return found


class RayEngine:
    """Ray's nodes, and the agents that run tasks on them; see `TaskEngine`."""

    def __init__(self) -> None:
        self.identity, self.changed = "ray", asyncio.Event()
        self.ray_nodes: dict[str, RayNode] = {}
        self.agents: dict[str, AgentState] = {}
        self.runs: dict[Key, AgentTask] = {}
        self._ended: dict[Key, Ending] = {}
        # By ended task: done when the service has acknowledged the end.
        self._acknowledged: dict[Key, asyncio.Future[None]] = {}
        self._started_at = monotonic()

    def nodes(self) -> Sequence[EngineNode]:
        return [row.node for row in self.ray_nodes.values()]

    async def start(self, tasks: Sequence[Start]) -> None:
        do_all(self._start, tasks)

    def _start(self, task: Start) -> None:
        """Order an agent to start a task, or end a task that cannot start."""
        if task.key in self.runs or task.key in self._ended:
            return
        if task.job is None or task.job.command[0] != AGENT:
            self._end(task.key, 1, "was not submitted from a driver in this Ray cluster")
            return
        if task.node not in self.ray_nodes:
            # The node may return before the service learns of the loss.
            self._end(task.key, None, "node lost")
            return
        name = task.job.command[1]
        run = self.runs[task.key] = AgentTask(name, task, self.ray_nodes[task.node].id)
        if name in self.agents:
            self._order_start(run)
        elif monotonic() - self._started_at > REJOIN_SECONDS:
            self._end(task.key, 1, "its driver is gone")

    def stop(self, key: Key, why: str) -> None:
        run = self.runs.get(key)
        if run is None or key in self._ended:
            return
        run.stopping = why  # `join` repeats the order for an agent that is absent now
        if run.agent in self.agents:
            self.agents[run.agent].session.queue("stop", (key, why))

    def keep_only(self, keys: Collection[Key]) -> None:
        for key in self.runs.keys() - set(keys):
            run = self.runs.pop(key)
            if run.agent in self.agents:
                self.agents[run.agent].session.queue("stop", (key, MOVED))
        self.forget([ending for key, ending in self._ended.items() if key not in keys])

    @property
    def running(self) -> int:
        """Number of running tasks."""
        return len(self.runs.keys() - self._ended.keys())

    def endings(self) -> Sequence[Ending]:
        return list(self._ended.values())

    def forget(self, endings: Sequence[Ending]) -> None:
        for ending in endings:
            self._ended.pop(ending.key, None)
            self.runs.pop(ending.key, None)
            acknowledged = self._acknowledged.pop(ending.key, None)
            if acknowledged is not None and not acknowledged.done():
                acknowledged.set_result(None)

    async def output(self, key: Key, stream: str, offset: int) -> Mapping[str, Any]:
        what = f"{stream} of {'.'.join(map(str, key))} from byte {offset} on"
        return {"fault": f"{what}: Ray has the output of tasks; see the driver, or ray logs"}

    async def attend(self) -> None:
        """Update nodes, enforce time limits, and end tasks of agents that do not rejoin."""
        while True:
            await self.update_nodes()
            await asyncio.sleep(CHECK_SECONDS)
            if monotonic() - self._started_at > REJOIN_SECONDS:
                for key, run in self.runs.items():
                    if run.agent not in self.agents:
                        self._end(key, 1, "its driver is gone")
            now = monotonic()
            for key, run in self.runs.items():
                limit = run.start.time_limit
                if limit is not None and now - run.since > limit and not run.stopping:
                    self.stop(key, "time limit")

    async def update_nodes(self) -> None:
        """Update the nodes, and end the tasks of lost ones."""
        ray_nodes = live_nodes(await asyncio.to_thread(ray.nodes))
        if ray_nodes == self.ray_nodes:
            return
        self.ray_nodes = ray_nodes
        ids = {row.id for row in ray_nodes.values()}  # a restarted node has another id
        for key, run in self.runs.items():
            if run.node_id not in ids:
                self._end(key, None, "node lost")
        self.changed.set()

    def join(self, name: str, user: str, jobs: Collection[str]) -> str:
        """Register an agent, queue starts of its running tasks, and return its session's id."""
        agent = self.agents[name] = AgentState(name, user, set(jobs))
        for key, run in self.runs.items():
            if run.agent == name and key not in self._ended:
                self._order_start(run)
                if run.stopping:
                    agent.session.queue("stop", (key, run.stopping))
        return agent.session.id

    async def report(self, name: str, endings: Sequence[Ending]) -> None:
        """Record an agent's ended tasks; return once the service has acknowledged them."""
        waits = []
        for key, status, reason in endings:
            run = self.runs.get(key)
            if run is not None and run.agent == name:
                self._end(key, status, reason)
                if key not in self._acknowledged:
                    self._acknowledged[key] = asyncio.get_running_loop().create_future()
                waits.append(self._acknowledged[key])
        if waits:
            await asyncio.wait(waits)

    def leave(self, name: str) -> AgentState | None:
        """Remove an agent; return it, or None if it is not registered."""
        agent = self.agents.pop(name, None)
        if agent is not None:
            agent.session.wake_up.set()
        return agent

    def end_all(self, name: str) -> None:
        """End the running tasks of an agent."""
        for key, run in self.runs.items():
            if run.agent == name:
                self._end(key, STOPPED_STATUS, "its driver is gone")

    def _order_start(self, run: AgentTask) -> None:
        self.agents[run.agent].session.queue("start", (run.start.key, run.node_id))

    def _end(self, key: Key, status: int | None, reason: str) -> None:
        self._ended.setdefault(key, Ending(key, status, reason))
        self.changed.set()
