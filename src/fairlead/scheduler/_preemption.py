"""Preemption: tasks that are stopped so that a queue gets its quota or its share.

A round serves waiting tasks that fit nowhere, those of the queue with the least share first. For
each it looks for a server, and for running tasks there whose end makes room: its victims.

- No queue falls below a quota.
- Two queues are compared as children of the lowest queue above both. The taker's may take if it
  stays within its quotas; or, by shares, if the other one has at least its share afterwards.
- The queue with the largest share is taken from first, inside a queue from tasks of lower priority,
  and then where least work is lost.
- No victim could be left out.
- A task that started after the last change from outside is no victim. So in a sequence of rounds
  each task is a victim at most once, and the sequence ends.

A taker is booked at once, on top of its victims: the server is overcommitted until they end. Room
that they leave beside it is for other takers.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.errors import InputError
from fairlead.scheduler._cycle import Cycle, largest_first
from fairlead.scheduler._entities import (
    NO_QUOTA,
    UNLIMITED,
    Gang,
    Plan,
    Queue,
    Quota,
    Server,
    Shape,
    Task,
    TaskGroup,
    add_to,
    choose_devices,
    fits,
    limit_reached,
    path_of,
    take_from,
    zeros,
)
from fairlead.scheduler._waiting import first_groups
from fairlead.scheduler.criteria.criterion import ONE, ONE_BITS, weighted

Key = list[tuple[bool, int, int]]  # of a leaf: by weight 0, score and serial from the top down

OVER_QUOTA: Final = "over-quota"  # a queue within its quota takes from one beyond its own
OVER_SHARE: Final = "over-share"  # also a queue with a lesser share from one with a larger
LARGEST_SCORE: Final = 2**200  # more than any score
LONGEST_RUN: Final = 2.0**40  # seconds; longer runs count as this
# Waiting lists of a queue that are tried in a round, so that a user with many unlike jobs, none of
# which may take, costs others little.
MOST_TRIED: Final = 4


class Victim:
    """A running task, or all of a gang, that may be stopped."""

    def __init__(self, tasks: list[Task], loss: int) -> None:
        self.tasks = tasks
        self.queue = tasks[0].group.waiting_list.queue
        self.loss = loss  # share of the cluster times milliseconds, in parts of 2**-64


class Preempted:
    """Tasks that started, and the tasks that are to stop for them."""

    def __init__(self, starts: list[Task], victims: list[Task]) -> None:
        self.starts = starts
        self.victims = victims


class HeldAmounts:
    """(W,) amounts of queues and of quotas: what they hold, or would lose by victims."""

    def __init__(self) -> None:
        self.of_queue: dict[Queue, list[int]] = {}
        self.of_quota: dict[Quota, list[int]] = {}

    def add(self, task: Task, sign: int) -> None:
        """Add the amounts of a task to its queues and quotas (1), or subtract them (-1)."""
        demand = task.shape.demand
        for node in path_of(task.group.waiting_list.queue):
            amounts = [self.of_queue.setdefault(node, [0] * len(demand))]
            for quota in node.quotas:
                if quota.is_on(task.server):
                    amounts.append(self.of_quota.setdefault(quota, [0] * len(demand)))
            for each in amounts:
                for r in range(len(demand)):
                    each[r] += sign * int(demand[r])

    def add_victim(self, victim: Victim, sign: int) -> None:
        for task in victim.tasks:
            self.add(task, sign)


class PreemptionRound:
    """One round of preemption, at the time of the last placement."""

    def __init__(self, cycle: Cycle, resources: list[str], mode: str, min_run: float) -> None:
        state = cycle.state
        self.cycle = cycle
        self.state = state
        self.resources = resources
        self.by_share = mode == OVER_SHARE
        self.min_run = min_run  # seconds that a task runs at least
        self.width = state.width
        self.total = [int(amount) for amount in state.criterion.total]
        self.shared = state.criterion.shared
        self.servers = sorted(state.servers.values())
        # What queues and quotas hold, without tasks that are to stop.
        self.holdings = HeldAmounts()
        self.held = self.holdings.of_queue
        self.ending: dict[str, list[Task]] = {}  # tasks that are to stop, by server
        self.children: dict[Queue, list[Queue]] = {}
        # By queue: the two children with the largest scores, and the inner ones.
        self.compared: dict[Queue, list[Queue]] = {}
        self.keys: dict[Queue, Key] = {}  # of leaves that may take, by which they are served
        self.on_server: dict[str, list[Task]] | None = None  # running tasks that are not to stop
        self.victims: dict[str, list[Victim]] = {}  # on each server, in the order of choice
        self.queues_on: dict[str, list[Queue]] = {}  # the queues of these
        self.least_loss: dict[str, int] = {}  # of these
        self.next_moment = UNLIMITED  # when the next task has run for the least time

    def run(self, limit: int) -> list[Preempted]:
        """Serve each waiting task that may take, or stop when at least `limit` started."""
        self.count_all()
        waiting: dict[Queue, list[TaskGroup]] = {}
        for leaf in self.state.queues.values():
            if not leaf.children and leaf.waiting > 0 and self.may_be_due(leaf):
                waiting[leaf] = self.groups_to_try(leaf)
        found: list[Preempted] = []
        started = 0
        while started < limit:
            next_leaf = self.least(waiting)
            if next_leaf is None:
                break
            leaf = next_leaf
            groups = waiting[leaf]
            group = groups[-1]
            served = self.serve(group)
            if served is not None:
                found.append(served)
                started += len(served.starts)
            if served is None or group.waiting == 0:
                groups.pop()
                self.keys.pop(leaf, None)
            if served is not None and group.waiting == 0 and not self.cycle.is_strict:
                next_group = group.waiting_list.first()
                if next_group is not None:
                    insert_by_order(groups, next_group)
        return found

    def count_all(self) -> None:
        for queue in self.state.queues.values():
            self.held[queue] = [int(amount) for amount in queue.held]
            for quota in queue.quotas:
                self.holdings.of_quota[quota] = [int(amount) for amount in quota.held]
            parent = queue.parent
            assert parent is not None
            self.children.setdefault(parent, []).append(queue)
        for task in self.state.stopping.values():
            self.count_stopping(task)

    def count_stopping(self, task: Task) -> None:
        self.count(task, -1)
        self.ending.setdefault(task.server.name, []).append(task)

    def free_on(self, server: Server) -> vec[i64]:
        """Return the free amounts of a server when the tasks that are to stop have stopped."""
        ending = self.ending.get(server.name)
        if ending is None:
            return server.free
        free = server.free[:]
        for task in ending:
            take_from(free, task.shape, task.devices, -1)
        return free

    def count(self, task: Task, sign: int) -> None:
        """Add what a task holds to its queues and quotas (1), or subtract it (-1)."""
        self.holdings.add(task, sign)
        path = path_of(task.group.waiting_list.queue)
        for node in path:
            self.compared.pop(node.parent or node, None)
        top = path[0]
        for leaf in list(self.keys):
            if path_of(leaf)[0] is top:
                del self.keys[leaf]

    # Who takes

    def may_be_due(self, leaf: Queue) -> bool:
        """Return whether a leaf may take, whatever its tasks ask for."""
        for node in path_of(leaf):
            if node.quotas:
                return True
            parent = node.parent
            assert parent is not None
            if self.by_share:
                if node.children:
                    return True
                mine = self.score(node, self.held[node], [])
                for other in self.to_compare(parent):
                    if other is not node and (
                        other.children or self.is_behind(other, [], node, mine)
                    ):
                        return True
        return False

    def to_compare(self, parent: Queue) -> list[Queue]:
        """Return the children of a queue that some other one may take from, if it may from any."""
        found = self.compared.get(parent)
        if found is None:
            scored: list[tuple[bool, int, int]] = []
            found = []
            children = self.children[parent]
            for k, child in enumerate(children):
                if child.children:
                    found.append(child)
                else:
                    score = self.score(child, self.held[child], [])
                    scored.append((child.weight[0] == 0 and score > 0, score, k))
            scored.sort(reverse=True)
            found += [children[k] for _, _, k in scored[:2]]
            self.compared[parent] = found
        return found

    def is_behind(self, other: Queue, asked: list[int], node: Queue, mine: int) -> bool:
        """Return whether a queue has at least the score of a taker's."""
        score = self.score(other, self.held[other], asked)
        return score > 0 and goes_after(other, score, node, mine)

    def groups_to_try(self, leaf: Queue) -> list[TaskGroup]:
        """Return the first groups of the waiting lists of a leaf, the first one last."""
        most = 1 if self.cycle.is_strict else MOST_TRIED
        groups = [group for group in first_groups(leaf)[:most] if limit_reached(group) is None]
        groups.reverse()
        return groups

    def least(self, waiting: dict[Queue, list[TaskGroup]]) -> Queue | None:
        """Return the leaf to be served next: from the root down, that with the least score."""
        least: Queue | None = None
        least_key: Key = []
        for leaf, groups in waiting.items():
            if not groups:
                continue
            key = self.keys.get(leaf)
            if key is None:
                asked = groups[-1].demand_together()
                key = [
                    (node.weight[0] == 0, self.score(node, self.held[node], asked), node.serial)
                    for node in path_of(leaf)
                ]
                self.keys[leaf] = key
            if least is None or key < least_key:
                least = leaf
                least_key = key
        return least

    def score(self, queue: Queue, amounts: list[int], asked: list[int]) -> int:
        """Return the score of a queue that holds amounts, for a taker that asks for some.

        A leaf has its dominant share. Of an inner queue only the resources that the taker asks for
        count: its members may hold others that the taker has no use for.
        """
        share = 0
        for r in range(self.shared):
            if self.total[r] > 0 and amounts[r] > 0 and (not queue.children or asked[r] > 0):
                share = max(share, amounts[r] * ONE // self.total[r])
        return weighted(share, ONE_BITS, queue)

    # Whom it takes from

    def serve(self, group: TaskGroup) -> Preempted | None:
        """Start a group's next task, or all of a gang, in place of victims, if it may."""
        if limit_reached(group) is not None:
            return None
        taker = Taker(self, group)
        plan = taker.find()
        if plan is None or not self.is_countable(group, plan):
            return None
        if not taker.chosen and all(server.name not in self.ending for _, server in plan):
            return None  # it fits now: that is for `place`
        return self.book(group, plan, taker.devices, taker.chosen)

    def book(
        self, group: TaskGroup, plan: Plan, devices: list[vec[i64]], chosen: list[Victim]
    ) -> Preempted | None:
        state = self.state
        if isinstance(group, Gang) and group.is_parked:
            state.unpark_gang(group)
        victims = sorted_by_start([task for victim in chosen for task in victim.tasks])
        for task in victims:
            self.count_stopping(task)
            state.mark_stopping(task)
            self.victims.pop(task.server.name, None)
        starts: list[Task] = []
        self.cycle.book_plan(group, plan, starts, devices)
        for task in starts:
            self.count(task, 1)
        return Preempted(starts, victims)

    def is_countable(self, group: TaskGroup, plan: Plan) -> bool:
        """Count amounts beyond capacities; return whether all sums can be counted."""
        asked = [0] * len(self.resources)
        for index, _ in plan:
            given = group.shape_of(index).given
            for r in range(len(asked)):
                asked[r] += int(given[r])
        try:
            self.state.replace_used(self.resources, [0] * len(asked), asked)
        except InputError:
            return False
        return True

    def victims_on(self, server: Server) -> list[Victim]:
        """Return the tasks on a server that may be victims, of one queue in the order of choice."""
        found = self.victims.get(server.name)
        if found is not None:
            return found
        if self.on_server is None:
            self.on_server = {}
            for task in self.state.running.values():
                if not task.is_stopping:
                    self.on_server.setdefault(task.server.name, []).append(task)
        rows: list[tuple[int, int, int, Victim]] = []
        seen: set[int] = set()
        for task in self.on_server.get(server.name, []):
            group = task.group
            if group.id in seen or task.is_stopping or not self.may_stop(group, task):
                continue
            tasks = [task]
            if isinstance(group, Gang):
                seen.add(group.id)
                tasks = list((group.tasks or {}).values())
            victim = Victim(tasks, sum([self.loss(each) for each in tasks]))
            rows.append((group.priority, victim.loss, task.id, victim))
        found = [victim for _, _, _, victim in sorted(rows, key=order_of_victim)]
        self.victims[server.name] = found
        self.queues_on[server.name] = list({victim.queue: True for victim in found})
        self.least_loss[server.name] = min([victim.loss for victim in found], default=0)
        return found

    def may_stop(self, group: TaskGroup, task: Task) -> bool:
        """Return whether tasks have run for the least time, and started before the last change."""
        tasks = (group.tasks or {}).values() if isinstance(group, Gang) else [task]
        for each in tasks:
            if each.id >= self.state.first_new_id:
                return False
            if each.since + self.min_run > self.state.now:
                self.next_moment = min(self.next_moment, each.since + self.min_run)
                return False
        return True

    def loss(self, task: Task) -> int:
        """Return the work that is lost with a task: its dominant share times its milliseconds."""
        share = 0
        demand = task.shape.demand
        for r in range(self.shared):
            if self.total[r] > 0:
                share = max(share, int(demand[r]) * ONE // self.total[r])
        return share * int(1000.0 * max(0.0, min(self.state.now - task.since, LONGEST_RUN)))


class Taker:
    """A task or gang that looks for a place."""

    def __init__(self, round: PreemptionRound, group: TaskGroup) -> None:
        self.round = round
        self.group = group
        self.queue = group.waiting_list.queue
        self.path = path_of(self.queue)
        self.width = round.width
        self.indices = largest_first(group, round.state.criterion.total)
        self.asked = group.demand_together()  # (W,) by all of these tasks
        self.plan: Plan = []
        self.devices: list[vec[i64]] = []  # of each task of the plan
        self.chosen: list[Victim] = []
        self.losses = HeldAmounts()
        # Free amounts of the servers of the plan and of victims, after both.
        self.free: dict[str, vec[i64]] = {}
        self.scores: dict[Queue, int] = {}  # of the queues of victims; see `score_of`
        # By the child of a common queue above that takes: its score afterwards.
        self.score_after: dict[Queue, int] = {}

    def find(self) -> Plan | None:
        """Return where the tasks start, and choose their victims; None if they may not."""
        if not self.may_take():
            return None
        for index in self.indices:
            if not self.find_one(index):
                return None
        self.prune()
        for victim in self.chosen:  # with all tasks of a gang placed
            if not self.is_allowed(victim, victim.tasks[0].server):
                return None
        return self.plan

    def may_take(self) -> bool:
        """Return whether any queue has so much that the taker might take from it."""
        round = self.round
        for depth, node in enumerate(self.path):
            if self.is_guaranteed(depth, None):
                return True
            parent = node.parent
            assert parent is not None
            if round.by_share:
                mine = self.after(node)
                for other in round.to_compare(parent):
                    if other is not node and round.is_behind(other, self.asked, node, mine):
                        return True
        return False

    def after(self, node: Queue) -> int:
        """Return the score of a queue above the taker after its start."""
        score = self.score_after.get(node)
        if score is None:
            held = self.round.held[node]
            amounts = [held[r] + self.asked[r] for r in range(self.width)]
            score = self.round.score(node, amounts, self.asked)
            self.score_after[node] = score
        return score

    def find_one(self, index: int) -> bool:
        """Find the server of a task: one with room, or else the one with the best victims."""
        shape = self.group.shape_of(index)
        best: Server | None = None
        best_victims: list[Victim] = []
        bounds: list[tuple[int, int, int]] = []
        for k, server in enumerate(self.round.servers):
            if may_hold(server, shape):
                if fits(shape.need, self.free_on(server)):
                    best = server
                    break
                if self.round.victims_on(server):
                    bounds.append((*self.least_key(server), k))
        if best is None:
            least: tuple[int, int] | None = None
            for score, loss, k in sorted(bounds):
                if least is not None and (score, loss) >= least:
                    break
                server = self.round.servers[k]
                victims = self.find_victims(server, shape)
                if victims:
                    poorest = max([-self.score_of(victim.queue) for victim in victims])
                    key = (poorest, sum([victim.loss for victim in victims]))
                    if least is None or key < least:
                        best = server
                        best_victims = victims
                        least = key
        if best is None:
            return False
        for victim in best_victims:
            self.add(victim)
        free = self.own_free(best)
        devices = choose_devices(shape, free)
        take_from(free, shape, devices, 1)
        self.plan.append((index, best))
        self.devices.append(devices)
        return True

    def least_key(self, server: Server) -> tuple[int, int]:
        """Return a lower bound of the key of victims on a server."""
        queues = self.round.queues_on[server.name]
        return min([-self.score_of(queue) for queue in queues]), self.round.least_loss[server.name]

    def score_of(self, queue: Queue) -> int:
        """Return the score of a victim's queue that is compared; for weight 0 the largest."""
        score = self.scores.get(queue)
        if score is None:
            theirs = path_of(queue)
            depth = self.common_depth(theirs)
            other = theirs[depth] if depth >= 0 else queue
            score = self.round.score(other, self.round.held[other], self.asked)
            if other.weight[0] == 0:
                score += LARGEST_SCORE
            self.scores[queue] = score
        return score

    def common_depth(self, theirs: list[Queue]) -> int:
        """Return how many queues are above both the taker and another queue; -1 in one queue."""
        common = 0
        while common < min(len(theirs), len(self.path)) and theirs[common] is self.path[common]:
            common += 1
        return common if common < min(len(theirs), len(self.path)) else -1

    def free_on(self, server: Server) -> vec[i64]:
        """Return the free amounts of a server, which must not be changed."""
        found = self.free.get(server.name)
        return self.round.free_on(server) if found is None else found

    def own_free(self, server: Server) -> vec[i64]:
        if server.name not in self.free:
            self.free[server.name] = self.free_on(server)[:]
        return self.free[server.name]

    def add(self, victim: Victim) -> None:
        self.chosen.append(victim)
        self.losses.add_victim(victim, 1)
        for task in victim.tasks:
            take_from(self.own_free(task.server), task.shape, task.devices, -1)

    def find_victims(self, server: Server, shape: Shape) -> list[Victim]:
        """Return victims on a server that make room for a task; empty if there are none.

        First in the order of choice; if that does not do, those first that free most.
        """
        victims = self.round.victims_on(server)
        ordered = [(-self.score_of(victim.queue), k) for k, victim in enumerate(victims)]
        found = self.try_victims([victims[k] for _, k in sorted(ordered)], server, shape)
        if not found and len(victims) > 1:
            ordered = [
                (-self.part_freed(victim, server, shape), k) for k, victim in enumerate(victims)
            ]
            found = self.try_victims([victims[k] for _, k in sorted(ordered)], server, shape)
        return found

    def try_victims(self, victims: list[Victim], server: Server, shape: Shape) -> list[Victim]:
        """Add victims until a task has room, and leave out superfluous ones."""
        free = self.free_on(server)[:]
        found: list[Victim] = []
        for victim in victims:
            if victim in self.chosen or not helps(victim, server, shape, free):
                continue
            self.losses.add_victim(victim, 1)
            if not self.is_allowed(victim, server):
                self.losses.add_victim(victim, -1)
                continue
            found.append(victim)
            free_up(free, victim, server, 1)
            if fits(shape.need, free):
                break
        for victim in found:
            self.losses.add_victim(victim, -1)
        if not fits(shape.need, free):
            return []
        for victim in sorted(found, key=loss_of, reverse=True):
            free_up(free, victim, server, -1)
            if fits(shape.need, free):
                found.remove(victim)
            else:
                free_up(free, victim, server, 1)
        return found

    def part_freed(self, victim: Victim, server: Server, shape: Shape) -> int:
        """Return the part of what a task lacks that a victim frees, of each resource the least."""
        freed = zeros(self.width)
        for task in victim.tasks:
            if task.server is server:
                add_to(freed, task.shape.demand, 1)
        free, part = self.free_on(server), 2 * ONE
        for r in range(self.width):
            lacking = int(shape.demand[r]) - int(free[r])
            if shape.demand[r] > 0 and lacking > 0:
                part = min(part, int(freed[r]) * ONE // lacking)
        return part

    def is_allowed(self, victim: Victim, server: Server) -> bool:
        """Return whether the queue of the last victim may lose it, with all others chosen."""
        round, theirs = self.round, path_of(victim.queue)
        common = self.common_depth(theirs)
        if common < 0:
            return False
        for depth, node in enumerate(theirs):
            if node.quotas and not self.keeps_quotas(node, server, gains=depth < common):
                return False
        if self.is_guaranteed(common, server):
            return True
        if not round.by_share:
            return False
        mine, other = self.path[common], theirs[common]
        lost, held = self.losses.of_queue[other], round.held[other]
        amounts = [held[r] - lost[r] for r in range(self.width)]
        return goes_after(other, round.score(other, amounts, self.asked), mine, self.after(mine))

    def keeps_quotas(self, node: Queue, server: Server, *, gains: bool) -> bool:
        """Return whether a queue that loses victims, and perhaps gets the taker, has its quotas."""
        for quota in node.quotas:
            lost = self.losses.of_quota.get(quota)
            if lost is None:
                continue
            held = self.round.holdings.of_quota[quota]
            gained = self.asked_of(quota, server, with_rest=False)
            for r in range(self.width):
                gain = gained[r] if gains else 0
                has_quota = quota.amounts[r] != NO_QUOTA and lost[r] > gain
                if has_quota and held[r] - lost[r] + gain < int(quota.amounts[r]):
                    return False
        return True

    def is_guaranteed(self, common: int, server: Server | None) -> bool:
        """Return whether the taker stays within the quotas of the first queue that has some.

        A gang's tasks that have no place yet count as on the given server. Without one, the best
        case is meant.
        """
        for node in self.path[common:]:
            is_named = False
            for quota in node.quotas:
                held = self.round.holdings.of_quota[quota]
                asked = (
                    self.asked if server is None else self.asked_of(quota, server, with_rest=True)
                )
                for r in range(self.width):
                    if quota.amounts[r] != NO_QUOTA and asked[r] > 0:
                        if held[r] + asked[r] > int(quota.amounts[r]):
                            if server is not None:
                                return False
                        else:
                            is_named = True
            if is_named:
                return True
        return False

    def asked_of(self, quota: Quota, server: Server, *, with_rest: bool) -> list[int]:
        """Return what the taker gets on the servers of a quota.

        That is what has a place there, and, if it is about the given server, the next task, or the
        whole rest.
        """
        asked = [0] * int(self.width)
        for k, index in enumerate(self.indices):
            placed = k < len(self.plan)
            if not placed and k > len(self.plan) and not with_rest:
                break
            if quota.is_on(self.plan[k][1] if placed else server):
                demand = self.group.shape_of(index).demand
                for r in range(self.width):
                    asked[r] += int(demand[r])
        return asked

    def prune(self) -> None:
        """Leave out victims without which all planned tasks have room, the largest loss first."""
        planned: dict[str, list[Shape]] = {}
        for index, server in self.plan:
            planned.setdefault(server.name, []).append(self.group.shape_of(index))
        for victim in sorted(self.chosen, key=loss_of, reverse=True):
            is_needed = False  # without it, planned tasks would hold more than there is
            for server in {task.server.name: task.server for task in victim.tasks}.values():
                free = self.own_free(server)[:]
                free_up(free, victim, server, -1)
                for shape in planned.get(server.name, []):
                    is_needed = is_needed or is_overcommitted(free, shape)
            if not is_needed:
                self.chosen.remove(victim)
                for task in victim.tasks:
                    take_from(self.own_free(task.server), task.shape, task.devices, 1)


def goes_after(other: Queue, score: int, node: Queue, mine: int) -> bool:
    """Return whether a queue has weight 0 and another one has not, or at least its score."""
    if (other.weight[0] == 0) != (node.weight[0] == 0):
        return other.weight[0] == 0
    return score >= mine


def insert_by_order(groups: list[TaskGroup], group: TaskGroup) -> None:
    """Insert a group into a list whose last one is the first in its queue."""
    at = len(groups)
    while at > 0 and groups[at - 1].order < group.order:
        at -= 1
    groups.insert(at, group)


def sorted_by_start(tasks: list[Task]) -> list[Task]:
    by_id = {task.id: task for task in tasks}
    return [by_id[id] for id in sorted(by_id)]


def order_of_victim(row: tuple[int, int, int, Victim]) -> tuple[int, int, int]:
    priority, loss, id, _ = row
    return priority, loss, id


def loss_of(victim: Victim) -> int:
    return victim.loss


def may_hold(server: Server, shape: Shape) -> bool:
    """Return whether a task could start on a server if that were empty."""
    is_admitted = shape.constraint.admits[server.kind]
    return is_admitted and not server.is_draining and fits(shape.need, server.capacity)


def is_overcommitted(free: vec[i64], shape: Shape) -> bool:
    """Return whether less than nothing is free of a resource, or of a device, that a task takes."""
    for r in range(len(shape.demand)):
        if shape.demand[r] > 0 and free[r] < 0:
            return True
    for columns in shape.by_device:  # noqa: SIM110 (a loop that is compiled)
        if columns.is_overcommitted(free):
            return True
    return False


def free_up(free: vec[i64], victim: Victim, server: Server, sign: i64) -> None:
    """Add what a victim holds on a server to free amounts (1), or subtract it (-1)."""
    for task in victim.tasks:
        if task.server is server:
            take_from(free, task.shape, task.devices, -sign)


def helps(victim: Victim, server: Server, shape: Shape, free: vec[i64]) -> bool:
    """Return whether a victim frees a resource that a task lacks on a server."""
    lacking = [r for r in range(len(shape.demand)) if free[r] < shape.need[r]]
    for columns in shape.by_device:
        if not columns.has_room(shape.demand[columns.resource], free):
            lacking.append(columns.resource)
    for task in victim.tasks:
        if task.server is server and any(task.shape.demand[r] > 0 for r in lacking):
            return True
    return False
