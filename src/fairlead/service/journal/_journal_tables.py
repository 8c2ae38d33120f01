"""The tables of a journal, in one SQLite file."""

from __future__ import annotations

import sqlalchemy as sql

TABLES = sql.MetaData()
meta = sql.Table(
    "meta",
    TABLES,
    sql.Column("key", sql.Text, primary_key=True),
    sql.Column("value", sql.Text, nullable=False),
)
events = sql.Table(
    "events",
    TABLES,
    sql.Column("seq", sql.Integer, primary_key=True),
    sql.Column("now", sql.Float, nullable=False),
    sql.Column("kind", sql.Text, nullable=False),
    sql.Column("body", sql.LargeBinary, nullable=False),
    sql.Column("digest", sql.Integer),  # null in events written before digests
)
snapshot_parts = sql.Table(
    "snapshot_parts",
    TABLES,
    sql.Column("seq", sql.Integer, primary_key=True),
    sql.Column("part", sql.Integer, primary_key=True),
    sql.Column("is_last", sql.Boolean, nullable=False),
    sql.Column("data", sql.LargeBinary, nullable=False),
    sql.Column("digest", sql.Integer),  # of all parts, in the last one
)
jobs = sql.Table(
    "jobs",
    TABLES,
    sql.Column("id", sql.Integer, primary_key=True),
    sql.Column("user", sql.Text, nullable=False),
    sql.Column("submitted", sql.Float, nullable=False),
    sql.Column("spec", sql.LargeBinary, nullable=False),
    sql.Column("ended", sql.Float, index=True),
    sql.Column("outcome", sql.LargeBinary),
    sql.Column("digest", sql.Integer),  # of id and spec
)
attempts = sql.Table(
    "attempts",
    TABLES,
    sql.Column("job", sql.Integer, primary_key=True),
    sql.Column("task", sql.Integer, primary_key=True),
    sql.Column("attempt", sql.Integer, primary_key=True),
    sql.Column("user", sql.Text, nullable=False),
    sql.Column("server", sql.Text, nullable=False),
    sql.Column("started", sql.Float, nullable=False),
    sql.Column("ended", sql.Float, nullable=False),
    sql.Column("status", sql.Integer),
    sql.Column("reason", sql.Text, nullable=False),
    sql.Column("cpu", sql.Float, nullable=False),
    sql.Column("memory", sql.Float, nullable=False),
    sql.Column("gpu", sql.Float, nullable=False),
)
past_usage = sql.Table(  # hours of tasks whose rows in `attempts` were deleted
    "past_usage",
    TABLES,
    sql.Column("month", sql.Text, primary_key=True),
    sql.Column("user", sql.Text, primary_key=True),
    sql.Column("tasks", sql.Integer, nullable=False),
    sql.Column("cpu", sql.Float, nullable=False),
    sql.Column("memory", sql.Float, nullable=False),
    sql.Column("gpu", sql.Float, nullable=False),
)
tokens = sql.Table(
    "tokens",
    TABLES,
    sql.Column("name", sql.Text, primary_key=True),
    sql.Column("role", sql.Text, nullable=False),
    sql.Column("subject", sql.Text, nullable=False),
    sql.Column("digest", sql.Text, nullable=False, unique=True),
    sql.Column("created", sql.Float, nullable=False),
    sql.Column("checksum", sql.Integer),  # of the row
)
answers = sql.Table(
    "answers",
    TABLES,
    sql.Column("key", sql.Text, primary_key=True),
    sql.Column("digest", sql.Text, nullable=False),
    sql.Column("at", sql.Float, nullable=False),
    sql.Column("body", sql.LargeBinary, nullable=False),
    sql.Column("checksum", sql.Integer),  # of key, digest and body
)


def columns_of(connection: sql.Connection, table: str) -> list[str]:
    """Return the names of a table's columns; none if there is no such table."""
    return [row[1] for row in connection.exec_driver_sql(f"PRAGMA table_info({table})")]
