"""The views of the live page, in headless Chromium."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from fairlead.service.journal.event_journal import Journal
from fairlead.service.journal.samples import ClusterSample, UserShare
from live_cluster import Cluster, until
from live_page import Opened, check_access, submit

VIEWS = ("", "#/jobs", "#/servers", "#/what-if?weights=eve%3D2", "#/user/eve")


def test_a_newcomer_follows_the_first_job(own_cluster: Cluster, open_page: Opened) -> None:
    """Without loading the page again: no servers, a server, a job that runs and one too large."""
    page = open_page(own_cluster.url)
    expect(page.locator("#verdict")).to_contain_text("start fairlead worker")
    own_cluster.start_worker("a", cpu=4)
    expect(page.locator("#verdict")).to_contain_text("No user has submitted a job yet.")
    submit(own_cluster, "--user", "ana", "--", "sleep", "60")
    expect(page.locator("#verdict")).to_contain_text("Every waiting user holds its fair share.")
    expect(page.get_by_role("row", name="ana")).to_contain_text("25 %")
    submit(own_cluster, "--user", "ana", "--cpu", "5", "--", "true")
    expect(page.locator("#verdict")).to_contain_text("1 task can never run")
    check_access(page)


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (400, "dark")])
def test_each_view_can_be_read_by_all(
    cluster: Cluster, open_page: Opened, width: int, scheme: str
) -> None:
    submit(cluster, "--user", "eve", "--name", "n" * 60, "--", "true")
    page = open_page(cluster.url, "", width, scheme)
    for view in VIEWS:
        page.goto(f"{cluster.url}/{view}")
        expect(page.locator("#view h1")).to_be_visible()
        page.wait_for_timeout(700)
        check_access(page)


def test_a_job_is_explained_and_its_output_shown(cluster: Cluster, open_page: Opened) -> None:
    script = "for i in $(seq 3000); do echo line $i; done; echo bad >&2; sleep 100"
    job = submit(
        cluster, "--user", "uli", "--count", "20", "--name", "long", "--", "sh", "-c", script
    )
    page = open_page(cluster.url, f"#/job/{job}")
    expect(page.locator("#view h1")).to_have_text(f"Job {job}: long")
    expect(page.locator("#view pre")).to_contain_text("It would start now")
    expect(page.locator(".output")).to_contain_text("line 3000")
    assert "line 1\n" not in page.locator(".output").inner_text()  # only the end
    assert page.locator(".output").evaluate("e => e.scrollTop > 0")
    page.get_by_label("Stream").select_option("stderr")
    expect(page.locator(".output")).to_have_text("bad\n")
    expect(page.get_by_role("row", name="node").first).to_contain_text("running")
    check_access(page)
    cluster.run("cancel", job)
    expect(page.locator(".lead")).to_contain_text("It is cancelled")
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)


def test_each_gpu_names_its_users(own_cluster: Cluster, open_page: Opened) -> None:
    own_cluster.start_worker("a", "--gpu", "4", cpu=8)
    for user, gpu in (("ana", "0.5"), ("bo", "0.5"), ("cy", "2"), ("dee", "0.3")):
        submit(own_cluster, "--user", user, "--gpu", gpu, "--", "sleep", "60")
    page = open_page(own_cluster.url, "#/servers")
    boxes = page.get_by_role("list", name="GPUs").locator("li")
    expect(boxes).to_have_text(
        ["2held by ana (0.5), bo (0.5)", "cyheld by cy", "cyheld by cy", "deheld by dee (0.3)"]
    )
    assert [box.get_attribute("class") for box in boxes.all()] == [*["taken"] * 3, "part"]
    check_access(page)


def test_names_are_shown_as_text(cluster: Cluster, open_page: Opened) -> None:
    user, name = '<img src=x onerror="alert(1)">', "<b>bold<script>alert(2)<x>"
    submit(
        cluster, "--user", user, "--name", name, "--cpu", "4", "--count", "9", "--", "sleep", "50"
    )
    cluster.start_worker("<i>node", "--label", "<u>=<s>", cpu=1)
    until(lambda: "<i>node" in cluster.run("servers").stdout)
    page = open_page(cluster.url)
    for view in ("", "#/jobs", "#/servers", f"#/user/{user.replace('<', '%3C')}"):
        page.goto(f"{cluster.url}/{view}")
        expect(page.locator("#view")).to_contain_text("<i>node" if "servers" in view else user)
        assert page.locator("#view :is(b, i:not(.bar i), u, s, img, script)").count() == 0
        assert page.locator("#verdict *").count() == 1
    cluster.kill("<i>node")


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A service with samples of the last twenty minutes but one, and with nine alerts."""
    made = Cluster(tmp_path_factory.mktemp("sampled"))
    now, journal = time.time(), Journal(made.db)
    for k in (4, 3, 1):
        cluster = ClusterSample(10 * k, k, {"cpu": 1.0 * k}, {"cpu": 8.0}, 1)
        journal.samples.add(now - 300 * k, cluster, [UserShare("ana", k / 8, 0.5)])
    present = [["never-runs", str(k), f"job {k} never runs", 1.0, "ana"] for k in range(9)]
    journal.add_alerts([], json.dumps({"alerts": present, "debts": {}}).encode())
    journal.close()
    made.start_service()
    yield made
    made.close()


def test_pictures_show_the_samples(sampled: Cluster, open_page: Opened) -> None:
    """A gap in the samples is one in the figures.

    More columns follow the samples if five minutes begin, or a sample is taken, during the test.
    """
    page = open_page(sampled.url)
    for about, column in (
        ("Tasks", ["40", "30", "", "10"]),
        ("Used fraction", ["50 %", "37.5 %", "", "12.5 %"]),
    ):
        figure = page.locator("figure", has=page.locator(f"figcaption:has-text('{about}')"))
        expect(figure.locator("canvas")).to_be_visible()
        figure.locator("summary").click()
        cells = figure.locator("tbody td:nth-child(2)")
        expect(cells.nth(3)).to_have_text(column[3])
        assert cells.all_text_contents()[:4] == column
    ana = page.get_by_role("img", name="ana, since")
    assert "holds now 12.5 %, at most 50 %; fair now 50 %" in str(ana.get_attribute("aria-label"))
    page.get_by_role("button", name="last week").click()
    expect(page.get_by_role("button", name="last week")).to_have_attribute("aria-pressed", "true")
    check_access(page)


def test_many_alerts_are_folded(sampled: Cluster, open_page: Opened) -> None:
    page = open_page(sampled.url, width=400)
    expect(page.locator("#alerts > div > ul > li")).to_have_count(3)
    page.locator("#alerts summary").click()
    expect(page.get_by_role("link", name="Job 8")).to_have_attribute("href", "#/job/8")
    check_access(page)


def test_what_if_shows_who_gains(cluster: Cluster, open_page: Opened) -> None:
    for user in ("wim", "zoe"):
        submit(cluster, "--user", user, "--count", "30", "--", "sleep", "40")
    page = open_page(cluster.url, "#/what-if")
    page.get_by_label("Weights").fill("zoe=3")
    page.get_by_role("button", name="Try").click()
    expect(page.locator(".opening").nth(1)).to_contain_text("would start now")
    cells = page.get_by_role("row", name="zoe").locator("td").all_inner_texts()
    fair, later = (float(cells[k].removesuffix(" %")) for k in (2, 3))
    assert later > fair
    page.get_by_label("Weights").fill("zoe")
    page.get_by_role("button", name="Try").click()
    fault = page.locator("#view p.bad")
    expect(fault).to_contain_text("write NAME=VALUE")
    page.get_by_label("Weights").fill("")
    for label, text, words in (
        ("Quotas", "wim=1", "write NAME=RESOURCE:AMOUNT, not 1"),
        ("Quotas", "wim=cpu:1,memory:1, zoe=cpu:999", "1000 cpu are guaranteed to wim, zoe"),
        ("Servers to drain", "nowhere", "Servers to drain: there is no server 'nowhere'"),
        ("Policy", "bla", "Policy: no policy is named"),
    ):
        page.get_by_label(label).fill(text)
        page.get_by_role("button", name="Try").click()
        expect(fault).to_contain_text(words)
        page.get_by_label(label).fill("")
    page.get_by_role("button", name="Try").click()
    expect(fault).to_contain_text("Give a change, such as a weight or a server.")
    assert "zoe" in cluster.run("users").stdout
    check_access(page)


def test_the_first_view_is_small(cluster: Cluster, open_page: Opened) -> None:
    page = open_page(cluster.url)
    expect(page.locator("#view h1")).to_be_visible()
    page.wait_for_timeout(1000)
    sizes = page.evaluate(
        "performance.getEntries().filter(e => 'transferSize' in e).map(e => e.transferSize)"
    )
    assert 50_000 < sum(sizes) < 400_000
