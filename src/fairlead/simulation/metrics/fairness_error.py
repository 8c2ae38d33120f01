"""Distance between the shares that users hold and those of a fair mechanism, at instants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fairlead.errors import FairleadError, InputError
from fairlead.mechanisms.catalogue import find_mechanism
from fairlead.mechanisms.fair_share import FairDivider
from fairlead.model.cluster import BoolArray, FloatArray, IntArray
from fairlead.model.run_log import RunLog
from fairlead.model.workload import IndexArray, Workload
from fairlead.simulation.metrics.distribution import jain_index, mean, ratio
from fairlead.simulation.metrics.task_outcomes import TaskOutcomes
from fairlead.simulation.metrics.utilization import Capacity, check_time

SECONDS_PER_HOUR = 3600.0
LONGEST_FAULT = 200  # characters


@dataclass(frozen=True, eq=False)
class FairnessError:
    """Held and fair shares of N users at I instants.

    A share is a dominant share divided by the user's weight. An instant counts if a user is active
    and the fair shares are proved. A user of weight 0 is due nothing, and its
    holdings are left out: it has 0 in `held`, and never counts as active.
    """

    mechanism: str  # defines the fair shares
    time: FloatArray  # (I,): the instants, seconds
    held: FloatArray  # (I, N): share that each user holds
    fair: FloatArray  # (I, N): fair share; NaN at instants where no answer was proved
    active: BoolArray  # (I, N): whether a task of the user waited or ran
    weight: FloatArray  # (N,)
    interval: float  # seconds that each instant stands for
    since: float = 0.0  # start of the first interval, seconds
    fault: str = ""  # error message at the first instant where no answer was proved

    @property
    def unsolved(self) -> int:
        """Number of instants at which no answer was proved."""
        return int(np.isnan(self.fair).any(axis=1).sum())

    @property
    def unsolved_text(self) -> str:
        """A sentence about the instants at which no answer was proved; empty if there is none."""
        if not self.unsolved:
            return ""
        count = f"{self.unsolved:,} of {len(self.time):,}"
        return f"{self.mechanism} has no certified answer at {count} instants ({self.fault})"

    @property
    def has_no_answer(self) -> bool:
        """Whether some instants have no proved answer, and no instant counts."""
        return self.unsolved > 0 and bool(np.isnan(self.error).all())

    @property
    def error(self) -> FloatArray:
        """(I,) float: ``sum |held - fair| / sum fair`` over the users, at each instant.

        0 where both sums are 0; NaN where no user is active, or no answer was proved.
        """
        apart = np.abs(self.held - self.fair).sum(axis=1)
        all_fair = self.fair.sum(axis=1)
        error = np.where(apart > 0, np.inf, 0.0)
        # Without a proved answer `all_fair` is NaN, which is not <= 0, so the error becomes NaN.
        np.divide(apart, all_fair, out=error, where=~(all_fair <= 0))
        return np.where(self.active.any(axis=1), error, np.nan)

    @property
    def mean(self) -> float:
        """Mean of the errors at instants that count; NaN if there is none."""
        return mean(self.error)

    @property
    def user_error(self) -> FloatArray:
        """(N,) float: ``|held - fair|`` of each user, averaged while it is active.

        NaN for users that are active at no instant that counts.
        """
        return self._while_active(np.abs(self.held - self.fair))

    @property
    def user_fair(self) -> FloatArray:
        """(N,) float: fair share of each user, averaged like `user_error`."""
        return self._while_active(self.fair)

    @property
    def user_held(self) -> FloatArray:
        """(N,) float: held share of each user, averaged like `user_error`."""
        return self._while_active(self.held)

    @property
    def held_hours(self) -> FloatArray:
        """(N,) float: cluster-hours that each user held, over all instants with a proved answer.

        NaN if `has_no_answer`. For a user whose dominant resource is GPUs, these hours times the
        GPUs of the cluster are GPU-hours.
        """
        return self._hours(self.held)

    @property
    def due_hours(self) -> FloatArray:
        """(N,) float: cluster-hours of each user's fair share, summed like `held_hours`."""
        return self._hours(self.fair)

    @property
    def owed(self) -> FloatArray:
        """(N,) float: cluster-hours due to each user and not held; negative if it held more."""
        return self._hours(self.fair - self.held)

    def _hours(self, share: FloatArray) -> FloatArray:
        """Return (N,) the integrals of (I, N) shares over weight, in hours of the whole cluster."""
        is_known = ~np.isnan(self.fair).any(axis=1)
        total = np.nan if self.has_no_answer else share[is_known].sum(axis=0)
        hours: FloatArray = total * self.weight * self.interval / SECONDS_PER_HOUR
        return hours

    def over(self, window: float) -> float:
        """Return the mean error of windows of `window` seconds, the first from `since` on.

        The error of a window is ``sum over users of |sum over instants of (held - fair)|``, divided
        by the sum of the fair shares in it. So a larger share at one time makes up for a smaller
        one at another time. NaN if a window has fewer than two instants.
        """
        if not window >= 2 * self.interval:
            return np.nan
        is_known = self.active.any(axis=1) & ~np.isnan(self.fair).any(axis=1)
        window_of = ((self.time - self.since) // window).astype(np.int64)
        errors = []
        for k in np.unique(window_of[is_known]):
            inside = is_known & (window_of == k)
            apart = np.abs((self.held[inside] - self.fair[inside]).sum(axis=0)).sum()
            fair = self.fair[inside].sum()
            errors.append(float(apart / fair) if fair > 0 else np.inf if apart > 0 else 0.0)
        return mean(np.array(errors)) if errors else np.nan

    def _while_active(self, values: FloatArray) -> FloatArray:
        """Return (N,) the means over the instants that count and at which the user is active."""
        counts = self.active & ~np.isnan(self.fair)
        return ratio(np.where(counts, values, 0.0).sum(axis=0), counts.sum(axis=0))

    @property
    def jain(self) -> float:
        """Jain's index of held over fair shares, each summed up while the user is active.

        It is 1 if all users hold their fair shares. Even then `Shares.jain`, the index of the held
        shares, is below 1 if some users have small demands. NaN if all fair or all held shares are
        0.
        """
        counts = self.active & ~np.isnan(self.fair)
        held, fair = (np.where(counts, share, 0.0).sum(axis=0) for share in (self.held, self.fair))
        return jain_index(held[fair > 0] / fair[fair > 0])


def measure_fairness(
    workload: Workload,
    log: RunLog,
    outcomes: TaskOutcomes,
    until: float,
    capacity: Capacity,
    *,
    instants: int,
    mechanism: str = "drfh",
    since: float = 0.0,
) -> FairnessError:
    """Compare held with fair shares in the middles of equal intervals from `since` to `until`.

    At each instant the cluster has the present servers (draining ones too, because tasks still run
    on them), and the users are those with a waiting or running task, as
    `fairlead.mechanisms.fair_share.FairDivider` defines. Fair shares are those of divisible tasks.
    So the shares that whole tasks hold differ from them even under the fairest policy.

    An instant has no answer if the mechanism raises a FairleadError: it refuses the problem, or
    proves no answer, or a user-defined mechanism fails.

    Raises InputError for an invalid time or number of instants, or an unknown mechanism. The
    mechanism runs once for each instant: DRFH takes some 10 ms for 250 users on 10 groups, a second
    for 15,000 kinds of tasks on 60 groups.
    """
    if instants < 1:
        raise InputError(f"must be a positive number, not {instants}", "instants")
    check_time(until, "until")
    find_mechanism(mechanism)
    times = since + (np.arange(instants) + 0.5) / instants * (until - since)
    steps = capacity.at(times)  # rows of `capacity`
    user_of_set = workload.job_user[workload.set_job]
    demand, places = workload.shapes[workload.set_shape], workload.places
    divider = FairDivider(
        user_of_set,
        workload.set_place,
        demand,
        places,
        workload.weight,
        mechanism,
        workload.queues,
    )
    has_weight = workload.weight > 0
    held, fair = np.zeros((2, instants, workload.n_users))
    active = np.zeros((instants, workload.n_users), dtype=bool)
    fault = ""
    for i, snapshot in enumerate(snapshots(workload, log, outcomes, times)):
        active[i, user_of_set[snapshot.active > 0]] = True
        active[i] &= has_weight
        held[i] = divider.held(snapshot.running, capacity.amount[steps[i]]) * has_weight
        try:
            servers = capacity.servers[steps[i]]
            fair[i] = divider.fair(snapshot.active, workload.cluster.capacity, servers).share
        except FairleadError as error:
            fair[i] = np.nan
            fault = fault or " ".join(str(error).split())[:LONGEST_FAULT]
    weight, interval = workload.weight, (until - since) / instants
    return FairnessError(mechanism, times, held, fair, active, weight, interval, since, fault)


class Snapshot(NamedTuple):
    """Tasks of each of K sets of equal tasks at an instant.

    A task that starts or is submitted at the instant counts; a task that ends then does not.
    """

    time: float  # seconds
    running: IntArray  # (K,)
    active: IntArray  # (K,): running or waiting


def snapshots(
    workload: Workload, log: RunLog, outcomes: TaskOutcomes, times: FloatArray
) -> Iterator[Snapshot]:
    """Yield the tasks at each of I ascending times; each step overwrites the arrays of the last.

    O(P log I + I K) for P starts of tasks.
    """
    n_sets = workload.n_sets
    ever_active = ~outcomes.never_active
    n_active = np.bincount(outcomes.set[ever_active], minlength=n_sets)
    set_of_run = outcomes.set[log.task]
    start = _by_instant(set_of_run, log.start, times)
    end = _by_instant(set_of_run, log.end, times)
    left = _by_instant(outcomes.set[ever_active], outcomes.over[ever_active], times)
    submit = np.searchsorted(times, workload.job_submit[workload.set_job], side="left")
    running, active = np.zeros((2, n_sets), dtype=np.int64)
    for i, time in enumerate(times.tolist()):
        running += np.bincount(start[i], minlength=n_sets)
        running -= np.bincount(end[i], minlength=n_sets)
        active += np.where(submit == i, n_active, 0)
        active -= np.bincount(left[i], minlength=n_sets)
        yield Snapshot(time, running, active)


def _by_instant(sets: IndexArray, time: FloatArray, instants: FloatArray) -> list[IndexArray]:
    """Return for each instant the indices of sets, one for each event since the instant before.

    `sets` and `time` (E,): the index of the set of equal tasks, and the time, of each event.
    """
    instant = np.searchsorted(instants, time, side="left")  # the first one not before the event
    order = np.argsort(instant.astype(np.min_scalar_type(len(instants))), kind="stable")
    bounds = np.searchsorted(instant[order], np.arange(len(instants) + 1))
    return [sets[order[first:end]] for first, end in pairwise(bounds)]
