"""The worker: it runs the tasks of a service on one machine."""
