"""Metrics of a run: figures measured only from a workload and a run log."""

from fairlead.compiled import choose_how_it_runs

__all__ = ["comparison", "distribution", "starvation", "summary", "task_outcomes", "utilization"]

choose_how_it_runs()
