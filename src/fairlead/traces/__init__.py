"""Traces: workloads read from logs of real systems (`logs`), generated, stored and summarised.

`readers.read_workload` reads any format. For an unusable file it raises an `InputError` of one
line, with the file, the row and the fault.
"""

__all__ = [
    "generator",
    "journal_trace",
    "parquet_trace",
    "readers",
    "trace_summary",
    "what_if",
]
