"""A job as a batch system logged it: what it asked for, what it got, and when."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.traces.node_spec import NodeSpec


@dataclass(slots=True)
class LoggedJob:
    """One job of a log, with all that a replay needs.

    Attributes
    ----------
    row : int
        Row of the log, for messages.
    job, user : int
        Identifiers.
    queue : str
        Name of the queue it was submitted to.
    submit, wait, run, walltime : float
        Seconds: time of submission, then durations until the start, of the run, and the limit
        that was requested for the run.
    cores : int
        Cores of the whole job.
    memory_per_node : float
        Bytes requested on each node.
    spec : NodeSpec
        Nodes requested: how many, of what size, with which properties, exclusively or not. All
        of them start together (a gang).
    hosts : tuple of int
        Host that each core ran on, a host as often as it gave cores.
    """

    row: int
    job: int
    user: int
    queue: str
    submit: float
    wait: float
    run: float
    walltime: float
    cores: int
    memory_per_node: float
    spec: NodeSpec
    hosts: tuple[int, ...]

    @property
    def nodes(self) -> int:
        """Nodes that the job asked for."""
        return self.spec.nodes

    @property
    def cores_per_node(self) -> float:
        """Cores on each node; the mean where the job asked for nodes of several sizes."""
        return self.cores / self.spec.nodes
