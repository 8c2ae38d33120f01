"""A trace without some users, or with other weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from fairlead.errors import InputError, ProblemError
from fairlead.formats.documents import read_document
from fairlead.formats.file_faults import did_you_mean, keyed_by_text, number_at
from fairlead.model.workload import Workload, excerpt
from fairlead.model.workload_checks import check_weights


def without_users(workload: Workload, names: Sequence[str]) -> Workload:
    """Return the workload without some users and their jobs.

    Raises InputError for an unknown user, or when no job is left. O(J + K + T).
    """
    left_out = np.zeros(workload.n_users, dtype=bool)
    for name in names:
        left_out[_position(name, workload.users, "--exclude")] = True
    kept = np.flatnonzero(~left_out)
    sets = ~left_out[workload.job_user[workload.set_job]]
    if not sets.any():
        raise InputError("leaves no job", "--exclude")
    part = excerpt(workload, sets, np.ones(workload.n_servers, dtype=bool)).workload
    position = np.cumsum(~left_out) - 1
    users = tuple(workload.users[n] for n in kept)
    gone = {workload.users[n] for n in np.flatnonzero(left_out)}
    queues = workload.queues
    return replace(
        part,
        users=users,
        weight=workload.weight[kept],
        job_user=position[part.job_user].astype(np.int32),
        queues=None if queues is None else queues.of_users(kept),
        limits={name: limit for name, limit in workload.limits.items() if name not in gone},
        quotas={name: quota for name, quota in workload.quotas.items() if name not in gone},
    )


def with_weights(workload: Workload, path: Path) -> Workload:
    """Return the workload with the weights of a YAML or JSON file, ``{ana: 2, bo: 0.5}``.

    Users that it does not name keep theirs. Raises InputError for an unusable file.
    """
    source = str(path)
    try:
        found = read_document(path)
        if not isinstance(found, dict):
            raise InputError("must be a mapping of users to weights")
        weight = workload.weight.copy()
        for name, value in keyed_by_text(found, "weights").items():
            number = number_at(value, name)
            if number < 0:
                raise InputError(f"must be a number from 0, not {number:g}", name)
            weight[_position(name, workload.users, name)] = number
        return replace(workload, weight=check_weights(weight, workload.n_users))
    except (InputError, ProblemError) as error:
        raise InputError(error.fault, error.place, source) from None


def _position(name: str, users: Sequence[str], place: str) -> int:
    if name not in users:
        fault = f"there is no user {name!r:.60} in the trace{did_you_mean(name, users)}"
        raise InputError(fault, place)
    return users.index(name)
