"""Time the commands of a service's clients: medians of processor time and wall time, in ms.

    python benchmarks/command_times.py
    python benchmarks/command_times.py ../before --rounds 31

Each checkout runs its own `.venv/bin/fairlead`, with its own service and worker. With another
checkout the two take turns, command by command, because the speed of a machine varies.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from local_service import LocalService, Took, time_command

HERE = Path(__file__).resolve().parents[1]
JOBS_OF_FILE = 300


def commands_of(service: LocalService, root: Path) -> dict[str, list[str]]:
    """Return the commands to time, by name, after submitting the jobs that they need."""
    as_ana = ("--user", "ana", "--chdir", "/tmp")
    waiting = (*as_ana, "--where", "no-such-label=1")
    ended = service.output("submit", *as_ana, "--", "echo", "done")
    service.output("wait", ended)
    held = service.output("submit", *waiting, "--", "true")
    job = {"command": ["true"], "user": "ana", "directory": "/tmp", "where": {"no-such-label": "1"}}
    in_json, in_yaml = service.folder / "jobs.json", service.folder / "jobs.yaml"
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
    timed = {verb[0]: [*service.program, *verb] for verb in verbs}
    for name, file in (("JSON", in_json), ("YAML", in_yaml)):
        words = [*service.program, "submit", "--file", str(file)]
        timed[f"submit {JOBS_OF_FILE} jobs, {name}"] = words
    timed["import fairlead"] = [str(root / ".venv/bin/python"), "-c", "import fairlead"]
    return timed


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", nargs="?", type=Path, help="another checkout, with its .venv")
    parser.add_argument("--rounds", type=int, default=15, help="how often each command runs")
    asked = parser.parse_args()
    roots = [HERE] if asked.other is None else [asked.other.resolve(), HERE]
    with ExitStack() as stack:
        services, commands = [], []
        for root in roots:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            program = [str(root / ".venv/bin/fairlead")]
            services.append(LocalService(stack, program, folder, 2, os.environ))
            commands.append(commands_of(services[-1], root))
        where = ["here"] if len(roots) == 1 else ["there", "here"]
        print(
            f"{'':24}", *(f"{f'{what} {place}':>12}" for place in where for what in ("cpu", "wall"))
        )
        for name in commands[0]:
            took: list[list[Took]] = [[] for _ in services]
            for _ in range(asked.rounds):
                for service, timed, rows in zip(services, commands, took, strict=True):
                    rows.append(
                        time_command(timed[name], service.folder, service.environment, (0, 1))
                    )
            medians = [1000 * median(column) for rows in took for column in zip(*rows, strict=True)]
            print(f"{name:24}", *(f"{figure:12.0f}" for figure in medians), flush=True)


if __name__ == "__main__":
    main()
