"""Tables of a running service."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from rich.cells import cell_len

from fairlead.report.live import (
    history_table,
    jobs_table,
    quotas_table,
    servers_table,
    shares_table,
    users_table,
)

ODD = "a\tb\x1b[31mé 日本"


def job(k: int) -> dict[str, Any]:
    return {
        "id": str(k),
        "user": "ana" * (k % 4 + 1),
        "name": ODD if k % 2 else None,
        "state": "pending",
        "tasks": 1000 * k + 1,
        "server": None if k % 3 else f"node{k}.example.org",
        "exit_status": k if k % 2 else None,
        "reason": "",
        "running": k,
        "demand": {"cpu": 1.0, "memory": 0.5 * k},
        "submitted": 1.7e9,
        "started": None,
        "ended": None,
    }


def share(name: str, difference: float, is_short: bool) -> dict[str, Any]:
    shares = {"share": 0.5 + difference, "fair_share": 0.5, "difference": difference}
    return {"name": name, **shares, "waiting": 1234, "running": 4, "is_short": is_short}


SHARES = {
    "mechanism": "drf",
    "users": [share("ana", -0.25, True), share(ODD, 0.0, False)],
    "certificate": {"holds": True},
}
USERS = [{"name": ODD, "weight": 0.5, "pending": 12345, "running": 3}]
SERVER = {"name": "a", "state": "ready", "used": {}, "capacity": {"cpu": 2.0}, "tasks": 0}
SERVERS = [{**SERVER, "labels": {"b": "2", "a": "1"}}]
HOURS = {"month": "2026-01", "user": "ana", "tasks": 3, "cpu": 1.5, "memory": 0.0, "gpu": 12345.0}
TABLES = {
    "jobs": jobs_table([job(k) for k in range(7)]),
    "no jobs": jobs_table([]),
    "users": users_table(USERS),
    "servers": servers_table(SERVERS),
    "shares": shares_table(SHARES),
    "history": history_table([HOURS]),
}


def test_a_job_on_several_servers_counts_them() -> None:
    rows = jobs_table([job(3) | {"servers": n} for n in (0, 1, 3)]).rows
    assert [row[8] for row in rows] == ["node3.example.org"] * 2 + ["node3.example.org and 2 more"]


def test_shares_are_parts_of_the_cluster() -> None:
    """The service divides shares by weights, unless the weight is 0; the table multiplies again."""
    rows = [share("ana", -0.25, True) | {"weight": 0.5}, share("bo", 0.0, False) | {"weight": 0}]
    (ana, bo) = shares_table({**SHARES, "users": rows}).rows
    assert ana[1:4] == ("12.50 %", "25.00 %", "-12.5 %")
    assert bo[1:3] == ("50.00 %", "50.00 %")


def test_wide_and_escaped_names_keep_columns_aligned() -> None:
    table = users_table([*USERS, {**USERS[0], "name": "ana"}])
    *_, odd, plain = table.to_text(plain=True).splitlines()
    assert cell_len(odd) == cell_len(plain)
    assert "\x1b" not in odd


def test_short_shares_are_red_on_a_terminal() -> None:
    text = TABLES["shares"].to_text(plain=False)
    assert "\x1b[31m-25 %\x1b[0m" in text
    assert text.count("\x1b[31m") == 1
    assert "\x1b[1mshares:\x1b[0m\n" in text


def test_programs_get_plain_values() -> None:
    assert json.loads(TABLES["shares"].to_json()) == SHARES
    assert json.loads(TABLES["users"].to_json()) == {"users": USERS}


def test_they_import_neither_numpy_nor_rich() -> None:
    program = (
        "import sys; from fairlead.report.live import users_table; "
        f"users_table({USERS}).to_text(plain=False); "
        "print([m for m in ('numpy', 'rich', 'dataclasses', 'pydantic') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"


def test_quotas_show_what_is_held_and_which_cannot_be_met() -> None:
    team = {"quota": {"cpu": 3.0, "gpu": 2.0}, "held": {"cpu": 1.0, "gpu": 2.0}}
    bo = {"quota": {"gpu": 1.0}, "held": {"gpu": 0.0}}
    uses = [
        {"queue": "team", "where": "", **team},
        {"queue": "bo", "where": "with kind=fast", **bo},
    ]
    table = quotas_table({"quotas": uses, "unmet_quotas": "3 gpu are guaranteed to bo"})
    assert [row[:4] for row in table.rows] == [
        ("team", "cpu", "1", "3"),
        ("team", "gpu", "2", "2"),
        ("bo", "gpu", "0", "1"),
    ]
    assert "3 gpu are guaranteed to bo" in table.to_text(plain=True)


def test_a_server_with_less_than_its_tasks_hold_is_flagged() -> None:
    shrunk = {"capacity": {"cpu": 2.0}, "used": {"cpu": 4.0, "gpu": 1.0}, "labels": {}}
    full = {"capacity": {"cpu": 2.0}, "used": {"cpu": 2.0}, "labels": {}}
    rows = servers_table([{**SERVER, **shrunk}, {**SERVER, **full}]).rows
    assert rows[0][1] == "ready, overcommitted"
    assert rows[0][2:5] == ("4/2", "", "1/0")
    assert rows[1][1] == "ready"


def test_gpus_in_use_are_listed_by_number() -> None:
    table = servers_table([{**SERVERS[0], "gpus": {"0": 1.0, "2": 0.75}}, *SERVERS])
    at = [column.text for column in table.columns].index("GPUs in use")
    assert [row[at] for row in table.rows] == ["0, 2 (0.75)", ""]
    assert "GPUs in use" not in [column.text for column in servers_table(SERVERS).columns]
