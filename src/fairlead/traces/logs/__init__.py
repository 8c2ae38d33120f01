"""Readers of logs and traces of other systems: a module a format, sometimes one for its tables.

Each returns a `Workload`, whose notes count the records left out; `fairlead.traces.readers` chooses
one by the content of a file.
"""

__all__ = [
    "google",
    "google_tables",
    "job_collector",
    "metacentrum",
    "metacentrum_machines",
]
