"""GPUs by device in the service: tasks share one, and orders name the devices."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from asked_service import Asked, served
from asked_service import run as run_service
from fairlead.report.live import jobs_table
from fairlead.service import service_state
from fairlead.service.messages import JobRequest
from fairlead.service.service_state import ServiceState
from service.test_state import end, place, submit, with_servers
from state_invariants import check


def gpus_of(state: ServiceState) -> dict[str, list[int]]:
    return {
        f"{run.key} {server.name}": list(run.devices)
        for server in state.servers.values()
        for run in server.running.values()
    }


MORE = {"cpu": 1.0, "memory": 1.0, "gpu": 0.0, "disk": 4.0}


@pytest.mark.parametrize(
    "events",
    [
        [("policy", {"policy": "drf/first-fit"})],
        [("policy", {"policy": "slots:4"}), ("policy", {"policy": "drf/best-fit"})],
        [("server", {"name": "b", "capacity": MORE, "labels": {}, "identity": "1"})],
    ],
    ids=["another policy", "a time under slots", "more kinds of resources"],
)
def test_a_scheduler_built_anew_keeps_gpus(events: list[tuple[str, dict[str, object]]]) -> None:
    state = with_servers(a=8)
    for gpu in (0.6, 0.5, 0.4):
        submit(state, demand={"cpu": 1.0, "gpu": gpu})
    assert len(place(state)) == 3
    end(state, "1.0.1")
    before = gpus_of(state)
    for kind, body in events:
        state.apply(kind, body, 3.0)
    assert gpus_of(state) == before == {"2.0.1 a": [1], "3.0.1 a": [0]}
    assert gpus_of(ServiceState.restore(state.snapshot())) == before
    check(state)


def test_a_journal_without_devices_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier version counted whole GPUs; its running tasks get devices at the restart."""

    async def before(ask: Asked) -> None:
        session = await ask.join("a", cpu=8, gpu=3)
        await ask.submit({"gpu": 2})
        assert (await ask.sync(session))["devices"] == [[]]

    async def after(ask: Asked) -> None:
        session = await ask.join("a", cpu=8, gpu=3)
        await ask.submit({"gpu": 0.5}, {"gpu": 0.5})
        orders = await ask.sync(session)
        assert orders["devices"] == [[0, 1], [2], [2]]

    with monkeypatch.context() as patched:
        patched.setattr(service_state, "DEVICES", ())
        patched.setitem(service_state.QUANTA, "gpu", 1)
        run_service(tmp_path, before)
    run_service(tmp_path, after)


@served
async def test_orders_name_the_gpus(ask: Asked) -> None:
    session = await ask.join("a", cpu=8, gpu=2)
    await ask.submit({"gpu": 0.5}, {"gpu": 1}, {"gpu": 0.25}, {})
    orders = await ask.sync(session)
    found = dict(zip((key[0] for _, key, *_ in orders["start"]), orders["devices"], strict=True))
    assert found == {1: [0], 2: [1], 3: [0], 4: []}
    (listed,) = (await ask("GET", "/v1/servers"))["servers"]
    (found,) = (await ask("GET", "/v1/servers/search"))["servers"]
    assert (listed["gpus"], found["used"]["gpu"]) == (found["gpus"], 1.75)
    assert found["gpus"] == {"0": 0.75, "1": 1}
    jobs = (await ask("GET", "/v1/jobs"))["jobs"]
    assert [row[8] for row in jobs_table(jobs).rows][:2] == ["a (GPU 0)", "a (GPU 1)"]
    devices = {row["job"]: row["devices"] for row in found["running"]}
    assert devices == {"1": [0], "2": [1], "3": [0], "4": []}


@pytest.mark.parametrize("gpu", [1.5, -0.5, "half", True, 2.000001])
def test_a_gpu_and_a_half_is_refused(gpu: object) -> None:
    with pytest.raises(ValidationError) as fault:
        JobRequest.model_validate({"command": ["true"], "gpu": gpu})
    assert fault.value.errors()[0]["loc"] == ("gpu",)
