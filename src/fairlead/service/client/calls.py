"""Requests of clients to the API, each with its path and its body."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from re import fullmatch
from typing import NamedTuple
from urllib.parse import quote, urlencode

from fairlead.errors import InputError
from fairlead.service.bounds import JOB_ID, MOST_JOBS, NAME

MOST_BYTES = 8 * 2**20  # of the jobs in one request
Row = Mapping[str, object]


class Call(NamedTuple):
    """A request to the API."""

    method: str
    target: str
    body: str = ""  # JSON, or empty
    key: str = ""  # the idempotency key of a request that changes something

    @property
    def headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json"} if self.body else {}
        return headers | ({"Idempotency-Key": self.key} if self.key else {})


USERS = Call("GET", "/v1/users")
SERVERS = Call("GET", "/v1/servers")
SHARES = Call("GET", "/v1/shares")
HISTORY = Call("GET", "/v1/history")


def shares_over(seconds: float) -> Call:
    return Call("GET", f"/v1/shares/over?{urlencode({'seconds': seconds})}")


def submit(jobs: Sequence[Row]) -> Call:
    """Return the request to submit jobs; raise `InputError` if they are too many for one."""
    body = json.dumps({"jobs": jobs})
    if len(jobs) > MOST_JOBS or len(body) > MOST_BYTES:
        most = f"at most {MOST_JOBS:,} jobs and {MOST_BYTES:,} bytes"
        raise InputError(f"{len(jobs):,} jobs of {len(body):,} bytes; {most} are submitted at once")
    return _change("POST", "/v1/jobs", body)


def list_jobs(user: str | None, is_all: bool, beyond: str = "0", limit: int | None = None) -> Call:
    """Return the request for live jobs with ids above `beyond`, and if `is_all` for ended ones."""
    query = {"all": "true" if is_all else "false", "beyond": beyond}
    chosen = {"user": user, "limit": limit}
    query |= {name: str(value) for name, value in chosen.items() if value is not None}
    return Call("GET", f"/v1/jobs?{urlencode(query)}")


def job(job: str) -> Call:
    return Call("GET", _job_path(job))


def wait(job: str, seconds: float) -> Call:
    return Call("GET", f"{_job_path(job)}/wait?seconds={seconds}")


def explain(job: str) -> Call:
    return Call("GET", f"{_job_path(job)}/explain")


def when(job: str) -> Call:
    return Call("GET", f"{_job_path(job)}/when")


def act_on_job(job: str, action: str) -> Call:
    return _change("POST", f"{_job_path(job)}/{action}")


def skip(job: str, tasks: Sequence[int]) -> Call:
    """Return the request to count tasks as done; no key, as a repetition changes nothing."""
    return Call("POST", f"{_job_path(job)}/skip", json.dumps({"tasks": tasks}))


def interrupt(job: str) -> Call:
    return _change("POST", f"{_job_path(job)}/cancel?interrupt=true")


def modify(job: str, change: Row) -> Call:
    return _change("PATCH", _job_path(job), json.dumps(change))


def logs(job: str, stream: str, index: int, attempt: int | None, offset: int) -> Call:
    query: dict[str, str | int] = {"stream": stream, "index": index, "offset": offset}
    if attempt is not None:
        query["attempt"] = attempt
    return Call("GET", f"{_job_path(job)}/logs?{urlencode(query)}")


def what_if(changes: Row) -> Call:
    return Call("POST", "/v1/what-if", json.dumps(changes))


def set_user(name: str, weight: float) -> Call:
    return _change("PUT", f"/v1/users/{_quoted(name)}", json.dumps({"weight": weight}))


def drain(name: str) -> Call:
    return _change("POST", f"/v1/servers/{_quoted(name)}/drain")


def undrain(name: str) -> Call:
    return _change("POST", f"/v1/servers/{_quoted(name)}/undrain")


def remove(name: str) -> Call:
    return _change("DELETE", f"/v1/servers/{_quoted(name)}")


def _change(method: str, target: str, body: str = "") -> Call:
    """Return a request that changes something, with a new idempotency key."""
    return Call(method, target, body, key=os.urandom(16).hex())


def _job_path(job: str) -> str:
    if not (isinstance(job, str) and fullmatch(JOB_ID, job)):
        raise InputError(f"{job!r:.60} is not a job's id", "JOB")
    return f"/v1/jobs/{job}"


def _quoted(text: str) -> str:
    if not isinstance(text, str):
        raise InputError(f"must be text, not {text!r:.60}", "name or id")
    if not fullmatch(NAME, text) or text in (".", ".."):
        raise InputError(f"{text!r:.60} is not a valid name of a user or server")
    return quote(text, safe="")
