"""Run a command in a placement group; a Python script with all of its Ray tasks."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
from ray import exceptions
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from fairlead.errors import InputError
from fairlead.ray.fair import Fair


class Entrypoint:
    """An actor that runs a command; a Python script runs in it, so that Ray captures its tasks."""

    def run(self, words: Sequence[str], directory: str, environment: Mapping[str, str]) -> int:
        """Run a command to its end; return its exit status."""
        os.chdir(directory)
        os.environ.update(environment)
        if not _is_script(words):
            return subprocess.run(list(words), check=False).returncode
        # The script must not join the cluster again: this process is already in it.
        ray.init = lambda *_, **__: ray.get_runtime_context()
        ray.shutdown = lambda *_, **__: None
        try:
            if words[1] == "-c":
                sys.argv = ["-c", *words[3:]]
                exec(compile(words[2], "<string>", "exec"), {"__name__": "__main__"})
            elif words[1] == "-m":
                sys.argv = list(words[2:])
                runpy.run_module(words[2], run_name="__main__", alter_sys=True)
            else:
                sys.argv = list(words[1:])
                sys.path.insert(0, str(Path(words[1]).resolve().parent))
                runpy.run_path(words[1], run_name="__main__")
        except SystemExit as end:
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
            return end.code if isinstance(end.code, int) else int(end.code is not None)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
        return 0


def _is_script(words: Sequence[str]) -> bool:
    return Path(words[0]).name.startswith("python") and len(words) > 1


def check_command(words: Sequence[str], directory: str) -> None:
    """Raise `InputError` for a command that cannot run as a driver."""
    if not _is_script(words):
        if shutil.which(words[0], path=os.environ.get("PATH")) is None:
            raise InputError("there is no such command", words[0])
    elif words[1] in ("-m", "-c"):
        if len(words) < 3:
            raise InputError(f"{words[1]} needs an argument", "COMMAND")
    elif words[1].startswith("-"):
        raise InputError("a captured script takes no options of Python but -m and -c", words[1])
    elif not Path(directory, words[1]).exists():
        raise InputError("there is no such file", words[1])


def run_captured(
    fair: Fair,
    words: Sequence[str],
    bundles: Sequence[Mapping[str, Any]],
    where: object = None,
    directory: str = ".",
    environment: Mapping[str, str] = {},
) -> int:
    """Run a command in a fair placement group; return its exit status, 137 if its node was lost.

    A Python script is captured: its Ray tasks run in the bundles, too, and its exception is raised
    as `ray.exceptions.RayTaskError`. `bundles` and `where` are as in `Fair.placement_group`. Call
    `check_command` before.
    """
    group = fair.placement_group(bundles, where)
    try:
        pinned = PlacementGroupSchedulingStrategy(
            group, placement_group_bundle_index=0, placement_group_capture_child_tasks=True
        )
        made = ray.remote(Entrypoint).options(num_cpus=0, scheduling_strategy=pinned)
        entry = made.remote()
        status: int = ray.get(entry.run.remote(list(words), directory, dict(environment)))
        return status
    except exceptions.RayActorError:
        return 137
    finally:
        ray.util.remove_placement_group(group)
