"""Tables of a running service, and the screen of ``fairlead top`` that is made of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rich.cells import cell_len

from fairlead.cli.clients.top import AROUND_ROWS, SMALLEST_ROWS, screen, verdict
from fairlead.report.live import (
    jobs_table,
    quotas_table,
    servers_table,
    shares_table,
    users_table,
)
from fairlead.report.terminal import open_console, printed_text

ODD = "a\tb\x1b[31mé 日本"
USERS = [{"name": ODD, "weight": 0.5, "pending": 12345, "running": 3}]


def user(name: str, share: float, fair: float, **more: Any) -> dict[str, Any]:
    row = {"name": name, "share": share, "fair_share": fair, "difference": share - fair}
    return {**row, "waiting": 1234, "running": 2, "is_short": share < fair, **more}


def server(name: str, state: str = "ready", **more: Any) -> dict[str, Any]:
    amounts = {"used": {"cpu": 1.0}, "capacity": {"cpu": 4.0, "memory": 8.0}}
    return {"name": name, "state": state, "tasks": 2, "labels": {}, **amounts, **more}


def job(number: int, state: str, **more: Any) -> dict[str, Any]:
    row = {"id": str(number), "user": "ana", "state": state, "name": None, "reason": ""}
    row |= {"submitted": 0.0, "started": None, "ended": None, "demand": {"cpu": 1.0}}
    return {**row, "tasks": 1, "running": 0, "server": None, "exit_status": None, **more}


def shares(*users: dict[str, Any]) -> dict[str, Any]:
    return {"users": list(users), "certificate": {"holds": True}, "mechanism": "drf"}


def test_a_job_on_several_servers_counts_them() -> None:
    rows = jobs_table([job(3, "running", server="a", servers=n) for n in (0, 1, 3)]).rows
    assert [row[8] for row in rows] == ["a", "a", "a and 2 more"]


def test_shares_are_parts_of_the_cluster() -> None:
    """The service divides shares by weights, unless the weight is 0; the table multiplies again."""
    rows = [user("ana", 0.25, 0.5, weight=0.5), user("bo", 0.5, 0.5, weight=0)]
    ana, bo = shares_table(shares(*rows)).rows
    assert ana[1:4] == ("12.50 %", "25.00 %", "-12.5 %")
    assert bo[1:3] == ("50.00 %", "50.00 %")


def test_wide_and_escaped_names_keep_columns_aligned() -> None:
    table = users_table([*USERS, {**USERS[0], "name": "ana"}])
    *_, odd, plain = table.to_text(plain=True).splitlines()
    assert cell_len(odd) == cell_len(plain)
    assert "\x1b" not in odd


def test_short_shares_are_red_on_a_terminal() -> None:
    text = shares_table(shares(user("ana", 0.25, 0.5), user(ODD, 0.5, 0.5))).to_text(plain=False)
    assert "\x1b[31m-25 %\x1b[0m" in text
    assert text.count("\x1b[31m") == 1
    assert "\x1b[1mshares:\x1b[0m\n" in text


def test_programs_get_plain_values() -> None:
    given = shares(user(ODD, 0.25, 0.5))
    assert json.loads(shares_table(given).to_json()) == given
    assert json.loads(users_table(USERS).to_json()) == {"users": USERS}


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
    shrunk = server("a", capacity={"cpu": 2.0}, used={"cpu": 4.0, "gpu": 1.0})
    full = server("b", capacity={"cpu": 2.0}, used={"cpu": 2.0})
    rows = servers_table([shrunk, full]).rows
    assert rows[0][1] == "ready, overcommitted"
    assert rows[0][2:5] == ("4/2", "", "1/0")
    assert rows[1][1] == "ready"


def test_gpus_in_use_are_listed_by_number() -> None:
    table = servers_table([server("a", gpus={"0": 1.0, "2": 0.75}), server("b")])
    at = [column.text for column in table.columns].index("GPUs in use")
    assert [row[at] for row in table.rows] == ["0, 2 (0.75)", ""]
    assert "GPUs in use" not in [column.text for column in servers_table([server("b")]).columns]


def shown(
    users: list[dict[str, Any]],
    servers: list[dict[str, Any]],
    jobs: list[dict[str, Any]],
    size: tuple[int, int] = (120, 60),
) -> str:
    console, buffer = open_console(size[0], plain=True)
    console.print(screen(shares(*users), servers, jobs, size))
    return printed_text(buffer)


def test_users_below_their_share_and_running_jobs_come_first() -> None:
    users = [user("bo", 0.6, 0.5), user("cy", 0.3, 0.4), user("ana", 0.1, 0.5)]
    servers = [server("a"), server("b"), server("c", "drained")]
    text = shown(users, servers, [job(1, "pending"), job(2, "running")])
    lines = text.splitlines()
    assert lines[0] == "✗ 2 users hold less than is fair; ana holds 10.00 %, not 50.00 %."
    assert "of the cluster" not in text  # the note of the table of shares
    firsts = [line.split()[0] for line in lines if line[:1] == " "]
    names = [first for first in firsts if first[0] in "abc12"]
    assert names == ["ana", "cy", "bo", "c", "a", "b", "2", "1"]


@pytest.mark.parametrize(
    ("users", "sentence"),
    [
        ([], "No users yet."),
        ([user("ana", 0.5, 0.5)], "✓ No waiting user is below its fair share."),
        (
            [user("ana", 0.1, 0.2)],
            "✗ One user holds less than is fair; ana holds 10.00 %, not 20.00 %.",
        ),
    ],
)
def test_the_first_sentence(users: list[dict[str, Any]], sentence: str) -> None:
    assert verdict(users).plain == sentence


@pytest.mark.parametrize("size", [(20, 10), (79, 24), (200, 50)])
def test_a_screen_is_no_larger_than_the_terminal(size: tuple[int, int]) -> None:
    users = [user(f"user{k}", k / 1000, 0.05) for k in range(40)]
    servers = [server(f"server{k}") for k in range(30)]
    text = shown(users, servers, [job(k, "running") for k in range(100)], size)
    lines = text.splitlines()
    assert max(map(len, lines)) <= size[0]
    assert len(lines) <= max(size[1] - 1, 1 + 3 * (SMALLEST_ROWS + AROUND_ROWS))
    assert "more" in text
