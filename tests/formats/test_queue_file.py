"""Files of queues for simulations and services: what they say, and their faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.formats.queue_file import QueueFile, load_queues
from faults import fault_of, fault_within

CONTENT = """
fairlead: 1
queues: [{name: physics, weight: 2}, {name: theory, parent: physics}]
users: {ana: theory, 7: physics}
limits: {physics: {gpu: 4}, bo: {cpu: 0.5, tasks: 10}}
quotas: {physics: {gpu: 3}, bo: [{cpu: 0.5}, {cpu: 0.25, where: {type: new}}]}
"""


def read(folder: Path, content: str = CONTENT) -> QueueFile:
    path = folder / "queues.yaml"
    path.write_text(content)
    return load_queues(path)


def test_users_that_are_not_listed_are_at_the_top(tmp_path: Path) -> None:
    found = read(tmp_path).of(["bo", "7", "ana"])
    assert found is not None
    assert found.names == ("physics", "theory")
    assert found.weight.tolist() == [2, 1]
    assert found.user_queue() == [None, "physics", "theory"]


def test_a_name_like_that_of_a_queue_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert read(tmp_path).limits.keys() == {"physics", "bo"}
    assert not caplog.messages
    read(tmp_path, CONTENT.replace("limits: {physics", "limits: {physcis"))
    (message,) = caplog.messages
    assert "limits.physcis: " in message
    assert "'physics'" in message


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("fairlead: 1", "", "the key 'fairlead' is missing"),
        ("fairlead: 1", "fairlead: 2", "fairlead: unknown format version 2"),
        (CONTENT, "[]", "must be one mapping with queues, not a list"),
        ("users:", "user:", "user: unknown key; did you mean 'users'"),
        ("users: {", "users: [{}] #", "users: must be a mapping of users to queues"),
        ("{name: physics, weight: 2}", "physics", "queues[0]: must be a mapping, not 'physics'"),
        ("bo: {cpu", '"": {cpu', "limits: is an empty name"),
        ("bo: {cpu", '" ": {cpu', "limits: is an empty name"),
        ("limits: {", "limits: [{}] #", "limits: must be a mapping of queues and users"),
        ("bo: {cpu: 0.5, tasks: 10}", "bo: 2", "limits.bo: must be a mapping of resources, not 2"),
        ("cpu: 0.5", "cpu: -1", "limits.bo.cpu: must be a number from 0, not -1"),
        ("tasks: 10", "tasks: 1.5", "limits.bo.tasks: must be a whole number from 0, not 1.5"),
        ("bo: {cpu", '7: {cpu: 1}, "7": {cpu', "limits: the key '7' appears twice"),
        ("tasks: 10", '1: 2, "1": 3', "limits.bo.1: appears twice"),
        ("{gpu: 3}", '{1: 2, "1": 3}', "quotas.physics.1: appears twice"),
        ("{physics: {gpu: 3}", '{7: {gpu: 1}, "7": {gpu: 3}', "quotas: the key '7' appears twice"),
        ("{gpu: 3}", "{gpu: 5}", "quotas.physics.gpu: 5 is more than the limit of physics, 4"),
    ],
)
def test_a_fault_is_one_line(tmp_path: Path, old: str, new: str, fault: str) -> None:
    content = CONTENT.replace(old, new, 1)
    assert fault_within(tmp_path / "queues.yaml", read, tmp_path, content).startswith(fault)


def test_limits_may_stand_alone(tmp_path: Path) -> None:
    found = read(tmp_path, "fairlead: 1\nlimits: {ana: {gpu: 2}}\n")
    assert found.of(["ana"]) is None
    assert found.limits == {"ana": {"gpu": 2}}


def test_a_user_with_the_name_of_a_queue_is_refused(tmp_path: Path) -> None:
    fault = fault_of(read(tmp_path).of, ["ana", "theory"])
    assert "there is already a user named 'theory'" in fault
