"""The mechanisms of fair division, by paper: `catalogue` lists them by name and solves by one."""

__all__ = [
    "added",
    "catalogue",
    "drf",
    "dynamic_drf",
    "dynamic_run",
    "fair_share",
    "max_min",
    "pdrf",
    "proportional",
    "psdsf",
    "queue_trees",
    "utility",
]
