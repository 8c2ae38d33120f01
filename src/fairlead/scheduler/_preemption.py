"""Preemption: running tasks are stopped so that a queue gets its quota or its share.

A round serves waiting tasks that fit nowhere, first those of the queue with the least share. For
each such *taker* it looks for a server, and for running tasks there whose end makes room: the
*victims*.

- No queue falls below a quota by losing victims.
- The queues of a taker and of a victim are compared as siblings: each by the queue on its path that
  is directly below the lowest queue above both.
- The taker may start if its queue stays within its quotas. Under ``over-share`` it may also start
  if the victim's queue has at least as large a share afterwards.
- Victims come first from the queue with the largest share. In a queue, tasks of lower priority come
  first, then tasks whose end loses less work.
- A victim without which the taker fits is not stopped.
- A task that started after the last change from outside is never a victim. So in a sequence of
  rounds each task is a victim at most once, and the sequence ends.

A taker starts in the tables at once, while its victims still hold their amounts: the server is
overcommitted until they end. If victims free more than the taker needs, other takers may use the
rest.
"""

from __future__ import annotations

from bisect import insort
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from fairlead.errors import InputError
from fairlead.scheduler._cycle import Cycle, largest_first
from fairlead.scheduler._entities import (
    NO_QUOTA,
    UNLIMITED,
    Gang,
    Order,
    Plan,
    PlannedTask,
    Queue,
    Quota,
    Server,
    Shape,
    Task,
    TaskGroup,
    fits,
    limit_reached,
    path_of,
    take_from,
)
from fairlead.scheduler._shortage import fit_together
from fairlead.scheduler._waiting import first_groups
from fairlead.scheduler.criteria.criterion import ONE, ONE_BITS, weighted

# The order in which leaves are served: for each queue on the path from the top down, whether its
# weight is 0, its score, and its serial.
Key = list[tuple[bool, int, int]]

# Queues within their quotas preempt tasks of queues beyond theirs. Under `OVER_SHARE` queues with
# smaller shares also preempt tasks of queues with larger ones.
OVER_QUOTA: Final = "over-quota"
OVER_SHARE: Final = "over-share"
LARGEST_SCORE: Final = 2**200  # more than any score
LONGEST_RUN: Final = 2.0**40  # seconds; the lost work of longer runs counts as this
# Largest number of waiting lists of a queue that are tried in a round, so that a user with jobs of
# many shapes, none of which may start, costs others little.
MAX_TRIED: Final = 4


class Victim:
    """A running task, or all of a gang, that may be stopped."""

    def __init__(self, tasks: list[Task], loss: int) -> None:
        self.id = tasks[0].id  # a gang is another `Victim` on each server, with the same id
        self.tasks = tasks
        self.queue = tasks[0].group.waiting_list.queue
        self.loss = loss  # lost work: share of the cluster times milliseconds, times 2**64


class ServerVictims:
    """The possible victims on a server."""

    def __init__(self, victims: list[Victim]) -> None:
        self.victims = victims  # sorted by priority, loss and start
        self.queues = list({victim.queue: True for victim in victims})
        self.least_loss = min([victim.loss for victim in victims], default=0)


class Preempted:
    """Tasks that started, and their victims."""

    def __init__(self, starts: list[Task], victims: list[Task]) -> None:
        self.starts = starts
        self.victims = victims


class HeldAmounts:
    """(W,) amounts that queues and quotas hold, or that they would lose with victims."""

    def __init__(self) -> None:
        self.of_queue: dict[Queue, list[int]] = {}
        self.of_quota: dict[Quota, list[int]] = {}

    def add(self, task: Task, sign: int) -> None:
        """Add the amounts of a task to its queues and quotas (1), or subtract them (-1)."""
        demand = task.shape.demand
        for node in path_of(task.group.waiting_list.queue):
            rows = [self.of_queue.setdefault(node, [0] * len(demand))]
            for quota in node.quotas:
                if quota.is_on(task.server):
                    rows.append(self.of_quota.setdefault(quota, [0] * len(demand)))
            for amounts in rows:
                for r in range(len(demand)):
                    amounts[r] += sign * int(demand[r])

    def add_victim(self, victim: Victim, sign: int) -> None:
        for task in victim.tasks:
            self.add(task, sign)


class PreemptionRound:
    """One round of preemption, at the time of the last placement."""

    def __init__(self, cycle: Cycle, resources: list[str]) -> None:
        state = cycle.state
        self.cycle = cycle
        self.state = state
        self.resources = resources
        self.by_share = cycle.preempts == OVER_SHARE
        self.min_run = cycle.min_run  # seconds; a task that has run for less is no victim
        self.width = state.width
        self.total = [int(amount) for amount in state.criterion.total]  # (W,) of all servers
        self.shared = state.criterion.shared  # how many of these, from the first, count in shares
        self.servers = sorted(state.servers.values())
        self.open_servers = state.open_servers()
        # The amounts that queues and quotas hold, without victims that have not stopped yet.
        self.held = HeldAmounts()
        self.stopping: dict[str, list[Task]] = {}  # victims that have not stopped yet, by server
        self.children: dict[Queue, list[Queue]] = {}
        # By parent, some children; see `to_compare`.
        self.compared: dict[Queue, list[Queue]] = {}
        self.keys: dict[Queue, Key] = {}  # of leaves with groups to try
        self.on_server: dict[str, list[Task]] | None = None  # running tasks that are not stopping
        self.victims: dict[str, ServerVictims] = {}  # see `victims_on`, by server
        self.next_time = UNLIMITED  # when the next task will have run for `min_run`, in seconds

    def run(self, limit: int) -> list[Preempted]:
        """Start tasks in place of victims until `limit` have started; return all of these.

        The queue with the least score is served first.
        """
        self.count_all()
        waiting: dict[Queue, list[TaskGroup]] = {}  # by leaf: groups to try, in order
        for leaf in self.state.queues.values():
            if not leaf.children and leaf.waiting > 0:
                waiting[leaf] = self.groups_to_try(leaf)
        found: list[Preempted] = []
        started = 0
        while started < limit:
            next_leaf = self.least(waiting)
            if next_leaf is None:
                break
            groups = waiting[next_leaf]
            group = groups[0]
            served = self.serve(group)
            if served is not None:
                found.append(served)
                started += len(served.starts)
                if group.waiting > 0:
                    continue  # it is tried again
            del groups[0]
            self.keys.pop(next_leaf, None)
            if served is not None and not self.cycle.is_strict:
                next_group = group.waiting_list.first()
                if next_group is not None:
                    insort(groups, next_group, key=order_of)
        return found

    def count_all(self) -> None:
        """Count the amounts that queues and quotas hold, and the children of each queue."""
        for queue in self.state.queues.values():
            self.held.of_queue[queue] = [int(amount) for amount in queue.held]
            for quota in queue.quotas:
                self.held.of_quota[quota] = [int(amount) for amount in quota.held]
            parent = queue.parent
            assert parent is not None
            self.children.setdefault(parent, []).append(queue)
        for task in self.state.stopping.values():
            self.count_stopping(task)

    def count_stopping(self, task: Task) -> None:
        """Count a victim as stopped, although it still runs."""
        self.count(task, -1)
        self.stopping.setdefault(task.server.name, []).append(task)

    def free_on(self, server: Server) -> vec[i64]:
        """Return the free amounts of a server when its present victims have stopped."""
        stopping = self.stopping.get(server.name)
        if stopping is None:
            return server.free
        free = server.free[:]
        for task in stopping:
            take_from(free, task.shape, task.devices, -1)
        return free

    def count(self, task: Task, sign: int) -> None:
        """Add a task to the holdings (1), or subtract it (-1); drop scores that depend on it."""
        self.held.add(task, sign)
        path = path_of(task.group.waiting_list.queue)
        for node in path:
            self.compared.pop(node.parent or node, None)
        top = path[0]
        for leaf in list(self.keys):
            if path_of(leaf)[0] is top:
                del self.keys[leaf]

    # The taker

    def to_compare(self, parent: Queue) -> list[Queue]:
        """Return the children of a queue to compare with the taker's, as one may lose tasks.

        These are all inner queues, because their scores depend on the taker, and the two leaves
        with the largest scores, because one of them may be the taker's.
        """
        found = self.compared.get(parent)
        if found is None:
            children = self.children[parent]
            leaves = [child for child in children if not child.children]
            leaves.sort(key=self.share_key, reverse=True)
            found = [child for child in children if child.children] + leaves[:2]
            self.compared[parent] = found
        return found

    def share_key(self, leaf: Queue) -> tuple[bool, int]:
        """Return a sort key of leaves: whether one of weight 0 has any share, and the score."""
        score = self.score(leaf, self.held.of_queue[leaf], [])
        return leaf.weight[0] == 0 and score > 0, score

    def has_more(self, other: Queue, asked: list[int], node: Queue, own_score: int) -> bool:
        """Return whether `other` holds any amount, and has at least the score of its sibling."""
        score = self.score(other, self.held.of_queue[other], asked)
        return score > 0 and goes_after(other, score, node, own_score)

    def groups_to_try(self, leaf: Queue) -> list[TaskGroup]:
        """Return the first groups of the waiting lists of a leaf, in order."""
        n = 1 if self.cycle.is_strict else MAX_TRIED
        return [group for group in first_groups(leaf)[:n] if limit_reached(group) is None]

    def least(self, waiting: dict[Queue, list[TaskGroup]]) -> Queue | None:
        """Return the leaf to serve next: on each level from the root down, the least score."""
        least: Queue | None = None
        least_key: Key = []
        for leaf, groups in waiting.items():
            if not groups:
                continue
            key = self.keys.get(leaf)
            if key is None:
                asked = groups[0].demand_together()
                key = [
                    (
                        node.weight[0] == 0,
                        self.score(node, self.held.of_queue[node], asked),
                        node.serial,
                    )
                    for node in path_of(leaf)
                ]
                self.keys[leaf] = key
            if least is None or key < least_key:
                least = leaf
                least_key = key
        return least

    def score(self, queue: Queue, amounts: list[int], asked: list[int]) -> int:
        """Return the score of a queue that holds `amounts`, for a taker that asks for `asked` (W,).

        For a leaf this is the dominant share by weight. For an inner queue only the resources that
        the taker asks for count, because the queues below it may hold others, useless to the taker.
        """
        share = 0
        for r in range(self.shared):
            if self.total[r] > 0 and amounts[r] > 0 and (not queue.children or asked[r] > 0):
                share = max(share, amounts[r] * ONE // self.total[r])
        return weighted(share, ONE_BITS, queue)

    # The victims

    def serve(self, group: TaskGroup) -> Preempted | None:
        """Start a group's next task, or a whole gang, in place of victims; None if it may not."""
        if limit_reached(group) is not None:
            return None
        taker = Taker(self, group)
        plan = taker.find()
        if plan is None or not self.is_countable(plan):
            return None
        if not taker.chosen and all(task.server.name not in self.stopping for task in plan):
            return None  # it fits without preemption, so `place` starts it
        return self.book(group, plan, list(taker.chosen.values()))

    def book(self, group: TaskGroup, plan: Plan, chosen: list[Victim]) -> Preempted:
        """Mark the victims as stopping, and start the taker as planned."""
        state = self.state
        if isinstance(group, Gang) and group.is_parked:
            state.unpark_gang(group)
        victims = sorted([task for victim in chosen for task in victim.tasks], key=id_of)
        for task in victims:
            self.count_stopping(task)
            state.mark_stopping(task)
            self.victims.pop(task.server.name, None)
        starts: list[Task] = []
        self.cycle.book_plan(group, plan, starts)
        for task in starts:
            self.count(task, 1)
        if isinstance(group, Gang):  # tasks of it that ran before are no victims now
            for task in (group.tasks or {}).values():
                self.victims.pop(task.server.name, None)
        return Preempted(starts, victims)

    def is_countable(self, plan: Plan) -> bool:
        """Add planned amounts to the state's sums; return False, without change, on overflow."""
        asked = [0] * len(self.resources)
        for task in plan:
            for r in range(len(asked)):
                asked[r] += int(task.shape.given[r])
        try:
            self.state.replace_in_sums(self.resources, [0] * len(asked), asked)
        except InputError:
            return False
        return True

    def victims_on(self, server: Server) -> ServerVictims:
        """Return the possible victims on a server."""
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
                # Tasks that are stopping already free their amounts only once.
                tasks = [each for each in (group.tasks or {}).values() if not each.is_stopping]
            victim = Victim(tasks, sum([self.lost_work(each) for each in tasks]))
            rows.append((group.priority, victim.loss, task.id, victim))
        found = ServerVictims([victim for _, _, _, victim in sorted(rows)])
        self.victims[server.name] = found
        return found

    def may_stop(self, group: TaskGroup, task: Task) -> bool:
        """Return whether a task, or all of its gang, may be victims.

        They must have run for `min_run`, and have started before the last change from outside.
        """
        tasks = (group.tasks or {}).values() if isinstance(group, Gang) else [task]
        for each in tasks:
            if each.id >= self.state.first_new_id:
                return False
            if each.since + self.min_run > self.state.now:
                self.next_time = min(self.next_time, each.since + self.min_run)
                return False
        return True

    def lost_work(self, task: Task) -> int:
        """Return the lost work of a task: dominant share times milliseconds, times 2**64."""
        share = 0
        demand = task.shape.demand
        for r in range(self.shared):
            if self.total[r] > 0:
                share = max(share, int(demand[r]) * ONE // self.total[r])
        return share * int(1000.0 * max(0.0, min(self.state.now - task.since, LONGEST_RUN)))


class Taker:
    """A waiting task or gang for which servers and victims are searched."""

    def __init__(self, round: PreemptionRound, group: TaskGroup) -> None:
        self.round = round
        self.group = group
        self.queue = group.waiting_list.queue
        self.path = path_of(self.queue)
        self.width = round.width
        self.indices: list[int] = []  # of these tasks; see `find`
        self.asked = group.demand_together()  # (W,) the demand of all of these tasks
        self.plan: Plan = []  # of the tasks that have a server so far
        self.chosen: dict[int, Victim] = {}  # the chosen victims, by id
        self.losses = HeldAmounts()  # amounts that queues and quotas lose by the chosen victims
        # Free amounts of the servers of the plan and of victims, after both.
        self.free: dict[str, vec[i64]] = {}
        self.victim_scores: dict[Queue, int] = {}  # of the queues of victims; see `victim_score`
        self.scores_with_start: dict[Queue, int] = {}  # of queues on the path

    def find(self) -> Plan | None:
        """Find servers for all tasks, and choose victims; None if the group may not start."""
        if not self.may_take():
            return None
        for shape, tasks in self.group.tasks_together().items():
            if not fit_together(self.round.open_servers, shape, tasks):
                return None
        self.indices = largest_first(self.group, self.round.state.criterion.total)
        for index in self.indices:
            if not self.find_server(index):
                return None
        self.prune()
        for victim in self.chosen.values():  # again, now that all tasks of a gang have servers
            if not self.is_allowed(victim, victim.tasks[0].server):
                return None
        return self.plan

    def may_take(self) -> bool:
        """Return whether any queue might lose tasks to the taker: a quick necessary condition."""
        round = self.round
        for depth, node in enumerate(self.path):
            if self.is_guaranteed(depth, None):
                return True
            parent = node.parent
            assert parent is not None
            if round.by_share:
                own_score = self.score_with_start(node)
                for other in round.to_compare(parent):
                    if other is not node and round.has_more(other, self.asked, node, own_score):
                        return True
        return False

    def score_with_start(self, node: Queue) -> int:
        """Return the score that a queue on the taker's path has after the start."""
        score = self.scores_with_start.get(node)
        if score is None:
            held = self.round.held.of_queue[node]
            amounts = [held[r] + self.asked[r] for r in range(self.width)]
            score = self.round.score(node, amounts, self.asked)
            self.scores_with_start[node] = score
        return score

    def find_server(self, index: int) -> bool:
        """Plan a task on the first server with room, or else on the one with the best victims.

        Return whether a server was found.
        """
        shape = self.group.shape_of(index)
        found: Server | None = None
        with_victims: list[Server] = []
        for server in self.round.servers:
            if may_hold(server, shape):
                if fits(shape.need, self.free_on(server)):
                    found = server
                    break
                if self.round.victims_on(server).victims:
                    with_victims.append(server)
        if found is None:
            found = self.add_best_victims(with_victims, shape)
        if found is None:
            return False
        free = self.changeable_free(found)
        task = PlannedTask(index, shape, found, free)
        task.take_from(free, 1)
        self.plan.append(task)
        return True

    def add_best_victims(self, servers: list[Server], shape: Shape) -> Server | None:
        """Choose the best victims that make room for a task; return their server, or None.

        Victims are best if their key is least: minus the least score of their queues, then their
        lost work. Servers are searched by lower bounds of the keys, until the next bound is not
        below the best key.
        """
        bounds = [(*self.lower_bound(server), k) for k, server in enumerate(servers)]
        best: Server | None = None
        best_victims: list[Victim] = []
        best_key: tuple[int, int] | None = None
        for score_bound, loss_bound, k in sorted(bounds):
            if best_key is not None and (score_bound, loss_bound) >= best_key:
                break
            victims = self.find_victims(servers[k], shape)
            if victims:
                score = max([-self.victim_score(victim.queue) for victim in victims])
                key = (score, sum([victim.loss for victim in victims]))
                if best_key is None or key < best_key:
                    best = servers[k]
                    best_victims = victims
                    best_key = key
        for victim in best_victims:
            self.add_victim(victim)
        return best

    def lower_bound(self, server: Server) -> tuple[int, int]:
        """Return a lower bound of the key of victims on a server; see `add_best_victims`."""
        found = self.round.victims_on(server)
        return -max([self.victim_score(queue) for queue in found.queues]), found.least_loss

    def victim_score(self, queue: Queue) -> int:
        """Return the score by which a victim's queue is compared; the largest for weight 0.

        It is that of the queue on its path directly below the lowest queue above victim and taker.
        """
        score = self.victim_scores.get(queue)
        if score is None:
            path = path_of(queue)
            depth = self.common_depth(path)
            compared = path[depth] if depth >= 0 else queue
            score = self.round.score(compared, self.round.held.of_queue[compared], self.asked)
            if compared.weight[0] == 0:
                score += LARGEST_SCORE
            self.victim_scores[queue] = score
        return score

    def common_depth(self, path: list[Queue]) -> int:
        """Return how many queues a path shares with the taker's; -1 if one contains the other."""
        shorter = min(len(path), len(self.path))
        common = 0
        while common < shorter and path[common] is self.path[common]:
            common += 1
        return common if common < shorter else -1

    def free_on(self, server: Server) -> vec[i64]:
        """Return the free amounts of a server to read; see `changeable_free`."""
        found = self.free.get(server.name)
        return self.round.free_on(server) if found is None else found

    def changeable_free(self, server: Server) -> vec[i64]:
        """Return the taker's own copy of the free amounts of a server."""
        if server.name not in self.free:
            self.free[server.name] = self.free_on(server)[:]
        return self.free[server.name]

    def add_victim(self, victim: Victim) -> None:
        """Choose a victim, and free its amounts in the plan."""
        self.chosen[victim.id] = victim
        self.losses.add_victim(victim, 1)
        for task in victim.tasks:
            take_from(self.changeable_free(task.server), task.shape, task.devices, -1)

    def find_victims(self, server: Server, shape: Shape) -> list[Victim]:
        """Return victims on a server that make room for a task; empty if there are none.

        They are tried by descending score of their queues; if that makes no room, by the fraction
        of the lacking amounts that each frees.
        """
        victims = [
            each for each in self.round.victims_on(server).victims if each.id not in self.chosen
        ]
        by_score = victims[:]
        by_score.sort(key=lambda each: -self.victim_score(each.queue))
        found = self.try_victims(by_score, server, shape)
        if not found and len(victims) > 1:
            victims.sort(key=lambda each: -self.freed_fraction(each, server, shape))
            found = self.try_victims(victims, server, shape)
        return found

    def try_victims(self, victims: list[Victim], server: Server, shape: Shape) -> list[Victim]:
        """Try victims in order; return the victims that make room for a task, and no needless ones.

        Empty if they make no room. `chosen` does not change, and `losses` is restored.
        """
        free = self.free_on(server)[:]
        found: list[Victim] = []
        for victim in victims:
            if not helps(victim, server, shape, free):
                continue
            self.losses.add_victim(victim, 1)
            if not self.is_allowed(victim, server):
                self.losses.add_victim(victim, -1)
                continue
            found.append(victim)
            count_victim(free, victim, server, 1)
            if fits(shape.need, free):
                break
        for victim in found:
            self.losses.add_victim(victim, -1)
        if not fits(shape.need, free):
            return []
        for victim in sorted(found, key=loss_of, reverse=True):
            count_victim(free, victim, server, -1)
            if fits(shape.need, free):
                found.remove(victim)
            else:
                count_victim(free, victim, server, 1)
        return found

    def freed_fraction(self, victim: Victim, server: Server, shape: Shape) -> int:
        """Return the fraction, times 2**64, of a task's lacking amounts that a victim frees.

        If several resources are lacking, it is the smallest fraction. A resource in devices lacks
        room on one device, or whole devices.
        """
        before = self.free_on(server)
        after = before[:]
        count_victim(after, victim, server, 1)
        fraction = 2 * ONE
        for r in range(len(shape.need)):
            lacking = int(shape.need[r]) - int(before[r])
            if lacking > 0:
                fraction = min(fraction, (int(after[r]) - int(before[r])) * ONE // lacking)
        return fraction

    def is_allowed(self, victim: Victim, server: Server) -> bool:
        """Return whether a victim's queue may lose it, together with all others in `losses`.

        The taker's task would start on `server`.
        """
        round, path = self.round, path_of(victim.queue)
        common = self.common_depth(path)
        if common < 0:
            return False
        for depth, node in enumerate(path):
            if node.quotas and not self.keeps_quotas(node, server, gains=depth < common):
                return False
        if self.is_guaranteed(common, server):
            return True
        if not round.by_share:
            return False
        own, other = self.path[common], path[common]
        lost, held = self.losses.of_queue[other], round.held.of_queue[other]
        amounts = [held[r] - lost[r] for r in range(self.width)]
        score = round.score(other, amounts, self.asked)
        return goes_after(other, score, own, self.score_with_start(own))

    def keeps_quotas(self, node: Queue, server: Server, *, gains: bool) -> bool:
        """Return whether a queue that loses victims does not fall below its quotas.

        If it `gains`, the taker is below it, too, and the taker's amounts are added.
        """
        for quota in node.quotas:
            lost = self.losses.of_quota.get(quota)
            if lost is None:
                continue
            held = self.round.held.of_quota[quota]
            gained = self.asked_of(quota, server, with_rest=False)
            for r in range(self.width):
                gain = gained[r] if gains else 0
                loses = quota.amounts[r] != NO_QUOTA and lost[r] > gain
                if loses and held[r] - lost[r] + gain < int(quota.amounts[r]):
                    return False
        return True

    def is_guaranteed(self, depth: int, server: Server | None) -> bool:
        """Return whether the taker stays within the quotas that concern it.

        These are the quotas of the first queue, from `depth` down the taker's path, that has any
        for resources that the taker asks for. Tasks without a planned server count on `server`. If
        that is None, return whether the taker could stay within them on any servers.
        """
        for node in self.path[depth:]:
            is_within = False
            for quota in node.quotas:
                held = self.round.held.of_quota[quota]
                asked = (
                    self.asked if server is None else self.asked_of(quota, server, with_rest=True)
                )
                for r in range(self.width):
                    if quota.amounts[r] != NO_QUOTA and asked[r] > 0:
                        if held[r] + asked[r] > int(quota.amounts[r]):
                            if server is not None:
                                return False
                        else:
                            is_within = True
            if is_within:
                return True
        return False

    def asked_of(self, quota: Quota, server: Server, *, with_rest: bool) -> list[int]:
        """Return (W,) the amounts of the taker's tasks on the servers of a quota.

        Planned tasks count on their servers. Of the others, the next one counts on the given
        server; all of them do if `with_rest`.
        """
        asked = [0] * int(self.width)
        for k, index in enumerate(self.indices):
            is_planned = k < len(self.plan)
            if k > len(self.plan) and not with_rest:
                break
            if quota.is_on(self.plan[k].server if is_planned else server):
                demand = self.group.shape_of(index).demand
                for r in range(self.width):
                    asked[r] += int(demand[r])
        return asked

    def prune(self) -> None:
        """Drop victims without which all planned tasks have room, the largest loss first."""
        for victim in sorted(self.chosen.values(), key=loss_of, reverse=True):
            if self.plan_without(victim):
                del self.chosen[victim.id]
                self.losses.add_victim(victim, -1)

    def plan_without(self, victim: Victim) -> bool:
        """Plan the tasks on a victim's servers again without it; return whether all have room."""
        free = {task.server.name: self.free[task.server.name][:] for task in victim.tasks}
        moved = [k for k, task in enumerate(self.plan) if task.server.name in free]
        for k in moved:
            self.plan[k].take_from(free[self.plan[k].server.name], -1)
        for task in victim.tasks:
            take_from(free[task.server.name], task.shape, task.devices, 1)
        plan = self.plan[:]
        for k in moved:
            before = plan[k]
            free_there = free[before.server.name]
            if not fits(before.shape.need, free_there):
                return False
            plan[k] = PlannedTask(before.index, before.shape, before.server, free_there)
            plan[k].take_from(free_there, 1)
        self.plan = plan
        self.free.update(free)
        return True


def goes_after(other: Queue, score: int, own: Queue, own_score: int) -> bool:
    """Return whether `other` has at least the score of `own`; weight 0 is above any score."""
    if (other.weight[0] == 0) != (own.weight[0] == 0):
        return other.weight[0] == 0
    return score >= own_score


def order_of(group: TaskGroup) -> Order:
    return group.order


def id_of(task: Task) -> int:
    """Return the id of a task; later starts have larger ids."""
    return task.id


def loss_of(victim: Victim) -> int:
    return victim.loss


def may_hold(server: Server, shape: Shape) -> bool:
    """Return whether a task could start on a server if the server were empty."""
    is_admitted = shape.constraint.admits[server.kind]
    return is_admitted and not server.is_draining and fits(shape.need, server.capacity)


def count_victim(free: vec[i64], victim: Victim, server: Server, sign: i64) -> None:
    """Add the amounts that a victim holds on a server to free ones (1), or subtract them (-1)."""
    for task in victim.tasks:
        if task.server is server:
            take_from(free, task.shape, task.devices, -sign)


def helps(victim: Victim, server: Server, shape: Shape, free: vec[i64]) -> bool:
    """Return whether a victim frees a resource that a task lacks on a server."""
    lacking = [r for r in range(len(shape.demand)) if free[r] < shape.need[r]]
    for columns in shape.taken_columns:
        if not columns.has_room(shape.demand[columns.resource], free):
            lacking.append(columns.resource)
    for task in victim.tasks:
        if task.server is server and any(task.shape.demand[r] > 0 for r in lacking):
            return True
    return False
