"""The tables of Alibaba's openb trace: their columns, and which table a header is of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from fairlead.traces.tables import TraceColumn

POD_TABLES, NODE_TABLES = "*pod_list*.csv*", "*node_list*.csv*"

NODE_COLUMNS = (
    TraceColumn("sn"),
    TraceColumn("cpu_milli", "whole"),
    TraceColumn("memory_mib", "whole"),
    TraceColumn("gpu", "whole"),
    TraceColumn("model", optional=True),
)
POD_COLUMNS = (
    TraceColumn("name"),
    TraceColumn("cpu_milli", "whole"),
    TraceColumn("memory_mib", "whole"),
    TraceColumn("num_gpu", "whole"),
    TraceColumn("gpu_milli", "whole"),
    TraceColumn("gpu_spec", optional=True),
    TraceColumn("qos"),
    TraceColumn("pod_phase"),
    TraceColumn("creation_time", "whole"),
    TraceColumn("deletion_time", "whole"),
    TraceColumn("scheduled_time", "real", optional=True),
)
# Below as many columns in common a header is of another format; above, a fault names the rest.
_ENOUGH = 3


def table_of(header: Sequence[str]) -> Literal["pods", "nodes"] | None:
    """Return the table whose columns a header mostly has, or None."""
    names = {name.strip().lower() for name in header}
    pods, nodes = (
        len(names & {column.name for column in columns}) for columns in (POD_COLUMNS, NODE_COLUMNS)
    )
    if max(pods, nodes) < _ENOUGH:
        return None
    return "pods" if pods >= nodes else "nodes"
