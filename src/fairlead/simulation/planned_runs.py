"""Planned runs of policies, and the folder of finished runs, so that no run is repeated."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from importlib.metadata import entry_points
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

import numpy as np

from fairlead.errors import FairleadError, InputError
from fairlead.formats.atomic_files import writing_faults
from fairlead.formats.file_faults import did_you_mean
from fairlead.formats.run_log_file import read_fingerprint
from fairlead.model.arguments import several, text
from fairlead.model.run_log import RECORDED
from fairlead.model.workload import Workload
from fairlead.scheduler.own_rules import Rule
from fairlead.scheduler.policies import PREEMPTION, OwnPolicy, Policy, parse_policy
from fairlead.source_digest import digest_of_sources

GROUP = "fairlead.policies"  # group of entry points; each names a rule of another package
_PLAIN = re.compile(r"[\w.=+-]+", re.ASCII)  # characters that file names may have


class NamedRule(NamedTuple):
    """A user-defined rule, and the name of its policy."""

    name: str
    rule: Rule


Policies = str | Rule | Sequence[str | Rule | NamedRule] | Mapping[str, Rule]


@dataclass(frozen=True)
class PlannedRun:
    """A policy, and the change of the workload under which it runs."""

    policy: str  # such as ``drf/best-fit``; or ``recorded``, the run that the trace records
    what_if: str = ""  # change of the workload, if any, for `change_workload`
    dedicated: bool = False  # whether each user is alone on its own part of the servers
    rule: Rule | None = None  # of a user-defined policy

    @property
    def chosen(self) -> str | Policy:
        """The policy as `replay` takes it."""
        return self.policy if self.rule is None else OwnPolicy(self.policy, self.rule)

    @property
    def name(self) -> str:
        """The policy and the change, such as ``drf/best-fit, weight:ana=3``."""
        special = "dedicated" if self.dedicated else self.what_if
        return f"{self.policy}, {special}" if special else self.policy

    def path(self, folder: Path) -> Path:
        """Return the log's file, ``drf_best-fit.parquet``; with a digest if names could clash."""
        plain = self.name.replace(", ", "_").replace("/", "_").replace(":", "_")
        if self.what_if or not _PLAIN.fullmatch(plain):
            readable = "".join(_PLAIN.findall(plain))[:60]
            digest = blake2b(self.name.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
            plain = f"{readable}_{digest}"
        return folder / f"{plain}.parquet"


def policies_of(policies: Any) -> tuple[str | NamedRule, ...]:
    """Return policies as names and named rules; raise InputError for anything else.

    A rule without a given name has the name of its function. A mapping, also as an item of a
    sequence, maps names to rules.
    """
    if isinstance(policies, str | Mapping) or callable(policies):
        policies = [policies]
    entries: list[Any] = []
    for entry in several(policies, "policies"):
        if isinstance(entry, Mapping):
            entries += [NamedRule(text(name, "policies"), rule) for name, rule in entry.items()]
        else:
            entries.append(entry)
    found: list[str | NamedRule] = []
    for k, given in enumerate(entries):
        each = NamedRule(getattr(given, "__name__", ""), given) if callable(given) else given
        if isinstance(each, NamedRule):
            if not each.name and not isinstance(given, NamedRule):
                fault = f'has no name: pass {{"name": rule}}, not {given!r:.60}'
                raise InputError(fault, f"policies[{k}]")
            _check_rule(each)
        else:
            each = _find_policy(text(each, f"policies[{k}]"))
        found.append(each)
    return tuple(found)


def _find_policy(policy: str) -> str | NamedRule:
    """Return the canonical name of a policy, or the rule of another package with that name."""
    try:
        return policy_name(policy)
    except InputError as error:
        for point in entry_points(group=GROUP, name=policy):
            try:
                return NamedRule(policy, point.load())
            except Exception as fault:
                why = f"cannot be loaded: {type(fault).__name__}: {fault}".replace("\n", " ")
                raise InputError(why, f"{GROUP}: {point.value}") from None
        if added := sorted(entry_points(group=GROUP).names):
            message = f"{error.fault}; of other packages: {', '.join(added)}"
            raise InputError(f"{message}{did_you_mean(policy, added)}", error.place) from None
        raise


def _check_rule(named: NamedRule) -> None:
    """Raise InputError unless a rule is a function under an unused name."""
    if not callable(named.rule):
        raise InputError(f"must be a function, not {named.rule!r:.60}", f"policies.{named.name}")
    if not named.name or named.name == RECORDED or named.name != named.name.strip():
        raise InputError(f"a rule cannot be named {named.name!r:.60}", "policies")
    try:
        parse_policy(named.name)
    except FairleadError:
        return
    raise InputError(
        f"fairlead has a policy named {named.name!r}; give the rule another name", "policies"
    )


def plan_runs(
    policies: Policies, what_if: Sequence[str] = (), dedicated: bool = False
) -> tuple[PlannedRun, ...]:
    """Plan a run of each policy, then runs of the first policy changed or on dedicated servers.

    Changes apply to the first policy other than ``recorded``, as a recorded run cannot be changed.
    Duplicates run once. The change ``preempt:over-share`` adds preemption to the policy.

    Raises
    ------
    InputError
        When no policy is named or one is unknown; or for a change or dedicated servers without a
        policy to replay.
    RefusalError
        When the parts of a policy cannot be combined.
    """
    runs: dict[str, PlannedRun] = {}
    for given in policies_of(policies):
        run = PlannedRun(given) if isinstance(given, str) else PlannedRun(given[0], rule=given[1])
        if runs.setdefault(run.name, run).rule is not run.rule:
            raise InputError(f"two rules are named {run.name!r:.60}", "policies")
    if not runs:
        raise InputError("name at least one policy, such as drf/best-fit", "policies")
    first = next((run for name, run in runs.items() if name != RECORDED), None)
    for asked, option in ((what_if, "what-if"), (dedicated, "dedicated")):
        if asked and first is None:
            fault = f"a {RECORDED} run cannot be changed: name also a policy such as drf/best-fit"
            raise InputError(fault, option)
    if first is not None:
        changed = [_changed_run(first, change) for change in what_if]
        alone = [replace(first, dedicated=True)] if dedicated else []
        for run in (*changed, *alone):
            runs.setdefault(run.name, run)
    return tuple(runs.values())


def _changed_run(run: PlannedRun, change: str) -> PlannedRun:
    """Return the run of a policy with a change; ``preempt:MODE`` is another policy."""
    kind, colon, mode = change.partition(":")
    if not change:  # an empty text stands for no change in `PlannedRun`
        raise InputError("must name a change, such as weight:ana=3", "what-if")
    if kind != "preempt" or not colon:
        return replace(run, what_if=change)
    if run.rule is not None:
        raise InputError("a user-defined rule does not stop tasks", "what-if")
    if mode.partition(":")[0] not in PREEMPTION:
        fault = f"must be preempt:{' or preempt:'.join(PREEMPTION)}, not {change!r:.60}"
        raise InputError(fault, "what-if")
    return PlannedRun(policy_name(f"{run.policy}/{mode}"))


def policy_name(policy: str) -> str:
    """Return the canonical name of a policy or ``recorded``; raises as `parse_policy`."""
    if policy == RECORDED:
        return policy
    try:
        return parse_policy(policy).name
    except InputError as error:
        if error.fault.startswith("no policy is named"):
            known = f"{error.fault}; or {RECORDED}, the run that the trace records"
            raise InputError(known, error.place) from None
        raise


def workload_digest(workload: Workload) -> str:
    """Return a digest of the parts of a workload that decide a run, at about 1 GB a second."""
    cluster, digest = workload.cluster, blake2b(digest_size=16)
    # Names are hashed as JSON, because equal arrays of names may differ in the width of items.
    names = [cluster.groups, cluster.resources, workload.users, workload.job_names.tolist()]
    digest.update(json.dumps(names).encode())
    if cluster.devices:
        digest.update(json.dumps(["devices", cluster.devices]).encode())
    if workload.queues is not None:
        tree = [workload.queues.rows(), workload.queues.user_queue()]
        digest.update(json.dumps(tree).encode())
    if workload.limits:
        digest.update(json.dumps(workload.limits).encode())
    if workload.quotas:
        labels = [dict(row) for row in cluster.labels]  # they decide where a quota is
        digest.update(json.dumps(["quotas", workload.quotas, labels]).encode())
    arrays = [(each.name, getattr(workload, each.name)) for each in fields(workload)]
    arrays += [("capacity", cluster.capacity), ("count", cluster.count)]
    for name, values in arrays:
        if not isinstance(values, np.ndarray) or name == "job_names":
            continue
        digest.update(f"{name} {values.shape} {values.dtype} ".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def fingerprint(workload_digest: str, run: PlannedRun, *, seed: int, strict_fifo: bool) -> str:
    """Return a digest that is equal only for equal workloads, runs, options and sources.

    `workload_digest` is the digest of the workload before the run's change. A run of a user-defined
    rule gets a digest that no other run has, because rules cannot be compared.
    """
    parts = [digest_of_sources(), workload_digest, run.name, seed, strict_fifo]
    if run.rule is not None:
        parts.append(token_hex())
    return blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def check_folder(folder: Path) -> None:
    """Raise `InputError` for a folder that cannot be made or written, before any work is done."""
    if folder.exists() and not folder.is_dir():
        raise InputError("is a file, not a folder", "", str(folder))
    if not folder.exists() and not folder.parent.is_dir():
        fault = f"cannot be made: there is no folder {str(folder.parent)!r}"
        raise InputError(fault, "", str(folder))
    if not os.access(folder if folder.exists() else folder.parent, os.W_OK | os.X_OK):
        raise InputError("cannot be written: permission denied", "", str(folder))


def open_folder(folder: Path) -> None:
    """Create the folder if missing; raises as `check_folder`."""
    check_folder(folder)
    with writing_faults(folder):
        folder.mkdir(exist_ok=True)


def is_kept(folder: Path, run: PlannedRun, mark: str) -> bool:
    """Return whether the folder has the run with the fingerprint `mark`."""
    try:
        path = run.path(folder)
        return path.exists() and read_fingerprint(path) == mark
    except InputError:  # the file is not a run log
        return False
