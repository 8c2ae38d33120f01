"""The screen of ``fairlead top``."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.cli.top import AROUND_ROWS, SMALLEST_ROWS, screen, verdict
from fairlead.report.terminal import open_console, printed_text


def user(name: str, share: float, fair: float, **more: Any) -> dict[str, Any]:
    row = {"name": name, "share": share, "fair_share": fair, "difference": share - fair}
    return {**row, "waiting": 3, "running": 2, "is_short": share < fair, **more}


def server(name: str, state: str = "ready", cpu: float = 1.0) -> dict[str, Any]:
    used, capacity = {"cpu": cpu}, {"cpu": 4.0, "memory": 8.0}
    return {
        "name": name,
        "state": state,
        "used": used,
        "capacity": capacity,
        "tasks": 2,
        "labels": {},
    }


def job(number: int, state: str) -> dict[str, Any]:
    times = {"submitted": 0.0, "started": None, "ended": None}
    more = {"tasks": 1, "running": 0, "demand": {"cpu": 1.0}, "server": None, "exit_status": None}
    return {"id": str(number), "user": "ana", "state": state, "name": None, **times, **more}


def shown(
    users: list[dict[str, Any]],
    servers: list[dict[str, Any]],
    jobs: list[dict[str, Any]],
    size: tuple[int, int] = (120, 60),
) -> str:
    shares = {"users": users, "certificate": None, "mechanism": "drf"}
    console, buffer = open_console(size[0], plain=True)
    console.print(screen(shares, servers, jobs, size))
    return printed_text(buffer)


def test_those_who_are_owed_come_first_and_running_jobs() -> None:
    users = [user("bo", 0.6, 0.5), user("cy", 0.3, 0.4), user("ana", 0.1, 0.5)]
    servers = [server("a"), server("b", cpu=4.0), server("c", "drained")]
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


def test_an_empty_cluster_says_what_to_do() -> None:
    text = shown([], [], [])
    assert "servers: no servers yet: start fairlead worker on each machine" in text
    assert "jobs: no jobs wait or run" in text


def test_names_of_users_cannot_control_the_terminal() -> None:
    text = shown([user("[red]ana\x1b[2J", 0.1, 0.2)], [server("a\x07")], [])
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[red]ana" in text


@pytest.mark.parametrize("size", [(20, 10), (79, 24), (80, 24), (200, 50)])
def test_a_screen_is_no_larger_than_the_terminal(size: tuple[int, int]) -> None:
    users = [user(f"user{k}", k / 1000, 0.05) for k in range(40)]
    servers = [server(f"server{k}") for k in range(30)]
    text = shown(users, servers, [job(k, "running") for k in range(100)], size)
    lines = text.splitlines()
    assert max(map(len, lines)) <= size[0]
    assert len(lines) <= max(size[1] - 1, 1 + 3 * (SMALLEST_ROWS + AROUND_ROWS))
    assert "more" in text


def test_narrow_terminals_show_the_first_columns() -> None:
    users = [user("the-user-of-a-long-name", 0.1, 0.2)]
    text = shown(users, [server("a-server-of-a-long-name")], [job(12345, "running")], (50, 40))
    heads = [line.split()[:3] for line in text.splitlines() if line.startswith((" user", " job "))]
    assert heads == [["user", "share", "fair"], ["job", "user", "state"]]
    assert "since" not in text
