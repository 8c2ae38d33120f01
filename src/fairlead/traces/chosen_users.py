"""Change the users of a trace: leave some out, or change their weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from fairlead.errors import InputError
from fairlead.formats.file_faults import did_you_mean
from fairlead.formats.weights_file import read_weights
from fairlead.model.workload import Workload, excerpt
from fairlead.model.workload_checks import check_weights

USERS_NAMED = 5  # users listed in a note


def without_users(workload: Workload, names: Sequence[str]) -> Workload:
    """Return the workload without some users and their jobs.

    Raises InputError for an unknown user, or when no job is left. O(jobs + sets + tasks).
    """
    left_out = np.zeros(workload.n_users, dtype=bool)
    for name in names:
        left_out[_index_of(name, workload.users, "--exclude")] = True
    kept = np.flatnonzero(~left_out)
    is_kept_set = ~left_out[workload.job_user[workload.set_job]]
    if not is_kept_set.any():
        raise InputError("leaves no job", "--exclude")
    rest = excerpt(workload, is_kept_set, np.ones(workload.n_servers, dtype=bool)).workload
    position = np.cumsum(~left_out) - 1
    users = tuple(workload.users[n] for n in kept)
    names_left_out = {workload.users[n] for n in np.flatnonzero(left_out)}
    queues = workload.queues
    return replace(
        rest,
        users=users,
        weight=workload.weight[kept],
        job_user=position[rest.job_user].astype(np.int32),
        queues=None if queues is None else queues.select_users(kept),
        limits={
            name: limit for name, limit in workload.limits.items() if name not in names_left_out
        },
        quotas={
            name: quota for name, quota in workload.quotas.items() if name not in names_left_out
        },
    )


def with_weights(workload: Workload, path: Path) -> Workload:
    """Return the workload with the weights of a YAML or JSON file, such as ``{ana: 2, bo: 0.5}``.

    Users that the file does not name keep their weights. A note counts named users that the trace
    does not have. Raises InputError for an unreadable file or an invalid weight.
    """
    weight = workload.weight.copy()
    weights = read_weights(path)
    absent = [name for name in weights if name not in workload.users]
    notes = dict(workload.notes)
    if absent:
        names = f"{', '.join(absent[:USERS_NAMED])}{', ...' if len(absent) > USERS_NAMED else ''}"
        notes[f"weights of users without a job in the trace ({names})"] = len(absent)
    try:
        for name in weights.keys() - set(absent):
            weight[workload.users.index(name)] = weights[name]
        checked = check_weights(weight, workload.n_users)
        return replace(workload, weight=checked, notes=notes)
    except InputError as error:
        raise InputError(error.fault, error.place, str(path)) from None


def _index_of(name: str, users: Sequence[str], place: str) -> int:
    if name not in users:
        fault = f"there is no user {name!r:.60} in the trace{did_you_mean(name, users)}"
        raise InputError(fault, place)
    return users.index(name)
