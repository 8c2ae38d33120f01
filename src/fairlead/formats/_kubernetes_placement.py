"""Find the nodes open to a pod, by node selectors, node affinity, taints and tolerations.

Source: Kubernetes documentation, "Assigning Pods to Nodes" and "Taints and Tolerations".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairlead.errors import InputError
from fairlead.formats._kubernetes_specs import (
    Amounts,
    KubernetesNodeSpec,
    NodeSelector,
    PodSpec,
    Requirement,
    Taint,
    Toleration,
)
from fairlead.formats._problem_rows import NamedGroups
from fairlead.model.cluster import BoolArray
from fairlead.model.quantity import show

NAME_FIELD = "metadata.name"

# The taint of a cordoned node; pods may tolerate it.
CORDONED: Taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}

# Effects of taints that keep pods away; other effects only discourage pods.
_FORBIDDING = frozenset(("NoSchedule", "NoExecute"))
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
# Whole numbers in taints: Kubernetes accepts neither leading zeros nor a plus sign.
_DECIMAL = re.compile(r"0|-?[1-9][0-9]{0,18}")

# Key, value and effect of a taint.
TaintKey = tuple[str, str, str]


@dataclass(frozen=True, eq=False)
class Node:
    """A checked node."""

    name: str
    labels: Mapping[str, str]
    taints: frozenset[TaintKey]  # the taints that keep pods away
    allocatable: Amounts


def forbidding_taints(spec: KubernetesNodeSpec) -> frozenset[TaintKey]:
    """Return the taints that keep pods away from a node; a cordoned node has one more."""
    taints = [*(spec.get("taints") or ()), *([CORDONED] if spec.get("unschedulable") else ())]
    return frozenset(
        (taint["key"], taint.get("value") or "", taint["effect"])
        for taint in taints
        if taint["effect"] in _FORBIDDING
    )


class NodeChoice:
    """Finds, among G nodes, those open to a pod."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self.nodes = NamedGroups(list(nodes), [node.labels for node in nodes.values()])
        taints = [node.taints for node in nodes.values()]
        index = {taint_set: k for k, taint_set in enumerate(dict.fromkeys(taints))}
        self._taint_sets = list(index)  # distinct
        self._taint_set_of = np.array([index[each] for each in taints], dtype=np.int64)  # (G,)

    def allowed(self, spec: PodSpec, place: str) -> BoolArray:
        """Return (G,) bool: whether each node is open to a pod. O(G).

        Raises InputError, with a key path that begins with `place`, for an unknown operator or
        field.
        """
        affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        )
        allowed = self._tolerated(spec.get("tolerations") or [], f"{place}.spec.tolerations")
        for key, value in (spec.get("nodeSelector") or {}).items():
            allowed &= self._with_label(key, [value])
        if affinity is not None:
            here = (
                f"{place}.spec.affinity.nodeAffinity."
                "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
            )
            allowed &= self._selected(affinity, here)
        return allowed

    def _no_node(self) -> BoolArray:
        return np.zeros(len(self._taint_set_of), dtype=bool)

    def _tolerated(self, tolerations: Sequence[Toleration], place: str) -> BoolArray:
        """Return (G,) bool: whether all taints of a node are tolerated."""
        for k, toleration in enumerate(tolerations):
            if toleration.get("operator") not in (None, "", "Equal", "Exists", "Gt", "Lt"):
                raise InputError(
                    f"must be Equal, Exists, Gt or Lt, not {show(toleration['operator'])}",
                    f"{place}[{k}].operator",
                )
        tolerated: BoolArray = np.array(
            [
                all(any(_tolerates(each, taint) for each in tolerations) for taint in taint_set)
                for taint_set in self._taint_sets
            ]
        )
        return tolerated[self._taint_set_of]

    def _selected(self, selector: NodeSelector, place: str) -> BoolArray:
        """Return (G,) bool: whether a node meets at least one term of a selector.

        A node meets a term if it meets all its conditions; no node meets a term without conditions.
        """
        selected = self._no_node()
        for k, term in enumerate(selector["nodeSelectorTerms"]):
            here = f"{place}[{k}]"
            conditions = [
                *(
                    self._matching(requirement, f"{here}.matchExpressions[{n}]")
                    for n, requirement in enumerate(term.get("matchExpressions") or ())
                ),
                *(
                    self._meeting_field(requirement, f"{here}.matchFields[{n}]")
                    for n, requirement in enumerate(term.get("matchFields") or ())
                ),
            ]
            if conditions:
                selected |= np.logical_and.reduce(conditions)
        return selected

    def _matching(self, requirement: Requirement, place: str) -> BoolArray:
        """Return (G,) bool: whether the labels of a node meet a requirement."""
        key, operator, values = (
            requirement["key"],
            requirement["operator"],
            requirement.get("values") or [],
        )
        if operator == "In":
            return self._with_label(key, values)
        if operator == "NotIn":
            return ~self._with_label(key, values)
        if operator in ("Exists", "DoesNotExist"):
            labelled = self._with_label(key, list(self.nodes.by_label.get(key, ())))
            return labelled if operator == "Exists" else ~labelled
        if operator in ("Gt", "Lt"):
            if len(values) != 1 or not _WHOLE_NUMBER.fullmatch(values[0]):
                found = show(values[0]) if len(values) == 1 else f"{len(values)} values"
                raise InputError(f"must hold one whole number, not {found}", f"{place}.values")
            bound, sign = int(values[0]), 1 if operator == "Gt" else -1
            beyond = [
                value
                for value in self.nodes.by_label.get(key, ())
                if _WHOLE_NUMBER.fullmatch(value) and sign * (int(value) - bound) > 0
            ]
            return self._with_label(key, beyond)
        raise InputError(
            f"must be In, NotIn, Exists, DoesNotExist, Gt or Lt, not {show(operator)}",
            f"{place}.operator",
        )

    def _meeting_field(self, requirement: Requirement, place: str) -> BoolArray:
        if requirement["key"] != NAME_FIELD:
            raise InputError(
                f"must be {NAME_FIELD}, not {show(requirement['key'])}", f"{place}.key"
            )
        if requirement["operator"] not in ("In", "NotIn"):
            raise InputError(
                f"must be In or NotIn, not {show(requirement['operator'])}", f"{place}.operator"
            )
        named = self._no_node()
        index = self.nodes.index
        named[[index[name] for name in requirement.get("values") or () if name in index]] = True
        return named if requirement["operator"] == "In" else ~named

    def _with_label(self, key: str, values: Sequence[str]) -> BoolArray:
        """Return (G,) bool: whether a node has the label with one of these values."""
        labelled = self._no_node()
        nodes_by_value = self.nodes.by_label.get(key, {})
        for value in values:
            labelled[nodes_by_value.get(value, [])] = True
        return labelled


def _tolerates(toleration: Toleration, taint: TaintKey) -> bool:
    """Return whether a toleration matches a taint: its effect, key and value."""
    key, value, effect = taint
    if toleration.get("effect") and toleration["effect"] != effect:
        return False
    if toleration.get("key") and toleration["key"] != key:
        return False
    operator, wanted = toleration.get("operator"), toleration.get("value") or ""
    if operator == "Exists":
        return True
    if operator in ("Gt", "Lt"):
        # Both values must be plain decimal numbers; other text never matches.
        if not (_DECIMAL.fullmatch(wanted) and _DECIMAL.fullmatch(value)):
            return False
        return int(value) > int(wanted) if operator == "Gt" else int(value) < int(wanted)
    return wanted == value
