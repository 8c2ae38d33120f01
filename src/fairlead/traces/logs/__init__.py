"""Readers of logs and traces of other systems: one or two modules for each format.

Each reader returns a `Workload`, whose notes count the records left out. `fairlead.traces.readers`
chooses a reader by the content of a file.
"""

__all__ = [
    "google",
    "google_tables",
    "job_collector",
    "metacentrum",
    "metacentrum_machines",
]
