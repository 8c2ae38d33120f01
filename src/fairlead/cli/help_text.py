"""The help of verbs and of their groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import cleandoc
from optparse import IndentedHelpFormatter
from shutil import get_terminal_size
from textwrap import fill, indent

from fairlead.cli.command_line import Parser
from fairlead.cli.parameters import REQUIRED, Argument, Parameter, parameters_of
from fairlead.cli.verbs import Group, Verb
from fairlead.errors import InputError

KEPT = "\b\n"  # begins a paragraph whose lines are kept


def help_of_verb(path: str, verb: Callable[..., object]) -> str:
    """Return the help of a verb that is called as a path says, such as ``fairlead trace info``."""
    parameters = parameters_of(verb)
    arguments = {p.spellings[0]: p for p in parameters if isinstance(p.declared, Argument)}
    places = (name if p.default is REQUIRED else f"[{name}]" for name, p in arguments.items())
    rows = {name: p.explanation for name, p in arguments.items()}
    usage = " ".join(["Usage:", path, "[OPTIONS]", *places])
    return _help([usage, verb.__doc__ or ""], "Arguments", rows, parameters)


def help_of_group(path: str, group: Group) -> str:
    """Return the help of a group of verbs."""
    rows = {name: _summary(entry) for name, entry in group.verbs.items()}
    texts = [f"Usage: {path} [OPTIONS] COMMAND [ARGS]...", group.summary, group.epilog]
    return _help(texts, "Commands", rows, group.options)


def _summary(entry: Verb | Group) -> str:
    """Return the summary of a verb or a group; one that cannot be loaded hides no other."""
    if isinstance(entry, Group):
        return entry.summary
    try:
        return entry.describe()
    except InputError as fault:
        return str(fault)


def _help(
    texts: Iterable[str], heading: str, rows: Mapping[str, str], options: Iterable[Parameter]
) -> str:
    """Return texts as paragraphs, the first without indentation; then rows, then options."""
    width = max(50, min(78, get_terminal_size().columns - 2))
    parts: list[str] = []
    for paragraph in "\n\n".join(cleandoc(text) for text in texts if text).split("\n\n"):
        is_kept = paragraph.startswith(KEPT)
        kept = paragraph.removeprefix(KEPT) if is_kept else fill(paragraph, width - 2)
        parts.append(indent(kept, "  ") if parts else paragraph)
    column = 4 + max(map(len, rows), default=0)
    lines = [f"{heading}:"]
    for name, text in rows.items():
        first = f"  {name}".ljust(column)
        lines.append(fill(text, width, initial_indent=first, subsequent_indent=" " * column))
    if rows:
        parts.append("\n".join(lines))
    formatter = IndentedHelpFormatter(max_help_position=32, width=width)
    return "\n\n".join([*parts, Parser(options).format_option_help(formatter)])
