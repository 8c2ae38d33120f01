"""Executors run independent jobs, on the processors of this machine or on a Ray cluster."""

__all__ = ["executor", "ray_tasks"]
