"""Readers of logs and traces of other systems: a module for each format, sometimes one for tables.

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
