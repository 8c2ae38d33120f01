"""Options and arguments of verbs, declared in the signatures of their functions.

A verb is a function whose parameters are ``Annotated`` with an `Option` or an `Argument`, or are
dataclasses with such fields: options that several verbs share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from inspect import Signature, signature
from types import NoneType, UnionType
from typing import NamedTuple, get_args

from fairlead.errors import InputError

REQUIRED = Signature.empty  # the default of a parameter without one


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
