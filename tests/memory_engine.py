"""An engine without processes: each task ends after a time, on nodes that tests add and remove."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from fairlead.service.engines.protocol import Ending, EngineNode, Key, Start
from fairlead.service.engines.worker_loop import do_all


class InMemory:
    """Runs nothing: a task ends after `lasts` seconds with status 0; see `TaskEngine`."""

    def __init__(self, nodes: Iterable[EngineNode], lasts: Callable[[Start], float]) -> None:
        self.identity, self.changed = "memory", asyncio.Event()
        self.running: dict[Key, Start] = {}
        self.started: list[Start] = []
        self._nodes = {node.name: node for node in nodes}
        self._lasts = lasts
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._over: dict[Key, Ending] = {}

    def add(self, node: EngineNode) -> None:
        self._nodes[node.name] = node
        self.changed.set()

    def remove(self, name: str) -> None:
        del self._nodes[name]
        for key, task in list(self.running.items()):
            if task.node == name:
                self._drop(key)
                self._over[key] = Ending(key, None, "node lost")
        self.changed.set()

    def nodes(self) -> Sequence[EngineNode]:
        return list(self._nodes.values())

    async def start(self, tasks: Sequence[Start]) -> None:
        do_all(self._start, tasks)

    def _start(self, task: Start) -> None:
        if task.key in self.running or task.key in self._over:
            return
        if task.node not in self._nodes:  # the service may never hear that it was gone
            self._over[task.key] = Ending(task.key, None, "node lost")
            self.changed.set()
            return
        self.running[task.key] = task
        self.started.append(task)
        later = asyncio.get_running_loop().call_later
        self._timers[task.key] = later(self._lasts(task), self._end, task.key, None)

    def stop(self, key: Key, why: str) -> None:
        if key in self.running:
            self._end(key, why)

    def keep_only(self, keys: Collection[Key]) -> None:
        for key in self.running.keys() - set(keys):
            self._drop(key)
        for key in self._over.keys() - set(keys):
            del self._over[key]

    def endings(self) -> Sequence[Ending]:
        return list(self._over.values())

    def forget(self, endings: Sequence[Ending]) -> None:
        for ending in endings:
            self._over.pop(ending.key, None)

    async def output(self, key: Key, stream: str, offset: int) -> Mapping[str, Any]:
        return {"fault": f"{stream} of {key} at {offset}: tasks in memory write nothing"}

    async def attend(self) -> None:
        await asyncio.Event().wait()

    def _end(self, key: Key, why: str | None) -> None:
        self._drop(key)
        self._over[key] = Ending(key, 0 if why is None else 143, why or "")
        self.changed.set()

    def _drop(self, key: Key) -> None:
        self._timers.pop(key).cancel()
        del self.running[key]
