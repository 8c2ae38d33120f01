"""What is to be replayed: a policy, maybe with something changed, or alone on dedicated servers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from fairlead.errors import InputError
from fairlead.model.run_log import RECORDED
from fairlead.model.workload import Workload
from fairlead.scheduler.policies import parse_policy
from fairlead.source_digest import digest_of_sources

DEDICATED = "dedicated"


@dataclass(frozen=True)
class PlannedRun:
    """A policy, and on what it is tried.

    Attributes
    ----------
    policy : str
        Such as ``drf/best-fit``; or ``recorded``, what the trace says happened.
    what_if : str
        What is changed before (`fairlead.traces.what_if.change_workload`); nothing if empty.
    dedicated : bool
        Whether each user is alone on its own part of the servers.
    """

    policy: str
    what_if: str = ""
    dedicated: bool = False

    @property
    def name(self) -> str:
        """The policy, and what is special: ``drf/best-fit, weight:ana=3``."""
        special = DEDICATED if self.dedicated else self.what_if
        return f"{self.policy}, {special}" if special else self.policy


def plan_runs(
    policies: Sequence[str], what_if: Sequence[str] = (), dedicated: bool = False
) -> tuple[PlannedRun, ...]:
    """Return what to run: every policy, then the first one with each change, then dedicated.

    What is ``recorded`` cannot run again; the first of the others does. What is named twice runs
    once.

    Raises
    ------
    InputError
        When no policy is named, or one is not known; or a change or dedicated servers are asked for
        and no policy that is replayed.
    RefusalError
        When the parts of a policy have no meaning together.
    """
    names = list(dict.fromkeys(policy_name(policy) for policy in policies))
    if not names:
        raise InputError("name at least one policy, such as drf/best-fit", "policies")
    first = next((name for name in names if name != RECORDED), "")
    for asked, option in ((what_if, "what-if"), (dedicated, "dedicated")):
        if asked and not first:
            fault = f"what is {RECORDED} cannot run again: name a policy such as drf/best-fit, too"
            raise InputError(fault, option)
    return (
        *(PlannedRun(name) for name in names),
        *(PlannedRun(first, what_if=change) for change in dict.fromkeys(what_if)),
        *([PlannedRun(first, dedicated=True)] if dedicated else []),
    )


def policy_name(policy: str) -> str:
    """Return the name that a policy goes by; as `parse_policy`, and ``recorded`` is one, too."""
    if policy == RECORDED:
        return policy
    try:
        return parse_policy(policy).name
    except InputError as error:
        if error.fault.startswith("no policy is named"):
            known = f"{error.fault}; or {RECORDED}, what the trace says happened"
            raise InputError(known, error.place) from None
        raise


def workload_digest(workload: Workload) -> str:
    """Return a digest of all in a workload that is not only for people; a gigabyte a second."""
    cluster, digest = workload.cluster, blake2b(digest_size=16)
    # Arrays of names are as wide as the longest has ever been: as texts equal ones are equal.
    names = [cluster.groups, cluster.resources, workload.users, workload.job_names.tolist()]
    digest.update(json.dumps(names).encode())
    arrays = {name: value for name, value in vars(workload).items() if name in _ARRAYS}
    arrays |= {"capacity": cluster.capacity, "count": cluster.count}
    for name in sorted(arrays):
        values = arrays[name]
        digest.update(f"{name} {values.shape} {values.dtype} ".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def fingerprint(workload_digest: str, run: PlannedRun, *, seed: int, strict_fifo: bool) -> str:
    """Return what tells a finished run from one that would be another.

    The digest is of the workload before it is changed. Equal only for equal workloads, policies,
    changes, options and sources of this package.
    """
    said = [digest_of_sources(), workload_digest, run.name, seed, strict_fifo]
    return blake2b(json.dumps(said).encode(), digest_size=16).hexdigest()


_ARRAYS = frozenset(
    (
        "weight",
        "job_user",
        "job_submit",
        "job_gang",
        "job_cancel",
        "job_limit",
        "set_job",
        "set_shape",
        "set_place",
        "set_tasks",
        "shapes",
        "places",
        "task_duration",
        "task_start",
        "task_server",
        "server_time",
        "server_event",
        "server",
    )
)
