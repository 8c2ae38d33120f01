"""At any time, Ctrl-C ends the command with one line and exit status 130."""

from __future__ import annotations

import subprocess
import sys

import pytest

# A program that runs the console script and interrupts it while a module is being found.
INTERRUPTED = """
import importlib.abc, signal, sys

class Interrupt(importlib.abc.MetaPathFinder):
    left = int(sys.argv.pop(1))

    def find_spec(self, name, path, target=None):
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
from fairlead.cli.main import run
sys.meta_path.insert(0, Interrupt())
sys.exit(run())
"""


def interrupted(program: str, *words: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("at", [1, 150, 210])
def test_while_modules_are_imported(at: int) -> None:
    found = interrupted(INTERRUPTED, str(at), "mechanisms")
    assert found == (130, "", "fairlead: interrupted\n")


AFTERWARDS = """
import atexit, signal, sys
from fairlead.cli.main import run

signal.signal(signal.SIGINT, signal.default_int_handler)
atexit.register(signal.raise_signal, signal.SIGINT)
sys.exit(run())
"""


def test_when_all_is_done_it_changes_nothing() -> None:
    status, out, err = interrupted(AFTERWARDS, "--version")
    assert (status, err) == (0, "")
    assert out.startswith("fairlead ")


def test_little_is_imported_before_interruptions_are_handled() -> None:
    program = (
        "import sys; before = set(sys.modules); import fairlead.cli.main; "
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    _, out, _ = interrupted(program)
    assert not {"numpy", "typer", "click", "typing", "logging", "pathlib"} & set(out.split())
