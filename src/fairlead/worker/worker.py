"""The worker's loop: it hears what to do, runs it, and tells how it ended until it was heard."""

from __future__ import annotations

import asyncio
import base64
import fcntl
import logging
import os
import secrets
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep, time
from typing import Any

import httpx

from fairlead.errors import InputError
from fairlead.service.client import settings_of
from fairlead.worker.accounts import Account, Accounts
from fairlead.worker.attempts import Attempt

LOG = logging.getLogger("fairlead.worker")
GIB = 2**30
LOOK_SECONDS = 0.1
MEMORY_SECONDS = 1.0
CLEAN_SECONDS = 60.0
LONGEST_PAUSE = 5.0
PIECE = 2**18  # bytes of output at once
LARGEST_OUTPUT = 64 * 2**20
OUTPUT_AGE = 7 * 86400.0
OTHER_TIME = 30.0  # seconds for a request beyond its wait
KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH")
STREAMS = ("stdout", "stderr")
REFUSED = (401, 403, 404, 421, 422)
Key = tuple[int, int, int]


@dataclass(frozen=True)
class Declaration:
    """What a worker says of its machine."""

    name: str
    cpu: float
    memory: float
    devices: tuple[int, ...]
    labels: Mapping[str, str] = field(default_factory=dict)


class Worker:
    """Runs tasks on this machine.

    Parameters
    ----------
    url, token : str
        The service, and what lets this worker in.
    server : Declaration
    state : Path
        A folder of its own, kept over restarts.
    accounts : Accounts
    largest_output, output_age : float
        Bytes of a stream, and seconds, for which output is kept.

    Raises
    ------
    InputError
        When another worker has the folder, or it cannot be written.
    """

    def __init__(
        self,
        url: str,
        token: str,
        server: Declaration,
        state: Path,
        accounts: Accounts,
        largest_output: float = LARGEST_OUTPUT,
        output_age: float = OUTPUT_AGE,
    ) -> None:
        self.server, self.accounts = server, accounts
        self.largest_output, self.output_age = int(largest_output), output_age
        self._root = state / "attempts"
        try:
            self._root.mkdir(parents=True, exist_ok=True, mode=0o711)
            self._lock = os.open(state / "lock", os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.identity = _identity(state / "identity")
        except BlockingIOError:
            raise InputError("another worker uses this folder", "", str(state)) from None
        except OSError as fault:
            raise InputError(fault.strerror or str(fault), "", str(state)) from None
        self._client = httpx.AsyncClient(**settings_of(url, token) | {"timeout": OTHER_TIME})
        self._session, self._wait, self._seen = "", 0.0, 0
        self._failures = 0
        self._joined = asyncio.Event()
        self._ended = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self._attempts: dict[Key, Attempt] = {}
        for path in sorted(self._root.iterdir()):
            if path.name.startswith("."):
                shutil.rmtree(path, ignore_errors=True)
            elif (attempt := Attempt.found(path)) is not None:
                self._attempts[attempt.key] = attempt
        LOG.info("%d attempts from before", len(self._attempts))

    async def run(self) -> None:
        """Work until cancelled; tasks go on then.

        Raises
        ------
        InputError
            When the service refuses this worker.
        """
        async with self._client, asyncio.TaskGroup() as group:
            group.create_task(self._hear())
            group.create_task(self._report())
            group.create_task(self._look())
            group.create_task(self._watch_memory())
            group.create_task(self._clean())

    # What is said between worker and service

    async def _hear(self) -> None:
        """Join, and hear what is to do, for ever."""
        while True:
            if not self._session:
                await self._join()
            orders = await self._post(
                "/v1/workers/sync",
                {"session": self._session, "seen": self._seen, "wait": self._wait},
            )
            if orders is not None:
                await self._carry_out(orders)

    async def _report(self) -> None:
        """Tell how tasks ended, again and again until it was heard."""
        while True:
            await self._ended.wait()
            await self._joined.wait()
            self._ended.clear()
            over = [a for a in self._attempts.values() if a.outcome and not a.is_reported]
            if not over:
                continue
            ended = [[*a.key, a.outcome.status, a.outcome.reason] for a in over if a.outcome]
            body = {"session": self._session, "seen": self._seen, "ended": ended}
            orders = await self._post("/v1/workers/sync", body)
            if orders is None:
                self._ended.set()
                continue
            for attempt in over:
                attempt.note_reported()
            await self._carry_out(orders)

    async def _join(self) -> None:
        """Come to the service, or come back; end what it knows nothing of."""
        body = {
            "identity": self.identity,
            "servers": [
                {
                    "name": self.server.name,
                    "cpu": self.server.cpu,
                    "memory": self.server.memory,
                    "gpu": len(self.server.devices),
                    "labels": dict(self.server.labels),
                }
            ],
        }
        answer = None
        while answer is None:
            answer = await self._post("/v1/workers/join", body)
        mine = {tuple(key) for _, key in answer["tasks"]}
        for key, attempt in self._attempts.items():
            if key not in mine and attempt.look() is None:
                attempt.stop("the service gave it up")
            if key not in mine and attempt.outcome is not None and not attempt.is_reported:
                attempt.note_reported()
        self._session, self._wait, self._seen = answer["session"], answer["wait"], 0
        self._joined.set()
        self._ended.set()
        LOG.info("joined as %s, %d tasks here", self.server.name, len(mine))

    async def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return what the service answers, or None, after a pause, where it does not."""
        try:
            wait = OTHER_TIME + float(body.get("wait", 0.0))
            answer = await self._client.post(path, json=body, timeout=wait)
        except httpx.HTTPError as fault:
            LOG.warning("no answer from %s: %r", self._client.base_url, fault)
            await self._pause()
            return None
        if answer.status_code == 409:
            if self._session == body.get("session"):
                self._session = ""
                self._joined.clear()
            return None
        if answer.is_success:
            self._failures = 0
            return answer.json() if answer.content else None
        detail = _detail(answer)
        is_final = answer.status_code in REFUSED and "held by another" not in detail
        if is_final and path.endswith("join"):
            raise InputError(detail, "", str(self._client.base_url))
        LOG.warning("%s: %s", answer.status_code, detail)
        await self._pause()
        return None

    async def _pause(self) -> None:
        self._failures += 1
        longest = min(LONGEST_PAUSE, 0.1 * 2.0 ** min(self._failures, 10))
        await asyncio.sleep(longest * (0.5 + secrets.randbelow(500) / 1000))

    # What is done

    async def _carry_out(self, orders: Mapping[str, Any]) -> None:
        async with self._one_at_a_time:  # the same order may be in two answers
            await self._do(orders)

    async def _do(self, orders: Mapping[str, Any]) -> None:
        for _, (job, index, attempt), demand, limit in orders["start"]:
            key = (job, index, attempt)
            if key not in self._attempts:
                spec = orders["jobs"].get(str(job))
                await asyncio.to_thread(self._start, key, spec, demand, limit)
                if self._attempts[key].outcome is not None:  # it could not start
                    self._ended.set()
        for _, (job, index, attempt), why in orders["stop"]:
            key = (job, index, attempt)
            if key in self._attempts:
                self._attempts[key].stop(why)
        self._seen = max(self._seen, orders["seen"])
        for name, _, key, stream, offset in orders["logs"]:
            piece = await asyncio.to_thread(self._piece, tuple(key), stream, offset)
            body = {"session": self._session, "request": name, **piece}
            await self._post("/v1/workers/logs", body)

    def _start(
        self,
        key: Key,
        spec: Mapping[str, Any] | None,
        demand: Mapping[str, float],
        limit: float | None,
    ) -> None:
        """Run a task that has not been run under this attempt."""
        account, fault = None, "" if spec is not None else "the service does not know the job"
        spec = spec or {}
        try:
            account = self.accounts.of(spec.get("user", ""))
        except InputError as error:
            fault = str(error)
        devices = self._free_devices(int(demand.get("gpu", 0)))
        memory = float(demand.get("memory", 0.0)) * GIB
        try:
            attempt = Attempt.make(self._root, key, devices, limit, memory, account)
        except OSError as error:
            why = f"cannot be started on {self.server.name}: {error.strerror}"
            LOG.error("%s %s", ".".join(map(str, key)), why)
            sleep(LONGEST_PAUSE)  # it runs again, maybe here
            self._attempts[key] = Attempt.failed(self._root, key, why)
            return
        self._attempts[key] = attempt
        if fault:
            attempt.refuse(fault)
        else:
            environment = self._environment(key, spec, devices, account)
            directory = spec.get("directory") or environment.get("HOME", "/")
            attempt.start(spec["command"], directory, environment, account)

    def _environment(
        self, key: Key, spec: Mapping[str, Any], devices: list[int], account: Account | None
    ) -> dict[str, str]:
        environment = {name: os.environ[name] for name in KEPT if name in os.environ}
        environment["HOME"] = os.environ.get("HOME", "/")
        environment |= spec["environment"]
        if account is not None:
            environment |= {"HOME": account.home, "USER": account.name, "LOGNAME": account.name}
        job, index, attempt = key
        numbers = {
            "FAIRLEAD_JOB": job,
            "FAIRLEAD_INDEX": index,
            "FAIRLEAD_ATTEMPT": attempt,
            "FAIRLEAD_TASKS": spec["tasks"],
            "FAIRLEAD_NODE": self.server.name,
            "FAIRLEAD_USER": spec["user"],
            "CUDA_VISIBLE_DEVICES": ",".join(map(str, devices)),
        }
        environment |= {name: str(value) for name, value in numbers.items()}
        environment.pop("FAIRLEAD_TOKEN", None)
        return environment

    def _free_devices(self, wanted: int) -> list[int]:
        """Return devices that no task has; the service never asks for more than there are."""
        held = {d for a in self._attempts.values() if a.outcome is None for d in a.devices}
        return [d for d in self.server.devices if d not in held][:wanted]

    async def _look(self) -> None:
        """Notice tasks that ended, and end those that are over a limit of theirs."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for attempt in list(self._attempts.values()):
                if attempt.outcome is None and attempt.look() is not None:
                    self._ended.set()

    async def _watch_memory(self) -> None:
        while True:
            await asyncio.sleep(MEMORY_SECONDS)
            for attempt in list(self._attempts.values()):
                if attempt.outcome is None and attempt.memory:
                    await asyncio.to_thread(attempt.enforce_memory)

    # Output

    def _piece(self, key: Key, stream: str, offset: int) -> dict[str, Any]:
        """Return a piece of what a task wrote."""
        attempt = self._attempts.get(key)
        if attempt is None or stream not in STREAMS:
            return {"fault": "the output is no longer kept"}
        is_over, size, data = attempt.outcome is not None, 0, b""
        file = attempt.output(stream)
        if file is not None:
            try:
                with file:
                    size = file.seek(0, os.SEEK_END)
                    file.seek(min(offset, size))
                    data = file.read(PIECE)
            except OSError as fault:
                return {"fault": fault.strerror or str(fault)}
        return {
            "data": base64.b64encode(data).decode("ascii"),
            "size": size,
            "is_over": is_over and offset + len(data) >= size,
        }

    async def _clean(self) -> None:
        """Drop output that is old, or the older part of what is too much."""
        while True:
            await asyncio.to_thread(self._clean_now)
            await asyncio.sleep(CLEAN_SECONDS)

    def _clean_now(self) -> None:
        for key, attempt in list(self._attempts.items()):
            if attempt.outcome is not None and attempt.is_reported:
                with suppress(OSError):
                    if time() - (attempt.path / "reported").stat().st_mtime > self.output_age:
                        shutil.rmtree(attempt.path, ignore_errors=True)
                        del self._attempts[key]
                        continue
            for stream in STREAMS:
                attempt.forget_front(stream, self.largest_output)


def _identity(path: Path) -> str:
    if not path.exists():
        new = path.with_suffix(".new")
        new.write_text(secrets.token_hex(16), encoding="ascii")
        new.rename(path)
    return path.read_text(encoding="ascii").strip()


def _detail(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return f"status {answer.status_code}"
