"""The journal of a service: one SQLite file with events, snapshots, jobs and tokens."""

__all__ = ["earlier_journal", "event_journal", "job_records", "tokens"]
