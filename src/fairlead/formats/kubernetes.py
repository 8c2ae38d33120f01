"""Read the holdings of a Kubernetes cluster: namespaces or labels as users, nodes as groups.

The pods of a namespace have many shapes, but the tasks of a user have one. So a user's task is the
mean request of its bound and pending pods; the requests of its bound pods are kept as well.

Affinity between pods, topology spread, volumes, priorities and preemption, quotas, dynamic resource
allocation, parts of GPUs by memory, and use beyond requests are not modelled.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fairlead.errors import InputError, ProblemError
from fairlead.formats._kubernetes_objects import BY_NAMESPACE, Dump, Pod, UserRule, read_dump
from fairlead.formats._kubernetes_placement import NodeChoice
from fairlead.formats._kubernetes_specs import (
    NVIDIA_GPU,
    PODS,
    gpu_part_annotation,
    repelled_namespaces,
    split_request,
    unit_of,
    unmodelled_constraint,
)
from fairlead.formats._problem_rows import NamedGroups
from fairlead.formats.documents import source_name
from fairlead.formats.file_faults import RowFaults, did_you_mean
from fairlead.model.cluster import BoolArray, Cluster, FloatArray, IntArray, find_unplaceable
from fairlead.model.holdings import Holdings, IdleUser, UnrunnableTask, WaitingTask
from fairlead.model.problem import Problem
from fairlead.model.quantity import MOST_DEVICES, number_at, show
from fairlead.model.ties import first_largest_of_rows

_EQUAL_WEIGHTS: Mapping[str, float] = {}
_LEAST_PART = 1e-6  # of a GPU: the unit in which parts of GPUs are counted
# Cells of the table of holdings by user, node and resource: 0.8 GB.
MOST_CELLS = 100_000_000

_FIRST_COLUMNS = ("cpu", "memory", PODS, "ephemeral-storage")


def read_kubernetes(
    path: str | Path | Sequence[str | Path],
    *,
    lenient: bool = False,
    weights: Mapping[str, float] = _EQUAL_WEIGHTS,
    resources: Collection[str] | None = None,
    ignore: Collection[str] = (),
    user_from: str = BY_NAMESPACE,
) -> Holdings:
    """Read what users hold from a dump of the nodes and pods of a Kubernetes cluster.

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
        raise InputError("no pod asks for any of the resources that count")
    return np.array(kept)


def _compute_holdings(
    census: Census, selected: BoolArray, weights: Mapping[str, float], skipped: tuple[str, ...]
) -> Holdings:
    """Compute each user's mean task and its holdings from the pods that count.

    `selected` (R,) tells whether a resource of the census may count. The result has only the
    resources that pods request.
    """
    pod_counts, requested, stranded = _find_counting_pods(census, selected)
    # The users with pods that count, by number in the census; and their numbers in the result.
    users = np.unique(census.user[pod_counts])
    names = [census.names[n] for n in users]
    user_number = np.full(len(census.names), -1)
    user_number[users] = np.arange(len(users))

    # Requests, holdings and means are in units of the census, such as bytes; `size` of these are a
    # displayed unit, in which capacity is.
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
    eligible, pod_fits = _open_nodes(census, requested, user_number, len(users))
    cut = _fit_to_some_node(mean, user, request, eligible, capacity > 0)

    # Express holdings in mean tasks, by the dominant resource of the mean task.
    total_capacity = capacity.sum(axis=0) * size
    share = np.divide(mean, total_capacity, out=np.zeros_like(mean), where=total_capacity > 0)
    dominant = first_largest_of_rows(share)
    rows = np.arange(len(users))
    tasks = held[rows, :, dominant] / mean[rows, dominant][:, None]
    is_shared_gpu = (np.array(resources) == NVIDIA_GPU) & census.shares_gpus
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
    # Users with pods that fit nodes on which the mean task does not, so their slice is too small.
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


def _find_counting_pods(
    census: Census, selected: BoolArray
) -> tuple[BoolArray, BoolArray, BoolArray]:
    """Find the pods that count, and the stranded ones: of users whose nodes have lost all they ask.

    Returns whether each pod (P,) counts, whether these or stranded pods request each selected
    resource (R,), and whether each pod (P,) is stranded. Raises InputError if no pod counts.
    """
    runnable = np.array([p not in census.unrunnable for p in range(len(census.pods))])
    pod_counts = runnable & (census.request[:, selected] > 0).any(axis=1)
    if not pod_counts.any():
        raise _no_pod_counts(census)
    requested = selected & (census.request[pod_counts] > 0).any(axis=0)
    stranded = pod_counts & _stranded_users(census, pod_counts, requested)[census.user]
    pod_counts &= ~stranded
    if not pod_counts.any():
        raise InputError(
            "the nodes of each user have lost all counted resources that its pods request"
        )
    return pod_counts, requested, stranded


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


def _stranded_users(census: Census, pod_counts: BoolArray, requested: BoolArray) -> BoolArray:
    """Return (N,) bool: whether the user's nodes have lost all resources that its pods request."""
    n_users = len(census.names)
    requests = np.zeros((n_users, int(requested.sum())), dtype=bool)
    pods = np.flatnonzero(pod_counts)
    np.logical_or.at(requests, census.user[pods], census.request[pods][:, requested] > 0)
    eligible, _ = _open_nodes(census, requested, np.arange(n_users), n_users)
    is_on_nodes = eligible.astype(np.float32) @ (census.cluster.capacity[:, requested] > 0) > 0
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


def _open_nodes(
    census: Census, requested: BoolArray, user_number: IntArray, n_users: int
) -> tuple[BoolArray, BoolArray]:
    """Return (N, G) whether a user's pods may run on a node, and (N, G) whether any fits there.

    A pod fits a node that has all resources that it requests, also those that do not count.
    """
    eligible = np.zeros((n_users, len(census.cluster.groups)), dtype=bool)
    pod_fits = np.zeros_like(eligible)
    lacks = ~(census.cluster.capacity > 0)
    for (n, key), nodes in census.reach.items():
        requests = np.frombuffer(key, dtype=bool)
        if user_number[n] >= 0 and (requests & requested).any():
            eligible[user_number[n]] |= nodes
            pod_fits[user_number[n]] |= nodes & ~lacks[:, requests].any(axis=1)
    return eligible, pod_fits


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
    return [
        f"{what}: {len(pods):,} pod{'s' if len(pods) > 1 else ''}, such as {pods[0]}"
        for what, pods in census.not_modelled.items()
    ]


def _describe_cut_resources(
    cut: Mapping[int, BoolArray], names: Sequence[str], problem: Problem
) -> list[str]:
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
    GPUs do not count, and running pods share some, it is not known whether enough of one is free.
    """
    other = ~requested
    bound = np.flatnonzero(census.node >= 0)
    free = np.rint(census.cluster.capacity * census.size)[:, other]  # in whole units
    columns = np.array(census.cluster.resources, dtype=object)
    shared_gpu = other & (columns == NVIDIA_GPU) & bool(census.sharing)
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
    for p in census.sharing:
        shared[census.node[p]] |= gpus
    return shared if shared.any() else None


def _no_pod_counts(census: Census) -> InputError:
    """Return the error for a dump without a pod that counts."""
    has_bound = (census.node >= 0).any()
    running = "no running pod requests a resource that counts" if has_bound else "no pod runs"
    for p, why in census.unrunnable.items():
        fault = f"{running}, and no waiting pod fits any node: {why}"
        return ProblemError(fault, census.pods[p].place)
    return InputError("no pod asks for any of the resources that count")


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


@dataclass(frozen=True, eq=False)
class Census:
    """Pods as arrays: P pods of N users, G nodes, R resources (all that any pod requests)."""

    cluster: Cluster
    names: list[str]  # (N,): the users
    pods: list[Pod]  # (P,)
    user: IntArray  # (P,): user of each pod
    node: IntArray  # (P,): node of each bound pod, -1 for pending ones
    # (P, R): in whole units (thousandths of a core, bytes, pieces); GPUs may be fractions.
    request: FloatArray
    size: FloatArray  # (R,): whole units per displayed unit of each resource
    allowed: dict[int, BoolArray]  # for each pending pod: (G,) whether it may run on a node
    # For each user and set of requested resources (an array (R,) of bool, as bytes): (G,) whether
    # such pods run or may run on a node.
    reach: dict[tuple[int, bytes], BoolArray]
    unrunnable: dict[int, str]  # reasons why pending pods fit no node, by pod
    undecided: dict[int, str]  # names of constraints that are not modelled, by pending pod
    lacks_parts: bool  # whether parts of GPUs of bound pods are not counted
    sharing: list[int]  # bound pods with a counted part of one GPU
    shares_gpus: bool  # whether any pod, bound or pending, has a counted part of one GPU
    not_modelled: dict[str, list[str]]  # names of pods, by request that is not modelled


@dataclass
class _OpenNodes:
    """The pods that are kept, and the nodes open to each."""

    # The position in the dump of each kept pod. Pods are numbered by their index in this list.
    kept: list[int] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)  # number of each user
    allowed: dict[int, BoolArray] = field(default_factory=dict)  # as in the census
    reach: dict[tuple[int, bytes], BoolArray] = field(default_factory=dict)  # of running pods
    # The first running pod whose required anti-affinity may keep away pods of a namespace.
    repels: dict[str, str] = field(default_factory=dict)


def take_census(dump: Dump, faults: RowFaults) -> Census:
    """Arrange the pods of a dump in arrays, and find the nodes open to each pod. O(P G + P R).

    Errors of single pods go to `faults`. Raises InputError if no pod is left.
    """
    nodes = list(dump.nodes.values())
    placement = NamedGroups(list(dump.nodes), [node.labels for node in nodes])
    listed = frozenset(name for node in nodes for name in node.allocatable)
    not_modelled: dict[str, list[str]] = {}
    requests, first_not_modelled = _split_requests(dump, listed, not_modelled)
    columns = _columns(requests)
    n_cells = max(len(dump.users) * len(nodes), len(nodes), len(dump.pods)) * len(columns)
    if n_cells > MOST_CELLS:
        raise InputError(
            f"has too many users ({len(dump.users):,}) and resources ({len(columns):,}) "
            f"for its {len(nodes):,} nodes and {len(dump.pods):,} pods"
        )
    request = table_of(requests, columns)
    choice = NodeChoice(placement, [node.taints for node in nodes])
    found = _find_open_nodes(dump, placement, choice, request > 0, faults)
    faults.refuse_if_none_left(len(found.kept))
    pods, request = [dump.pods[p] for p in found.kept], request[found.kept]
    user = np.array([found.names[pod.user] for pod in pods], dtype=np.int64)
    size = np.array([unit_of(name)[1] for name in columns], dtype=float)
    cluster = Cluster(
        groups=tuple(dump.nodes),
        resources=tuple(columns),
        capacity=table_of([node.allocatable for node in nodes], columns) / size,
        count=np.ones(len(nodes), dtype=np.int64),
        units=tuple(unit_of(name)[0] for name in columns),
        labels=tuple(node.labels for node in nodes),
    )
    unrunnable = _find_unrunnable(cluster, request / size, found.allowed)
    # Constraints outside the model may keep pending pods away from nodes.
    undecided = {}
    for k, allowed in found.allowed.items():
        if k not in unrunnable:
            reached = int(user[k]), (request[k] > 0).tobytes()
            found.reach[reached] = found.reach.get(reached, allowed) | allowed
            why = _why_undecided(pods[k], found.repels)
            why = why or first_not_modelled.get(found.kept[k], "")
            if why:
                undecided[k] = why
    with_part = [
        k for k, pod in enumerate(pods) if pod.node and gpu_part_annotation(pod.annotations)
    ]
    counts_parts = NVIDIA_GPU in listed
    return Census(
        cluster=cluster,
        names=list(found.names),
        pods=pods,
        user=user,
        node=np.array([placement.index.get(pod.node, -1) for pod in pods], dtype=np.int64),
        request=request,
        size=size,
        allowed=found.allowed,
        reach=found.reach,
        unrunnable=unrunnable,
        undecided=undecided,
        lacks_parts=any(not (counts_parts and pods[k].gpu_part) for k in with_part),
        sharing=[k for k in with_part if counts_parts and pods[k].gpu_part],
        shares_gpus=counts_parts and any(pod.gpu_part for pod in pods),
        not_modelled=not_modelled,
    )


def _find_open_nodes(
    dump: Dump,
    placement: NamedGroups,
    choice: NodeChoice,
    is_requested: BoolArray,
    faults: RowFaults,
) -> _OpenNodes:
    """Find the nodes open to each pod; drop pending pods whose constraint cannot be read.

    `is_requested` (P, R) tells whether a pod of the dump requests a resource.
    """
    found = _OpenNodes()
    for p, pod in enumerate(dump.pods):
        allowed = None
        with faults.collected(pod.source):
            allowed = choice.allowed(pod.spec, pod.place)
        if allowed is None:
            if not pod.node:
                continue
            allowed = np.zeros(len(dump.nodes), dtype=bool)  # the pod's own node is added below
        n = found.names.setdefault(pod.user, len(found.names))
        if pod.node:
            allowed[placement.index[pod.node]] = True
            for namespace in repelled_namespaces(pod.spec, pod.namespace):
                found.repels.setdefault(namespace, pod.full_name)
            reached = n, is_requested[p].tobytes()
            found.reach[reached] = found.reach.get(reached, allowed) | allowed
        else:
            found.allowed[len(found.kept)] = allowed
        found.kept.append(p)
    return found


def _split_requests(
    dump: Dump, listed: frozenset[str], not_modelled: dict[str, list[str]]
) -> tuple[list[Mapping[str, float]], dict[int, str]]:
    """Return the requests of pods, and for some the first requested resource that is not modelled.

    Adds the names of such pods to `not_modelled`.
    """
    requests: list[Mapping[str, float]] = []
    first_not_modelled: dict[int, str] = {}
    for p, pod in enumerate(dump.pods):
        # The ResourceClaim of a pending pod may not exist yet, so any claimed resource is possible.
        claimed = pod.claimed if pod.node else dump.claimed
        counted, uncounted = split_request(pod.request, listed, claimed)
        request: dict[str, float] = dict(counted)
        if PODS not in listed:  # files written by hand may leave it out
            request.pop(PODS, None)
        for resource, why in uncounted.items():
            what = f"{resource}, {why}"
            first_not_modelled.setdefault(p, f"a request of {what}")
            not_modelled.setdefault(what, []).append(pod.full_name)
        annotation = gpu_part_annotation(pod.annotations)
        if pod.gpu_part and NVIDIA_GPU in listed:
            request[NVIDIA_GPU] = pod.gpu_part
        elif annotation:
            what = f"parts of GPUs by the annotation {annotation}"
            not_modelled.setdefault(what, []).append(pod.full_name)
        requests.append(request)
    return requests, first_not_modelled


def _columns(requests: Sequence[Mapping[str, float]]) -> dict[str, int]:
    """Return the index of each resource that any pod requests; `_FIRST_COLUMNS` come first."""
    asked = {name for request in requests for name, amount in request.items() if amount > 0}
    first = [name for name in _FIRST_COLUMNS if name in asked]
    return {name: r for r, name in enumerate([*first, *sorted(asked.difference(first))])}


def table_of(rows: Sequence[Mapping[str, float]], columns: Mapping[str, int]) -> FloatArray:
    """Return amounts as (rows, R), 0 if absent; resources without a column are left out."""
    table = np.zeros((len(rows), len(columns)))
    for row, amounts in enumerate(rows):
        for name, amount in amounts.items():
            column = columns.get(name)
            if column is not None:
                table[row, column] = amount
    return table


def _find_unrunnable(
    cluster: Cluster, demand: FloatArray, allowed_of: Mapping[int, BoolArray]
) -> dict[int, str]:
    """Return the reason for each pending pod that fits no empty node."""
    alike: dict[tuple[bytes, bytes], list[int]] = {}
    for k, allowed in allowed_of.items():
        alike.setdefault((demand[k].tobytes(), allowed.tobytes()), []).append(k)
    first = [members[0] for members in alike.values()]
    if not first:
        return {}
    rows = np.array([allowed_of[k] for k in first])
    reasons = find_unplaceable(cluster, demand[first], rows, None)
    return {
        k: reasons[row]
        for row, members in enumerate(alike.values())
        if row in reasons
        for k in members
    }


def _why_undecided(pod: Pod, repels: Mapping[str, str]) -> str:
    """Name a constraint that is not modelled and may keep a pod away; empty if there is none."""
    constraint = unmodelled_constraint(pod.spec, pod.annotations, pod.labels)
    if constraint:
        return constraint
    other = repels.get("") or repels.get(pod.namespace)
    return f"the podAntiAffinity of {other}" if other else ""
