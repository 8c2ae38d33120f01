"""Servers that options name, for logs that name none: a number of equal ones."""

from __future__ import annotations

import numpy as np

from fairlead.errors import InputError
from fairlead.model.cluster import Cluster
from fairlead.model.workload_checks import MOST_SERVERS

LARGEST_POOL = 10**9


def check_given(servers: int | None, cores: int | None, memory: float | None = None) -> None:
    """Refuse servers without cores, cores without servers, and numbers of no usable size."""
    if (servers is None) != (cores is None):
        given, missing = ("--servers", "--cores") if cores is None else ("--cores", "--servers")
        raise InputError(f"needs {missing} as well", given)
    for name, number, most in (
        ("--servers", servers, MOST_SERVERS),
        ("--cores", cores, LARGEST_POOL),
        ("--memory", memory, LARGEST_POOL),
    ):
        if number is not None and not 0 < number <= most:
            raise InputError(f"must be a positive number, at most {most:,}, not {number}", name)


def equal_servers(group: str, count: int, cores: float, memory: float | None = None) -> Cluster:
    """Return one group of equal servers; without GiB of each, memory is no resource."""
    capacity = [float(cores)] if memory is None else [float(cores), memory]
    return Cluster(
        groups=(group,),
        resources=("cpu", "memory")[: len(capacity)],
        capacity=np.array([capacity]),
        count=np.array([count]),
        units=("cores", "GiB")[: len(capacity)],
        labels=({},),
    )
