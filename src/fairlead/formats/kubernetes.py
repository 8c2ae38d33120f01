"""Read the holdings of a Kubernetes cluster: namespaces or labels as users, nodes as groups.

The pods of a namespace have many shapes, but the tasks of a user have one. So a user's task is the
mean request of its bound and pending pods; the requests of its bound pods are kept as well.

Affinity between pods, topology spread, volumes, priorities and preemption, quotas, dynamic resource
allocation, parts of GPUs by memory, and use beyond requests are not modelled.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from fairlead.errors import InputError, ProblemError
from fairlead.formats._kubernetes_census import Census, take_census
from fairlead.formats._kubernetes_objects import (
    BY_NAMESPACE,
    Dump,
    UserRule,
    read_dump,
)
from fairlead.formats._kubernetes_specs import (
    NVIDIA_GPU,
)
from fairlead.formats.documents import source_name
from fairlead.formats.file_faults import RowFaults, did_you_mean
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.holdings import Holdings, IdleUser, UnrunnableTask, WaitingTask
from fairlead.model.problem import Problem
from fairlead.model.quantity import MOST_DEVICES, number_at, show
from fairlead.model.ties import first_largest_of_rows

_EQUAL_WEIGHTS: Mapping[str, float] = {}
_LEAST_PART = 1e-6  # of a GPU: the unit in which parts of GPUs are counted


def read_kubernetes(
    path: str | Path | Sequence[str | Path],
    *,
    lenient: bool = False,
    weights: Mapping[str, float] = _EQUAL_WEIGHTS,
    resources: Collection[str] | None = None,
    ignore: Collection[str] = (),
    user_from: str = BY_NAMESPACE,
) -> Holdings:
    """Read the holdings of users from a dump of the nodes and pods of a Kubernetes cluster.

    Parameters
    ----------
    path : str, Path or sequence of these
        Output of ``kubectl get nodes,pods -A -o json`` or ``-o yaml``, in one file or several, at
        most 1 GiB each; ``-`` for standard input. Lists of one kind, single objects, several
        documents one after the other, and gzipped files are read, too. Objects of other kinds are
        ignored.
    lenient : bool
        Skip malformed nodes and pods and list them in `Holdings.skipped`, instead of refusing the
        file. Errors of a whole file are still raised.
    weights : mapping
        Weights of users; 1 where absent.
    resources : collection of str, optional
        The resources that count; when absent, all that pods request.
    ignore : collection of str
        Resources that do not count, such as ``pods``.
    user_from : str
        The user of a pod: ``namespace``, or ``label:KEY`` for the value of a label. A pod without
        the label belongs to the user ``namespace:NAME``.

    Returns
    -------
    Holdings
        The holdings of N users, in order of first appearance, on G nodes, in the files' order
        (groups of one server each), of the R resources that count.

        - A user's demand is the mean effective request of its bound and pending pods.
        - ``tasks`` has the user's holding on a node in such mean tasks, by their dominant resource.
          ``task_limit`` is the number of the user's pods.
        - ``amounts`` are the requests of bound pods. They are None if ``tasks`` times demand gives
          them: all pods of each user have equal requests, and no node lacks a resource that its
          pods hold.
        - If pods request parts of GPUs, and all pods of each user equal parts, GPUs are devices of
          the problem: a part must fit on one GPU.
        - A user is eligible on a node if one of its pods runs or may run there.
        - ``waiting`` are the pending pods, except gated ones.
        - ``unrunnable`` are pending pods that fit no node, even an empty one; no other field counts
          them.
        - ``idle`` are users without a pod that counts. A pod counts if it requests a resource that
          counts, fits some node if pending, and the nodes of its user have not lost all resources
          that the user's pods request.

    Raises
    ------
    InputError
        For a file that cannot be read or is not a dump; a node or pod that is malformed or
        repeated; a pod on an unknown node; an unknown operator of a placement constraint; files in
        which no pod counts; an unknown user or resource; a weight that is not a positive number.

    Notes
    -----
    Cost O(files + P G + N G R) for P pods.
    """
    rule = UserRule.parse(user_from)
    chosen = None if resources is None else _check_names(resources, "resources")
    ignored = _check_names(ignore, "ignore")
    paths = [path] if isinstance(path, str | Path) else list(path)
    faults = RowFaults(lenient)
    try:
        dump = read_dump(paths, rule, faults)
        checked_weights = _check_weights(weights, dump, rule)
        census = take_census(dump, faults)
        selected = _select_resources(census.cluster.resources, dump, chosen, ignored)
        return _compute_holdings(census, selected, checked_weights, tuple(faults.skipped))
    except InputError as error:
        names = ", ".join(source_name(file) for file in paths)
        raise (error if error.source else error.within(names)) from None


def _check_names(given: Collection[str], argument: str) -> list[str]:
    names = [given] if isinstance(given, str) else list(given)
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"must be names of resources, not {show(name)}", argument)
    return names


def _select_resources(
    columns: Sequence[str], dump: Dump, chosen: list[str] | None, ignored: list[str]
) -> BoolArray:
    """Return (R,) bool: whether a requested resource counts, by the caller's choice."""
    known = {*columns, *(name for node in dump.nodes.values() for name in node.allocatable)}
    for argument, names in (("resources", chosen or []), ("ignore", ignored)):
        for name in names:
            if name not in known:
                raise InputError(
                    f"{show(name)} is in no pod and no node{did_you_mean(name, known)}", argument
                )
    kept = [(chosen is None or name in chosen) and name not in ignored for name in columns]
    if not any(kept):
        raise InputError("no pod requests a resource that counts")
    return np.array(kept)


def _compute_holdings(
    census: Census, selected: BoolArray, weights: Mapping[str, float], skipped: tuple[str, ...]
) -> Holdings:
    """Compute each user's mean task and its holdings from the pods that count.

    `selected` (R,) tells whether a resource of the census may count. Of these, the result has the
    resources that pods request, which are `requested` (R,) from here on.
    """
    pod_counts, requested = _find_counting_pods(census, selected)
    open_to, some_pod_fits = _open_nodes(census, requested)
    stranded = pod_counts & _stranded_users(census, pod_counts, requested, open_to)[census.user]
    pod_counts &= ~stranded
    if not pod_counts.any():
        raise InputError(
            "the nodes of each user have lost all counted resources that its pods request"
        )
    # The users with pods that count, by number in the census; and their numbers in the result.
    users = np.unique(census.user[pod_counts])
    names = [census.names[n] for n in users]
    user_number = np.full(len(census.names), -1)
    user_number[users] = np.arange(len(users))

    # Requests, holdings and means are in whole units, such as bytes. Capacity is in displayed
    # units; `size` is the number of whole units in one of these.
    cluster, size = census.cluster, census.size[requested]
    columns = np.flatnonzero(requested)
    resources = [cluster.resources[r] for r in columns]
    capacity = cluster.capacity[:, requested]
    pods = np.flatnonzero(pod_counts)
    user, node = user_number[census.user[pods]], census.node[pods]
    request = census.request[pods][:, requested]
    held = np.zeros((len(users), len(cluster.groups), len(columns)))
    bound = np.flatnonzero(node >= 0)
    np.add.at(held, (user[bound], node[bound]), request[bound])
    n_pods = np.bincount(user, minlength=len(users))
    mean, is_uniform = _mean_requests(user, request, n_pods)
    eligible, pod_fits = open_to[users], some_pod_fits[users]
    cut = _fit_to_some_node(mean, user, request, eligible, capacity > 0)

    tasks = _count_mean_tasks(held, mean, capacity.sum(axis=0) * size)
    is_shared_gpu = (np.array(resources) == NVIDIA_GPU) & census.has_part.any()
    # The mean of unequal parts of a GPU would be a part that no pod requests.
    in_devices = is_shared_gpu & is_uniform & (capacity <= MOST_DEVICES).all(axis=0)
    problem = Problem.from_arrays(
        capacity,
        mean / size,
        weight=[weights.get(name, 1.0) for name in names],
        eligible=eligible,
        # Rounding of the mean can make the running tasks slightly more than the pods.
        task_limit=np.maximum(n_pods, tasks.sum(axis=1)),
        resources=resources,
        units=[cluster.units[r] for r in columns],
        groups=cluster.groups,
        users=names,
        labels=cluster.labels,
        devices=[resources[r] for r in np.flatnonzero(in_devices)],
    )
    # A node may have lost a resource that its pods still hold; tasks cannot express that.
    holds_lost_resource = ((held > 0).any(axis=0) & ~(capacity > 0)).any()
    tasks_suffice = is_uniform.all() and not cut and not holds_lost_resource
    # Whether a user has pods that fit a node on which its mean task does not fit.
    partial: BoolArray = np.logical_or.reduce(pod_fits & ~problem.runnable, axis=1)
    missing = ["nodes or pods were skipped"] if skipped else []
    missing += ["parts of GPUs are not counted"] if census.lacks_parts else []
    return Holdings(
        problem=problem,
        tasks=tasks,
        source="kubernetes",
        whole_tasks=True,
        amounts=None if tasks_suffice else held / size,
        waiting=_pending_pods(census, pod_counts, requested, user_number),
        skipped=skipped,
        unrunnable=tuple(
            UnrunnableTask(census.pods[p].full_name, census.pods[p].user, why)
            for p, why in census.unrunnable.items()
        ),
        idle=_idle_users(census, user_number, weights, stranded, requested),
        outside=_stranded_holdings(census, stranded, requested),
        not_modelled=(
            *_describe_not_modelled(census),
            *_describe_cut_resources(cut, names, problem),
        ),
        partial=partial if partial.any() else None,
        incomplete=" and ".join(missing),
        shared=_shared_gpus(census, requested),
        grain=np.where(is_shared_gpu, _LEAST_PART, 1) / size,
    )


def _find_counting_pods(census: Census, selected: BoolArray) -> tuple[BoolArray, BoolArray]:
    """Return whether each pod counts (P,), and whether such pods request each resource (R,).

    Raises InputError if no pod counts.
    """
    pod_counts: BoolArray = np.logical_or.reduce(census.request[:, selected] > 0, axis=1)
    pod_counts[list(census.unrunnable)] = False
    if not pod_counts.any():
        raise _no_pod_counts(census)
    return pod_counts, selected & (census.request[pod_counts] > 0).any(axis=0)


def _mean_requests(
    user: IntArray, request: FloatArray, n_pods: IntArray
) -> tuple[FloatArray, BoolArray]:
    """Return (N, R) the mean request of each user's pods; and whether each resource is uniform.

    A resource is uniform if all pods of each user request equal amounts of it.
    """
    total = np.zeros((len(n_pods), request.shape[1]))
    np.add.at(total, user, request)
    first = request[np.unique(user, return_index=True)[1]]
    is_uniform: BoolArray = (request == first[user]).all(axis=0)
    return np.where(is_uniform, first, total / n_pods[:, None]), is_uniform


def _count_mean_tasks(held: FloatArray, mean: FloatArray, total_capacity: FloatArray) -> FloatArray:
    """Return (N, G) the holdings in mean tasks, by the dominant resource of the mean task.

    `held` (N, G, R) are the amounts that users hold, `mean` (N, R) the mean tasks, in the unit of
    `total_capacity` (R,).
    """
    share = np.divide(mean, total_capacity, out=np.zeros_like(mean), where=total_capacity > 0)
    dominant = first_largest_of_rows(share)
    users = np.arange(len(mean))
    tasks: FloatArray = held[users, :, dominant] / mean[users, dominant][:, None]
    return tasks


def _stranded_users(
    census: Census, pod_counts: BoolArray, requested: BoolArray, open_to: BoolArray
) -> BoolArray:
    """Return (N,) bool: whether the user's nodes have lost all resources that its pods request.

    `open_to` (N, G) has the nodes of each user.
    """
    requests = np.zeros((len(census.names), int(requested.sum())), dtype=bool)
    pods = np.flatnonzero(pod_counts)
    np.logical_or.at(requests, census.user[pods], census.request[pods][:, requested] > 0)
    is_on_nodes = open_to.astype(np.float32) @ (census.cluster.capacity[:, requested] > 0) > 0
    has_any: BoolArray = np.logical_or.reduce(requests & is_on_nodes, axis=1)
    return ~has_any


def _stranded_holdings(
    census: Census, stranded: BoolArray, requested: BoolArray
) -> FloatArray | None:
    """Return (G, R) the holdings of stranded pods; None if there are no such pods."""
    pods = np.flatnonzero(stranded)
    held = np.zeros((len(census.cluster.groups), int(requested.sum())))
    np.add.at(held, census.node[pods], census.request[pods][:, requested])
    return held / census.size[requested] if len(pods) else None


def _open_nodes(census: Census, requested: BoolArray) -> tuple[BoolArray, BoolArray]:
    """Return (N, G) whether a user's pods may run on a node, and (N, G) whether any fits there.

    A pod fits a node that has all resources that it requests, also those that do not count.
    """
    open_to = np.zeros((len(census.names), len(census.cluster.groups)), dtype=bool)
    pod_fits = np.zeros_like(open_to)
    lacks = ~(census.cluster.capacity > 0)
    for (n, key), nodes in census.reach.items():
        requests = np.frombuffer(key, dtype=bool)
        if (requests & requested).any():
            open_to[n] |= nodes
            pod_fits[n] |= nodes & ~lacks[:, requests].any(axis=1)
    return open_to, pod_fits


def _fit_to_some_node(
    mean: FloatArray, user: IntArray, request: FloatArray, eligible: BoolArray, has: BoolArray
) -> dict[int, BoolArray]:
    """Drop resources from `mean` for users whose mean task fits no node.

    No node has, or still has, all resources that the pods of such a user request. Its mean keeps
    the resources of the node that could run most of its pods. `has` (G, R) tells whether a node has
    a resource. Returns, for each such user, (R,) whether each resource was dropped.
    """
    cut: dict[int, BoolArray] = {}
    requests = mean > 0
    runs = eligible & ~(requests.astype(np.float32) @ (~has).T.astype(np.float32) > 0)
    for n in np.flatnonzero(~runs.any(axis=1)):
        # The distinct sets of resources that pods request, and the number of pods of each.
        resource_sets, n_pods = np.unique(request[user == n] > 0, axis=0, return_counts=True)
        lacking = resource_sets.astype(np.float32) @ (~has).T.astype(np.float32) > 0
        runs_pods = n_pods @ ~lacking
        kept = (has & requests[n]).sum(axis=1)
        # Order of preference: eligible, runs most pods, has most of the resources, comes first.
        best = np.lexsort((-kept, -runs_pods, ~eligible[n]))[0]
        cut[int(n)] = requests[n] & ~has[best]
        mean[n, cut[int(n)]] = 0.0
    return cut


def _describe_not_modelled(census: Census) -> list[str]:
    """Return a line for each request that is not modelled, with the pods that have it."""
    return [
        f"{what}: {len(pods):,} pod{'s' if len(pods) > 1 else ''}, such as {pods[0]}"
        for what, pods in census.not_modelled.items()
    ]


def _describe_cut_resources(
    cut: Mapping[int, BoolArray], names: Sequence[str], problem: Problem
) -> list[str]:
    """Return a line for each user whose mean task leaves out resources."""
    columns = np.array(problem.cluster.resources, dtype=object)
    return [
        f"the mean task of {names[n]} leaves out {' and '.join(columns[missing])}, "
        "which no node has together with the rest"
        for n, missing in cut.items()
    ]


def _pending_pods(
    census: Census, pod_counts: BoolArray, requested: BoolArray, user_number: IntArray
) -> tuple[WaitingTask, ...]:
    """Return the pending pods that count.

    A pod is allowed on a node only if enough is free there of the resources that do not count. If
    GPUs do not count, and running pods share some, it is unknown whether enough of one is free; so
    pods that request GPUs are undecided.
    """
    other = ~requested
    bound = np.flatnonzero(census.node >= 0)
    free = np.rint(census.cluster.capacity * census.size)[:, other]  # in whole units
    columns = np.array(census.cluster.resources, dtype=object)
    shared_gpu = other & (columns == NVIDIA_GPU) & census.has_part[bound].any()
    np.subtract.at(free, census.node[bound], census.request[bound][:, other])
    pending = []
    for p, allowed in census.allowed.items():
        if pod_counts[p]:
            request = census.request[p, other]
            fits = ((request <= free) | (request == 0)).all(axis=1)
            is_sharing = (census.request[p, shared_gpu] > 0).any()
            pending.append(
                WaitingTask(
                    name=census.pods[p].full_name,
                    user=int(user_number[census.user[p]]),
                    request=census.request[p, requested] / census.size[requested],
                    allowed=allowed & fits,
                    undecided=census.undecided.get(p, "")
                    or (f"sharing {NVIDIA_GPU}" if is_sharing else ""),
                )
            )
    return tuple(pending)


def _idle_users(
    census: Census,
    user_number: IntArray,
    weights: Mapping[str, float],
    stranded: BoolArray,
    requested: BoolArray,
) -> tuple[IdleUser, ...]:
    """Return the users without a pod that counts, with the reason for each."""
    idle = []
    resources = np.array(census.cluster.resources, dtype=object)[requested]
    for n, name in enumerate(census.names):
        if user_number[n] < 0:
            own = np.flatnonzero(census.user == n)
            why = "none of its pods requests a resource that counts"
            if all(p in census.unrunnable for p in own.tolist()):
                why = "no node could run any of its pods"
            elif stranded[own].any():
                why = "its nodes no longer have the resources that its pods hold"
            held = (census.request[own[stranded[own]]].sum(axis=0) / census.size)[requested]
            holds = {resources[r]: float(held[r]) for r in np.flatnonzero(held)}
            idle.append(IdleUser(name, weights.get(name, 1.0), why, holds))
    return tuple(idle)


def _shared_gpus(census: Census, requested: BoolArray) -> BoolArray | None:
    """Return (G, R) whether a node's GPUs are shared by pods; None if none are."""
    gpus = np.array(census.cluster.resources)[requested] == NVIDIA_GPU
    shared = np.zeros((len(census.cluster.groups), len(gpus)), dtype=bool)
    shared[census.node[census.has_part & (census.node >= 0)]] = gpus
    return shared if shared.any() else None


def _no_pod_counts(census: Census) -> InputError:
    """Return the error for a dump without a pod that counts."""
    has_bound = (census.node >= 0).any()
    running = "no running pod requests a resource that counts" if has_bound else "no pod runs"
    for p, why in census.unrunnable.items():
        fault = f"{running}, and no waiting pod fits any node: {why}"
        return ProblemError(fault, census.pods[p].place, census.pods[p].source)
    return InputError("no pod requests a resource that counts")


def _check_weights(weights: Mapping[str, float], dump: Dump, rule: UserRule) -> dict[str, float]:
    what = "user" if rule.label else "namespace"
    checked = {}
    for name, value in weights.items():
        place = f"weights.{name}"
        if name not in dump.users:
            raise InputError(
                f"no pod is of the {what} {show(name)}{did_you_mean(name, dump.users)}", place
            )
        checked[name] = number_at(value, place)
        if not checked[name]:
            raise ProblemError(f"must be a positive number, not {show(value)}", place)
    return checked
