"""Options and arguments of the verbs, as the signatures of their functions declare them.

A verb is a function whose parameters are ``Annotated`` with an `Option` or an `Argument`.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Signature, signature
from types import NoneType, UnionType
from typing import NamedTuple, get_args

from fairlead.errors import InputError

REQUIRED = Signature.empty  # the default of a parameter without one


class Option:
    """A parameter that is given by name.

    Parameters
    ----------
    *spellings : str
        Such as ``--cpu`` and ``-c``; the name of the function's parameter when absent.
    metavar : str
        What its value is called in the help; its type when absent.
    help : str
        The text of the help.
    min, max : float, optional
        Bounds of its value.
    envvar : str
        The environment variable that has its value where it is not given.
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
    """A parameter that is given by its place."""

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
        """The parameter as faults name it."""
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
            most = "" if declared.max is None else f"<={declared.max}"
            notes.append(f"{declared.min}<=x{most}" if most else f"x>={declared.min}")
        return f"{declared.help}  [{'; '.join(notes)}]" if notes else declared.help


def parameters_of(verb: Callable[..., object]) -> list[Parameter]:
    """Return the parameters of a verb's function, in its order.

    Raises
    ------
    InputError
        When one is not declared, which another package's function may have forgotten.
    """
    found = []
    for each in _signature_of(verb).parameters.values():
        hint, *declarations = get_args(each.annotation) or (each.annotation,)
        if not (declarations and isinstance(declarations[0], Argument | Option)):
            fault = "must be Annotated with an Argument or an Option"
            raise InputError(fault, f"{verb.__module__}:{verb.__name__}: {each.name}")
        declared = declarations[0]
        kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        (kind,) = (kind for kind in kinds if kind is not NoneType)
        (inner,) = get_args(kind) or (kind,)
        found.append(Parameter(each.name, declared, inner, inner is not kind, each.default))
    return found


def _signature_of(verb: Callable[..., object]) -> Signature:
    try:
        return signature(verb, eval_str=True)
    except (NameError, SyntaxError, TypeError, ValueError) as fault:
        place = f"{verb.__module__}:{getattr(verb, '__name__', verb)}"
        raise InputError(f"has annotations that cannot be read: {fault}", place) from None
