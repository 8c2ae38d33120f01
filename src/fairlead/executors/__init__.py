"""Run independent jobs on this machine's processors or on a Ray cluster."""

__all__ = ["executor", "ray_tasks"]
