"""Names and reasons of other users and workers reach no terminal as control characters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fairlead.cli import cluster, jobs
from fairlead.cli.main import run
from fairlead.service.messages import JobView, ServerState, ServerView, WhenView

BAD = "a\x1b]0;title\x07\x9b31m\x7f\u202e\rb"


def job_view() -> JobView:
    fields: dict[str, Any] = dict.fromkeys(JobView.model_fields)
    fields |= {"id": "1", "user": BAD, "name": BAD, "reason": BAD, "server": BAD, "demand": {}}
    fields |= {"state": "failed", "tasks": 1, "running": 0, "submitted": 0.0, "exit_status": 3}
    return JobView.model_construct(**fields)


def server_view() -> ServerView:
    fields: dict[str, Any] = {"name": BAD, "labels": {BAD: BAD}, "capacity": {}, "used": {}}
    return ServerView.model_construct(**fields, state="ready", tasks=0)


class Service:
    """A service whose texts all hold control characters."""

    def explain(self, job: str) -> dict[str, Any]:
        return {"text": f"{job}: {BAD}\n{BAD}", "reason": BAD}

    def when(self, job: str) -> WhenView:
        fields: dict[str, Any] = {"starts": None, "not_before": 0.0, "state": "pending"}
        return WhenView.model_construct(job=job, reason=BAD, **fields)

    def jobs(self, *_: object) -> list[JobView]:
        return [job_view()]

    def wait(self, *_: object) -> JobView:
        return job_view()

    def servers(self) -> list[ServerView]:
        return [server_view()]

    def drain(self, _: str) -> ServerState:
        return ServerState.model_construct(name=BAD, state=BAD)

    def submit(self, _: object) -> list[str]:
        return [BAD]


@pytest.mark.parametrize("is_json", [False, True])
@pytest.mark.parametrize(
    "words",
    [
        ["explain", "1"],
        ["when", "1"],
        ["jobs"],
        ["wait", "1"],
        ["servers"],
        ["drain", "a"],
        ["submit", "--user", "ana", "--", "true"],
    ],
    ids=lambda words: words[0],
)
def test_texts_of_a_service_are_printable(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    is_json: bool,
) -> None:
    @contextmanager
    def client(_: object) -> Iterator[Service]:
        yield Service()

    for module in (jobs, cluster):
        monkeypatch.setattr(module, "client", client)
    assert run([words[0], *(["--json"] if is_json else []), *words[1:]]) in (0, 3)
    said = "".join(capsys.readouterr())
    assert said.replace("\n", "").isprintable()
    assert "title" in said


def test_names_of_tokens_are_printable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, words = "a31m\u202eb", ["--db", str(tmp_path / "j.db")]
    assert run(["token", "add", name, *words]) == 0
    capsys.readouterr()
    assert run(["token", "list", *words]) == 0
    said = capsys.readouterr().out
    assert said.replace("\n", "").isprintable()
    assert "31m" in said
