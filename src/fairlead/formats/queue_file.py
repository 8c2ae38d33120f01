"""Read files of a tree of queues, for `simulate` and `serve`, and files of weights.

YAML or JSON, version 1::

    fairlead: 1
    queues: [{name: physics, weight: 2}, {name: theory, parent: physics}]
    users: {ana: theory, bo: physics}
    limits: {physics: {gpu: 4}, ana: {gpu: 2, tasks: 10}}
    quotas: {physics: {gpu: 3}, bo: [{gpu: 2}, {gpu: 1, where: {type: a100}}]}

Users that the file does not name are siblings of the topmost queues. A limit of a queue or user
bounds the amounts that its running tasks hold, the number of these tasks (``tasks``), or the number
of its waiting and running jobs (``jobs``). Quotas are guaranteed amounts, on all servers or on
servers chosen by label or name.

A file of weights is a mapping of users to numbers: ``{ana: 2, bo: 0.5}``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairlead.errors import InputError
from fairlead.formats._problem_rows import check_version
from fairlead.formats.documents import read_document, source_name
from fairlead.formats.file_faults import did_you_mean, keyed_by_text, short
from fairlead.model.arguments import file_name
from fairlead.model.quantity import number_at, show
from fairlead.model.queues import Limits, Parents, Queues, parents_of, read_limits, read_queues
from fairlead.model.quotas import Quotas, check_quotas, read_quotas

LOG = logging.getLogger("fairlead.queues")
MOST_COMPARED = 100  # unlisted names, as each is compared with all queues
KEYS = ("fairlead", "queues", "users", "limits", "quotas")


@dataclass(frozen=True)
class QueueFile:
    """A checked tree of queues, and the users that the file places in it."""

    rows: list[dict[str, Any]]  # the queues, as for `read_queues`
    queue_of: dict[str, str]  # queue by user, for the users that the file puts into a queue
    limits: Limits = field(default_factory=dict)
    quotas: Quotas = field(default_factory=dict)

    @property
    def parents(self) -> Parents:
        """The parent of each queue, and of each user that the file puts into a queue."""
        return parents_of(self.rows, self.queue_of)

    def to_dict(self, users: Sequence[str]) -> dict[str, Any]:
        """Check the tree with the users of a service, as `of` does, and return its plain values."""
        self.of(users)
        tree = {"rows": self.rows, "users": self.queue_of, "limits": self.limits}
        return tree | ({"quotas": self.quotas} if self.quotas else {})

    def of(self, users: Sequence[str]) -> Queues | None:
        """Return the tree with these users in it; None if the file has no queues.

        Raises ProblemError if a user has the name of a queue, or if quotas contradict each other or
        the limits.
        """
        tree = read_queues(self.rows, [self.queue_of.get(user) for user in users], users)
        check_quotas(self.quotas, self.parents, self.limits)
        return tree if self.rows else None


def load_queues(path: str | Path) -> QueueFile:
    """Read a file of queues; raise InputError with file, key path and fault.

    Logs a warning for limits and quotas of an unlisted name that is similar to a queue's.
    """
    file_name(path, "path")
    try:
        document = read_document(path)
        if not isinstance(document, Mapping):
            raise InputError(f"must be one mapping with queues, not {show(document)}")
        for key in document:
            if key not in KEYS:
                raise InputError(f"unknown key{did_you_mean(key, KEYS)}", short(key))
        if "fairlead" not in document:
            raise InputError("the key 'fairlead' is missing")
        check_version(document["fairlead"])
        rows, users = document.get("queues", []), document.get("users", {})
        limits = read_limits(document.get("limits", {}))
        quotas = read_quotas(document.get("quotas", {}))
        if not isinstance(rows, list):
            raise InputError(f"must be a list, not {show(rows)}", "queues")
        if not isinstance(users, Mapping):
            raise InputError(f"must be a mapping of users to queues, not {show(users)}", "users")
        named = keyed_by_text(users, "users")
        queues = read_queues(rows, list(named.values()), list(named))
        check_quotas(quotas, queues.parents(list(named)), limits)
    except InputError as error:
        raise error.within(source_name(path)) from None
    _warn_of_misspelled({"limits": limits, "quotas": quotas}, queues.names, named, str(path))
    queue_of = zip(named, queues.user_queue(), strict=True)
    users_in_queues = {user: name for user, name in queue_of if name is not None}
    return QueueFile(queues.rows(), users_in_queues, limits, quotas)


def _warn_of_misspelled(
    sections: Mapping[str, Mapping[str, object]],
    queues: Sequence[str],
    users: Mapping[str, object],
    source: str,
) -> None:
    """Log a warning for a name that is not listed, but similar to the name of a queue.

    Users need not be listed, so this is no error.
    """
    listed = {*queues, *users}
    for section, rows in sections.items():
        for name in [name for name in rows if name not in listed][:MOST_COMPARED]:
            hint = did_you_mean(name, queues)
            if hint:
                fault = f"the file lists no such queue or user{hint}"
                LOG.warning("%s: %s.%s: %s", source, section, short(name), fault)


def read_weights(path: Path) -> dict[str, float]:
    """Read the weights of users by name; raise InputError for an unusable file."""
    try:
        found = read_document(path)
        if not isinstance(found, dict):
            raise InputError("must be a mapping of users to weights, such as {ana: 2}")
        named = keyed_by_text(found, "weights")
        return {name: number_at(value, name) for name, value in named.items()}
    except InputError as error:
        raise error.within(source_name(path)) from None
