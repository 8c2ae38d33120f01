"""The published schema of Google's trace of 2011 (clusterdata-2011-2, format version 2.1).

Tables without headers, one folder each, in parts ``part-00000-of-00500.csv.gz``. Times are whole
microseconds; 0 is before the trace, its first moment is 600 s, 2^63 - 1 after its end. Sizes are
shares of the largest machine. Source: C. Reiss, J. Wilkes, J. L. Hellerstein, "Google
cluster-usage traces: format + schema"; field names as in the trace's own ``schema.csv``.
"""

from __future__ import annotations

from fairlead.traces.tables import Column

MICROSECONDS = 1_000_000
TRACE_START = 600
AFTER_TRACE = 2**63 - 1

SUBMIT, SCHEDULE, EVICT, FAIL, FINISH, KILL, LOST, UPDATE_PENDING, UPDATE_RUNNING = range(9)
ENDINGS = {EVICT: "evicted", FAIL: "failed", FINISH: "finished", KILL: "killed", LOST: "lost"}
MACHINE_ADD, MACHINE_REMOVE, MACHINE_UPDATE = range(3)
EQUAL, NOT_EQUAL, LESS, GREATER = range(4)


def _time() -> Column:
    return Column("time", "whole", most=AFTER_TRACE)


JOB_EVENTS = (
    _time(),
    Column("missing info", "whole", optional=True),
    Column("job ID", "whole", most=AFTER_TRACE),
    Column("event type", "whole", most=UPDATE_RUNNING),
    Column("user", optional=True),
    Column("scheduling class", "whole", optional=True),
    Column("job name", optional=True),
    Column("logical job name", optional=True),
)
TASK_EVENTS = (
    _time(),
    Column("missing info", "whole", optional=True),
    Column("job ID", "whole", most=AFTER_TRACE),
    Column("task index", "whole", most=2**31 - 1),
    Column("machine ID", "whole", most=AFTER_TRACE, optional=True),
    Column("event type", "whole", most=UPDATE_RUNNING),
    Column("user", optional=True),
    Column("scheduling class", "whole", optional=True),
    Column("priority", "whole", optional=True),
    Column("CPU request", "real", optional=True),
    Column("memory request", "real", optional=True),
    Column("disk space request", "real", optional=True),
    Column("different machines restriction", optional=True),
)
MACHINE_EVENTS = (
    _time(),
    Column("machine ID", "whole", most=AFTER_TRACE),
    Column("event type", "whole", most=MACHINE_UPDATE),
    Column("platform ID", optional=True),
    Column("CPUs", "real", optional=True),
    Column("memory", "real", optional=True),
)
MACHINE_ATTRIBUTES = (
    _time(),
    Column("machine ID", "whole", most=AFTER_TRACE),
    Column("attribute name"),
    Column("attribute value", optional=True),
    Column("attribute deleted", "whole", most=1),
)
TASK_CONSTRAINTS = (
    _time(),
    Column("job ID", "whole", most=AFTER_TRACE),
    Column("task index", "whole", most=2**31 - 1),
    Column("comparison operator", "whole", most=GREATER),
    Column("attribute name"),
    Column("attribute value", optional=True),
)
