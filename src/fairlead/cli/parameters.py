"""Options and arguments of verbs: declare them, parse a command line, and format the help.

A verb is a function whose parameters are ``Annotated`` with an `Option` or an `Argument`, or are
dataclasses with such fields: options that several verbs share.
"""

from __future__ import annotations

import optparse
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from inspect import Signature, signature
from itertools import takewhile
from pathlib import Path
from types import NoneType, UnionType
from typing import NamedTuple, NoReturn, get_args

from fairlead.errors import InputError
from fairlead.model.quantity import number_from_text, show

REQUIRED = Signature.empty  # the default of a parameter without one
VERBATIM = "\b\n"  # starts a paragraph of a docstring whose lines the help keeps


class Option:
    """A parameter given by name.

    Parameters
    ----------
    *spellings : str
        Such as ``--cpu`` and ``-c``; when absent, ``--`` and the name of the parameter.
    metavar : str
        Name of the value in the help; when absent, its type.
    help : str
        Explanation in the help.
    min, max : float, optional
        Bounds of the value.
    envvar : str
        Environment variable that holds the default value.

    Examples
    --------
    >>> from typing import Annotated
    >>> def verb(cores: Annotated[float, Option("--cpu", min=0)] = 1.0) -> None: ...
    """

    def __init__(
        self,
        *spellings: str,
        metavar: str = "",
        help: str = "",
        min: float | None = None,
        max: float | None = None,
        envvar: str = "",
    ) -> None:
        self.spellings, self.metavar, self.help = spellings, metavar, help
        self.min, self.max, self.envvar = min, max, envvar


class Argument(NamedTuple):
    """A parameter given by position: its name in the help, and its explanation."""

    metavar: str
    help: str


class Parameter(NamedTuple):
    """A parameter of a verb."""

    name: str  # of the function's parameter
    declared: Option | Argument
    kind: type = bool  # or int, float, str, Path
    is_list: bool = False
    default: object = False

    @property
    def spellings(self) -> tuple[str, ...]:
        """Spellings of an option; the name of an argument."""
        if isinstance(self.declared, Argument):
            return (self.declared.metavar,)
        return self.declared.spellings or (f"--{self.name.replace('_', '-')}",)

    @property
    def title(self) -> str:
        """The name of the parameter in error messages."""
        return " / ".join(f"'{name}'" for name in self.spellings)

    @property
    def explanation(self) -> str:
        """The help text, with the default and the bounds."""
        declared, notes = self.declared, []
        if self.default is REQUIRED:
            notes.append("required")
        elif self.kind is not bool and self.default is not None:
            notes.append(f"default: {self.default}")
        if isinstance(declared, Option) and declared.min is not None:
            upper = "" if declared.max is None else f"<={declared.max}"
            notes.append(f"{declared.min}<=x{upper}" if upper else f"x>={declared.min}")
        return f"{declared.help}  [{'; '.join(notes)}]" if notes else declared.help


def parameters_of(verb: Callable[..., object]) -> list[Parameter]:
    """Return the parameters of a verb's function, in the order of its signature.

    Raises InputError if a parameter declares no `Option` or `Argument`.
    """
    place = f"{verb.__module__}:{getattr(verb, '__name__', verb)}"
    try:
        declared_parameters = signature(verb, eval_str=True).parameters
    except (NameError, SyntaxError, TypeError, ValueError) as fault:
        raise InputError(f"has annotations that cannot be read: {fault}", place) from None
    found = []
    for each in declared_parameters.values():
        if isinstance(each.annotation, type) and is_dataclass(each.annotation):
            found += parameters_of(each.annotation)
            continue
        hint, *declarations = get_args(each.annotation) or (each.annotation,)
        if not (declarations and isinstance(declarations[0], Argument | Option)):
            reason = "must be Annotated with an Argument or an Option"
            raise InputError(reason, f"{place}: {each.name}")
        kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        (kind,) = (kind for kind in kinds if kind is not NoneType)
        (inner,) = get_args(kind) or (kind,)
        found.append(Parameter(each.name, declarations[0], inner, inner is not kind, each.default))
    return found


def arguments_of(verb: Callable[..., object], values: Mapping[str, object]) -> dict[str, object]:
    """Turn values of parameters into arguments of a verb; fields of a dataclass form one object."""
    arguments = dict(values)
    for each in signature(verb, eval_str=True).parameters.values():
        kind = each.annotation
        if isinstance(kind, type) and is_dataclass(kind):
            own = {field.name: arguments.pop(field.name) for field in fields(kind)}
            arguments[each.name] = kind(**own)
    return arguments


HELP = Parameter("help", Option("--help", help="Show this message and exit."))


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
        value = number_from_text(text)
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
