"""The worker: it runs the tasks of a service on one machine."""

__all__ = ["accounts", "machine", "worker", "worker_token"]
