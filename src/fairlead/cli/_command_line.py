"""Parse a command line into the values of a verb's parameters, and format its help."""

from __future__ import annotations

import optparse
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import NoReturn

from fairlead.cli.parameters import (
    REQUIRED,
    Argument,
    Option,
    Parameter,
    arguments_of,
    parameters_of,
)
from fairlead.errors import InputError
from fairlead.model.quantity import show, typed_number

HELP = Parameter("help", Option("--help", help="Show this message and exit."))
VERBATIM = "\b\n"  # starts a paragraph of a docstring whose lines the help keeps


class UsageFault(InputError):
    """A command line that a verb does not accept."""


class _Option(optparse.Option):
    def __init__(self, parameter: Parameter, declared: Option) -> None:
        action = "store_true" if parameter.kind is bool else "store"
        from_environment = os.environ.get(declared.envvar)
        super().__init__(
            *parameter.spellings,
            dest=parameter.name,
            action="append" if parameter.is_list else action,
            default=None if parameter.is_list else from_environment or parameter.default,
            metavar=declared.metavar or parameter.kind.__name__.upper(),
            help=parameter.explanation,
        )
        self._parameter = parameter

    def check_value(self, _: str, value: str) -> object:
        return _parse_value(self._parameter, value)


class Parser(optparse.OptionParser):
    """An option parser without abbreviated options, whose errors are `UsageFault`."""

    def __init__(self, parameters: Iterable[Parameter]) -> None:
        super().__init__(add_help_option=False)
        for each in (*parameters, HELP):
            if isinstance(each.declared, Option):
                self.add_option(_Option(each, each.declared))

    def _match_long_opt(self, opt: str) -> str:
        if self.has_option(opt):
            return opt
        raise optparse.BadOptionError(f"{opt}{alike(opt, self._long_opt)}")

    def error(self, msg: str) -> NoReturn:
        """Raise `UsageFault`."""
        # No option takes more than one argument, so the count is noise.
        raise UsageFault(msg.replace("requires 1 argument", "requires an argument"))


def alike(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean NAME?`` for the most similar known name, or nothing."""
    from difflib import get_close_matches

    found = get_close_matches(name, known, 1)
    return f"; did you mean {found[0]}?" if found else ""


def parse_words(verb: Callable[..., object], words: Sequence[str]) -> dict[str, object] | None:
    """Parse words into the arguments of a verb, or None for ``--help``; raise `UsageFault`."""
    if "--help" in takewhile(lambda word: word != "--", words):
        return None
    parameters = parameters_of(verb)
    options, left = Parser(parameters).parse_args(list(words))
    values: dict[str, object] = {}
    for each in parameters:
        values[each.name] = each.default
        if isinstance(each.declared, Argument):
            count = len(left) if each.is_list else 1
            found, left = [_parse_value(each, text) for text in left[:count]], left[count:]
            if found:
                values[each.name] = found if each.is_list else found[0]
        elif (given := getattr(options, each.name)) is not None:
            values[each.name] = given
        if values[each.name] is REQUIRED:
            raise UsageFault(f"missing {type(each.declared).__name__.lower()} {each.title}")
    if left:
        several = "s" if len(left) > 1 else ""
        raise UsageFault(f"got unexpected extra argument{several} ({' '.join(left)})")
    return arguments_of(verb, values)


def _parse_value(parameter: Parameter, text: str) -> object:
    """Parse the value of a parameter; raise `UsageFault` for a wrong type or bound."""
    kind, declared = parameter.kind, parameter.declared
    if kind is Path and not text:
        raise UsageFault(f"invalid value for {parameter.title}: must be a path, not {show(text)}")
    if isinstance(declared, Argument) or kind in (str, Path):
        return kind(text)
    try:
        value = typed_number(text)
        if kind is int:
            value = int(text)
    except ValueError:
        wanted = "a whole number" if kind is int else "a number"
    else:
        if declared.min is not None and not value >= declared.min:
            wanted = f"at least {declared.min:,.9g}"
        elif declared.max is not None and not value <= declared.max:
            wanted = f"at most {declared.max:,.9g}"
        else:
            return value
    raise UsageFault(f"invalid value for {parameter.title}: must be {wanted}, not {show(text)}")


def help_of(
    path: str,
    text: str,
    heading: str,
    rows: Mapping[str, str],
    parameters: Sequence[Parameter],
) -> str:
    """Format the help of a verb or group whose full name is `path`.

    The paragraphs of `text` come first, then `rows` and arguments below `heading`, then options.
    """
    from inspect import cleandoc
    from shutil import get_terminal_size
    from textwrap import fill, indent

    arguments = {p.spellings[0]: p for p in parameters if isinstance(p.declared, Argument)}
    rows = {**rows, **{name: p.explanation for name, p in arguments.items()}}
    usage = [name if p.default is REQUIRED else f"[{name}]" for name, p in arguments.items()]
    if heading == "Commands":
        usage.append("COMMAND [ARGS]...")
    width = max(50, min(78, get_terminal_size().columns - 2))
    parts = [" ".join(["Usage:", path, "[OPTIONS]", *usage])]
    for paragraph in cleandoc(text).split("\n\n"):
        verbatim = paragraph.removeprefix(VERBATIM)
        shown = fill(paragraph, width - 2) if verbatim == paragraph else verbatim
        parts.append(indent(shown, "  "))
    column = 4 + max(map(len, rows), default=0)
    lines = [f"{heading}:"]
    for name, about in rows.items():
        first = f"  {name}".ljust(column)
        lines.append(fill(about, width, initial_indent=first, subsequent_indent=" " * column))
    if rows:
        parts.append("\n".join(lines))
    formatter = optparse.IndentedHelpFormatter(max_help_position=32, width=width)
    return "\n\n".join([*parts, Parser(parameters).format_option_help(formatter)])
