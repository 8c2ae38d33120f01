"""Names of commands, to group the run times of tasks by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from posixpath import basename

LONGEST = 60  # characters of a name
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
# The program is a later word.
STARTERS = frozenset({"env", "exec", "nice", "nohup", "time", "mpirun", "mpiexec", "torchrun"})
INTERPRETERS = ("python", "Rscript", "perl", "ruby", "julia", "java", "node", "octave", "matlab")


def command_name(command: Sequence[str]) -> str:
    r"""Return the program of a command, with the script that an interpreter runs; or nothing.

    Of the text of ``sh -c TEXT`` the first line counts that is no comment. Words such as ``A=1``,
    options, numbers, and ``env`` or ``mpirun`` in front do not count.

    Examples
    --------
    >>> command_name(["/usr/bin/python3", "-u", "jobs/train.py", "--rate", ".1"])
    'python3 train.py'
    >>> command_name(["/bin/sh", "-c", "#!/bin/sh\nSEED=7 exec ./simulate < input"])
    'simulate'
    """
    words = _program_words(command)
    program = next(words, "")
    if program.startswith(INTERPRETERS) or program in SHELLS:
        return f"{program} {next(words, '')}".rstrip()[:LONGEST]
    return program[:LONGEST]


def _program_words(command: Sequence[str]) -> Iterator[str]:
    """Yield the words that may name the program or its script, without their folders."""
    if len(command) > 2 and basename(command[0]) in SHELLS and command[1] == "-c":
        lines = (line.strip() for line in command[2].splitlines())
        command = next((line for line in lines if line and not line.startswith("#")), "").split()
    for word in command:
        name = basename(word)
        if not (word.startswith("-") or "=" in word or word.isdigit() or name in STARTERS):
            yield name
