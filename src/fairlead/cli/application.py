"""The command ``fairlead``: it runs a verb, and every failure becomes an exit status.

Exit statuses: 0, 1 (it ran, and the answer is no: no certified answer was found), 2 (unusable
input: one line on standard error), 130 (interrupted), 141 (nobody reads standard output any more).

Only the asked verb is imported, and it imports what computes and draws inside its function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fairlead.cli.command_line import Parser, UsageFault, alike, read_words
from fairlead.cli.main import INTERRUPTED
from fairlead.cli.parameters import parameters_of
from fairlead.cli.streams import (
    ReaderGoneError,
    StoppedError,
    complain,
    emit,
    fault_of,
    log_on_standard_error,
    silence_standard_output,
)
from fairlead.cli.verbs import ASKING, FAIRLEAD, VERSION, Group, Verb, installed_verbs
from fairlead.errors import CertificateError, FairleadError

NO_ANSWER = 1
UNUSABLE_INPUT = 2
READER_GONE = 141
QUIET = (*ASKING, "explain")  # these do without logging, which takes a while to import


def run_command(words: Sequence[str]) -> int:
    """Run one command and return its exit status.

    Parameters
    ----------
    words : sequence of str
        The command line after the program's name.

    Returns
    -------
    int
        The exit status.
    """
    if not (words and words[0] in QUIET):
        log_on_standard_error()
    try:
        _run(words)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    except CertificateError as error:
        complain(str(error))
        return NO_ANSWER
    except FairleadError as error:
        complain(str(error))
        return UNUSABLE_INPUT
    except (OSError, MemoryError, OverflowError) as error:
        complain(fault_of(error))
        return UNUSABLE_INPUT
    except ReaderGoneError:
        silence_standard_output()
        return READER_GONE
    except StoppedError as stopped:
        complain(str(stopped))
        return INTERRUPTED
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    return 0


def _run(words: Sequence[str]) -> None:
    path, found, rest = find_verb(words)
    try:
        if isinstance(found, Group):
            _show_group(path, found, rest)
            return
        if "--ray" in rest:
            from fairlead.cli.executor_option import with_address

            rest = with_address(rest)
        verb = _load(path, found, rest)
        values = read_words(verb, rest)
    except UsageFault as fault:
        raise UsageFault(f"{fault} (see {path} --help)") from None
    if values is None:
        from fairlead.cli.help_text import help_of_verb

        emit(help_of_verb(path, verb))
    else:
        verb(**values)


def _load(path: str, found: Verb, rest: Sequence[str]) -> Callable[..., int | None]:
    """Import a verb's function, or that of the verb which a package adds for one of the options.

    Such a verb is named after ours and the option, as ``audit --random``.
    """
    verb = found.load()
    words = path.removeprefix("fairlead ")
    if words in QUIET:  # these answer at once, and what follows may be a command of the user's
        return verb
    known = {"--help", *(name for each in parameters_of(verb) for name in each.spellings)}
    for option in (word.partition("=")[0] for word in rest if word.startswith("--")):
        if option not in known:
            added = installed_verbs().get(f"{words} {option}")
            if added is not None:
                return added.load()
    return verb


def find_verb(words: Sequence[str]) -> tuple[str, Verb | Group, list[str]]:
    """Return what the first words name, how it is called, and the other words.

    They name a group where the next word is none of its verbs.
    """
    path, found, rest = "fairlead", FAIRLEAD, list(words)
    while rest and rest[0] in found.verbs:
        word = rest.pop(0)
        path, entry = f"{path} {word}", found.verbs[word]
        if isinstance(entry, Verb):
            return path, entry, rest
        found = entry
    if found is FAIRLEAD and rest and not rest[0].startswith("-"):
        added = installed_verbs().get(rest[0])
        if added is not None:
            return f"{path} {rest[0]}", added, rest[1:]
    return path, found, rest


def _show_group(path: str, group: Group, rest: Sequence[str]) -> None:
    """Print the help of a group, or the version; raise `UsageFault` for other words."""
    if group is FAIRLEAD:
        group = group._replace(verbs={**group.verbs, **installed_verbs()})
    parser = Parser(group.options)
    parser.disable_interspersed_args()
    given, left = parser.parse_args(list(rest))
    if given.help or (VERSION in group.options and not rest):
        from fairlead.cli.help_text import help_of_group

        emit(help_of_group(path, group))
    elif VERSION in group.options and given.version:
        from fairlead import __version__
        from fairlead.scheduler.build import how_it_runs

        emit(f"fairlead {__version__} ({how_it_runs()})\n")
    elif left:
        raise UsageFault(f"no such command {left[0]!r}{alike(left[0], group.verbs)}")
    else:
        raise UsageFault("missing command")
