"""Directives of a job's script: lines ``#FAIRLEAD`` and ``#SBATCH`` before its first command."""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from fairlead.cli.parameters import Parameter, Parser, UsageFault
from fairlead.cli.streams import complain
from fairlead.errors import InputError

LARGEST_HEAD = 2**20  # bytes read from a script
FAIRLEAD, SBATCH = "#FAIRLEAD", "#SBATCH"
SHELL = "/bin/sh"
LONG_NAMES = {
    "-J": "--job-name",
    "-c": "--cpus-per-task",
    "-n": "--ntasks",
    "-N": "--nodes",
    "-t": "--time",
    "-D": "--chdir",
    "-a": "--array",
    "-d": "--dependency",
    "-w": "--nodelist",
    "-G": "--gpus",
}
_MODEL = "(?:(?P<model>[A-Za-z][^:,]*):)?"
# Rows: an option of `sbatch`, a pattern of its value, and options of `submit`. The first row that
# fits is taken. Memory, arrays, dependencies and lists of nodes are translated by `_counterpart`.
COUNTERPARTS = (
    ("--job-name", ".*", ("--name", r"\g<0>")),
    ("--cpus-per-task", ".*", ("--cpu", r"\g<0>")),
    ("--ntasks", "1", ()),
    ("--nodes", "1", ()),
    ("--gpus", f"{_MODEL}([0-9]+)", ("--gpu", r"\2")),
    ("--gpus-per-task", f"{_MODEL}([0-9]+)", ("--gpu", r"\2")),
    ("--gpus-per-node", f"{_MODEL}([0-9]+)", ("--gpu", r"\2")),
    ("--gres", f"gpu:{_MODEL}([0-9]+)", ("--gpu", r"\2")),
    ("--gres", "gpu(?::(?P<model>[A-Za-z][^:,]*))?", ("--gpu", "1")),
    ("--time", "0", ("--time", "UNLIMITED")),
    ("--time", "[0-9]+", ("--time", r"\g<0>m")),
    ("--time", ".*", ("--time", r"\g<0>")),
    ("--chdir", ".*", ("--chdir", r"\g<0>")),
    ("--export", "ALL", ()),
    ("--export", "NONE", ("--clean-env",)),
)
_MEMORY = re.compile(r"([1-9][0-9]*)([KMGT]?)B?", re.IGNORECASE)
_ARRAY = re.compile(r"0-([0-9]+)(?::1)?(?:%([0-9]+))?")
_AFTER = re.compile(r"afterok((?::[0-9]+)+)")
TRANSLATED = {row[0] for row in COUNTERPARTS}
TRANSLATED |= {"--mem", "--mem-per-cpu", "--array", "--dependency", "--nodelist"}
# If one of these cannot be translated, the script is refused: the job would do other work, or
# lack resources. A ``--gres`` may also name resources other than GPUs, which are only reported.
ESSENTIAL = (
    "--array",
    "--dependency",
    "--ntasks",
    "--nodes",
    "--mem",
    "--mem-per-cpu",
    "--gpus",
    "--gpus-per-task",
    "--gpus-per-node",
)
HINTS = {  # the end of the message if an essential option cannot be translated
    "--array": "; indices begin at 0, as in 0-9",
    "--mem": "; write an amount, such as 16G",
    "--mem-per-cpu": "; write an amount, such as 4G",
}
# Options of `submit`, by field name, that do not describe a job: a directive cannot set them.
REFUSED = frozenset({"script", "file", "server", "as_json", "waits"})


def prepend_directives(
    words: Sequence[str], script: Path, parameters: Sequence[Parameter]
) -> list[str]:
    """Return a command line with the options of a script's directives before its own words.

    Options of ``sbatch`` that cannot be translated are named on standard error. Raises InputError
    for an unreadable directive, with its line, or an essential option without a counterpart.
    """
    fairlead_words, sbatch_words = [], []
    for number, prefix, text in _read_directives(script):
        try:
            found = shlex.split(text, comments=True)
            if prefix == SBATCH:
                sbatch_words += found
                continue
            options, left = Parser(parameters).parse_args(list(found))
            if any(getattr(options, name) for name in REFUSED):
                raise UsageFault(f"takes options of a job, not {text.strip()!r}")
            if left or options.help:
                raise UsageFault(f"takes options, not {(left or ['--help'])[0]!r}")
        except (ValueError, UsageFault) as error:
            fault = error.fault if isinstance(error, UsageFault) else str(error).lower()
            raise InputError(fault, f"line {number}", str(script)) from None
        fairlead_words += found
    for name, _ in _split_options(sbatch_words):
        if not name.startswith("-"):
            raise InputError(f"takes options, not {name!r}", SBATCH, str(script))
    translated, untranslated = translate_sbatch(sbatch_words)
    for each in untranslated:
        name = each.partition("=")[0]
        if name in ESSENTIAL or each.startswith("--gres=gpu"):
            hint = HINTS.get(name, "")
            raise InputError(f"{each} has no counterpart here{hint}", SBATCH, str(script))
    if untranslated:
        complain(f"{script}: ignored, without a counterpart here: {', '.join(untranslated)}")
    return ["--name", script.name, *translated, *fairlead_words, *words]


def command_of(script: Path) -> list[str]:
    """Return the command that runs a script by the program in its first line, or by a shell."""
    first = _read_head(script).partition("\n")[0]
    program = first[2:].strip().split(maxsplit=1) if first.startswith("#!") else [SHELL]
    return [*(program or [SHELL]), str(script.absolute())]


def translate_sbatch(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the options of ``submit`` for ``sbatch``'s, and the latter without a counterpart."""
    found: dict[str, str] = {}
    untranslated: list[str] = []
    for name, value in _split_options(words):
        found[LONG_NAMES.get(name, name)] = value
    translated: list[str] = []
    for name, value in found.items():
        options, model = _counterpart(name, value, found.get("--cpus-per-task", "1"))
        if model:  # the number is translated, the model of GPU is not
            untranslated.append(f"{model} in {name}={value}")
        if options is None:
            untranslated.append(f"{name}={value}" if name in TRANSLATED else name)
        else:
            translated += options
    return translated, untranslated


def _counterpart(name: str, value: str, cores: str) -> tuple[list[str] | None, str | None]:
    """Return options of `submit` for one of ``sbatch``, or None; and the model of GPU, if any."""
    for option, pattern, words in COUNTERPARTS:
        if name == option and (found := re.fullmatch(pattern, value)):
            return [found.expand(word) for word in words], found.groupdict().get("model")
    if name in ("--mem", "--mem-per-cpu") and (found := _MEMORY.fullmatch(value)):
        times = int(cores) if name == "--mem-per-cpu" and re.fullmatch("[0-9]+", cores) else 1
        return ["--memory", f"{int(found[1]) * times}{(found[2] or 'M').upper()}i"], None
    if name == "--array" and (found := _ARRAY.fullmatch(value)):
        at_most = ["--at-most", found[2]] if found[2] else []
        return ["--count", str(int(found[1]) + 1), *at_most], None
    if name == "--dependency" and (found := _AFTER.fullmatch(value)):
        return [word for job in found[1][1:].split(":") for word in ("--after", job)], None
    if name == "--nodelist" and "[" not in value:
        return [word for node in value.split(",") for word in ("--where", node)], None
    return None, None


def _read_directives(script: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the line number, prefix and text of each directive."""
    for number, line in enumerate(_read_head(script).splitlines(), 1):
        text = line.strip()
        if text and not text.startswith("#"):
            return
        prefix, *rest = text.split(maxsplit=1) or [""]
        if prefix in (FAIRLEAD, SBATCH):
            yield number, prefix, "".join(rest)


def _read_head(script: Path) -> str:
    """Read the head of a script; raise InputError unless it is a text file with Unix line ends."""
    try:
        with os.fdopen(os.open(script, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            head = file.read(LARGEST_HEAD) if is_file else b""
    except OSError as fault:
        raise InputError(fault.strerror or str(fault), "--script", str(script)) from None
    if not is_file or not head.strip() or b"\0" in head:
        raise InputError("must be a text file with a script", "--script", str(script))
    if b"\r\n" in head:
        raise InputError("has Windows line ends", "--script", str(script))
    return head.decode("utf-8", errors="replace")


def _split_options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of a command line with their values; a word that is no option has none.

    The next word is the value of an option without one, unless it is an option, too.
    """
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("-"):
            yield word, ""
            continue
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            has_value = bool(equals)
        else:  # such as ``-n4`` or ``-n=4``
            name, value = word[:2], word[2:].removeprefix("=")
            has_value = len(word) > 2
        if not has_value and left and not left[0].startswith("-"):
            value = left.pop(0)
        yield name, value
