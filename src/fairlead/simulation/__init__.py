"""Simulation: replay a trace under policies, fill servers with whole tasks, and measure runs."""

__all__ = [
    "filling",
    "journal_replay",
    "log_audit",
    "metrics",
    "planned_runs",
    "replay",
    "runs",
    "simulate",
    "trials",
    "waiting_job",
]
