"""The cycle of user-defined rules: it asks a rule for the next start and its server."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NoReturn

from fairlead.errors import FairleadError, InputError, fault_of
from fairlead.scheduler._cycle import Cycle, largest_first
from fairlead.scheduler._entities import (
    Gang,
    Plan,
    Queue,
    Server,
    Shape,
    Task,
    TaskGroup,
    has_room,
    limit_reached,
)
from fairlead.scheduler._state import State
from fairlead.scheduler.criteria.fifo import fits_when_empty
from fairlead.scheduler.criteria.service_time import ServiceTime, Units
from fairlead.scheduler.own_rules import Choose, ClusterView, GroupView, Rule, ServerView, UserView


class RuleCycle(Cycle):
    """Asks a rule for the next group, and perhaps for its servers."""

    def __init__(self, state: State, is_strict: bool) -> None:
        super().__init__(state, is_strict)
        assert isinstance(state.criterion, ServiceTime)
        self.service = state.criterion
        self.units = Units()
        self.rule: Rule | None = None
        self.name = ""  # of the rule, in messages
        self.jobs: list[str] = []  # names
        self.server_groups: list[str] = []  # the name of the group of each server
        self.view = ClusterView(self)
        self.job_of: dict[int, int] = {}  # the index of a group's job, by the group's id
        self.groups: dict[int, GroupView] = {}  # views made so far, by id of the group
        self.servers: dict[str, ServerView] = {}  # views made so far, by name of the server
        self.choose: Choose | None = None  # the rule's choice of servers, during `plan`

    def set_rule(
        self,
        rule: Rule,
        name: str,
        resources: Sequence[str],
        quanta: Sequence[Fraction],
        jobs: list[str],
        server_groups: list[str],
    ) -> None:
        """Set the rule, and the names that its views show; `quanta` are quanta per unit."""
        self.rule, self.name = rule, name
        self.units.names, self.units.quanta = list(resources), list(quanta)
        self.jobs, self.server_groups = jobs, server_groups

    def place_next(self, started: list[Task]) -> bool:
        """Start a task, or the whole gang, that the rule returns; return whether it did."""
        if len(self.view.users) < len(self.state.queues):
            for queue in self.state.queues.values():
                self.view.users[queue.name] = UserView(queue, self.service, self.units)
        assert self.rule is not None
        try:
            choice = self.rule(self.view)
        except FairleadError:
            raise
        except (Exception, SystemExit) as error:
            raise fault_of(self.rule, self.name, error) from error
        if choice is None:
            return False
        servers: object = None
        if isinstance(choice, tuple) and len(choice) == 2:
            choice, servers = choice
        if not isinstance(choice, GroupView):
            self.refuse("must return None, a group, or a tuple of a group and its servers", choice)
        self.start_chosen(choice, servers, started)
        return True

    def start_chosen(self, chosen: GroupView, servers: object, started: list[Task]) -> None:
        """Start a group's next task, or a whole gang; raise InputError for an invalid choice.

        It starts on the chosen servers, or on the first ones with room if the rule chose none.
        """
        group = chosen._group
        if group.waiting == 0 or group.id not in self.state.groups:
            self.refuse("returned a group without waiting tasks", chosen)
        if limit_reached(group) is not None:
            self.refuse("returned a group beyond a limit of its user", chosen)
        if isinstance(servers, ServerView):
            servers = [servers]
        if servers is None:
            servers = self.plan(chosen, None)
            if servers is None:
                self.refuse("returned a group without room", chosen)
        if not isinstance(servers, list):
            self.refuse(
                "must return one of view.servers with the group, or a list of them", servers
            )
        views: list[object] = servers
        indices = largest_first(group, self.state.criterion.total)
        if len(views) != len(indices):
            self.refuse(f"returned {len(views):,} servers for {len(indices):,} tasks", chosen)
        for index, view in zip(indices, views, strict=True):
            server = view._server if isinstance(view, ServerView) else None
            if server is None or server.name not in self.state.servers:
                self.refuse("returned a server that is not there", view)
            if not has_room(server, group.shape_of(index)):
                self.refuse(f"returned {view!r:.60} without room for", chosen)
            started.append(self.state.start(group, index, server, self.state.now))

    def refuse(self, message: str, value: object) -> NoReturn:
        """Raise InputError about a value that the rule returned."""
        raise InputError(f"{message}: {value!r:.100} (at {self.state.now:g} s)", self.name)

    def waiting_groups(self) -> list[GroupView]:
        """Return views of the waiting groups that may start; see `ClusterView.waiting`."""
        found: list[GroupView] = []
        seen: set[Queue] = set()
        for group in self.state.groups.values():
            queue = group.waiting_list.queue
            if group.waiting > 0 and not (self.is_strict and queue in seen):
                seen.add(queue)
                if limit_reached(group) is None:
                    found.append(self.view_of(group))
        return found

    def view_of(self, group: TaskGroup) -> GroupView:
        view = self.groups.get(group.id)
        if view is None:
            user = self.view.users[group.waiting_list.queue.name]
            job = self.jobs[self.job_of[group.id]]
            view = GroupView(group, job, user, self.service, self.units)
            self.groups[group.id] = view
        return view

    def open_servers(self) -> list[ServerView]:
        return [self.server_view(server) for server in sorted(self.state.open_servers())]

    def fits_empty(self, group: TaskGroup) -> bool:
        """Return whether empty servers have room for a task of a group, or for a whole gang."""
        state = self.state
        return fits_when_empty(group, state.open_servers(), state.selection, state.criterion.total)

    def server_view(self, server: Server) -> ServerView:
        view = self.servers.get(server.name)
        if view is None or view._server is not server:
            view = ServerView(server, self.units, self.server_groups[server.order])
            self.servers[server.name] = view
        return view

    def plan(
        self,
        view: GroupView,
        choose: Choose | None,
    ) -> list[ServerView] | None:
        """Return servers for a group; see `ClusterView.plan`."""
        group = view._group
        self.choose = choose
        plan: Plan = []
        if isinstance(group, Gang):
            plan = self.plan_gang(group)
        elif group.waiting > 0:
            server = self.find(group.waiting_list.queue, group.shape)
            if server is not None:
                plan = [self.plan_task(group.first_index(), group.shape, server)]
        self.choose = None
        return [self.server_view(task.server) for task in plan] if plan else None

    def find(self, queue: Queue, shape: Shape) -> Server | None:  # noqa: ARG002 (as in the base)
        """Return the server that the rule chooses, or the first one with room."""
        choose = self.choose
        if choose is None:
            return self.state.selection.find(shape)
        servers = [server for server in self.state.servers.values() if has_room(server, shape)]
        if not servers:
            return None
        views = [self.server_view(server) for server in sorted(servers)]
        chosen = choose(views, self.units.amounts(shape.demand))
        for view in views:
            if view is chosen:
                return view._server
        return self.refuse("chose a server that was not offered", chosen)
