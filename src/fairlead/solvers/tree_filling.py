"""Fill one server, or any vector of capacities, with divisible tasks by hierarchical DRF.

Leaves of the tree are users, inner nodes are queues. The level of a node is its share over its
weight; the share is the largest fraction that it holds of a resource. From the root down, the
active children of lowest level grow together. The rules:

- A leaf is active until it has all its tasks or demands a used-up resource; an inner node is active
  as long as a leaf below it is.
- In the sum of a queue, an active child whose level is above that of the lowest active child counts
  only up to that level. Active leaves count with their tasks on all servers, others only with those
  on this server.
- Used-up resources do not count in the share of an inner node.
- An inner node may grow without a rise of its level, in resources that do not dominate. If some of
  the lowest children can, only the first of these grows.

Bhattacharya, Culler, Friedman, Ghodsi, Shenker and Stoica, SoCC 2013, in the limit of small tasks.
Tasks on other servers count as if they were on this one, as in the server procedure of
Khamse-Ashari et al. 2017, III-C. A tree without inner nodes is filled as by `water_filling`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mypy_extensions import i64

from fairlead.errors import NoConvergenceError

SAME: Final = 1e-12  # relative differences below this are rounding errors
# Largest number of changes of the growth, for each user and resource; random trees take 1 or 2.
MAX_CHANGES: Final = 1000
INFINITE: Final = float("inf")


class TreeNode:
    """A node of the tree: a user if it has `use`, else a queue or the root."""

    def __init__(self, weight: float, parent: TreeNode | None, use: list[float]) -> None:
        self.weight = weight
        self.parent = parent
        self.children: list[TreeNode] = []
        self.use = use  # (R,) by one task, relative to the server's capacity
        self.start = 0.0  # tasks on other servers
        self.tasks = 0.0  # on all servers
        self.limit = INFINITE  # largest number of tasks on all servers
        self.is_active = False
        self.amounts: list[float] = []  # (R,) amounts that count as held, relative to the capacity
        self.level = 0.0
        self.lowest = 0.0  # the lowest level of its active children
        if parent is not None:
            parent.children.append(self)


class Growth:
    """Rates at which a node and the leaves below it grow, per unit of (fictitious) time."""

    def __init__(self, width: i64) -> None:
        self.leaves: list[TreeNode] = []  # those that grow
        self.rates: list[float] = []  # tasks per unit of time of each of these leaves
        self.amounts = [0.0] * int(width)  # (R,) amounts of the node per unit of time
        self.slope = 1.0  # rise of the node's level per unit of time
        # Time for which the rates hold: until other nodes grow, another resource dominates, or a
        # leaf has all its tasks.
        self.longest = INFINITE

    def add(self, other: Growth, times: float) -> None:
        """Add the growth of a child, `times` as fast."""
        self.leaves += other.leaves
        self.rates += [rate * times for rate in other.rates]
        for r in range(len(self.amounts)):
            self.amounts[r] += other.amounts[r] * times
        self.longest = min(self.longest, other.longest / times)


class TreeFilling:
    """One server of R resources, a tree of queues, and the K users that may run there."""

    def __init__(
        self,
        weight: Sequence[float],
        parent: Sequence[int],
        user_weight: Sequence[float],
        user_queue: Sequence[int],
        use: Sequence[Sequence[float]],
    ) -> None:
        """Build the tree of Q queues and K users.

        Parameters
        ----------
        weight, parent : (Q,)
            Weight of each queue, and its parent: an earlier queue, or the root if negative.
        user_weight, user_queue : (K,)
            Weight of each user, and its queue: the root if negative.
        use : (K, R)
            Use by one task of each user, relative to the server's capacity.
        """
        self.width: i64 = len(use[0])
        self.root = TreeNode(1.0, None, [])
        queues: list[TreeNode] = []
        for k in range(len(weight)):
            above = self.root if parent[k] < 0 else queues[parent[k]]
            queues.append(TreeNode(weight[k], above, []))
        self.users: list[TreeNode] = []
        for k in range(len(use)):
            above = self.root if user_queue[k] < 0 else queues[user_queue[k]]
            self.users.append(TreeNode(user_weight[k], above, list(use[k])))
        self.saturated = [False] * int(self.width)
        self.changes: i64 = 0

    def begin(self, start: Sequence[float], limit: Sequence[float]) -> None:
        """Reset; `start` (K,) are users' tasks on other servers, `limit` (K,) all their tasks."""
        self.changes = 0
        self.saturated = [False] * int(self.width)
        for k in range(len(self.users)):
            user = self.users[k]
            user.start = user.tasks = start[k]
            user.limit = limit[k]
            user.is_active = user.tasks < user.limit * (1 - SAME)

    def fill(self, start: Sequence[float], limit: Sequence[float]) -> list[list[float]]:
        """Fill the server; return users' tasks (K,) here for each time that a user stopped.

        For the arguments see `begin`. The last row is the answer. O((Q + K) R) for each change of
        the growing nodes or of a dominant resource, of which there are a few for each row.
        """
        self.begin(start, limit)
        free = [1.0] * int(self.width)
        rows: list[list[float]] = []
        while True:
            growth = self.next_growth()
            if growth is None:
                return rows or [[0.0] * len(self.users)]
            time = growth.longest
            taken = [0.0] * int(self.width)
            for k in range(len(growth.leaves)):
                for r in range(self.width):
                    taken[r] += growth.rates[k] * growth.leaves[k].use[r]
            for r in range(self.width):
                if taken[r] > 0.0:
                    time = min(time, max(free[r], 0.0) / taken[r])
            self.grow(growth, time)
            for r in range(self.width):
                free[r] -= time * taken[r]
                self.saturated[r] = free[r] <= SAME
            if self.stop([self.demands_saturated(user) for user in self.users]):
                rows.append([user.tasks - user.start for user in self.users])

    def next_growth(self) -> Growth | None:
        """Return the growth of the root; None if no user can grow.

        Raises NoConvergenceError after too many calls since `begin`.
        """
        self.changes += 1
        if self.changes > MAX_CHANGES * (len(self.users) + self.width):
            raise NoConvergenceError("a tree of queues changed too often while it was filled")
        self.measure(self.root)
        return self.growth_of(self.root) if self.root.is_active else None

    def tasks(self) -> list[float]:
        """Return the tasks (K,) of users on all servers."""
        return [user.tasks for user in self.users]

    def rates(self, growth: Growth) -> list[float]:
        """Return the tasks (K,) that users get per unit of time."""
        rate = dict(zip(growth.leaves, growth.rates, strict=True))
        return [rate.get(user, 0.0) for user in self.users]

    def grow(self, growth: Growth, time: float) -> None:
        """Add the tasks that users get in some time."""
        for k in range(len(growth.leaves)):
            growth.leaves[k].tasks += time * growth.rates[k]

    def stop(self, stopped: Sequence[bool]) -> bool:
        """Deactivate users (K,) and users with all their tasks; return whether any was active."""
        is_changed = False
        for k in range(len(self.users)):
            user = self.users[k]
            if user.is_active and (stopped[k] or user.tasks >= user.limit * (1 - SAME)):
                user.is_active = False
                is_changed = True
        return is_changed

    def measure(self, node: TreeNode) -> None:
        """Compute the levels and amounts below a node."""
        if node.use:
            tasks = node.tasks if node.is_active else node.tasks - node.start
            node.amounts = [tasks * amount for amount in node.use]
            node.level = max(node.amounts) / node.weight
            return
        node.amounts = [0.0] * int(self.width)
        node.lowest = INFINITE
        for child in node.children:
            self.measure(child)
            if child.is_active:
                node.lowest = min(node.lowest, child.level)
        node.is_active = node.lowest < INFINITE
        for child in node.children:
            is_ahead = child.is_active and child.level > node.lowest
            times = node.lowest / child.level if is_ahead else 1.0
            for r in range(self.width):
                node.amounts[r] += child.amounts[r] * times
        node.level = self.share_of(node) / node.weight

    def share_of(self, node: TreeNode) -> float:
        """Return a node's largest amount of a resource that is not used up."""
        share = 0.0
        for r in range(self.width):
            if not self.saturated[r]:
                share = max(share, node.amounts[r])
        return share

    def growth_of(self, node: TreeNode) -> Growth:
        """Return the growth of an active node.

        Children of lowest level grow such that their levels rise equally; but if a child can grow
        without a rise of its level, only the first such child grows.
        """
        growth = Growth(self.width)
        if node.use:
            rate = node.weight / max(node.use)
            growth.leaves, growth.rates = [node], [rate]
            growth.amounts = [rate * amount for amount in node.use]
            growth.longest = (node.limit - node.tasks) / rate
            return growth
        same = node.lowest * (1 + SAME)
        grown: list[Growth] = []
        for child in node.children:
            if child.is_active and child.level <= same:
                found = self.growth_of(child)
                if found.slope == 0.0:
                    growth.add(found, 1.0)
                    self.set_slope(node, growth)
                    return growth
                grown.append(found)
        for found in grown:
            growth.add(found, 1.0 / found.slope)
        for child in node.children:
            if child.is_active and child.level > same:
                for r in range(self.width):
                    growth.amounts[r] += child.amounts[r] / child.level
                growth.longest = min(growth.longest, child.level - node.lowest)
        self.set_slope(node, growth)
        return growth

    def set_slope(self, node: TreeNode, growth: Growth) -> None:
        """Compute the slope of a node's level, and the time until another resource dominates."""
        share = self.share_of(node)
        slope = 0.0
        for r in range(self.width):
            if not self.saturated[r] and node.amounts[r] >= share * (1 - SAME):
                slope = max(slope, growth.amounts[r])
        if slope <= SAME * max(growth.amounts):
            slope = 0.0
        for r in range(self.width):
            behind = share - node.amounts[r]
            if not self.saturated[r] and behind > SAME * share and growth.amounts[r] > slope:
                growth.longest = min(growth.longest, behind / (growth.amounts[r] - slope))
        growth.slope = slope / node.weight

    def demands_saturated(self, user: TreeNode) -> bool:
        """Return whether a user demands a used-up resource."""
        return any(self.saturated[r] and user.use[r] > 0.0 for r in range(self.width))
