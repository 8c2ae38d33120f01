"""Water-filling by hierarchical DRF, for divisible tasks: of one server, or of any capacity.

The level of a node of the tree is its share over its weight. From the root down, the active
children of least level grow together. A leaf is active until it has all its tasks or asks for a
used-up resource, an inner node as long as a leaf below it is. Active children above the least level
count with their amounts at that level. Used-up resources do not count in the share of an inner
node. Leaves that are not active count with what they hold on this server. Of several nodes that
grow without a rise of their level, the first one grows alone.

Bhattacharya, Culler, Friedman, Ghodsi, Shenker and Stoica, SoCC 2013, in the limit of small tasks.
Tasks that a user has on other servers count as if they were on this one, as in the server procedure
of Khamse-Ashari et al. 2017, III-C. A tree without inner nodes is filled as by `water_filling`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mypy_extensions import i64

from fairlead.errors import NoConvergenceError

SAME: Final = 1e-12  # relative differences below this are rounding errors
CHANGES: Final = 1000  # for each user and resource; random trees take 1 or 2
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
        self.limit = INFINITE
        self.is_active = False
        self.amounts: list[float] = []  # (R,)
        self.level = 0.0
        self.least = 0.0  # the least level of its active children
        if parent is not None:
            parent.children.append(self)


class Growth:
    """How the leaves below a node grow, and what follows, for one unit of time."""

    def __init__(self, width: i64) -> None:
        self.leaves: list[TreeNode] = []
        self.rates: list[float] = []  # tasks of these leaves
        self.amounts = [0.0] * int(width)  # of the node
        self.slope = 1.0  # of the node's level
        self.longest = INFINITE  # the time until other nodes grow, or another resource dominates

    def add(self, other: Growth, times: float) -> None:
        """Let the leaves below a child grow that many times as fast."""
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
        """Take the queues' weights and earlier parents, and of users those and use (K, R).

        A negative index stands for the root.
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
        """Set tasks on other servers (K,), and the tasks that users have in all (K,)."""
        self.changes = 0
        self.saturated = [False] * int(self.width)
        for k in range(len(self.users)):
            user = self.users[k]
            user.start = user.tasks = start[k]
            user.limit = limit[k]
            user.is_active = user.tasks < user.limit * (1 - SAME)

    def fill(self, start: Sequence[float], limit: Sequence[float]) -> list[list[float]]:
        """Return the tasks (K,) here, each time that a resource was used up or a limit reached.

        See `begin`. The last row is the answer. O((Q + K) R) for each change of the growing nodes
        or of a dominant resource, of which there are a few for each row.
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
            if self.stop([self.asks_saturated(user) for user in self.users]):
                rows.append([user.tasks - user.start for user in self.users])

    def next_growth(self) -> Growth | None:
        """Return how users grow now; None if no user can."""
        self.changes += 1
        if self.changes > CHANGES * (len(self.users) + self.width):
            raise NoConvergenceError("a tree of queues changed too often while it was filled")
        self.measure(self.root)
        return self.growth_of(self.root) if self.root.is_active else None

    def tasks(self) -> list[float]:
        """Return the tasks (K,) that users have in all."""
        return [user.tasks for user in self.users]

    def rates(self, growth: Growth) -> list[float]:
        """Return the tasks (K,) that users get in one unit of time."""
        rate = dict(zip(growth.leaves, growth.rates, strict=True))
        return [rate.get(user, 0.0) for user in self.users]

    def grow(self, growth: Growth, time: float) -> None:
        """Let users grow for some time."""
        for k in range(len(growth.leaves)):
            growth.leaves[k].tasks += time * growth.rates[k]

    def stop(self, stopped: Sequence[bool]) -> bool:
        """Make users (K,) inactive, and those with all tasks; return whether any was active."""
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
            counted = node.tasks if node.is_active else node.tasks - node.start
            node.amounts = [counted * amount for amount in node.use]
            node.level = max(node.amounts) / node.weight
            return
        node.amounts = [0.0] * int(self.width)
        node.least = INFINITE
        for child in node.children:
            self.measure(child)
            if child.is_active:
                node.least = min(node.least, child.level)
        node.is_active = node.least < INFINITE
        for child in node.children:
            is_ahead = child.is_active and child.level > node.least
            times = node.least / child.level if is_ahead else 1.0
            for r in range(self.width):
                node.amounts[r] += child.amounts[r] * times
        node.level = self.share_of(node) / node.weight

    def share_of(self, node: TreeNode) -> float:
        """Return the largest amount of a node, used-up resources aside."""
        share = 0.0
        for r in range(self.width):
            if not self.saturated[r]:
                share = max(share, node.amounts[r])
        return share

    def growth_of(self, node: TreeNode) -> Growth:
        """Return the growth of an active node; without a rise of its level where that is free."""
        growth = Growth(self.width)
        if node.use:
            rate = node.weight / max(node.use)
            growth.leaves, growth.rates = [node], [rate]
            growth.amounts = [rate * amount for amount in node.use]
            growth.longest = (node.limit - node.tasks) / rate
            return growth
        same = node.least * (1 + SAME)
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
                growth.longest = min(growth.longest, child.level - node.least)
        self.set_slope(node, growth)
        return growth

    def set_slope(self, node: TreeNode, growth: Growth) -> None:
        """Compute the slope of a node's level, and when another resource begins to dominate."""
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

    def asks_saturated(self, user: TreeNode) -> bool:
        """Return whether a user asks for a used-up resource."""
        return any(self.saturated[r] and user.use[r] > 0.0 for r in range(self.width))
