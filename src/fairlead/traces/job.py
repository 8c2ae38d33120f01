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
    submit : float
        Time of submission, seconds.
    wait, run, walltime : float
        Seconds until the start, of the run, and of the limit requested for the run.
    cores : int
        Cores of the whole job.
    memory_per_node : float
        Bytes requested on each node.
    spec : NodeSpec
        Nodes requested, which all start together (a gang).
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
