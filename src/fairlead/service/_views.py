"""Descriptions of users and servers, as the API shows them."""

from __future__ import annotations

from itertools import islice
from typing import Any

from fairlead.service._state_thread import Transaction
from fairlead.service.jobs import Server
from fairlead.service.journal.tokens import Caller
from fairlead.service.service_state import ServiceState

TASKS_OF_SERVER = 100  # listed tasks of a server


def user_views(tx: Transaction) -> list[dict[str, Any]]:
    """Describe all users, each as a `UserView`."""
    return [user_view(tx.state, name) for name in tx.state.users]


def user_view(state: ServiceState, name: str) -> dict[str, Any]:
    user = state.users[name]
    return {
        "name": name,
        "weight": user.weight,
        "queue": state.queue_of.get(name),
        "pending": user.pending,
        "running": user.running,
    }


def server_views(tx: Transaction) -> list[dict[str, Any]]:
    """Describe all servers, including gone drained ones, each as a `ServerView`."""
    nothing: dict[str, Any] = {"capacity": {}, "used": {}, "gpus": {}, "labels": {}, "tasks": 0}
    views = [server_view(server) for server in tx.state.servers.values()]
    return views + [{"name": n, "state": "gone", **nothing} for n in tx.state.drained]


def server_view(server: Server) -> dict[str, Any]:
    """Describe a server as a `ServerView`."""
    used = dict.fromkeys(server.capacity, 0.0)
    gpus: dict[str, float] = {}
    started = [run for run in server.running.values() if not run.awaits]
    for run in started:
        for number in map(str, run.devices):
            gpus[number] = gpus.get(number, 0.0) + min(run.demand["gpu"], 1.0)
        for resource, amount in run.demand.items():
            used[resource] = used.get(resource, 0.0) + amount
    view = {"name": server.name, "state": server.state, "capacity": server.capacity}
    view |= {"gpus": dict(sorted(gpus.items(), key=lambda part: int(part[0])))}
    return view | {"used": used, "labels": server.labels, "tasks": len(started)}


def server_with_tasks(server: Server, caller: Caller) -> dict[str, Any]:
    """Describe a server and its first tasks, as far as the caller may see them."""
    view, rows = server_view(server), []
    for run in islice(server.running.values(), TASKS_OF_SERVER):
        job = run.job_group.job
        row: dict[str, Any] = {"user": job.user, "demand": run.demand, "since": run.since}
        row["devices"] = list(run.devices)
        if caller.role == "admin" or job.user == caller.subject:
            row |= {"job": str(job.id), "index": run.key.index, "name": job.name}
        rows.append(row)
    return view | {"running": rows}
