"""Sessions of people at the live page: a user, an operator, and what happens meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from access_checks import check_access
from playwright.sync_api import Page, expect

from live_cluster import Cluster, until

Opened = Callable[..., Page]
JOBS, AT_ONCE = 100_000, 10_000


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A service that admits tokens only: of ana, bo and the operator."""
    made = Cluster(tmp_path_factory.mktemp("guarded"))
    made.start_service()
    made.start_worker("node1", cpu=2)
    until(lambda: "node1" in made.run("servers").stdout)
    yield made
    made.close()


@pytest.fixture(scope="module")
def tokens(guarded: Cluster) -> dict[str, str]:
    made = {}
    for name, role in (("ana", "user"), ("bo", "user"), ("boss", "admin")):
        done = guarded.run("token", "add", name, "--role", role, "--db", str(guarded.db))
        made[name] = done.stdout.strip()
    headers = {"Authorization": f"Bearer {made['boss']}"}
    until(lambda: httpx.get(f"{guarded.url}/v1/whoami", headers=headers).status_code == 200)
    return made


def sign_in(page: Page, token: str) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Show").click()


def submitted(cluster: Cluster, token: str, **job: Any) -> str:
    asked = {"jobs": [{"command": ["sleep", "300"], "cpu": 1, "directory": "/tmp", **job}]}
    headers = {"Authorization": f"Bearer {token}"}
    answer = httpx.post(f"{cluster.url}/v1/jobs", json=asked, headers=headers)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["ids"][0])


def test_a_user_sees_and_cancels_own_jobs(
    guarded: Cluster, tokens: dict[str, str], open_page: Opened
) -> None:
    mine = submitted(guarded, tokens["ana"], name="mine")
    other = submitted(guarded, tokens["bo"], name="other")
    page = open_page(guarded.url)
    expect(page.locator("#verdict")).to_contain_text("Who are you?")
    check_access(page)
    sign_in(page, "wrong")
    expect(page.locator("#verdict")).to_contain_text("This token is not let in")
    sign_in(page, tokens["ana"])
    expect(page.locator("#who")).to_have_text("ana")
    expect(page.get_by_role("row", name="bo")).to_be_visible()  # shares are everybody's
    page.get_by_role("link", name="Jobs").click()
    expect(page.get_by_role("row", name="mine")).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.goto(f"{guarded.url}/#/job/{other}")
    expect(page.locator("#notice")).to_contain_text(f"there is no job {other}")
    page.goto(f"{guarded.url}/#/servers")
    expect(page.locator(".server")).to_have_count(1)
    page.locator("summary").click()
    expect(page.locator(".tasks")).to_contain_text("bo: 1 core")
    expect(page.locator(".tasks")).not_to_contain_text("other")
    assert page.get_by_role("button", name="Drain").count() == 0
    page.goto(f"{guarded.url}/#/job/{mine}")
    for answer, state in (("No", "running"), ("Cancel the job", "cancelled")):
        page.get_by_role("button", name="Cancel", exact=True).click()
        expect(page.get_by_role("dialog")).to_contain_text(f"Cancel job {mine}?")
        check_access(page)
        page.get_by_role("dialog").get_by_role("button", name=answer).click()
        expect(page.locator(".lead")).to_contain_text(f"It is {state}")
    page.get_by_role("button", name="Sign out").click()
    expect(page.locator("#verdict")).to_contain_text("Who are you?")
    assert page.evaluate("sessionStorage.getItem('token')") == ""


def test_an_operator_drains_and_changes_a_weight(
    guarded: Cluster, tokens: dict[str, str], open_page: Opened
) -> None:
    submitted(guarded, tokens["bo"])
    page = open_page(guarded.url, "#/servers")
    sign_in(page, tokens["boss"])
    for button, state in (("Drain", "drained"), ("Undrain", "ready")):
        page.get_by_role("button", name=f"{button} node1").click()
        page.get_by_role("dialog").get_by_role("button", name=button, exact=True).click()
        expect(page.locator(".server h2")).to_contain_text(state)
        rows = json.loads(guarded.run("servers", "--json").stdout)["servers"]
        assert [row["state"] for row in rows] == [state]
    page.goto(f"{guarded.url}/#/user/bo")
    page.get_by_role("button", name="Change the weight").click()
    page.get_by_role("spinbutton").fill("2.5")
    page.get_by_role("dialog").get_by_role("button", name="Change").click()
    expect(page.locator(".tiles")).to_contain_text("2.5")
    page.get_by_role("button", name="Change the weight").click()
    page.get_by_role("spinbutton").fill("1e300")
    page.get_by_role("dialog").get_by_role("button", name="Change").click()
    expect(page.locator("#notice")).to_contain_text("That was refused")
    check_access(page)


def test_a_lost_service_is_noticed_and_found_again(own_cluster: Cluster, open_page: Opened) -> None:
    page = open_page(own_cluster.url)
    expect(page.locator("#verdict")).to_contain_text("No servers yet")
    own_cluster.kill("service")
    expect(page.locator("#verdict")).to_contain_text("The service does not answer")
    expect(page.locator("#view .tiles")).to_be_visible()  # old figures stay
    own_cluster.start_again("service")
    expect(page.locator("#verdict")).to_contain_text("No servers yet")


def test_a_keyboard_suffices(cluster: Cluster, open_page: Opened) -> None:
    """Focus stays on a heading although the list is asked for again."""
    cluster.run("submit", "--user", "eve", "--name", "a", "--", "sleep", "20")
    page = open_page(cluster.url)
    expect(page.locator("#view h1")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # skip to the contents
    page.goto(f"{cluster.url}/#/jobs")
    expect(page.locator("#view h1")).to_have_text("Jobs")
    assert page.evaluate("document.activeElement.id") == "view"
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "user":
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("columnheader", name="user")).to_have_attribute(
        "aria-sort", "ascending"
    )


def test_a_hundred_thousand_jobs_are_searched(own_cluster: Cluster, open_page: Opened) -> None:
    for first in range(0, JOBS, AT_ONCE):
        rows = [
            {"command": ["true"], "user": f"u{k % 100}", "name": f"job {k}", "cpu": 1}
            for k in range(first, first + AT_ONCE)
        ]
        answer = httpx.post(f"{own_cluster.url}/v1/jobs", json={"jobs": rows}, timeout=60)
        assert answer.status_code == 201
    page = open_page(own_cluster.url, "#/jobs")
    expect(page.locator(".pager")).to_contain_text("1 to 50 of 100,000")
    assert page.locator("tbody tr").count() == 50
    page.get_by_role("button", name="user").click()
    expect(page.locator("tbody tr").first).to_contain_text("u0")
    page.get_by_label("Text in name").fill("job 4321")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".pager")).to_contain_text("1 to 11 of 11")  # job 4321 and 43210 to 43219
    page.goto(f"{own_cluster.url}/#/jobs?offset=99950&descending=false")
    expect(page.locator("tbody tr").last).to_contain_text("job 99999")
    expect(page.get_by_role("button", name="Later")).to_be_disabled()
    check_access(page)
