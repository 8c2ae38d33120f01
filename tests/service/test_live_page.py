"""The live page: who is short of a fair share, and when a job starts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from importlib import resources
from typing import Any

import pytest

from asked_service import Asked, served
from fairlead.report.live import shares_table
from fairlead.scheduler.live_shares import QueueShare

# Stands in for a browser: the script finds its elements, and is never answered.
BROWSER = """
const element = { addEventListener() {} };
const document = { getElementById: () => element, addEventListener() {} };
const sessionStorage = { getItem() {} }, location = {}, fetch = () => new Promise(() => {});
"""


def page(expression: str, *given: object) -> Any:
    """Return what an expression of the page's script gives, or None where no Node.js is."""
    node = shutil.which("node")
    if node is None:
        return None
    text = (resources.files("fairlead") / "service/http/dashboard.html").read_text()
    script = "".join(re.findall(r"<script>(.*?)</script>", text, re.DOTALL))
    call = f"console.log(JSON.stringify(({expression})(...{json.dumps(given)}))); process.exit();"
    done = subprocess.run(
        [node, "-"], input=BROWSER + script + call, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def user(share: float, fair: float, waiting: int) -> dict[str, Any]:
    queue = QueueShare("ana", share, fair, share - fair, waiting, 1)
    return queue._asdict() | {"is_short": queue.is_short}


@served
async def test_a_starved_user_of_large_weight_is_short(ask: Asked) -> None:
    await ask.join("a", cpu=4)
    for name in ("ana", "bo"):
        await ask("PUT", f"/v1/users/{name}", json={"weight": 1000})
    await ask.submit({"tasks": 4})
    await ask.submit({"user": "bo", "tasks": 4})
    shares = await ask("GET", "/v1/shares")
    users = {found["name"]: found for found in shares["users"]}
    assert not users["ana"]["is_short"]
    assert users["bo"]["is_short"]
    assert users["bo"]["fair_share"] == pytest.approx(0.0005)
    assert page("verdict", shares["users"]) in (
        None,
        ["One user holds less than is fair; bo holds 0 %, not 0.05 %.", "fails"],
    )
    text = shares_table(shares).to_text(None, plain=True)
    assert re.search(r"bo +0.00 % +0.05 % +-0.05 %", text)


@pytest.mark.parametrize(
    ("share", "fair", "waiting", "is_short"),
    [
        (0.0, 0.0005, 1, True),
        (0.0, 0.0005, 0, False),
        (0.4996, 0.5, 1, False),
        (0.49, 0.5, 1, True),
        (0.0, 0.0, 1, False),
    ],
)
def test_short_is_relative_to_the_fair_share(
    share: float, fair: float, waiting: int, is_short: bool
) -> None:
    found = user(share, fair, waiting)
    assert found["is_short"] == is_short
    kind = "fails" if is_short else "holds"
    assert page("users => verdict(users)[1]", [found]) in (None, kind)


@pytest.mark.parametrize(
    ("share", "fair", "shown"),
    [
        (0.0, 0.0005, "-0.05 %"),
        (1 / 3 - 1e-12, 1 / 3, "0 %"),
        (0.25, 1 / 3, "-8.33 %"),
        (0.0002, 0.0001, "+0.01 %"),
        (0.0, 0.0, "0 %"),
    ],
)
def test_differences_are_shown_with_their_digits(share: float, fair: float, shown: str) -> None:
    found = user(share, fair, 1)
    assert page("difference", found) in (None, shown)
    shares = {"users": [found], "mechanism": "drfh", "certificate": None}
    assert f" {shown} " in shares_table(shares).to_text(None, plain=True)


@served
async def test_a_start_that_is_over_is_no_forecast(ask: Asked) -> None:
    session = await ask.join("a", cpu=1)
    await ask.submit({"time_limit": 100}, {}, {})
    orders = await ask.sync(session)
    runs, waits = [await ask("GET", f"/v1/jobs/{job}/when") for job in (1, 2)]
    await ask.sync(session, orders["seen"], ended=[[1, 0, 1, 0, ""]])
    over = await ask("GET", "/v1/jobs/1/when")
    unknown = await ask("GET", "/v1/jobs/3/when")
    assert runs["starts"] == over["starts"]
    for found, words in (
        (runs, "It started at"),
        (over, "It started at"),
        (waits, "It starts at"),
        (unknown, "Start time unknown"),
    ):
        assert ("not_before" in found) == (words != "It started at")
        said = page("start", found)
        assert said is None or said.startswith(words)
