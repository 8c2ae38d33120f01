"""Read the holdings of a Kubernetes cluster: namespaces or labels as users, nodes as groups.

A namespace has pods of many shapes, a user has tasks of one. So a user's task is the mean of its
pods that hold a node or wait for one; the amounts that its pods hold are kept beside that.
Not modelled: affinity between pods, topology spread, volumes, priorities and preemption, quotas,
dynamic resource allocation, parts of GPUs by memory, and use of pods beyond their requests.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from fairlead.errors import InputError, ProblemError
from fairlead.formats._kubernetes_census import Census, take_census
from fairlead.formats._kubernetes_objects import BY_NAMESPACE, Dump, UserRule, read_dump
from fairlead.formats._kubernetes_requests import SHARED_GPU
from fairlead.formats.documents import source_name
from fairlead.formats.file_faults import RowFaults, did_you_mean, number_at
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.holdings import Doubts, Holdings, IdleUser, UnrunnableTask, WaitingTask
from fairlead.model.problem import Problem
from fairlead.model.quantity import MOST_DEVICES, show
from fairlead.model.ties import first_largest_of_rows

_EQUAL_WEIGHTS: Mapping[str, float] = {}
_LEAST_PART = 1e-6  # of a GPU


def read_kubernetes(
    path: str | Path | Sequence[str | Path],
    *,
    lenient: bool = False,
    weights: Mapping[str, float] = _EQUAL_WEIGHTS,
    resources: Collection[str] | None = None,
    ignore: Collection[str] = (),
    user_from: str = BY_NAMESPACE,
) -> Holdings:
    """Read the holdings of users from a dump of a Kubernetes cluster.

    Parameters
    ----------
    path : str, Path or sequence of these
        Output of ``kubectl get nodes,pods -A -o json`` or ``-o yaml``, in one file or several, at
        most 1 GiB each; ``-`` for standard input. Lists of one kind, single objects, several
        documents one after the other, and gzipped files are read, too. Objects of other kinds are
        ignored.
    lenient : bool
        List nodes and pods at fault in `Holdings.skipped` instead of refusing the file. Faults of a
        whole file are still raised. `Holdings.doubts` lists the parts in doubt.
    weights : mapping
        Weights of users; 1 where absent.
    resources : collection of str, optional
        The resources that count; all that pods request when absent.
    ignore : collection of str
        Resources that do not count, such as ``pods``.
    user_from : str
        The user of a pod: ``namespace``, or ``label:KEY`` for the value of a label. A pod without
        the label belongs to the user ``namespace:NAME``.

    Returns
    -------
    Holdings
        Of N users in order of first appearance, G nodes in the files' order (groups of one server
        each) and the R resources that count.

        A user's demand is the mean effective request of its pods. ``tasks`` is its holding on a
        node in such tasks, by the resource where the mean task takes the largest share of the
        cluster; ``task_limit`` is the number of its pods. ``amounts`` are the holdings of its pods,
        or None where the pods of every user are of one shape: then ``tasks`` are its pods.

        GPUs of which pods take parts are devices if the pods of each user ask for equal amounts of
        GPUs.

        A user may run on a node where some pod of it may run, or does. ``waiting`` are the pods
        without a node, except gated ones. ``unrunnable`` are waiting pods that fit no node, however
        empty; they count for nothing else. ``idle`` are users without any pod that counts.

    Raises
    ------
    InputError
        For a file that cannot be read or is no dump; a node or pod that is malformed or repeated; a
        pod on an unknown node; an unknown operator of a placement constraint; files in which no pod
        counts; an unknown user or resource; a bad weight.

    Notes
    -----
    Cost O(files + P G + N G R) for P pods.
    """
    rule = UserRule.parse(user_from)
    chosen = None if resources is None else _names(resources, "resources")
    ignored = _names(ignore, "ignore")
    paths = [path] if isinstance(path, str | Path) else list(path)
    faults = RowFaults(lenient)
    try:
        dump = read_dump(paths, rule, faults)
        weight = _weights(weights, dump, rule)
        census = take_census(dump, faults)
        counted = _counted(census.cluster.resources, dump, chosen, ignored)
        return _holdings(census, counted, weight, tuple(faults.skipped))
    except InputError as error:
        names = ", ".join(source_name(one) for one in paths)
        raise (error if error.source else error.within(names)) from None


def _names(given: Collection[str], what: str) -> list[str]:
    names = [given] if isinstance(given, str) else list(given)
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"must be names of resources, not {show(name)}", what)
    return names


def _counted(
    columns: Sequence[str], dump: Dump, chosen: list[str] | None, ignored: list[str]
) -> BoolArray:
    """Return (R,) bool: the requested resources that count."""
    known = {*columns, *(name for node in dump.nodes.values() for name in node.allocatable)}
    for what, names in (("resources", chosen or []), ("ignore", ignored)):
        for name in names:
            if name not in known:
                raise InputError(
                    f"{show(name)} is in no pod and no node{did_you_mean(name, known)}", what
                )
    kept = [(chosen is None or name in chosen) and name not in ignored for name in columns]
    if not any(kept):
        raise InputError("no pod asks for any of the resources that count")
    return np.array(kept)


def _holdings(
    census: Census, counted: BoolArray, weight: Mapping[str, float], skipped: tuple[str, ...]
) -> Holdings:
    """Compute each user's mean task and its holdings from the pods that count."""
    runnable = np.array([p not in census.unrunnable for p in range(len(census.pods))])
    counts = runnable & (census.request[:, counted] > 0).any(axis=1)
    if not counts.any():
        raise _nothing_counts(census)
    # Resources that only uncounted pods ask for are left out.
    asked = counted & (census.request[counts] > 0).any(axis=0)
    stranded = counts & _stranded(census, counts, asked)[census.user]
    counts &= ~stranded
    if not counts.any():
        raise InputError("no node has any of the resources that count and that its pods hold")
    users = np.unique(census.user[counts])
    names = [census.names[n] for n in users]
    number = np.full(len(census.names), -1)
    number[users] = np.arange(len(users))
    shown = np.flatnonzero(asked)
    cluster, size = census.cluster, census.size[asked]
    capacity = cluster.capacity[:, asked]
    pods = np.flatnonzero(counts)
    user, node, request = (
        number[census.user[pods]],
        census.node[pods],
        census.request[pods][:, asked],
    )
    held = np.zeros((len(users), len(cluster.groups), len(shown)))
    on = np.flatnonzero(node >= 0)
    np.add.at(held, (user[on], node[on]), request[on])
    total = np.zeros((len(users), len(shown)))
    np.add.at(total, user, request)
    n_pods = np.bincount(user, minlength=len(users))
    first = request[np.unique(user, return_index=True)[1]]
    same = (request == first[user]).all(axis=0)  # of each resource
    alike = bool(same.all())
    mean = np.where(same, first, total / n_pods[:, None])
    eligible, able = _where(census, asked, number, len(users))
    cut = _fit_to_some_node(mean, user, request, eligible, capacity > 0)
    in_all = capacity.sum(axis=0) * size
    share = np.divide(mean, in_all, out=np.zeros_like(mean), where=in_all > 0)
    dominant = first_largest_of_rows(share)
    everyone = np.arange(len(users))
    tasks = held[everyone, :, dominant] / mean[everyone, dominant][:, None]
    resources = [cluster.resources[r] for r in shown]
    is_shared = (np.array(resources) == SHARED_GPU) & census.shares_gpus
    # The mean of unlike parts of a GPU would be a part that no pod takes.
    in_devices = is_shared & same & (capacity <= MOST_DEVICES).all(axis=0)
    problem = Problem.from_arrays(
        capacity,
        mean / size,
        weight=[weight.get(name, 1.0) for name in names],
        eligible=eligible,
        # At least the tasks that run, which rounding of the mean could make larger.
        task_limit=np.maximum(n_pods, tasks.sum(axis=1)),
        resources=resources,
        units=[cluster.units[r] for r in shown],
        groups=cluster.groups,
        users=names,
        labels=cluster.labels,
        devices=[resources[r] for r in np.flatnonzero(in_devices)],
    )
    # A node may no longer have a resource that its pods hold; then only amounts show it.
    there = (held > 0).any(axis=0) <= (capacity > 0)
    partial: BoolArray = np.logical_or.reduce(able & ~problem.runnable, axis=1)
    return Holdings(
        problem=problem,
        tasks=tasks,
        source="kubernetes",
        whole_tasks=True,
        amounts=None if alike and not cut and there.all() else held / size,
        waiting=_waiting(census, counts, asked, number),
        skipped=skipped,
        unrunnable=tuple(
            UnrunnableTask(_name(census, p), census.pods[p].user, why)
            for p, why in census.unrunnable.items()
        ),
        idle=_idle(census, number, weight, stranded, asked),
        outside=_outside(census, stranded, asked),
        not_modelled=(*_not_modelled(census), *_left_out(cut, names, problem)),
        partial=partial if partial.any() else None,
        doubts=_doubts(census, asked, number, len(users)),
        grain=np.where(is_shared, _LEAST_PART, 1) / size,
    )


def _stranded(census: Census, counts: BoolArray, asked: BoolArray) -> BoolArray:
    """Return (N,) bool: users whose nodes no longer have any of the resources that they hold."""
    n_users = len(census.names)
    asks = np.zeros((n_users, int(asked.sum())), dtype=bool)
    pods = np.flatnonzero(counts)
    np.logical_or.at(asks, census.user[pods], census.request[pods][:, asked] > 0)
    eligible, _ = _where(census, asked, np.arange(n_users), n_users)
    finds = eligible.astype(np.float32) @ (census.cluster.capacity[:, asked] > 0) > 0
    found: BoolArray = np.logical_or.reduce(asks & finds, axis=1)
    return ~found


def _outside(census: Census, stranded: BoolArray, asked: BoolArray) -> FloatArray | None:
    """Return (G, R) holdings of stranded pods; None without such pods."""
    pods = np.flatnonzero(stranded)
    held = np.zeros((len(census.cluster.groups), int(asked.sum())))
    np.add.at(held, census.node[pods], census.request[pods][:, asked])
    return held / census.size[asked] if len(pods) else None


def _where(
    census: Census, asked: BoolArray, number: IntArray, n_users: int
) -> tuple[BoolArray, BoolArray]:
    """Return (N, G) bool twice: nodes open to users, and those with all resources of some pod.

    Resources that do not count matter, too: a node without them runs no such pod.
    """
    eligible = np.zeros((n_users, len(census.cluster.groups)), dtype=bool)
    able = np.zeros_like(eligible)
    lacks = ~(census.cluster.capacity > 0)
    for (n, key), where in census.reach.items():
        asks = np.frombuffer(key, dtype=bool)
        if number[n] >= 0 and (asks & asked).any():
            eligible[number[n]] |= where
            able[number[n]] |= where & ~lacks[:, asks].any(axis=1)
    return eligible, able


def _fit_to_some_node(
    mean: FloatArray, user: IntArray, request: FloatArray, eligible: BoolArray, has: BoolArray
) -> dict[int, BoolArray]:
    """Remove resources from a user's mean that no node has with the rest; return them by user.

    Its pods ask for resources that no node has together, or no longer. The resources of the first
    node that could run most of its pods stay.
    """
    cut: dict[int, BoolArray] = {}
    asks = mean > 0
    runs = eligible & ~(asks.astype(np.float32) @ (~has).T.astype(np.float32) > 0)
    for n in np.flatnonzero(~runs.any(axis=1)):
        kinds, members = np.unique(request[user == n] > 0, axis=0, return_counts=True)
        lacking = kinds.astype(np.float32) @ (~has).T.astype(np.float32) > 0
        runs_pods = members @ ~lacking
        kept = (has & asks[n]).sum(axis=1)
        # More pods decide, then more resources, then the earlier node.
        best = np.lexsort((-kept, -runs_pods, ~eligible[n]))[0]
        cut[int(n)] = asks[n] & ~has[best]
        mean[n, cut[int(n)]] = 0.0
    return cut


def _not_modelled(census: Census) -> list[str]:
    return [
        f"{what}: {len(pods):,} pod{'s' if len(pods) > 1 else ''}, such as {pods[0]}"
        for what, pods in census.not_modelled.items()
    ]


def _left_out(cut: Mapping[int, BoolArray], names: Sequence[str], problem: Problem) -> list[str]:
    columns = np.array(problem.cluster.resources, dtype=object)
    return [
        f"the mean task of {names[n]} leaves out {' and '.join(columns[missing])}, "
        "which no node has with the rest"
        for n, missing in cut.items()
    ]


def _waiting(
    census: Census, counts: BoolArray, asked: BoolArray, number: IntArray
) -> tuple[WaitingTask, ...]:
    """Return the waiting pods that count, each allowed where its uncounted resources are free."""
    rest = ~asked
    on = np.flatnonzero(census.node >= 0)
    free = census.capacity[:, rest]
    columns = np.array(census.cluster.resources, dtype=object)
    shared = rest & (columns == SHARED_GPU) & bool(census.gpu_parts or census.sharing)
    np.subtract.at(free, census.node[on], census.request[on][:, rest])
    waiting = []
    for p, allowed in census.allowed.items():
        if counts[p]:
            wanted = census.request[p, rest]
            room = ((wanted <= free) | (wanted == 0)).all(axis=1)
            waiting.append(
                WaitingTask(
                    name=_name(census, p),
                    user=int(number[census.user[p]]),
                    request=census.request[p, asked] / census.size[asked],
                    allowed=allowed & room,
                    undecided=census.undecided.get(p, "")
                    or (f"sharing {SHARED_GPU}" if (census.request[p, shared] > 0).any() else ""),
                )
            )
    return tuple(waiting)


def _idle(
    census: Census,
    number: IntArray,
    weight: Mapping[str, float],
    stranded: BoolArray,
    asked: BoolArray,
) -> tuple[IdleUser, ...]:
    """Return the users without a pod that counts, with the reason."""
    idle = []
    resources = np.array(census.cluster.resources, dtype=object)[asked]
    for n, name in enumerate(census.names):
        if number[n] < 0:
            own = np.flatnonzero(census.user == n)
            never = all(p in census.unrunnable for p in own.tolist())
            why = "no pod of it asks for what counts"
            if never:
                why = "no node could run any pod of it"
            elif stranded[own].any():
                why = "its nodes no longer have the resources that its pods hold"
            held = (census.request[own[stranded[own]]].sum(axis=0) / census.size)[asked]
            holds = {resources[r]: float(held[r]) for r in np.flatnonzero(held)}
            idle.append(IdleUser(name, weight.get(name, 1.0), why, holds))
    return tuple(idle)


def _doubts(census: Census, asked: BoolArray, number: IntArray, n_users: int) -> Doubts | None:
    """Collect the doubts: passed-over pods and nodes, and uncounted parts of GPUs."""
    index = {name: int(number[n]) for n, name in enumerate(census.names)}
    nodes = {name: g for g, name in enumerate(census.cluster.groups)}
    used = np.zeros((len(nodes), int(asked.sum())), dtype=bool)
    holds, wants = np.zeros(n_users, dtype=bool), np.zeros(n_users, dtype=bool)
    waits = users = repels = False
    for lost in census.lost:
        n = index.get(lost.user, -1)
        users |= n < 0
        if n >= 0 or not lost.user:
            owners = n if n >= 0 else slice(None)  # an unknown user may be any
            holds[owners] |= lost.holds
            wants[owners] |= not lost.holds or lost.waits
        waits |= lost.waits
        repels |= lost.repels
        if lost.node in nodes:
            used[nodes[lost.node]] = True
        elif lost.holds and not (lost.node and census.lost_nodes):
            used[:] = True  # its node cannot be told, or is named wrongly
    shared = [name == SHARED_GPU for name in np.array(census.cluster.resources)[asked]]
    for p in (*census.gpu_parts, *census.sharing):
        used[census.node[p]] |= np.array(shared)
    for p in census.gpu_parts:
        n = int(number[census.user[p]])
        if n >= 0:
            holds[n] = True
    why = []
    if census.lost or census.lost_nodes:
        why.append("nodes or pods were skipped")
    if census.gpu_parts:
        why.append("parts of GPUs are not counted")
    if census.sharing and any(shared):
        why.append("it is not known which GPUs the parts share")
    if not why:
        return None
    return Doubts(" and ".join(why), used, holds, wants, waits, repels, census.lost_nodes, users)


def _name(census: Census, p: int) -> str:
    return f"{census.pods[p].namespace}/{census.pods[p].name}"


def _nothing_counts(census: Census) -> InputError:
    runs = "no pod that runs asks for what counts" if (census.node >= 0).any() else "no pod runs"
    for p, why in census.unrunnable.items():
        fault = f"{runs}, and no waiting pod fits any node: {why}"
        return ProblemError(fault, census.pods[p].place)
    return InputError("no pod asks for any of the resources that count")


def _weights(weights: Mapping[str, float], dump: Dump, rule: UserRule) -> dict[str, float]:
    what = "user" if rule.label else "namespace"
    checked = {}
    for name, value in weights.items():
        place = f"weights.{name}"
        if name not in dump.users:
            raise InputError(
                f"no pod is of the {what} {show(name)}{did_you_mean(name, dump.users)}", place
            )
        checked[name] = number_at(value, place, "a positive number")
        if checked[name] <= 0:
            raise ProblemError(f"must be a positive number, not {show(value)}", place)
    return checked
