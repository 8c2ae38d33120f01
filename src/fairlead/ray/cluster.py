"""A Ray cluster as an engine: its nodes are Ray's, and drivers' agents are told what starts.

The tasks themselves are started by an agent, an actor of the driver that asked for them: so they
have that driver's code and environment, belong to it, and end with it. `Session` keeps what an
agent has not seen yet, as it does for the service's workers.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple

import ray

from fairlead.service.engines.loops import do_all
from fairlead.service.engines.protocol import Ending, EngineNode, Key, Start
from fairlead.service.sessions import Session

GIB = 2**30
LOOK_SECONDS = 0.5
COMING_SECONDS = 10.0  # that an agent may take to come back to a dispatcher that began again
NOT_COUNTED = ("object_store_memory", "node:", "accelerator_type:")
MOVED = "it runs elsewhere, or no more"
NAMES = {"CPU": "cpu", "GPU": "gpu"}
AGENT = "ray"  # the first word of a job's command; the second is the agent's name


class Found(NamedTuple):
    """A node of Ray, and the id that it has this time."""

    node: EngineNode
    id: str


@dataclass
class Run:
    """A task that was given to an agent."""

    agent: str
    start: Start
    node_id: str
    since: float = field(default_factory=monotonic)
    is_stopping: bool = False


@dataclass
class KnownAgent:
    """An agent as the dispatcher hears it."""

    name: str
    user: str
    jobs: set[str] = field(default_factory=set)
    session: Session = field(default_factory=lambda: Session("ray", set(), ""))


def found_nodes(rows: Sequence[Mapping[str, Any]]) -> dict[str, Found]:
    """Return the nodes of `ray.nodes` that live, by name, with the id where several share one."""
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
        found[name] = Found(EngineNode(name, capacity, labels), row["NodeID"])
    return found


def ray_options(demand: Mapping[str, float]) -> dict[str, Any]:
    """Return what Ray is to count for a task: just what fairlead counted."""
    more = {r: amount for r, amount in demand.items() if r not in ("cpu", "gpu", "memory")}
    options: dict[str, Any] = {"num_cpus": demand.get("cpu", 0), "num_gpus": demand.get("gpu", 0)}
    if demand.get("memory"):
        options["memory"] = -int(-demand["memory"] * GIB // 1)
    return options | ({"resources": more} if more else {})


def demand_of(request: Mapping[str, Any]) -> dict[str, float]:
    """Return what a task of a job request, or of a bundle of it, takes."""
    defaults: dict[str, float] = {"cpu": 1.0, "memory": 0.0, "gpu": 0}
    amounts = {name: request.get(name, default) for name, default in defaults.items()}
    return amounts | dict(request.get("resources", {}))


class RayCluster:
    """Ray's nodes, and who runs tasks on them; see `engines.protocol.TaskEngine`."""

    def __init__(self) -> None:
        self.identity, self.news = "ray", asyncio.Event()
        self.found: dict[str, Found] = {}
        self.agents: dict[str, KnownAgent] = {}
        self.runs: dict[Key, Run] = {}
        self._over: dict[Key, Ending] = {}
        self._told: dict[Key, asyncio.Future[None]] = {}  # who waits until an ending was heard
        self._began = monotonic()

    def nodes(self) -> Sequence[EngineNode]:
        """Return Ray's nodes."""
        return [found.node for found in self.found.values()]

    async def start(self, tasks: Sequence[Start]) -> None:
        """Order tasks from the agents of the drivers that submitted them."""
        do_all(self._start, tasks)

    def _start(self, task: Start) -> None:
        if task.key in self.runs or task.key in self._over:
            return
        if task.job is None or task.job.command[0] != AGENT:
            self._end(task.key, 1, "was not submitted from a driver in this Ray cluster")
            return
        if task.node not in self.found:
            # The node may be back before the service hears that it was gone.
            self._end(task.key, None, "node lost")
            return
        name = task.job.command[1]
        run = self.runs[task.key] = Run(name, task, self.found[task.node].id)
        if name in self.agents:
            self._tell_start(run)
        elif monotonic() - self._began > COMING_SECONDS:
            self._end(task.key, 1, "its driver is gone")

    def stop(self, key: Key, why: str) -> None:
        """Order an agent to stop a task."""
        run = self.runs.get(key)
        if run is None or key in self._over:
            return
        if run.agent in self.agents:
            run.is_stopping = True
            self.agents[run.agent].session.tell("stop", (key, why))
        else:
            self._end(key, 143, why)

    def keep_only(self, keys: Collection[Key]) -> None:
        """Order agents to stop all other tasks."""
        for key in self.runs.keys() - set(keys):
            run = self.runs.pop(key)
            if run.agent in self.agents:
                self.agents[run.agent].session.tell("stop", (key, MOVED))
        self.forget([ending for key, ending in self._over.items() if key not in keys])

    @property
    def running(self) -> int:
        """How many tasks run; what has ended is no more among them, heard by the service or not."""
        return len(self.runs.keys() - self._over.keys())

    def endings(self) -> Sequence[Ending]:
        """Return how tasks ended that the service has not heard."""
        return list(self._over.values())

    def forget(self, endings: Sequence[Ending]) -> None:
        """Note that endings were heard."""
        for ending in endings:
            self._over.pop(ending.key, None)
            self.runs.pop(ending.key, None)
            told = self._told.pop(ending.key, None)
            if told is not None and not told.done():
                told.set_result(None)

    async def output(self, key: Key, stream: str, offset: int) -> Mapping[str, Any]:
        """Return that Ray has it."""
        what = f"{stream} of {'.'.join(map(str, key))} from byte {offset} on"
        return {"fault": f"{what}: Ray keeps what its workers write; see the driver, or ray logs"}

    async def attend(self) -> None:
        """Watch the nodes, and agents that do not come back."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)
            if monotonic() - self._began > COMING_SECONDS:
                for key, run in self.runs.items():
                    if run.agent not in self.agents:
                        self._end(key, 1, "its driver is gone")
            now = monotonic()
            for key, run in self.runs.items():
                limit = run.start.time_limit
                if limit is not None and now - run.since > limit and not run.is_stopping:
                    self.stop(key, "time limit")

    async def look(self) -> None:
        """See which nodes are there now."""
        found = found_nodes(await asyncio.to_thread(ray.nodes))
        if found == self.found:
            return
        self.found = found
        ids = {row.id for row in found.values()}  # a node that came back has another id
        for key, run in self.runs.items():
            if run.node_id not in ids:
                self._end(key, None, "node lost")
        self.news.set()

    # Agents

    def join(self, name: str, user: str, jobs: Collection[str]) -> str:
        """Register an agent, send it all of its running tasks, and return its session."""
        agent = self.agents[name] = KnownAgent(name, user, set(jobs))
        for key, run in self.runs.items():
            if run.agent == name and key not in self._over:
                self._tell_start(run)
                if run.is_stopping:
                    agent.session.tell("stop", (key, "cancelled"))
        return agent.session.id

    async def hear(self, name: str, endings: Sequence[Ending]) -> None:
        """Take an agent's ended tasks; return when the service has acknowledged them."""
        waits = []
        for key, status, reason in endings:
            run = self.runs.get(key)
            if run is not None and run.agent == name:
                self._end(key, status, reason)
                if key not in self._told:
                    self._told[key] = asyncio.get_running_loop().create_future()
                waits.append(self._told[key])
        if waits:
            await asyncio.wait(waits)

    def leave(self, name: str) -> KnownAgent | None:
        """Remove an agent."""
        agent = self.agents.pop(name, None)
        if agent is not None:
            agent.session.news.set()
        return agent

    def end_all(self, name: str) -> None:
        """End the running tasks of an agent."""
        for key, run in self.runs.items():
            if run.agent == name:
                self._end(key, 143, "its driver is gone")

    def _tell_start(self, run: Run) -> None:
        self.agents[run.agent].session.tell("start", (run.start.key, run.node_id))

    def _end(self, key: Key, status: int | None, reason: str) -> None:
        self._over.setdefault(key, Ending(key, status, reason))
        self.news.set()
