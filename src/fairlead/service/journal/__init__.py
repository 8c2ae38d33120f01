"""The journal of a service: one SQLite file with events, snapshots, jobs and tokens."""
