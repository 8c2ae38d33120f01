"""Try other weights, servers, quotas or another policy on the live state, and undo the changes."""

from __future__ import annotations

import sys
from collections import Counter
from functools import partial
from typing import Any, NamedTuple

from fairlead.errors import InputError
from fairlead.scheduler.live_shares import SharesQuestion
from fairlead.scheduler.policies import parse_policy
from fairlead.service._forks import AnswerFork
from fairlead.service.messages import UnavailableError, WhatIfRequest
from fairlead.service.service_state import ServiceState

MOST_STARTS = 5000  # starts in a trial; they take some 0.1 s


class Trial(NamedTuple):
    """The effect of changes on tasks, and the questions from which `answer` computes shares."""

    before: SharesQuestion
    after: SharesQuestion
    users: list[str]  # names of all users
    starts: Counter[str]  # tasks that start now because of the changes, by user
    stops: Counter[str]  # tasks that are lost or preempted, by user
    stays: int  # tasks that go on running on the drained servers
    is_cut: bool  # whether the trial ended at `MOST_STARTS`
    unmet_quotas: str

    def answer(self) -> dict[str, Any]:
        """Compute the fair shares before and after; return the API's answer."""
        before, after = (
            {user.name: user for user in question.answer().queues}
            for question in (self.before, self.after)
        )
        users = [
            {
                "name": name,
                "held": before[name].held,
                "fair": before[name].fair,
                "held_after": after[name].held,
                "fair_after": after[name].fair,
                "starts": self.starts[name],
                "stops": self.stops[name],
            }
            for name in self.users
        ]
        starts, stops = self.starts.total(), self.stops.total()
        counts = {"starts": starts, "stops": stops, "stays": self.stays}
        more = {"is_cut": self.is_cut, "unmet_quotas": self.unmet_quotas}
        return {"users": users, **counts, **more}


def trial_in_fork(state: ServiceState, request: WhatIfRequest, now: float) -> AnswerFork[Trial]:
    """Try another policy in a forked child, because it replaces the scheduler for good.

    Raises `InputError` for an unknown policy, and `UnavailableError` on systems other than Linux.
    """
    parse_policy(request.policy or "")
    if sys.platform != "linux":
        raise UnavailableError("another policy can be tried only on Linux")
    return AnswerFork(partial(try_changes, state, request, now), "the trial of another policy")


def try_changes(state: ServiceState, request: WhatIfRequest, now: float) -> Trial:
    """Make changes, place tasks, and undo both; raise `InputError` for unknown names.

    Another policy is not undone: only `trial_in_fork` may try it.
    """
    for name in request.weights:
        if name not in state.users:
            raise InputError(f"there is no user {name!r:.60}", "weights")
    named = {"like": request.like, "drain": request.drain, "remove": request.remove}
    for field, names in named.items():
        for name in names:
            if name not in state.servers:
                raise InputError(f"there is no server {name!r:.60}", field)
    before = state.scheduler.shares_question()
    if request.policy is not None:
        state.on_policy(now, request.policy, state.scheduler.seed)
    scheduler = state.scheduler
    user_of = {}
    if request.remove or scheduler.policy.preempts:
        user_of = {
            run.task: run.job_group.job.user
            for server in state.servers.values()
            for run in server.running.values()
        }
    starts, stops = Counter[str](), Counter[str]()
    with scheduler.what_if():
        for name, weight in request.weights.items():
            scheduler.set_weight(name, weight)
        for name, amounts in request.quotas.items():
            scheduler.set_quota(name, amounts)
        for name, number in request.like.items():
            like = state.server(name)
            for k in range(number):
                scheduler.add_server(f"{name}/{k + 1}", like.capacity, like.labels)
        for name in request.drain:
            scheduler.drain(name)
        for name in dict.fromkeys(request.remove):
            stops.update(user_of[task] for task in scheduler.remove_server(name))
        placed = scheduler.place(now, MOST_STARTS)
        starts.update(start.queue for start in placed)
        if scheduler.policy.preempts:
            for preempting, victims in scheduler.preempt(now, MOST_STARTS):
                starts.update(start.queue for start in preempting)
                stops.update(user_of[task] for task in victims if task in user_of)
        after = scheduler.shares_question()
    stays = sum(len(state.servers[name].running) for name in {*request.drain} - {*request.remove})
    return Trial(
        before=before,
        after=after,
        users=list(state.users),
        starts=starts,
        stops=stops,
        stays=stays,
        is_cut=starts.total() >= MOST_STARTS,
        unmet_quotas=state.unmet_quotas(request.quotas, request.like, request.remove),
    )
