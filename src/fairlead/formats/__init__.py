"""Read and write files: problems, queues, allocations, Kubernetes dumps and run logs.

Reading an unusable file raises an `InputError` of one line: file, place in the file, fault.
"""

__all__ = [
    "allocation_file",
    "atomic_files",
    "documents",
    "file_faults",
    "kubernetes",
    "kubernetes_runs",
    "parquet_file",
    "problem_file",
    "queue_file",
    "run_log_file",
]
