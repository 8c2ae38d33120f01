"""The events and specs of submitted and modified jobs, from the requests for them."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from fairlead.errors import InputError
from fairlead.service.jobs import Job
from fairlead.service.journal.tokens import Caller
from fairlead.service.messages import DeniedError, JobChange, JobRequest
from fairlead.service.run_times import command_name
from fairlead.service.service_state import RESOURCES

# Fields of a request that are sent to the worker, and those copied into the event `submit`.
SPEC_FIELDS = {"command", "name", "directory", "environment", "tasks", "checkpoint_signal"}
EVENT_FIELDS = {"name", "checkpoint_signal", "at_most", "notify"}


def event_and_spec(request: JobRequest, caller: Caller) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the event that submits a job, without `after`, and the spec for the journal."""
    user = request.user or (caller.subject if caller.role == "user" else None)
    if user is None:
        raise InputError("must be given, because the token belongs to no user", "user")
    if caller.role == "user" and user != caller.subject:
        raise DeniedError(f"you are {caller.subject!r}, and may not submit for {user!r}")
    spec = request.model_dump(include=SPEC_FIELDS) | {"user": user}
    event = {
        "user": user,
        **_amounts(request),
        "where": request.where,
        "priority": request.priority,
        "time_limit": request.time_limit,
        "program": command_name(request.command),
        **request.model_dump(include=EVENT_FIELDS, exclude_defaults=True),
    }
    event["size"] = len(to_json(spec)) + len(to_json(event))
    return event, spec


def _amounts(request: JobRequest) -> dict[str, Any]:
    """Return the demand and tasks in the event of a submission.

    The demand of a gang of unlike tasks has the largest amount of each resource.
    """
    if not request.bundles:
        is_gang = request.gang and request.tasks > 1
        return {"demand": request.demand(), "tasks": request.tasks, "gang": is_gang}
    members = [(bundle.demand(), bundle.tasks) for bundle in request.bundles]
    largest = {r: max(demand.get(r, 0.0) for demand, _ in members) for d, _ in members for r in d}
    return {"demand": largest, "tasks": request.tasks_of_all, "gang": True, "members": members}


def changes_of(job: Job, request: JobChange) -> dict[str, Any]:
    """Return the changed fields of a job; raise `InputError` if there are none."""
    given = request.model_dump(exclude_none=True)
    changes: dict[str, Any] = {
        name: given[name] for name in ("where", "priority", "time_limit") if name in given
    }
    if request.anywhere:
        changes["where"] = None
    if request.unlimited:
        changes["time_limit"] = None
    if amounts := {r: given[r] for r in RESOURCES if r in given}:
        changes["demand"] = job.demand | amounts
    if not changes:
        raise InputError("nothing to change was given")
    return changes
