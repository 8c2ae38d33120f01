"""PS-DSF without anybody in charge: each server divides itself, by its own clock and knowledge.

Khamse-Ashari et al. 2017, III-D: every server runs the server procedure again and again, knowing
what it has and each user's total. Here a server knows its own division, and of every other what it
said in the newest message that has arrived. Nothing else is shared, and nobody waits for anybody.

Who is there is no hearsay: a user that leaves ends its tasks itself, everywhere and at once, and
one that comes asks every server itself. What was freed stays free until the server's next run, and
messages that were sent before are believed until newer ones arrive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fairlead.mechanisms.max_min import score_drf
from fairlead.model.allocation import Certificate
from fairlead.model.cluster import FloatArray
from fairlead_papers.distributed.live_cluster import LiveCluster
from fairlead_papers.distributed.presence import Phase
from fairlead_papers.distributed.record import Samples
from fairlead_papers.distributed.setting import AsynchronousSetting


@dataclass(frozen=True)
class ActorCount:
    """What an actor did in a run of several.

    Attributes
    ----------
    node : str
        Where it was.
    servers : int
        How many divided themselves in it, in the end.
    rounds, messages : int
        How often it let all of them run, and messages that it sent; as last heard if it was lost.
    """

    node: str
    servers: int
    rounds: int
    messages: int
    lost: bool


@dataclass(frozen=True, eq=False)
class AsynchronousRun:
    """What became of a cluster whose servers divide themselves.

    Letters: T samples, N users, G groups, R resources.

    Attributes
    ----------
    phases : tuple of Phase
        Who was there when.
    times : (T,) float
        When samples were taken, in seconds; each after all that happened at that moment.
    user_tasks : (T, N) float
        Tasks that each user really ran.
    utilisation : (T, G, R) float
        Fraction of each group's resources in use; 0 where it has none.
    violation : (T,) float
        By how much the division misses Theorem 1 (Theorem 2 under TDM) among those present;
        infinite where somebody has nothing.
    tasks, certificate : (N, G) float, Certificate
        In the end.
    tasks_over_time : (T, N, G) float or None
        Tasks at each sample, if they were to be kept.
    runs : int
        How often a server ran its procedure, all servers together.
    overuse : float
        The most by which any server, after any run, used more than it has, relative to that:
        rounding errors.
    actors : tuple of ActorCount
        What real actors did, where the servers were parted among such; seconds are then those of
        the wall.
    """

    setting: AsynchronousSetting
    phases: tuple[Phase, ...]
    times: FloatArray
    user_tasks: FloatArray
    utilisation: FloatArray
    violation: FloatArray
    tasks: FloatArray
    tasks_over_time: FloatArray | None
    certificate: Certificate
    runs: int
    overuse: float
    actors: tuple[ActorCount, ...] = ()

    @property
    def dominant_share(self) -> FloatArray:
        """(T, N) float: each user's share of the cluster's total of its dominant resource."""
        return self.share_of(self.user_tasks)

    def share_of(self, user_tasks: FloatArray) -> FloatArray:
        """Return the dominant shares of (..., N) tasks."""
        return user_tasks * score_drf(self.setting.problem)


def run_asynchronously(
    setting: AsynchronousSetting,
    *,
    start: FloatArray | None = None,
    sample: float | None = None,
    keep_tasks: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> AsynchronousRun:
    """Run every server's procedure time and again, and record the shares.

    Parameters
    ----------
    setting : AsynchronousSetting
        The same setting gives the same run.
    start : (N, G) float, optional
        Tasks at the start, which everybody knows; none when absent. Of a group that is taken apart
        each server has an equal part.
    sample : float, optional
        Seconds between samples; the period of the clocks when absent.
    keep_tasks : bool
        Whether to keep all tasks of every sample.
    on_progress : callable, optional
        Called with the samples taken and the samples to take.

    Raises
    ------
    InputError
        For changes without meaning, or more samples or messages than fit in memory.

    Notes
    -----
    Each run of a server costs O(S N + N R^2) with S servers, each sample O(S N R).
    """
    phases = setting.phases()
    every = setting.clocks.period if sample is None else sample
    record = Samples(setting.problem, every, setting.until, keep_tasks)
    cluster = LiveCluster(setting, start)
    for phase in phases:
        cluster.run_before(phase.begin)
        cluster.begin(phase)
        for k in record.samples_of(phase):
            cluster.run_until(float(record.times[k]))
            record.take(k, cluster)
            if on_progress is not None:
                on_progress(k + 1, len(record.times))
    return AsynchronousRun(
        setting=setting,
        phases=phases,
        times=record.times,
        user_tasks=record.user_tasks,
        utilisation=record.utilisation,
        violation=record.violation,
        tasks=cluster.group_tasks(),
        tasks_over_time=record.tasks_over_time,
        certificate=cluster.certificate(),
        runs=cluster.runs,
        overuse=cluster.overuse,
    )
