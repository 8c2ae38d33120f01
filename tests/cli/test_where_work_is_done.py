"""The message of `--ray` without Ray."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from fairlead.cli._application import run_command


@pytest.fixture
def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec

    def find(name: str, *more: str) -> object:
        return None if name == "ray" else found(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    monkeypatch.delitem(sys.modules, "fairlead.executors.ray_tasks", raising=False)


@pytest.mark.usefixtures("without_ray")
def test_it_is_said_which_packages_are_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["audit", "--random", "2", "--ray"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("fairlead: --ray: ray is not installed: ")
    assert "'.[ray]'" in said.err
