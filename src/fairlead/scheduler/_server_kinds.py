"""Placement constraints, and kinds: servers that the same constraints admit.

A constraint is compared once with each kind, instead of with each server.
"""

from __future__ import annotations

from collections.abc import Iterable

from librt.vecs import append, vec

from fairlead.scheduler._entities import (
    Constraint,
    ConstraintKey,
    Labels,
    Server,
    ServerKind,
    TableKey,
)


class ServerKinds:
    """The constraints of all shapes and quotas, and the kinds of all servers."""

    def __init__(self, spared: int = -1) -> None:
        # The resource whose servers are kept for tasks that ask for it; -1 for none.
        self.spared = spared
        self.constraints: dict[TableKey, Constraint] = {}
        # The constraints that name each server, present or not.
        self.named_by: dict[str, set[Constraint]] = {}
        # By labels, constraints that name the servers, and whether they have the spared resource.
        self.kinds: dict[tuple[Labels, frozenset[Constraint], bool], ServerKind] = {}
        self.by_number: list[ServerKind] = []
        self.free_numbers: list[int] = []  # numbers of kinds without servers, to use again

    def key_of(self, key: ConstraintKey, demand: list[int]) -> TableKey:
        """Return the key of the constraint of tasks with a demand (R,); see `TableKey`."""
        depends_on_demand = self.spared >= 0 and demand[self.spared] == 0
        return (key, tuple(demand) if depends_on_demand else ())

    def find_constraint(self, key: TableKey) -> Constraint:
        """Return the constraint of a key; if it is new, `add_constraint` enters it."""
        return self.constraints.get(key) or Constraint(key)

    def has_spared(self, server: Server) -> bool:
        """Return whether a server has the spared resource."""
        return self.spared >= 0 and server.given[self.spared] > 0

    def may_go_elsewhere(self, constraint: Constraint, servers: Iterable[Server]) -> bool:
        """Return whether an open server without the spared resource is large enough for a task."""
        for server in servers:
            kind = self.by_number[server.kind]
            if not server.is_draining and not kind.has_spared and kind.is_admitted(constraint):
                rows = zip(constraint.demand, server.given, strict=True)
                if all(asked <= amount for asked, amount in rows):
                    return True
        return False

    def keep_off(self, constraint: Constraint, is_kept_off: bool) -> None:
        """Keep a constraint's tasks off servers with the spared resource, or admit them there."""
        constraint.is_kept_off = is_kept_off
        for number, kind in enumerate(self.by_number):
            constraint.admits[number] = kind.is_admitted(constraint)

    def add_constraint(self, constraint: Constraint) -> bool:
        """Count a use of a constraint by a shape or quota; return whether it is the first."""
        constraint.uses += 1
        if constraint.uses > 1:
            return False
        self.constraints[constraint.table_key] = constraint
        for name in constraint.names or ():
            self.named_by.setdefault(name, set()).add(constraint)
        constraint.admits = vec[bool]([kind.is_admitted(constraint) for kind in self.by_number])
        return True

    def remove_constraint(self, constraint: Constraint) -> None:
        """Subtract a use of a constraint, and remove the constraint after its last use."""
        constraint.uses -= 1
        if constraint.uses > 0:
            return
        del self.constraints[constraint.table_key]
        for name in constraint.names or ():
            named_by = self.named_by[name]
            named_by.remove(constraint)
            if not named_by:
                del self.named_by[name]

    def find_kind(self, server: Server) -> ServerKind:
        """Return the kind of a server by its labels and names; add a new one if needed."""
        named_by = self.named_by.get(server.name, set()) | self.named_by.get(server.group, set())
        key = (server.labels, frozenset(named_by), self.has_spared(server))
        kind = self.kinds.get(key)
        if kind is None:
            number = self.free_numbers.pop() if self.free_numbers else len(self.by_number)
            kind = ServerKind(key[0], key[1], key[2], number)
            self.kinds[key] = kind
            if number < len(self.by_number):
                self.by_number[number] = kind
                for constraint in self.constraints.values():
                    constraint.admits[number] = kind.is_admitted(constraint)
            else:
                self.by_number.append(kind)
                for constraint in self.constraints.values():
                    is_admitted = kind.is_admitted(constraint)
                    constraint.admits = append(constraint.admits, is_admitted)
        return kind

    def add_server(self, server: Server) -> None:
        """Set the kind of a server that joins or has changed."""
        kind = self.find_kind(server)
        kind.servers += 1
        server.kind = kind.number

    def remove_server(self, server: Server) -> None:
        """Subtract a server from its kind; free the kind's number after the last server."""
        kind = self.by_number[server.kind]
        kind.servers -= 1
        if kind.servers == 0:
            del self.kinds[(kind.labels, kind.named_by, kind.has_spared)]
            self.free_numbers.append(int(kind.number))
