"""Values that all packages share: problems, workloads, allocations, verdicts; and their checks."""

__all__ = [
    "allocation",
    "arguments",
    "cluster",
    "fitting",
    "frames",
    "holdings",
    "names",
    "notebooks",
    "problem",
    "problem_changes",
    "quanta",
    "quantity",
    "queues",
    "reductions",
    "run_log",
    "task_kinds",
    "ties",
    "verdict",
    "workload",
    "workload_checks",
]
