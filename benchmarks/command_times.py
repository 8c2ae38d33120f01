"""Time the commands that ask a service: processor time and wall time of each, medians in ms.

    python benchmarks/command_times.py
    python benchmarks/command_times.py ../before --rounds 31

Each tree runs its own `.venv/bin/fairlead`, with a service and a worker of its own. Where another
tree is given, the trees take turns, command by command, as machines are uneven.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parents[1]
JOBS_OF_FILE = 300
SECONDS_TO_START = 60.0


class Tree:
    """A checkout with a running service.

    Parameters
    ----------
    root : Path
        The checkout, with its `.venv`.
    folder : Path
        Where the service and the worker keep everything.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder = root, folder
        self.program = str(root / ".venv/bin/fairlead")
        folder.chmod(0o755)  # tasks of root's worker run as nobody
        state = {"XDG_STATE_HOME": str(folder / "state"), "RUNTIME_DIRECTORY": str(folder / "run")}
        self.environment = {**os.environ, **state}
        for name in ("FAIRLEAD_SERVER", "FAIRLEAD_TOKEN"):
            self.environment.pop(name, None)
        accounts = folder / "accounts.json"
        accounts.write_text('{"*": "nobody"}')
        as_root = ["--accounts", str(accounts)] if os.geteuid() == 0 else []
        serve = ["serve", "--port", "0", "--db", str(folder / "journal.db")]
        worker = ["worker", "--name", "a", "--cpu", "2", "--memory", "1", "--gpu", "0", *as_root]
        self.processes = [self._start(words) for words in (serve, worker)]

    def wait_for_worker(self) -> None:
        """Wait until the worker has joined."""
        deadline = time.monotonic() + SECONDS_TO_START
        while '"ready"' not in self.output("servers", "--json"):
            assert time.monotonic() < deadline, (self.folder / "serve.log").read_text()

    def close(self) -> None:
        """Stop the worker and the service."""
        for process in reversed(self.processes):
            process.terminate()
            process.wait(SECONDS_TO_START)

    def output(self, *words: str) -> str:
        """Return what a command prints."""
        return subprocess.run(
            [self.program, *words],
            env=self.environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        ).stdout

    def took(self, words: Sequence[str]) -> tuple[float, float]:
        """Return the processor time and the wall time of a command, in seconds."""
        began = time.perf_counter()
        process = subprocess.Popen(
            words,
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode in (0, 1), words
        return used.ru_utime + used.ru_stime, wall

    def _start(self, words: list[str]) -> subprocess.Popen[bytes]:
        with (self.folder / f"{words[0]}.log").open("wb") as log:
            return subprocess.Popen(
                [self.program, *words],
                env=self.environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )


def commands_of(tree: Tree) -> dict[str, list[str]]:
    """Return the commands to time, by name; jobs for them are submitted before."""
    as_ana = ("--user", "ana", "--chdir", "/tmp")
    waiting = (*as_ana, "--where", "no-such-label=1")
    ended = tree.output("submit", *as_ana, "--", "echo", "done").strip()
    tree.output("wait", ended)
    held = tree.output("submit", *waiting, "--", "true").strip()
    job = {"command": ["true"], "user": "ana", "directory": "/tmp", "where": {"no-such-label": "1"}}
    in_json, in_yaml = tree.folder / "jobs.json", tree.folder / "jobs.yaml"
    in_json.write_text(json.dumps({"jobs": [job] * JOBS_OF_FILE}))
    in_yaml.write_text(f"- {json.dumps(job)}\n" * JOBS_OF_FILE)
    verbs = [
        ["submit", *waiting, "--", "true"],
        ["jobs", "--user", "bo"],
        ["wait", ended],
        ["cancel", ended],
        ["shares"],
        ["logs", ended],
        ["hold", held],
        ["release", held],
        ["modify", held, "--priority", "1"],
        ["when", held],
        ["explain", held],
        ["users"],
        ["servers"],
        ["drain", "a", "--undo"],
        ["history"],
        ["--help"],
    ]
    timed = {verb[0]: [tree.program, *verb] for verb in verbs}
    for name, file in (("JSON", in_json), ("YAML", in_yaml)):
        words = [tree.program, "submit", "--file", str(file)]
        timed[f"submit {JOBS_OF_FILE} jobs, {name}"] = words
    timed["import fairlead"] = [str(tree.root / ".venv/bin/python"), "-c", "import fairlead"]
    return timed


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", nargs="?", type=Path, help="another checkout, with its .venv")
    parser.add_argument("--rounds", type=int, default=15, help="how often each command is run")
    asked = parser.parse_args()
    roots = [HERE] if asked.other is None else [asked.other.resolve(), HERE]
    with ExitStack() as stack:
        trees = []
        for root in roots:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            trees.append(Tree(root, folder))
            stack.callback(trees[-1].close)
            trees[-1].wait_for_worker()
        commands = [commands_of(tree) for tree in trees]
        where = ["here"] if len(trees) == 1 else ["there", "here"]
        print(
            f"{'':24}", *(f"{f'{what} {place}':>12}" for place in where for what in ("cpu", "wall"))
        )
        for name in commands[0]:
            took: list[list[tuple[float, float]]] = [[] for _ in trees]
            for _ in range(asked.rounds):
                for tree, timed, rows in zip(trees, commands, took, strict=True):
                    rows.append(tree.took(timed[name]))
            medians = [1000 * median(column) for rows in took for column in zip(*rows, strict=True)]
            print(f"{name:24}", *(f"{figure:12.0f}" for figure in medians), flush=True)


if __name__ == "__main__":
    main()
