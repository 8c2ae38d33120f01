"""The words of a command line become arguments of a verb's function."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest

from fairlead.cli._command_line import UsageFault, help_of, parse_words
from fairlead.cli.parameters import Argument, Option, parameters_of


def verb(
    first: Annotated[Path, Argument(metavar="FIRST", help="A path.")],
    rest: Annotated[list[str] | None, Argument(metavar="REST...", help="Words.")] = None,
    output: Annotated[str, Option("--output", "-o", metavar="OUT", help="A text.")] = "-",
    count: Annotated[int, Option("--count", "-n", min=1, max=9, help="A number.")] = 3,
    part_of_all: Annotated[float | None, Option(metavar="P", help="A part.")] = None,
    label: Annotated[list[str] | None, Option("--label", "-l", help="Words.")] = None,
    follow: Annotated[bool, Option("--follow", "-f", help="A flag.")] = False,
    loud: Annotated[bool, Option("--loud", "-d", help="A flag.")] = False,
    place: Annotated[str, Option(envvar="PLACE", help="Where.")] = "here",
) -> None:
    """Do something.

    \b
    Example:
      fairlead verb first   # two  blanks stay
    """


DEFAULTS = {
    "first": Path("a"),
    "rest": None,
    "output": "-",
    "count": 3,
    "part_of_all": None,
    "label": None,
    "follow": False,
    "loud": False,
    "place": "here",
}


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["a"], {}),
        (["a", "b", "c"], {"rest": ["b", "c"]}),
        (["a", "-o", "x", "b"], {"output": "x", "rest": ["b"]}),
        (["--output=x=y", "a"], {"output": "x=y"}),
        (["--output=", "a"], {"output": ""}),
        (["a", "-o", "x", "-o", "y"], {"output": "y"}),
        (["a", "-o", "--loud"], {"output": "--loud"}),
        (["a", "-n4"], {"count": 4}),
        (["a", "-fdn", "4"], {"count": 4, "follow": True, "loud": True}),
        (["a", "--part-of-all", "-1e3"], {"part_of_all": -1000.0}),
        (["a", "-l", "x", "--label", "y"], {"label": ["x", "y"]}),
        (["a", "--", "-f", "--"], {"rest": ["-f", "--"]}),
        (["a", "-"], {"rest": ["-"]}),
    ],
)
def test_words_become_values(words: list[str], values: dict[str, object]) -> None:
    assert parse_words(verb, words) == DEFAULTS | values


@dataclass(frozen=True)
class Amounts:
    """Options that several verbs share."""

    cpu: Annotated[float, Option(help="Cores.")] = 1.0
    where: Annotated[list[str] | None, Option("-w", help="Places.")] = None


def shared(amounts: Amounts, follow: Annotated[bool, Option(help="A flag.")] = False) -> None:
    """Do something with amounts."""


def test_options_of_a_dataclass_come_as_its_object() -> None:
    found = parse_words(shared, ["-w", "a", "--follow", "-wb"])
    assert found == {"amounts": Amounts(where=["a", "b"]), "follow": True}


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ([], "missing argument 'FIRST'"),
        (["a", "--outptu", "x"], "no such option: --outptu; did you mean --output?"),
        (["a", "-x"], "no such option: -x"),
        (["a", "-1"], "no such option: -1"),
        (["a", "-o"], "-o option requires an argument"),
        (["a", "--follow=yes"], "--follow option does not take a value"),
        (["a", "-n", "0"], "invalid value for '--count' / '-n': must be at least 1, not '0'"),
        (["a", "-n", "10"], "invalid value for '--count' / '-n': must be at most 9, not '10'"),
        (["a", "-n", "1_0"], "'--count' / '-n': must be a whole number, not '1_0'"),
        (["a", "--part-of-all", ""], "'--part-of-all': must be a number, not ''"),
        ([""], "invalid value for 'FIRST': must be a path, not ''"),
    ],
)
def test_wrong_words_are_refused(words: list[str], fault: str) -> None:
    with pytest.raises(UsageFault) as refused:
        parse_words(verb, words)
    assert str(refused.value).endswith(fault)


def test_no_word_is_passed_over() -> None:
    with pytest.raises(UsageFault, match=r"got unexpected extra arguments \(b c\)"):
        parse_words(shared, ["b", "c"])


def test_help_is_shown_whatever_else_is_missing() -> None:
    assert parse_words(verb, ["--count", "x", "--help"]) is None
    assert parse_words(verb, ["a", "--", "--help"]) == DEFAULTS | {"rest": ["--help"]}


def test_a_variable_stands_for_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", "there")
    assert parse_words(verb, ["a"]) == DEFAULTS | {"place": "there"}
    assert parse_words(verb, ["a", "--place", "x"]) == DEFAULTS | {"place": "x"}
    monkeypatch.setenv("PLACE", "")
    assert parse_words(verb, ["a"]) == DEFAULTS


def test_help_has_parameters_defaults_and_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert help_of("fairlead verb", [verb.__doc__ or ""], "Arguments", {}, parameters_of(verb)) == (
        "Usage: fairlead verb [OPTIONS] FIRST [REST...]\n"
        "\n"
        "  Do something.\n"
        "\n"
        "  Example:\n"
        "    fairlead verb first   # two  blanks stay\n"
        "\n"
        "Arguments:\n"
        "  FIRST    A path.  [required]\n"
        "  REST...  Words.\n"
        "\n"
        "Options:\n"
        "  -o OUT, --output=OUT  A text.  [default: -]\n"
        "  -n INT, --count=INT   A number.  [default: 3; 1<=x<=9]\n"
        "  --part-of-all=P       A part.\n"
        "  -l STR, --label=STR   Words.\n"
        "  -f, --follow          A flag.\n"
        "  -d, --loud            A flag.\n"
        "  --place=STR           Where.  [default: here]\n"
        "  --help                Show this message and exit.\n"
    )
