"""Sessions of people at the live page: a user, an operator, and what happens meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from live_cluster import Cluster, until
from live_page import Opened, check_access, submit


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
    roles = {"ana": "user", "bo": "user", "boss": "admin"}
    return {name: add_token(guarded, name, role) for name, role in roles.items()}


def add_token(cluster: Cluster, name: str, role: str) -> str:
    """Add a token, and wait until the service knows it."""
    words = ("token", "add", name, "--role", role, "--db", str(cluster.db))
    token = cluster.run(*words).stdout.strip()
    headers = {"Authorization": f"Bearer {token}"}
    url = f"{cluster.url}/v1/whoami"
    until(lambda: httpx.get(url, headers=headers, timeout=60).status_code == 200)
    return token


def sign_in(page: Page, token: str) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Show").click()


def submitted(cluster: Cluster, token: str, **job: Any) -> str:
    asked = {"jobs": [{"command": ["sleep", "300"], "cpu": 1, "directory": "/tmp", **job}]}
    headers = {"Authorization": f"Bearer {token}"}
    answer = httpx.post(f"{cluster.url}/v1/jobs", json=asked, headers=headers, timeout=60)
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
    expect(page.locator("#verdict")).to_contain_text("This token is refused")
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
    page.keyboard.press("Enter")
    expect(page.locator(".tiles")).to_contain_text("2.5")
    page.get_by_role("button", name="Change the weight").click()
    page.get_by_role("spinbutton").fill("1e300")
    page.get_by_role("dialog").get_by_role("button", name="Change").click()
    expect(page.locator("#notice")).to_contain_text("The change was refused")
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
    submit(cluster, "--user", "eve", "--name", "a", "--", "sleep", "20")
    page = open_page(cluster.url)
    expect(page.locator("#view h1")).to_be_visible()
    page.keyboard.press("Tab")
    page.goto(f"{cluster.url}/#/jobs")
    expect(page.locator("#view h1")).to_have_text("Jobs")
    page.locator("#skip").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "view"
    expect(page.locator("#view h1")).to_have_text("Jobs")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "user":
            break
    page.keyboard.press("Enter")
    heading = page.get_by_role("columnheader", name="user")
    expect(heading).to_have_attribute("aria-sort", "ascending")
    page.wait_for_timeout(500)
    page.keyboard.press("Enter")  # the focus is still there
    expect(heading).to_have_attribute("aria-sort", "descending")


def test_jobs_are_searched_page_by_page(own_cluster: Cluster, open_page: Opened) -> None:
    rows = [{"command": ["true"], "user": f"u{k % 100}", "name": f"job {k}"} for k in range(300)]
    answer = httpx.post(f"{own_cluster.url}/v1/jobs", json={"jobs": rows}, timeout=60)
    assert answer.status_code == 201
    page = open_page(own_cluster.url, "#/jobs")
    expect(page.locator(".pager")).to_contain_text("1 to 50 of 300")
    assert page.locator("tbody tr").count() == 50
    page.get_by_role("button", name="user").click()
    expect(page.locator("tbody tr").first).to_contain_text("u0")
    page.get_by_label("Text in name").fill("job 12")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".pager")).to_contain_text("1 to 11 of 11")  # job 12 and 120 to 129
    page.goto(f"{own_cluster.url}/#/jobs?offset=250&descending=false")
    expect(page.locator("tbody tr").last).to_contain_text("job 299")
    expect(page.get_by_role("button", name="Later")).to_be_disabled()
    check_access(page)


def test_a_removed_token_is_told(guarded: Cluster, open_page: Opened) -> None:
    token = add_token(guarded, "eve", "user")
    page = open_page(guarded.url)
    sign_in(page, token)
    expect(page.locator("#who")).to_have_text("eve")
    guarded.run("token", "remove", "eve", "--db", str(guarded.db))
    expect(page.locator("#verdict")).to_contain_text("This token is refused")
    expect(page.locator("#sign-in")).to_be_visible()
    expect(page.locator("#contents")).to_be_hidden()


def test_what_is_typed_stays(cluster: Cluster, open_page: Opened) -> None:
    """Also while the list is asked for again, as jobs come."""
    page = open_page(cluster.url, "#/jobs")
    expect(page.locator(".pager")).to_be_visible()
    field = page.get_by_label("Text in name")
    field.press_sequentially("hello")
    with page.expect_response("**/v1/jobs/search**"):
        submit(cluster, "--user", "tim", "--count", "2", "--", "sleep", "20")
    page.wait_for_timeout(300)
    expect(field).to_have_value("hello")


def test_a_held_job_that_runs_is_released(own_cluster: Cluster, open_page: Opened) -> None:
    own_cluster.start_worker("a", cpu=4)
    job = submit(own_cluster, "--user", "hal", "--count", "90", "--cpu", "2", "--", "sleep", "60")
    until(lambda: own_cluster.client().jobs()[0].state == "running")
    page = open_page(own_cluster.url, f"#/job/{job}")
    texts = {"Hold": "held: no more of its tasks start", "Release": "of its tasks wait"}
    for button, words in texts.items():
        page.get_by_role("button", name=button).click()
        page.get_by_role("dialog").get_by_role("button", name=button).click()
        expect(page.locator(".lead")).to_contain_text(words)
    expect(page.get_by_role("button", name="Hold")).to_be_visible()


def test_addresses_that_name_nothing(cluster: Cluster, open_page: Opened) -> None:
    page = open_page(cluster.url, "#/job/%E0%A4%A")
    expect(page.locator("#view h1")).to_have_text("There is no such view")
    for address, words in (
        ("constructor", "There is no such view"),
        ("constructor/1", "There is no such view"),
        ("what-if", "What if?"),
        ("jobs?offset=5000&x=1&state=bogus", "Jobs"),
        ("servers?state=x", "Servers"),
        ("", "Overview"),
    ):
        page.goto(f"{cluster.url}/#/{address}")
        expect(page.locator("#view h1")).to_have_text(words)
        expect(page.locator("#notice")).to_have_text("")
    for address in ("job/abc", "job/999999", "user/nobody", "users/nobody", "jobs/999999"):
        page.goto(f"{cluster.url}/#/{address}")
        expect(page.locator("#notice")).to_contain_text("there is no")
