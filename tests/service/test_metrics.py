"""The metrics: values after known events, access, and the names that the dashboard uses."""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from asked_service import Asked, served
from fairlead.errors import CertificateError
from fairlead.scheduler.live_shares import SharesQuestion
from fairlead.service.journal.event_journal import JournalError

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "docs" / "grafana" / "fairlead.json"
Samples = dict[tuple[str, ...], float]


async def read(ask: Asked, *, fresh: bool = True) -> Samples:
    """Return the values on the page by name and values of labels."""
    ask.service.metrics.most_age = 0.0 if fresh else 5.0
    ask.service.shares.took = 0.0
    answer = await ask.http.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def of(samples: Samples, name: str) -> dict[str, float]:
    return {key[1]: value for key, value in samples.items() if key[0] == f"fairlead_{name}"}


@served
async def test_the_metrics_match_the_state(ask: Asked) -> None:
    await ask.join("a", "b", cpu=4)
    await ask("PUT", "/v1/users/bo", json={"weight": 2})
    await ask.submit({"tasks": 10}, {"user": "bo", "tasks": 10}, {"cpu": 5, "tasks": 3})
    await ask.submit({"user": "cy", "after": ["1"], "tasks": 4})
    (held,) = await ask.submit({"user": "cy", "tasks": 6})
    await ask("POST", f"/v1/jobs/{held}/hold")
    await ask("POST", "/v1/servers/b/drain")
    found = await read(ask)
    users = {u["name"]: u for u in (await ask("GET", "/v1/users"))["users"]}
    shares = {u["name"]: u for u in (await ask("GET", "/v1/shares"))["users"]}
    for metric, by_name, field in (
        ("weight", users, "weight"),
        ("pending_tasks", users, "pending"),
        ("running_tasks", users, "running"),
        ("share", shares, "share"),
        ("fair_share", shares, "fair_share"),
    ):
        assert of(found, metric) == {name: u[field] for name, u in by_name.items()}
    running = of(found, "running_tasks")
    assert sum(running.values()) == of(found, "used")["cpu"]
    assert of(found, "capacity") == {"cpu": 8, "memory": 16, "gpu": 0}
    held_by_weight = (of(found, "share")[n] * users[n]["weight"] for n in users)
    assert math.isclose(sum(held_by_weight), sum(running.values()) / 8)
    pending = sum(u["pending"] for u in users.values())
    assert of(found, "pending_by_reason") == {
        "stopping": 0,
        "after": 4,
        "held": of(found, "pending_tasks")["cy"] - 4,
        "too_large": 3,
        "room": pending - 3 - of(found, "pending_tasks")["cy"],
    }
    assert of(found, "servers") == {"ready": 1, "drained": 1, "unreachable": 0, "lost": 0}
    apart = sum(abs(u["difference"]) for u in shares.values())
    error = apart / sum(u["fair_share"] for u in shares.values())
    assert math.isclose(found["fairlead_fairness_error",], error)
    assert 0 <= found["fairlead_shares_age_seconds",] < 5
    assert found["fairlead_ready",] == 1


@served
async def test_counters_count_events_and_their_effects(ask: Asked) -> None:
    session = await ask.join("a", "b", cpu=2)
    await ask.submit({"tasks": 4}, {"tasks": 2})
    await ask.sync(session, 0, [[1, 0, 1, 0, ""], [1, 1, 1, 3, ""]])
    await ask("POST", "/v1/jobs/2/cancel")
    await ask.sync(session, 0, [[2, k, 1, 143, "cancelled"] for k in (0, 1)])
    await ask("DELETE", "/v1/servers/b")
    await ask("GET", "/v1/jobs/99", status=404)
    await ask("POST", "/v1/jobs", json={"jobs": []}, status=422)
    await ask.sync("nobody", status=409)
    found = await read(ask)
    for kind, n in {"server": 2, "submit": 1, "end": 2, "cancel": 1, "lost": 1}.items():
        assert of(found, "events_total")[kind] == n, kind
    ended = of(found, "tasks_ended_total")
    assert ended == {"finished": 1, "failed": 1, "cancelled": 2, "lost": 1}
    running = sum(of(found, "running_tasks").values())
    assert found["fairlead_placements_total",] == sum(ended.values()) + running
    assert of(found, "requests_refused_total") == {"404": 1, "422": 1, "409": 1}
    changes = 7  # policy, join, submit, two syncs, cancel, remove
    assert found["fairlead_decision_seconds_count",] == changes
    commits = found["fairlead_commit_seconds_count",]
    assert changes <= commits == found["fairlead_cycle_seconds_count",]
    assert found["fairlead_decision_seconds_bucket", "+Inf"] == changes
    assert 0 < found["fairlead_commit_seconds_sum",] <= found["fairlead_decision_seconds_sum",]


@served
async def test_an_empty_service_has_a_page(ask: Asked) -> None:
    found = await read(ask)
    assert math.isnan(found["fairlead_fairness_error",])
    assert sum(of(found, "pending_by_reason").values()) == 0
    assert of(found, "capacity") == {"cpu": 0, "memory": 0, "gpu": 0}
    assert found["process_resident_memory_bytes",] > 0


@served
async def test_users_with_most_tasks_have_gauges(ask: Asked) -> None:
    ask.service.metrics.most_users = 2
    await ask.join("a", cpu=3)
    for name in ("idle", "ana", "bo", "cy"):
        await ask("PUT", f"/v1/users/{name}", json={"weight": 1})
    await ask.submit({"cpu": 8, "tasks": 9}, {"user": "bo", "tasks": 2}, {"user": "cy"})
    found = await read(ask)
    assert of(found, "running_tasks") == {"bo": 2, "cy": 1}
    assert of(found, "share").keys() == {"bo", "cy"}
    ask.service.metrics.most_users = 3
    assert of(await read(ask), "pending_tasks") == {"ana": 9, "bo": 0, "cy": 0}


@served
async def test_shares_are_kept_for_a_while(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    await ask.service.overview.latest()  # the summary computes shares, too
    asked, answer = [], SharesQuestion.answer

    def slow(question: SharesQuestion) -> Any:
        asked.append(question)
        time.sleep(0.3)
        return answer(question)

    monkeypatch.setattr(SharesQuestion, "answer", slow)
    await ask.join("a")
    await ask.submit({"tasks": 2})
    await asyncio.gather(*(read(ask) for _ in range(5)))
    await read(ask, fresh=False)
    ask.service.metrics.most_age, ask.service.shares.took = 0.0, 100.0
    await ask.http.get("/metrics")  # shares are computed for at most a tenth of the time
    assert len(asked) == 1
    monkeypatch.setattr("fairlead.service._metrics_page.PATIENCE", 0.05)
    reading = asyncio.create_task(read(ask))
    await ask.submit({"user": "bo"})  # accepted while shares are computed
    found = await reading
    assert found["fairlead_shares_age_seconds",] >= 0.3
    assert of(found, "share")["ana"] > 0


@served
async def test_no_proof_leaves_shares_out(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: SharesQuestion) -> Any:
        raise CertificateError("no answer was proved")

    monkeypatch.setattr(SharesQuestion, "answer", fails)
    await ask.submit({"tasks": 2})
    found = await read(ask)
    assert of(found, "share") == {}
    assert of(found, "pending_tasks") == {"ana": 2}
    assert math.isnan(found["fairlead_fairness_error",])


@served
async def test_a_journal_that_fails_is_told(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    await ask.submit({})

    def full(*_: Any) -> None:
        raise JournalError("no space is left")

    with monkeypatch.context() as patched:
        patched.setattr(ask.service.journal, "commit", full)
        patched.setattr(ask.service.journal, "save", full)
        await ask.refused(status=503)
        found = await read(ask)
        assert found["fairlead_ready",] == 0
        assert of(found, "pending_tasks") == {}
        assert of(found, "requests_refused_total") == {"503": 1}


@served
async def test_the_dashboard_and_the_guide_name_all_metrics(ask: Asked) -> None:
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    named = set(re.findall(r"\bfairlead_\w+", " ".join(queries)))
    session = await ask.join("a")
    await ask.submit({})
    await ask.sync(session, 0, [[1, 0, 1, 0, ""]])
    await ask("GET", "/v1/jobs/99", status=404)
    assert named
    assert named <= {key[0] for key in await read(ask)}
    text = (await ask.http.get("/metrics")).text
    families = re.findall(r"^# TYPE (fairlead_\w+)", text, re.MULTILINE)
    assert len(families) == 20
    guide = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    assert [name for name in families if f"`{name}`" not in guide] == []
